//! What becomes of a job when its run is over for it: the next run, a park, or an end.
//!
//! Called once a run, when a new epoch may be opened: its machines are proven gone, all its agents confirmed the stop,
//! or its lease has been over for long enough.

use leeway_model::job::{Job, JobState, Reason, StartReason};
use leeway_model::notify::{Alert, Severity};
use leeway_model::run::{EndReason, LaunchErrorClass, Run};
use leeway_model::{Millis, RunId, Timestamp};

use crate::scheduler::Scheduler;
use crate::setbacks::FRUITLESS;

/// Exits with "saved, please continue me" in a row without a newer checkpoint, after which it counts as a failure.
const SAVES_WITHOUT_PROGRESS: u32 = 3;

/// What follows an end.
enum Next {
    Finish(JobState, Option<Reason>),
    /// In line again, not before an instant.
    Again(StartReason, Option<Reason>, Timestamp),
}

impl Scheduler {
    pub(crate) fn recover(&mut self, id: RunId, detail: Option<&str>) {
        let Some(run) = self.run(id).filter(|run| self.is_bound(run)) else { return };
        let Some(job) = self.job(id.job) else { return };
        if job.state == JobState::Cancelling {
            let reason = job.reason.clone();
            self.finish(id.job, JobState::Cancelled, reason);
            return;
        }
        if run.end == Some(EndReason::Succeeded) {
            self.finish(id.job, JobState::Succeeded, None);
            return;
        }
        let (run, job) = (run.clone(), job.clone());
        let end = run.end.clone().unwrap_or(EndReason::Lost);
        if matches!(end, EndReason::Failed { .. }) {
            self.suspect_checkpoint(&run);
        }
        match self.after_end(&job, &run, &end, detail) {
            Next::Finish(state, reason) => self.finish(id.job, state, reason),
            Next::Again(why, reason, at) => self.again(&job, why, reason, at),
        }
    }

    fn again(&mut self, job: &Job, why: StartReason, reason: Option<Reason>, at: Timestamp) {
        let too_late = job.spec.retry.within.is_some_and(|within| self.now > job.submitted.after(within));
        if too_late {
            let reason = Reason::new("RETRY_WINDOW_OVER", "its retry window is over; retry it by hand to go on");
            self.finish(job.id, JobState::Failed, Some(reason));
            return;
        }
        if let Some(row) = self.tables.jobs.change(&job.id) {
            row.start_reason = why;
        }
        self.line_up(job.id, reason, at);
    }

    fn after_end(&mut self, job: &Job, run: &Run, end: &EndReason, detail: Option<&str>) -> Next {
        let fail = |code: &str, message: String| Next::Finish(JobState::Failed, Some(Reason::new(code, message)));
        match end {
            EndReason::Succeeded => Next::Finish(JobState::Succeeded, None),
            EndReason::Cancelled => Next::Finish(JobState::Cancelled, job.reason.clone()),
            EndReason::FailedForGood => {
                fail("FAILED_FOR_GOOD", "the program said that a retry is no use (exit 78)".into())
            }
            EndReason::OverMaxDuration => {
                fail("MAX_DURATION", "the program ran for its longest allowed duration".into())
            }
            EndReason::NoValidCheckpoint => {
                fail("NO_VALID_CHECKPOINT", "no committed checkpoint could be verified; retry to start afresh".into())
            }
            EndReason::Interrupted | EndReason::Lost => self.after_interruption(job),
            EndReason::Moved => Next::Again(StartReason::Moved, None, self.now),
            EndReason::OutOfBudget => self.after_budget(job),
            EndReason::Saved => self.after_save(job, run),
            EndReason::Failed { exit_code } => self.after_failure(job, *exit_code),
            EndReason::CheckpointDamaged => self.after_infrastructure(job, "a checkpoint was damaged"),
            EndReason::LaunchFailed { class } => match class {
                LaunchErrorClass::Capacity | LaunchErrorClass::Quota | LaunchErrorClass::Throttled => {
                    let message = detail.unwrap_or("the provider refused the launch");
                    let reason = Reason::new("LAUNCH_REFUSED", format!("{} ({})", message, class.as_str()));
                    Next::Again(job.start_reason, Some(reason), self.now)
                }
                _ => self.after_infrastructure(job, detail.unwrap_or("the launch failed")),
            },
        }
    }

    fn after_interruption(&mut self, job: &Job) -> Next {
        let used = job.retries.interruptions + 1;
        if let Some(row) = self.tables.jobs.change(&job.id) {
            row.retries.interruptions = used;
        }
        match job.spec.retry.interruptions {
            Some(allowed) if used > allowed => Next::Finish(
                JobState::Failed,
                Some(Reason::new("TOO_MANY_INTERRUPTIONS", format!("interrupted {used} times, {allowed} allowed"))),
            ),
            _ if self.is_fruitless(job.id, used) => {
                Next::Again(StartReason::Interrupted, Some(self.hold(job)), Job::HELD)
            }
            _ => Next::Again(StartReason::Interrupted, None, self.now),
        }
    }

    /// Tells of a job that is started no more until somebody has looked at it.
    fn hold(&mut self, job: &Job) -> Reason {
        let message = format!(
            "its last {FRUITLESS} runs were all lost before a checkpoint was saved; save more often or allow on-demand machines, then retry it"
        );
        let reason = Reason::new("NO_PROGRESS", message);
        let (code, message) = (reason.code.clone(), reason.message.clone());
        self.notify(Severity::Warning, Alert::JobHeld { job: job.id, code, message });
        reason
    }

    fn after_infrastructure(&mut self, job: &Job, what: &str) -> Next {
        let used = job.retries.infrastructure_failures + 1;
        if let Some(row) = self.tables.jobs.change(&job.id) {
            row.retries.infrastructure_failures = used.min(job.spec.retry.infrastructure_failures);
        }
        if used > job.spec.retry.infrastructure_failures {
            let message = format!("{what}; {used} such failures, {} allowed", job.spec.retry.infrastructure_failures);
            return Next::Finish(JobState::Failed, Some(Reason::new("INFRASTRUCTURE", message)));
        }
        let reason = Reason::new("INFRASTRUCTURE", what);
        Next::Again(job.start_reason, Some(reason), self.backoff(used))
    }

    fn after_failure(&mut self, job: &Job, exit_code: i32) -> Next {
        if job.spec.retry.exit_codes.contains(&exit_code) {
            let reason = Reason::new(
                "RETRIED_EXIT",
                format!("the program ended with {exit_code}, which its retry rule restarts"),
            );
            return Next::Again(StartReason::Failed, Some(reason), self.backoff(1));
        }
        let used = job.retries.user_failures + 1;
        if let Some(row) = self.tables.jobs.change(&job.id) {
            row.retries.user_failures = used.min(job.spec.retry.user_failures);
        }
        let allowed = job.spec.retry.user_failures;
        let message = format!("the program ended with exit code {exit_code}");
        if used > allowed {
            let message = if allowed == 0 { message } else { format!("{message}; {allowed} retries are used up") };
            return Next::Finish(JobState::Failed, Some(Reason::new("PROGRAM_FAILED", message)));
        }
        Next::Again(StartReason::Failed, Some(Reason::new("PROGRAM_FAILED", message)), self.backoff(used))
    }

    fn after_save(&mut self, job: &Job, run: &Run) -> Next {
        let newer = job.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.id.epoch == run.id.epoch);
        let saves = if newer { 0 } else { job.saves_without_progress + 1 };
        if let Some(row) = self.tables.jobs.change(&job.id) {
            row.saves_without_progress = saves;
        }
        if saves >= SAVES_WITHOUT_PROGRESS {
            let message = format!("it asked to be continued {saves} times without a newer checkpoint");
            return Next::Finish(JobState::Failed, Some(Reason::new("NO_PROGRESS", message)));
        }
        Next::Again(StartReason::Preempted, None, self.now)
    }

    fn after_budget(&mut self, job: &Job) -> Next {
        let reason = job.reason.clone().unwrap_or_else(|| Reason::new("BUDGET_EXCEEDED", "its budget is used up"));
        if &*reason.code == "MAX_COST" {
            return Next::Finish(JobState::Failed, Some(reason));
        }
        Next::Again(StartReason::Preempted, Some(reason), self.now)
    }

    /// First wait, doubling up to five minutes.
    fn backoff(&self, failures: u32) -> Timestamp {
        let doublings = failures.saturating_sub(1).min(16);
        let wait = self.config.launch.backoff.saturating_mul(1 << doublings).min(Millis::from_mins(5));
        self.now.after(wait)
    }
}
