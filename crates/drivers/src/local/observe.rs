//! What lives of a run on this host, and putting right what lives in part.

use std::io;

use leeway_model::{Name, RunId};
use rustix::process::Signal;

use super::{LAST_REPORTS, Shared, instance_id};
use crate::contract::{Instance, InstanceState, Observation};
use crate::run_dir::{Claim, RankDir};

impl Shared {
    pub(super) fn observe(&self, cluster: &Name) -> io::Result<Observation> {
        let mut observation = Observation { instances: Vec::new(), complete: true };
        for run in self.runs.list(cluster)? {
            let ranks = match self.runs.ranks(cluster, run) {
                Ok(ranks) => ranks,
                Err(error) => {
                    tracing::warn!(%run, %error, "cannot read a run; the observation is incomplete");
                    observation.complete = false;
                    continue;
                }
            };
            for (rank, dir) in (0..).zip(&ranks) {
                let state = look(dir).unwrap_or_else(|error| {
                    tracing::warn!(%run, rank, %error, "cannot tell whether a machine lives");
                    InstanceState::Unknown
                });
                observation.instances.push(Instance::new(run, rank, instance_id(run, rank), state));
            }
        }
        Ok(observation)
    }

    /// Machines of a run that are not proven gone.
    pub(super) fn living(&self, cluster: &Name, run: RunId) -> io::Result<u32> {
        let mut living = 0;
        for rank in self.runs.ranks(cluster, run)? {
            living += u32::from(look(&rank)? != InstanceState::Gone);
        }
        Ok(living)
    }
}

/// The state of one rank. A program that outlived its agent is killed: nobody renews its lease any more.
pub(super) fn look(rank: &RankDir) -> io::Result<InstanceState> {
    if rank.is_gone() {
        return Ok(InstanceState::Gone);
    }
    let stop = rank.stop_order()?;
    let state = if stop.is_some() { InstanceState::Stopping } else { InstanceState::Running };
    let Some(claim) = rank.claimed()? else { return Ok(state) };
    let alive = match &claim {
        Claim::Agent { process, .. } => process.lives()?,
        Claim::Nobody => false,
    };
    let overdue = stop.map_or(Ok(false), |stop| stop.overdue().map(|overdue| overdue > LAST_REPORTS))?;
    if alive && !overdue {
        return Ok(state);
    }
    Ok(if kill(rank, &claim)? { InstanceState::Gone } else { state })
}

/// Kills an agent and its program. Returns whether both are proven gone.
pub(super) fn kill(rank: &RankDir, claim: &Claim) -> io::Result<bool> {
    let Claim::Agent { process, .. } = claim else {
        rank.mark_gone()?;
        return Ok(true);
    };
    // The agent first, lest it start or report anything while its program dies.
    process.signal(Signal::KILL)?;
    for _ in 0..50 {
        if !process.lives()? {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let program = rank.job(claim)?.map_or(Ok(true), |tree| tree.kill())?;
    let gone = program && !process.lives()?;
    if gone {
        rank.mark_gone()?;
    }
    Ok(gone)
}
