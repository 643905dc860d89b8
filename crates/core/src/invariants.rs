//! Named invariants of the state. Tests, simulations and debug builds check the same ones; a violation is our bug, so
//! they panic with the name.

use std::collections::BTreeMap;

use leeway_model::budget::Hold;
use leeway_model::job::JobState;
use leeway_model::{Micros, Name};

use crate::scheduler::Scheduler;
use crate::state::Tables;

/// B3, B4 and B7 of the ledger.
pub fn check_ledger(tables: &Tables) {
    let mut held: BTreeMap<&Name, Micros> = BTreeMap::new();
    for hold in tables.holds.values() {
        let remainder = hold.remainder();
        assert!(!remainder.is_negative(), "B3: a hold pays no more than it holds: {hold:?}");
        assert!(hold.open || remainder == Micros::ZERO, "B3: a closed hold has nothing left: {hold:?}");
        for node in &hold.path {
            let sum = held.entry(node).or_default();
            *sum = sum.saturating_add(remainder);
        }
    }
    for budget in tables.budgets.values() {
        let expected = held.get(&budget.spec.name).copied().unwrap_or_default();
        assert_eq!(budget.held, expected, "B4: held of '{}' is the sum of its open holds", budget.spec.name);
        for amount in [budget.held, budget.posted, budget.overrun, budget.credit] {
            assert!(!amount.is_negative(), "B7: no balance of '{}' is negative", budget.spec.name);
        }
        assert!(
            budget.overrun > Micros::ZERO || budget.frozen || !budget.available().is_negative(),
            "B2: '{}' is within its cap unless it was cut or overrun",
            budget.spec.name
        );
    }
}

/// Everything that must hold between two steps.
pub fn check(scheduler: &Scheduler) {
    let tables = scheduler.tables();
    check_ledger(tables);
    scheduler.check_meters();
    scheduler.check_alive();
    for run in tables.runs.values() {
        let job = tables.jobs.get(&run.id.job).unwrap_or_else(|| panic!("run {} belongs to no job", run.id));
        assert!(run.id.epoch <= job.epoch, "K1: epochs of {} never run back", job.id);
        let hold = tables.holds.get(&leeway_model::HoldId(run.id));
        if run.state.is_over() {
            assert!(hold.is_none_or(|hold| !hold.open), "B10: the hold of {} outlives it", run.id);
        } else {
            assert!(hold.is_some_and(|hold: &Hold| hold.open), "B11: {} runs without a hold", run.id);
        }
    }
    for job in tables.jobs.values() {
        let newest = job.newest_run().and_then(|run| tables.runs.get(&run));
        match job.state {
            JobState::Starting | JobState::Running | JobState::Cancelling => {
                let run = newest.unwrap_or_else(|| panic!("{} is {} without a run", job.id, job.state));
                assert!(!run.state.is_over(), "{} is {} but {} is released", job.id, job.state, run.id);
            }
            _ => {}
        }
        assert_eq!(job.state.is_terminal(), job.ended.is_some(), "{} ended or did not: {}", job.id, job.state);
    }
    let posted = |tables: &Tables| {
        let roots = tables.budgets.values().filter(|budget| budget.spec.parent.is_none());
        roots.fold(Micros::ZERO, |sum, budget| sum.saturating_add(budget.posted))
    };
    let by_runs = tables.runs.values().fold(Micros::ZERO, |sum, run| sum.saturating_add(run.posted.total()));
    if tables.meta.forgotten_runs == 0 {
        assert_eq!(posted(tables), by_runs, "B5, B13: budgets hold exactly what the runs cost");
    }
}
