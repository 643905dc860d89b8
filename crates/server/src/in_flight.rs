//! Launches whose outcome is not yet with the scheduler. While one is under way, nothing that a listing does not show
//! proves anything about it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use leeway_model::RunId;

#[derive(Debug, Default)]
pub struct InFlight(Mutex<BTreeMap<RunId, Stage>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ordered,
    Launching,
}

impl InFlight {
    /// The order is released; the executor will take it.
    pub fn begin(&self, run: RunId) {
        self.lock().entry(run).or_insert(Stage::Ordered);
    }

    /// Whether the caller is the one to launch: a second order of the same run joins the first.
    pub fn claim(&self, run: RunId) -> bool {
        self.lock().insert(run, Stage::Launching) != Some(Stage::Launching)
    }

    /// The scheduler knows the outcome.
    pub fn end(&self, run: RunId) {
        self.lock().remove(&run);
    }

    pub fn contains(&self, run: RunId) -> bool {
        self.lock().contains_key(&run)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, Stage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_launched_once_however_often_it_is_ordered() {
        let run = RunId { job: leeway_model::JobId(1), epoch: 1 };
        let launches = InFlight::default();
        launches.begin(run);
        assert!(launches.contains(run) && launches.claim(run));
        launches.begin(run);
        assert!(!launches.claim(run));
        launches.end(run);
        assert!(!launches.contains(run));
        assert!(launches.claim(run), "an order that comes after the outcome is a new one; the driver knows its token");
    }
}
