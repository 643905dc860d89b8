//! What the provider tells the machine itself: that it will be taken. The program is told at once, whether or not the
//! server can be reached; the server hears of it as soon as it can.

mod ec2;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use leeway_drivers::run_dir::NoticeSource;
use leeway_proto::pb;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::agent::Agent;
use crate::link::Client;

/// The signals by which a provider may warn. They are caught from the start, whatever they will turn out to mean.
#[derive(Debug)]
pub struct Signals {
    urgent: Signal,
}

impl Signals {
    pub fn listen() -> anyhow::Result<Self> {
        let urgent = signal(SignalKind::from_raw(URGENT)).context("cannot listen for SIGURG")?;
        Ok(Self { urgent })
    }
}

/// SIGURG, whose default is to be ignored, so that a program beside the agent may get it too.
const URGENT: i32 = rustix::process::Signal::URG.as_raw();

/// How often a machine's metadata is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Looks in a row that fail before the server is told that losses will come unwarned.
const FAILURES: u32 = 3;

/// Listens to every source that the driver named, until this process ends. The signals are one source.
pub fn listen(agent: &Arc<Agent>, sources: Vec<NoticeSource>, signals: Signals) {
    let mut signals = Some(signals);
    for source in sources {
        let agent = agent.clone();
        match source {
            NoticeSource::Signal { left, source } => {
                let Some(mut signals) = signals.take() else { continue };
                tokio::spawn(async move {
                    if signals.urgent.recv().await.is_some() {
                        heard(&agent, Duration::from_millis(left.as_millis()), &source).await;
                    }
                });
            }
            NoticeSource::Ec2 { metadata } => {
                tokio::spawn(async move {
                    if let Err(error) = watch_ec2(&agent, &metadata).await {
                        tracing::warn!(%error, "the instance's metadata cannot be watched");
                        agent.notices_unheard.store(true, Ordering::Relaxed);
                    }
                });
            }
        }
    }
}

/// Looks at the instance's metadata until it says that the instance is taken.
async fn watch_ec2(agent: &Agent, base: &str) -> anyhow::Result<()> {
    let mut metadata = ec2::Metadata::new(base)?;
    let (mut failures, mut was_recommended) = (0, false);
    loop {
        match metadata.look().await {
            Ok(ec2::Said::Interruption(left)) => {
                heard(agent, left, "ec2").await;
                return Ok(());
            }
            Ok(said) => {
                failures = 0;
                agent.notices_unheard.store(false, Ordering::Relaxed);
                if said == ec2::Said::Rebalance && !was_recommended {
                    was_recommended = true;
                    // Not yet a notice: the program saves what it has, and goes on.
                    agent.log.say("the provider says that this machine may be taken soon; asking for a checkpoint");
                    agent.board.checkpoint_now();
                }
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(%error, failures, "the instance's metadata was not heard");
                if failures >= FAILURES {
                    agent.notices_unheard.store(true, Ordering::Relaxed);
                }
            }
        }
        if agent.link.sleep(LOOK_EVERY).await.is_err() {
            return Ok(());
        }
    }
}

/// The machine goes after `left`.
async fn heard(agent: &Agent, left: Duration, source: &str) {
    let deadline = agent.lease.now().saturating_add(left);
    tracing::warn!(source, ?left, "the provider will take this machine");
    agent.log.say(&format!("the provider will take this machine in {} s ({source})", left.as_secs()));
    agent.board.warn(deadline);
    let caller = agent.link.caller();
    let call = |mut client: Client| {
        let left = deadline.saturating_sub(agent.lease.now());
        let time_left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let request = pb::ReportNoticeRequest { caller: caller.clone(), time_left_ms, source: source.to_owned() };
        async move { client.report_notice(request).await }
    };
    if let Err(error) = agent.link.insist(call, |_| ()).await {
        tracing::warn!(%error, "the server was not told of the notice");
    }
}
