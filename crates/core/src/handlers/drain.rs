//! Asking a run to save and end, with a deadline after which its machines are stopped.

use leeway_model::run::{EndReason, RunState};
use leeway_model::{Millis, RunId, Timestamp};

use crate::action::Action;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Drains a run that no provider hurries. A run whose program never began is stopped at once.
    pub(crate) fn drain(&mut self, id: RunId, reason: EndReason, within: Millis, save: bool) {
        self.drain_until(id, reason, self.now.after(within), save);
    }

    pub(crate) fn drain_until(&mut self, id: RunId, reason: EndReason, by: Timestamp, save: bool) {
        let Some(run) = self.tables.runs.get(&id) else { return };
        match run.state {
            RunState::Released | RunState::Stopping | RunState::Lost => {}
            RunState::Launching | RunState::Setup | RunState::Restoring => self.order_stop(id, reason),
            RunState::Running | RunState::Draining => {
                let Some(run) = self.tables.runs.change(&id) else { return };
                run.state = RunState::Draining;
                run.end.get_or_insert(reason);
                run.drain_by = Some(run.drain_by.map_or(by, |earlier| earlier.min(by)));
                run.save_on_drain = save;
                self.actions.push(Action::Signal { run: id });
                self.set_run_timer(id);
            }
        }
    }
}
