//! What the provider tells the machine itself: that it will be taken. The program is told at once, whether or not the
//! server can be reached; the server hears of it as soon as it can.

use std::sync::Arc;
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

/// Listens to every source that the driver named, until this process ends.
pub fn listen(agent: &Arc<Agent>, sources: Vec<NoticeSource>, mut signals: Signals) {
    let Some((left, source)) = sources.into_iter().map(|NoticeSource::Signal { left, source }| (left, source)).next()
    else {
        return;
    };
    let agent = agent.clone();
    tokio::spawn(async move {
        if signals.urgent.recv().await.is_some() {
            heard(&agent, Duration::from_millis(left.as_millis()), &source).await;
        }
    });
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
