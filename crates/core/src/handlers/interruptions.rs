//! Interruption notices: a provider's warning that it will take a machine.

use leeway_model::run::{EndReason, Notice, Run, RunState};
use leeway_model::{Millis, RunId, Timestamp};

use crate::reply::{Refused, Reply};
use crate::scheduler::Scheduler;

/// Before a notice's deadline: overhead of reacting, and the margin for the kill.
const REACTION: Millis = Millis::from_secs(2);
const KILL_MARGIN: Millis = Millis::from_secs(3);

impl Scheduler {
    pub(crate) fn on_interruption_noticed(&mut self, id: RunId, deadline: Timestamp, source: Box<str>) -> Reply {
        let Some(run) = self.tables.runs.get(&id).cloned() else {
            return Reply::Refused(Refused::not_found("run", id));
        };
        if run.state.is_over() {
            return Reply::Done;
        }
        if let Some(known) = &run.notice {
            // A second source for the same notice: one drain, by the earlier deadline.
            if deadline < known.deadline
                && let Some(row) = self.tables.runs.change(&id)
            {
                if let Some(notice) = row.notice.as_mut() {
                    notice.deadline = deadline;
                }
                row.drain_by = row.drain_by.map(|by| by.min(deadline));
                self.set_run_timer(id);
            }
            return Reply::Done;
        }
        let fits = self.last_save_fits(&run, deadline);
        if let Some(row) = self.tables.runs.change(&id) {
            row.notice = Some(Notice { received: self.now, deadline, source, saved: false });
        }
        // The machine may outlive its notice; it is stopped all the same a while after the deadline.
        let running = matches!(run.state, RunState::Running | RunState::Draining);
        let by = if running { deadline } else { self.now };
        self.drain_until(id, EndReason::Interrupted, by, fits);
        Reply::Done
    }

    /// Whether a last checkpoint is likely to be written and uploaded before the machine goes.
    fn last_save_fits(&self, run: &Run, deadline: Timestamp) -> bool {
        let Some(job) = self.job(run.id.job) else { return false };
        let Some(policy) = &job.spec.checkpoint else { return false };
        let pause = job.save_time.or(policy.save_time).unwrap_or(self.config.estimates.save_time);
        let size = job.checkpoint.as_ref().map(|checkpoint| checkpoint.size).or(policy.size).unwrap_or_default();
        let upload = Millis::from_secs_f64(size.get() as f64 / self.config.estimates.bandwidth.get().max(1) as f64);
        let usable = deadline.since(self.now).saturating_sub(REACTION).saturating_sub(KILL_MARGIN);
        pause.saturating_add(upload) <= usable
    }
}
