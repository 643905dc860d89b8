//! What losses in a row mean for a job (I-10): capacity that nobody takes back for a while, and in the end a hold until
//! a person has looked.
//!
//! Both are read off the job's own runs, as far back as its interruptions are counted; a retry by hand counts anew.

use leeway_model::job::Job;
use leeway_model::run::{EndReason, Run};
use leeway_model::{JobId, Millis};

use crate::scheduler::Scheduler;

/// So many losses within an hour make capacity that cannot be taken back the better choice.
const MANY: usize = 5;
const LATELY: Millis = Millis::from_hours(1);
/// So many losses in a row without a newer checkpoint hold a job.
pub(crate) const FRUITLESS: usize = 10;

impl Scheduler {
    /// Whether the market took so many of the job's runs lately that a machine it cannot take is worth its price.
    pub(crate) fn is_hounded(&self, job: &Job) -> bool {
        job.retries.interruptions as usize >= MANY
            && self
                .runs_of(job.id)
                .rev()
                .filter(|run| was_taken(run))
                .nth(MANY - 1)
                .and_then(|run| run.stopped)
                .is_some_and(|stopped| self.now.since(stopped) < LATELY)
    }

    /// Whether the last runs of a job that was interrupted so often were all lost, and none of them left anything to go
    /// on from.
    pub(crate) fn is_fruitless(&self, job: JobId, interruptions: u32) -> bool {
        if (interruptions as usize) < FRUITLESS {
            return false;
        }
        // A launch that was refused is no attempt.
        let began = self.runs_of(job).rev().filter(|run| !matches!(run.end, Some(EndReason::LaunchFailed { .. })));
        began.take(FRUITLESS).filter(|run| was_taken(run) && run.checkpoint_seq == 0).count() == FRUITLESS
    }
}

fn was_taken(run: &Run) -> bool {
    matches!(run.end, Some(EndReason::Interrupted | EndReason::Lost))
}
