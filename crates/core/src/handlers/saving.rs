//! What stands in the way of checkpoints: notices that no agent hears, a full store, saves that do not come.
//!
//! None of it ends a run. The program goes on, saves more often where a warning cannot be counted on, and whoever looks
//! at the job is told.

use leeway_model::checkpoint::{CheckpointId, CheckpointState};
use leeway_model::job::Reason;
use leeway_model::notify::{Alert, Severity};
use leeway_model::run::{Run, RunState};
use leeway_model::{RunId, Timestamp};

use crate::action::Action;
use crate::reply::Reply;
use crate::round::score::{self, Belief};
use crate::scheduler::Scheduler;

/// So many intervals without a checkpoint are worth telling.
const MISSED: u64 = 3;
/// Codes of a running job's reason, taken back by its next checkpoint.
const CHECKPOINTS_MISSED: &str = "CHECKPOINTS_MISSED";
const STORE_FULL: &str = "STORE_FULL";

impl Scheduler {
    /// No last save can be counted on: the run is advised the interval of machines that go without a word.
    pub(crate) fn on_notices_unheard(&mut self, id: RunId, rank: u32) -> Reply {
        let run = match self.heard(id, rank) {
            Ok(run) => run,
            Err(refused) => return Reply::Refused(refused),
        };
        let Some(job) = self.job(id.job) else { return Reply::Done };
        let belief = match self.fleet.find(&run.offer) {
            Some(offer) => Belief::from(&self.fleet.slot(offer).offer.belief),
            None => return Reply::Done,
        };
        let saving = score::saving(&self.config, &job.spec, run.offer.capacity, belief.unwarned());
        let interval = saving.map(|saving| score::checkpoint_interval(&job.spec, saving));
        if interval < run.interval
            && let Some(row) = self.tables.runs.change(&id)
        {
            row.interval = interval;
            self.actions.push(Action::Signal { run: id });
        }
        Reply::Done
    }

    /// Room is made by what is expired already: its deletion is ordered again. The newest checkpoint stays whatever
    /// happens, and a save that finds no room is skipped.
    pub(crate) fn on_store_full(&mut self, id: RunId, rank: u32) -> Reply {
        if let Err(refused) = self.heard(id, rank) {
            return Reply::Refused(refused);
        }
        self.delete_expired(Some(id));
        let message = "its checkpoint store is full: the program goes on and saves are skipped until there is room";
        self.remark(id, Reason::new(STORE_FULL, message));
        Reply::Done
    }

    /// Orders the deletion of expired checkpoints again, of all jobs or of those in the store of one run.
    pub(crate) fn delete_expired(&mut self, beside: Option<RunId>) {
        let cluster = beside.and_then(|run| self.run(run)).map(|run| run.offer.cluster.clone());
        let base = cluster.and_then(|name| self.tables.clusters.get(&name)).map(|row| row.spec.checkpoints.clone());
        for row in self.tables.checkpoints.values() {
            let there = base.as_ref().is_none_or(|base| row.reference.base == *base);
            if row.state == CheckpointState::Expired && there {
                self.actions.push(Action::DeleteCheckpoint { job: row.job, checkpoint: row.reference.clone() });
            }
        }
    }

    /// Tells of a program that should have saved several times and has not.
    pub(crate) fn watch_saves(&mut self, id: RunId) {
        let Some(run) = self.run(id) else { return };
        let Some(interval) = run.interval.filter(|_| run.state == RunState::Running) else { return };
        let Some(last) = self.last_save(run) else { return };
        let Some(job) = self.job(id.job) else { return };
        let policy = job.spec.checkpoint.as_ref().and_then(|policy| policy.save_time);
        let pause = job.save_time.or(policy).unwrap_or(self.config.estimates.save_time);
        let due = interval.saturating_add(pause).saturating_mul(MISSED);
        if self.now.since(last) < due || job.reason.is_some() {
            return;
        }
        let message = format!("no checkpoint was saved for {MISSED} intervals of {interval}; its agent's log says why");
        self.notify(Severity::Warning, Alert::CheckpointsMissed { run: id, message: message.as_str().into() });
        self.remark(id, Reason::new(CHECKPOINTS_MISSED, message));
    }

    /// When a run last saved, or began.
    fn last_save(&self, run: &Run) -> Option<Timestamp> {
        let newest = CheckpointId { epoch: run.id.epoch, seq: run.checkpoint_seq };
        let saved = self.tables.checkpoints.get(&(run.id.job, newest)).map(|row| row.committed);
        saved.max(run.started)
    }

    /// A checkpoint is there again.
    pub(crate) fn saves_again(&mut self, run: RunId) {
        let told = |reason: &Reason| matches!(&*reason.code, CHECKPOINTS_MISSED | STORE_FULL);
        if let Some(job) = self.tables.jobs.get(&run.job)
            && job.reason.as_ref().is_some_and(told)
            && let Some(row) = self.tables.jobs.change(&run.job)
        {
            row.reason = None;
        }
    }

    /// Writes beside a running job what is the matter with it.
    pub(crate) fn remark(&mut self, run: RunId, reason: Reason) {
        if self.job(run.job).is_none_or(|job| job.reason.as_ref() == Some(&reason)) {
            return;
        }
        self.tables.meta.job_changes += 1;
        let version = self.tables.meta.job_changes;
        if let Some(row) = self.tables.jobs.change(&run.job) {
            row.reason = Some(reason);
            row.version = version;
        }
    }
}
