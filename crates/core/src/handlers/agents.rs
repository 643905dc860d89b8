//! What the agents beside the programs report. A message of an epoch that is over changes nothing.

use leeway_model::job::{JobState, Progress};
use leeway_model::notify::{Alert, Severity};
use leeway_model::run::{EndReason, Run, RunState};
use leeway_model::{RunId, Term};

use crate::event::Phase;
use crate::ledger::Usage;
use crate::locality;
use crate::reply::{Assignment, Refused, RefusedKind, Reply};
use crate::round::score;
use crate::scheduler::Scheduler;

/// The program saved and asks to be continued.
const EXIT_SAVED: i32 = 75;
/// The program will never succeed.
const EXIT_FOR_GOOD: i32 = 78;

impl Scheduler {
    /// The run, when its agents may still be heard.
    pub(crate) fn heard(&self, id: RunId, rank: u32) -> Result<&Run, Refused> {
        let run = self.run(id).ok_or_else(|| Refused::not_found("run", id))?;
        let newest = self.job(id.job).map(|job| job.epoch);
        if newest != Some(id.epoch) || matches!(run.state, RunState::Released | RunState::Lost) {
            return Err(Refused::stale(id));
        }
        if rank >= run.nodes {
            let message = format!("rank {rank} is outside the run's {} nodes", run.nodes);
            return Err(Refused::new(RefusedKind::Invalid, "RANK_OUT_OF_RANGE", message));
        }
        Ok(run)
    }

    pub(crate) fn on_agent_registered(&mut self, id: RunId, rank: u32, identity: Box<str>) -> Reply {
        let run = match self.heard(id, rank) {
            Ok(run) => run.clone(),
            Err(refused) => return Reply::Refused(refused),
        };
        if run.state == RunState::Stopping {
            return Reply::Refused(Refused::stale(id));
        }
        match &run.agents[rank as usize] {
            Some(known) if *known != identity => {
                return Reply::Refused(Refused::new(
                    RefusedKind::Denied,
                    "RANK_TAKEN",
                    format!("rank {rank} of {id} already has an agent; stop this one"),
                ));
            }
            Some(_) => {}
            None => {
                if let Some(row) = self.tables.runs.change(&id) {
                    row.agents[rank as usize] = Some(identity);
                }
            }
        }
        self.volatile.renewals.insert((id, rank), self.now);
        let Some(job) = self.job(id.job) else { return Reply::Refused(Refused::stale(id)) };
        let Some(cluster) = self.tables.clusters.get(&run.offer.cluster) else {
            return Reply::Refused(Refused::not_found("cluster", &run.offer.cluster));
        };
        Reply::Assigned(Box::new(Assignment {
            installation: self.config.installation.clone(),
            run: id,
            rank,
            spec: job.spec.clone(),
            start_reason: run.start_reason,
            restore: run.restored_from.clone(),
            checkpoints: cluster.spec.checkpoints.clone(),
            next_seq: run.checkpoint_seq + 1,
            interval: run.interval,
        }))
    }

    /// Renews a rank's lease. Not durable: a restart gives every lease a grace instead.
    pub(crate) fn on_lease_renewed(&mut self, id: RunId, rank: u32, progress: Progress) -> Reply {
        let directive = match self.heard(id, rank) {
            Ok(run) => self.directive(run),
            Err(refused) => return Reply::Refused(refused),
        };
        self.volatile.renewals.insert((id, rank), self.now);
        if rank == 0 && progress.step > 0 {
            self.volatile.progress.insert(id, progress);
        }
        Reply::Renewed { directive }
    }

    pub(crate) fn on_phase_reported(&mut self, id: RunId, rank: u32, phase: Phase) -> Reply {
        let (state, is_launched) = match self.heard(id, rank) {
            Ok(run) => (run.state, run.launched.is_some()),
            Err(refused) => return Reply::Refused(refused),
        };
        if rank != 0 || !matches!(state, RunState::Launching | RunState::Setup | RunState::Restoring) {
            return Reply::Done;
        }
        if !is_launched {
            // The agent is quicker than the launch's own reply: its word is proof that the machine is there.
            self.on_run_launched(id, Vec::new());
        }
        let now = self.now;
        let Some(row) = self.tables.runs.change(&id) else { return Reply::Done };
        match phase {
            Phase::Setup => row.state = RunState::Setup,
            Phase::Restoring => row.state = RunState::Restoring,
            Phase::Running { restored } => {
                row.state = RunState::Running;
                row.started = Some(now);
                row.restored_at = restored.map(|_| now);
                self.on_program_started(id, restored);
            }
        }
        self.set_run_timer(id);
        Reply::Done
    }

    fn on_program_started(&mut self, id: RunId, restored: Option<leeway_model::checkpoint::CheckpointId>) {
        let step = match restored {
            Some(checkpoint) => {
                self.tables.checkpoints.get(&(id.job, checkpoint)).map_or(0, |checkpoint| checkpoint.reference.step)
            }
            None => 0,
        };
        let earlier = id.epoch.checked_sub(1).filter(|epoch| *epoch > 0);
        if let Some(epoch) = earlier
            && let Some(row) = self.tables.runs.change(&RunId { job: id.job, epoch })
        {
            row.steps_redone = row.progress.step.saturating_sub(step);
        }
        if let Some(row) = self.tables.runs.change(&id) {
            row.progress.step = step;
        }
        if restored.is_some() {
            self.charge_checkpoint_move(id);
        }
        self.set_state(id.job, JobState::Running, None);
        if id.epoch > 1
            && let Some(offer) = self.run(id).map(|run| run.offer.clone())
        {
            self.notify(Severity::Info, Alert::JobRecovered { run: id, offer, step });
        }
    }

    pub(crate) fn on_exit_reported(&mut self, id: RunId, rank: u32, exit_code: i32) -> Reply {
        let is_launched = match self.heard(id, rank) {
            Ok(run) => run.launched.is_some(),
            Err(refused) => return Reply::Refused(refused),
        };
        if !is_launched {
            self.on_run_launched(id, Vec::new());
        }
        let told = self.volatile.progress.get(&id).copied();
        let Some(row) = self.tables.runs.change(&id) else { return Reply::Done };
        row.exits[rank as usize].get_or_insert(exit_code);
        let progress = told.unwrap_or(row.progress);
        let all = row.exits.iter().all(Option::is_some);
        let failed = row.exits.iter().flatten().copied().find(|code| *code != 0);
        if let Some(code) = failed {
            let reason = meaning(row, progress, code);
            self.order_stop(id, reason);
        } else if all {
            let reason = meaning(row, progress, 0);
            if reason == EndReason::Succeeded
                && let Some(row) = self.tables.runs.change(&id)
            {
                // The work was done before the drain's reason could come true.
                row.end = Some(EndReason::Succeeded);
            }
            self.order_stop(id, reason);
        }
        if all {
            // Every agent confirmed that its program has stopped: a new epoch may begin.
            self.recover(id, None);
        }
        Reply::Done
    }

    /// Posts what it cost to bring the restored checkpoint to this run's region.
    fn charge_checkpoint_move(&mut self, id: RunId) {
        let Some(run) = self.run(id) else { return };
        let (Some(from), Some(cluster)) = (&run.restored_from, self.tables.clusters.get(&run.offer.cluster)) else {
            return;
        };
        let (from, to) = (from.clone(), cluster.spec.region.clone());
        let known = self.locality().cost(&from.region, &to, from.size);
        let amount = known.unwrap_or_else(|| score::upper_bound(&self.config, from.size));
        let since = run.launched.unwrap_or(run.placed);
        locality::count(&self.config.egress, &mut self.tables, self.now, &from.region, &to, from.size);
        self.charge(id, Usage { term: Term::CheckpointMove, amount, from: since, to: self.now });
    }
}

/// What an exit means. During a drain it is the drain's reason, unless the work was done all the same.
fn meaning(run: &Run, progress: Progress, code: i32) -> EndReason {
    let done = progress.total.is_some_and(|total| progress.step >= total);
    match (&run.end, code) {
        (Some(_), 0) if done => EndReason::Succeeded,
        (Some(reason), _) => reason.clone(),
        (None, 0) => EndReason::Succeeded,
        (None, EXIT_SAVED) => EndReason::Saved,
        (None, EXIT_FOR_GOOD) => EndReason::FailedForGood,
        (None, exit_code) => EndReason::Failed { exit_code },
    }
}
