//! The agent: the program beside a job, one on each machine of a run.
//!
//! It stages inputs, restores a checkpoint, starts the program, publishes what the program saves, passes orders on, sends
//! output, and reports the end. It may do so only while its lease lasts; see [`lease`]. The protocol with the server is
//! `proto/leeway/v1/agents.proto`, the one with the driver is [`leeway_drivers::run_dir`].

mod agent;
mod checkpoints;
mod environment;
pub mod exit;
mod lease;
mod link;
mod logs;
mod notices;
mod orders;
mod program;
mod progress;
mod restore;
mod stage;
mod unpack;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use leeway_data::Stores;
use leeway_drivers::process::{ProcessId, boot_id, random_word, since_boot};
use leeway_drivers::run_dir::{Claim, RankDir};
use leeway_proto::pb;
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::{Agent, Parts};
use crate::lease::Lease;
use crate::link::{CallError, Client, Link};
use crate::logs::{Log, Pusher};
use crate::orders::Board;
use crate::program::Program;

/// How long to look for a server that never answered: a machine that nobody knows must not stay for ever.
const REGISTER_WITHIN: Duration = Duration::from_secs(15 * 60);

/// How to start an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// Made by the driver; see [`leeway_drivers::run_dir`].
    pub run_dir: PathBuf,
}

/// Runs the assignment of a run directory to its end. The process is the agent's alone: it leaves its session, and is
/// ended by a watchdog should it outlive its lease. The exit codes are in [`exit`].
pub async fn run(options: Options) -> anyhow::Result<ExitCode> {
    detach();
    let mut told_to_stop = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    // Before anything else: a warning that comes early must not be missed.
    let warned = notices::Signals::listen()?;
    let run_dir = options.run_dir.canonicalize();
    let dir = RankDir::new(run_dir.with_context(|| format!("no run directory '{}'", options.run_dir.display()))?);
    let Some(claim) = dir.claim().context("cannot claim the run directory")? else {
        tracing::warn!("this rank is taken or closed");
        return Ok(exit::RANK_TAKEN.into());
    };
    let assigned = dir.assignment()?.context("the run directory holds no assignment")?;
    let token = dir.take_token().context("the run directory holds no token")?;
    let stores = Stores(dir.take_stores().context("cannot read how stores are reached")?);

    let lease = Arc::new(Lease::new(since_boot));
    let program = Arc::new(Program::new(dir.clone(), &claim)?);
    lease::watch(lease.clone(), program.clone()).context("cannot start the watchdog")?;
    let board = Arc::new(Board::default());
    let (orders, from, grace) = (board.clone(), dir.clone(), lease.clone());
    tokio::spawn(async move {
        while told_to_stop.recv().await.is_some() {
            stop(&orders, &from, &grace);
        }
    });
    // The order may have come before anybody listened.
    if dir.stop_order()?.is_some() {
        stop(&board, &dir, &lease);
    }

    let link = Link::new(dir.clone(), &assigned, token, lease.clone())?;
    let sent_and_answer = tokio::select! {
        biased;
        () = board.ending() => return Ok(exit::STOPPED_EARLY.into()),
        registered = tokio::time::timeout(REGISTER_WITHIN, register(&link, &claim, &lease)) => registered,
    };
    let (sent, answer) = match sent_and_answer {
        Err(_) => anyhow::bail!("the server at {} did not answer in {REGISTER_WITHIN:?}", assigned.server),
        Ok(Err(CallError::Over(_))) => return Ok(exit::OVER.into()),
        Ok(registered) => registered.context("the server does not register this agent")?,
    };
    let mut assignment = answer.assignment.context("the server assigned nothing")?;
    if assignment.node_addresses.is_empty() {
        // Only the cluster knows where it put the others.
        assignment.node_addresses = dir.nodes().context("cannot read the addresses of the run's machines")?;
    }
    lease.set_kill_grace(Duration::from_millis(assignment.kill_grace_ms));
    if lease.renewed(sent, Duration::from_millis(assignment.lease_ttl_ms)).is_err() {
        return Ok(exit::OVER.into());
    }
    tracing::info!(run = %assigned.run, rank = assigned.rank, "registered");

    let pusher = Arc::new(Pusher::new(assignment.log_offset));
    let log = Arc::new(Log::create(&dir.path().join("log")).context("cannot create the log")?);
    let (run, installation) = (assigned.run, assigned.installation);
    let parts = Parts { dir, run, installation, link, lease, board, program, assignment, log, stores };
    let (agent, phases) = Agent::new(parts);
    let agent = Arc::new(agent);
    notices::listen(&agent, assigned.notices, warned);
    match work::alongside(agent.clone(), pusher, phases).await {
        Ok(code) => Ok(code.into()),
        Err(over) => {
            // This process must not end before its program has.
            tokio::task::spawn_blocking(move || lease::end(&agent.lease, &agent.program, over)).await?;
            tracing::warn!(reason = %over, "ended without a report");
            Ok(exit::OVER.into())
        }
    }
}

/// Registers and says when the request that was answered had been sent.
async fn register(link: &Link, claim: &Claim, lease: &Lease) -> Result<(Duration, pb::RegisterResponse), CallError> {
    let pid = match claim {
        Claim::Agent { process: ProcessId { pid, .. }, .. } => *pid,
        Claim::Nobody => 0,
    };
    let word = |word: std::io::Result<String>| word.unwrap_or_else(|_| "unknown".to_owned());
    let identity = pb::AgentIdentity {
        agent_id: word(random_word()),
        boot_id: word(boot_id().map(String::from)),
        pid,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let request = pb::RegisterRequest { caller: link.caller(), identity: Some(identity) };
    let sent = std::sync::Mutex::new(Duration::ZERO);
    let call = |mut client: Client| {
        *sent.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = lease.now();
        let request = request.clone();
        async move { client.register(request).await }
    };
    let answer = link.insist(call, |status| tracing::info!(%status, "the server cannot be reached yet")).await?;
    Ok((sent.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner), answer))
}

/// The driver wants an end: with the grace that it wrote down, else with the usual one.
fn stop(board: &Board, dir: &RankDir, lease: &Lease) {
    let grace = dir.stop_order().ok().flatten().and_then(|order| order.left().ok());
    board.stop(lease.now().saturating_add(grace.unwrap_or_else(|| lease.kill_grace())));
}

/// Leaves the session of whoever started this process, and closes its memory to the program it will start.
fn detach() {
    // Fails when this process leads its group, as when a person started it: then it stays where it is.
    let _ = rustix::process::setsid();
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        tracing::debug!(%error, "cannot close this process to others");
    }
}
