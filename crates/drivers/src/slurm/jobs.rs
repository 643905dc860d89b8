//! What a listing says of our jobs, and one listing for all who ask at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leeway_model::RunId;

use super::Cluster;
use super::calls::{CallError, Calls, Job};
use super::script;

impl Job {
    pub(super) fn waits(&self) -> bool {
        matches!(self.state.as_str(), "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT")
    }

    pub(super) fn runs(&self) -> bool {
        self.state == "RUNNING"
    }

    /// Whether nodes are given to it.
    pub(super) fn takes_nodes(&self) -> bool {
        !self.waits() && !self.has_ended()
    }

    pub(super) fn has_ended(&self) -> bool {
        has_ended(&self.state)
    }

    /// Its processes are being ended, or were told to.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state.as_str(), "COMPLETING" | "STAGE_OUT")
    }

    /// Whether we know what its state means.
    pub(super) fn is_known(&self) -> bool {
        let up = ["CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "POWER_UP_NODE"];
        self.waits() || self.is_ending() || self.has_ended() || up.contains(&self.state.as_str())
    }
}

/// Whether a state is one from which no job comes back.
pub(super) fn has_ended(state: &str) -> bool {
    const ENDED: [&str; 10] = [
        "COMPLETED",
        "CANCELLED",
        "FAILED",
        "TIMEOUT",
        "PREEMPTED",
        "OUT_OF_MEMORY",
        "DEADLINE",
        "BOOT_FAIL",
        "NODE_FAIL",
        "REVOKED",
    ];
    // Accounting writes `CANCELLED by 1000`.
    ENDED.contains(&state.split(' ').next().unwrap_or_default())
}

impl Cluster {
    /// The run that a job is, when it bears our mark whole.
    pub(super) fn owner(&self, job: &Job) -> Option<RunId> {
        let run = script::run_of(&self.installation, &job.name)?;
        let is_ours =
            job.user == rustix::process::getuid().as_raw() && job.comment == script::mark(&self.installation, run);
        is_ours.then_some(run)
    }
}

/// Listings, of which many callers share one: a listing that was begun after a question answers it.
pub(super) struct Listings {
    calls: Arc<dyn Calls>,
    last: tokio::sync::Mutex<Option<(Instant, Arc<[Job]>)>>,
}

impl Listings {
    pub fn new(calls: Arc<dyn Calls>) -> Self {
        Self { calls, last: tokio::sync::Mutex::default() }
    }

    /// The jobs as they were at some moment after this call.
    pub async fn fresh(&self) -> Result<Arc<[Job]>, CallError> {
        self.since(Instant::now()).await
    }

    /// The jobs as they were at most so long ago.
    pub async fn recent(&self, age: Duration) -> Result<Arc<[Job]>, CallError> {
        let now = Instant::now();
        self.since(now.checked_sub(age).unwrap_or(now)).await
    }

    async fn since(&self, asked: Instant) -> Result<Arc<[Job]>, CallError> {
        let mut last = self.last.lock().await;
        if let Some((begun, jobs)) = &*last
            && *begun >= asked
        {
            return Ok(jobs.clone());
        }
        let begun = Instant::now();
        let jobs: Arc<[Job]> = self.calls.jobs().await?.into();
        *last = Some((begun, jobs.clone()));
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_13_a_state_is_ended_only_when_it_is_known_to_be() {
        let job = |state: &str| Job { state: state.into(), ..Job::default() };
        for state in ["COMPLETED", "PREEMPTED", "NODE_FAIL"] {
            assert!(job(state).has_ended() && job(state).is_known(), "{state}");
        }
        for state in ["PENDING", "RUNNING", "COMPLETING", "SUSPENDED"] {
            assert!(!job(state).has_ended() && job(state).is_known(), "{state}");
        }
        assert!(!job("ASCENDED").has_ended() && !job("ASCENDED").is_known());
        assert!(has_ended("CANCELLED by 1000") && !has_ended(""));
    }
}
