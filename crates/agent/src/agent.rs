//! What the parts of an agent share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leeway_data::{JobAt, Stores};
use leeway_drivers::run_dir::RankDir;
use leeway_model::{InstallationId, RunId};
use leeway_proto::pb;
use tokio::sync::mpsc;

use crate::lease::{Lease, Over};
use crate::link::{Backoff, CallError, Link};
use crate::logs::Log;
use crate::orders::Board;
use crate::program::Program;
use crate::progress::Said;

#[derive(Debug)]
pub struct Agent {
    pub dir: RankDir,
    pub run: RunId,
    pub installation: InstallationId,
    pub link: Link,
    pub lease: Arc<Lease>,
    pub board: Arc<Board>,
    pub program: Arc<Program>,
    pub assignment: pb::Assignment,
    pub log: Arc<Log>,
    pub stores: Stores,
    phase: AtomicI32,
    progress: Mutex<Option<Said>>,
    phases: mpsc::UnboundedSender<Option<pb::ReportPhaseRequest>>,
    /// A checkpoint found no room, and the server was not told yet.
    pub store_full: AtomicBool,
    /// The provider's notices cannot be heard now.
    pub notices_unheard: AtomicBool,
}

/// The reports of phases that are still to be sent, in order; `None` is the end of them.
pub type Phases = mpsc::UnboundedReceiver<Option<pb::ReportPhaseRequest>>;

/// Everything that [`Agent::new`] takes.
#[derive(Debug)]
pub struct Parts {
    pub dir: RankDir,
    pub run: RunId,
    pub installation: InstallationId,
    pub link: Link,
    pub lease: Arc<Lease>,
    pub board: Arc<Board>,
    pub program: Arc<Program>,
    pub assignment: pb::Assignment,
    pub log: Arc<Log>,
    pub stores: Stores,
}

impl Agent {
    pub fn new(parts: Parts) -> (Self, Phases) {
        let Parts { dir, run, installation, link, lease, board, program, assignment, log, stores } = parts;
        let (phases, reports) = mpsc::unbounded_channel();
        let phase = AtomicI32::new(pb::AgentPhase::Setup.into());
        let progress = Mutex::new(None);
        let (store_full, notices_unheard) = (AtomicBool::new(false), AtomicBool::new(false));
        let agent = Self {
            dir,
            run,
            installation,
            link,
            lease,
            board,
            program,
            assignment,
            log,
            stores,
            phase,
            progress,
            phases,
            store_full,
            notices_unheard,
        };
        (agent, reports)
    }

    pub const fn rank(&self) -> u32 {
        self.assignment.rank
    }

    pub fn world_size(&self) -> u32 {
        self.assignment.world_size.max(1)
    }

    pub fn job(&self) -> JobAt {
        JobAt { installation: self.installation.clone(), job: self.run.job }
    }

    /// A path in the rank's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn phase(&self) -> i32 {
        self.phase.load(Ordering::Relaxed)
    }

    /// A phase begins; it is reported when the server can be reached, in order.
    pub fn enter(&self, phase: pb::AgentPhase, restored: Option<(pb::CheckpointId, u64)>) {
        self.phase.store(phase.into(), Ordering::Relaxed);
        let (restored, restored_step) = restored.unzip();
        let caller = self.link.caller();
        let report = pb::ReportPhaseRequest { caller, phase: phase.into(), restored, restored_step };
        // Nobody listens any more once the run is over.
        let _ = self.phases.send(Some(report));
    }

    /// No phase will begin any more.
    pub fn enter_no_more(&self) {
        let _ = self.phases.send(None);
    }

    pub fn progress(&self) -> Option<Said> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the program said, or what a checkpoint proves. Steps only ever rise within a run.
    pub fn note_progress(&self, said: Said) {
        let mut known = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.unwrap_or_default();
        *known = Some(Said { step: said.step.max(before.step), total: said.total.or(before.total) });
    }
}

/// Renews the lease until it is over.
pub async fn renew(agent: &Agent) -> Over {
    let every = Duration::from_millis(agent.assignment.renew_every_ms.max(1));
    let ttl = Duration::from_millis(agent.assignment.lease_ttl_ms);
    let patience = (ttl / 3).max(Duration::from_millis(500));
    let mut backoff = Backoff::default();
    let mut wait = every;
    loop {
        if let Err(over) = agent.link.sleep(wait).await {
            return over;
        }
        match renew_once(agent, patience).await {
            Ok(()) => (backoff, wait) = (Backoff::default(), every),
            Err(CallError::Over(over)) => return over,
            Err(error) => {
                tracing::warn!(%error, "the lease was not renewed");
                agent.link.look_for_another_address();
                wait = backoff.next().min(every);
            }
        }
    }
}

/// Renews the lease once, with the newest progress.
pub async fn renew_once(agent: &Agent, patience: Duration) -> Result<(), CallError> {
    let said = agent.progress();
    let request = pb::RenewLeaseRequest {
        caller: agent.link.caller(),
        phase: agent.phase(),
        progress: said.map(|said| pb::Progress { step: said.step, total_steps: said.total }),
        notice_unavailable: agent.notices_unheard.load(Ordering::Relaxed),
        store_full: agent.store_full.swap(false, Ordering::Relaxed),
    };
    let told = request.store_full;
    let sent = agent.lease.now();
    let call = |mut client: crate::link::Client| async move { client.renew_lease(request).await };
    let answer = agent.link.once(patience, call).await.inspect_err(|_| {
        // Nobody heard it: said again at the next renewal.
        agent.store_full.fetch_or(told, Ordering::Relaxed);
    })?;
    agent.lease.renewed(sent, Duration::from_millis(answer.lease_ttl_ms)).map_err(CallError::Over)?;
    if let Some(directive) = answer.directive {
        agent.board.take(directive, agent.lease.now());
    }
    Ok(())
}

/// Listens for orders until the lease is over.
pub async fn listen(agent: &Agent) -> Over {
    let mut backoff = Backoff::default();
    loop {
        let request = pb::StreamDirectivesRequest { caller: agent.link.caller() };
        let call = |mut client: crate::link::Client| async move { client.stream_directives(request).await };
        match agent.link.once(crate::link::CALL, call).await {
            Ok(mut stream) => loop {
                let message = tokio::select! {
                    biased;
                    over = agent.lease.over() => return over,
                    message = stream.message() => message,
                };
                match message {
                    Ok(Some(answer)) => {
                        backoff = Backoff::default();
                        if let Some(directive) = answer.directive {
                            agent.board.take(directive, agent.lease.now());
                        }
                    }
                    Ok(None) => break,
                    Err(status) => {
                        agent.link.judge(status);
                        break;
                    }
                }
            },
            Err(CallError::Over(over)) => return over,
            Err(error) => tracing::debug!(%error, "no stream of orders"),
        }
        if let Err(over) = agent.link.sleep(backoff.next()).await {
            return over;
        }
    }
}

/// Reports phases in order until there are no more.
pub async fn report_phases(agent: &Agent, mut phases: Phases) {
    while let Some(Some(report)) = phases.recv().await {
        let call = |mut client: crate::link::Client| {
            let report = report.clone();
            async move { client.report_phase(report).await }
        };
        match agent.link.insist(call, |_| ()).await {
            Ok(_) => {}
            Err(CallError::Over(_)) => return,
            Err(error) => tracing::warn!(%error, "a phase could not be reported"),
        }
    }
}
