//! Forgetting what is long over: finished jobs with their runs, old client requests, and what
//! owners used who hold nothing any more.

use leeway_model::checkpoint::CheckpointId;
use leeway_model::{HoldId, JobId, RunId};

use crate::scheduler::{SWEEP_EVERY, Scheduler};
use crate::timers::Timer;

/// Most jobs and requests forgotten in one step.
const MOST: usize = 1_000;

impl Scheduler {
    pub(crate) fn on_sweep(&mut self) {
        let now = self.now;
        let keep = self.config.keep_finished;
        let old = |ended: leeway_model::Timestamp| now.since(ended) > keep;
        let jobs: Vec<JobId> = self
            .tables
            .jobs
            .values()
            .filter(|job| job.ended.is_some_and(old) && self.runs_of(job.id).all(|run| run.state.is_over()))
            .map(|job| job.id)
            .take(MOST)
            .collect();
        for job in &jobs {
            self.forget(*job);
        }
        let keep = self.config.keep_requests;
        let requests: Vec<Box<str>> = self
            .tables
            .requests
            .iter()
            .filter(|(_, request)| now.since(request.at) > keep)
            .filter(|(_, request)| request.jobs.iter().flatten().all(|job| self.has_ended(*job)))
            .map(|(id, _)| id.clone())
            .take(MOST)
            .collect();
        for request in &requests {
            self.tables.requests.remove(request);
        }
        self.forget_owners();
        // A deletion that failed is asked for again.
        self.delete_expired(None);
        let more = jobs.len() == MOST || requests.len() == MOST;
        let next = if more { now.after(leeway_model::Millis::from_secs(1)) } else { now.after(SWEEP_EVERY) };
        self.timers.set(Timer::Sweep, next);
    }

    fn has_ended(&self, job: JobId) -> bool {
        self.job(job).is_none_or(|job| job.state.is_terminal())
    }

    fn forget(&mut self, job: JobId) {
        let runs: Vec<RunId> = self.runs_of(job).map(|run| run.id).collect();
        for run in runs {
            self.tables.runs.remove(&run);
            self.tables.decisions.remove(&run);
            self.tables.holds.remove(&HoldId(run));
            self.tables.meta.forgotten_runs += 1;
        }
        let first = (job, CheckpointId { epoch: 0, seq: 0 });
        let last = (job, CheckpointId { epoch: u64::MAX, seq: u64::MAX });
        let checkpoints: Vec<_> = self.tables.checkpoints.range(first..=last).map(|(key, _)| *key).collect();
        for key in checkpoints {
            self.tables.checkpoints.remove(&key);
        }
        self.tables.jobs.remove(&job);
    }
}
