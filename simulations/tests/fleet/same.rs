//! A run is a function of its scenario, policy and seed alone.

use leeway_simulations::fleet::scenario::Named;
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds;

/// All that came of runs but the real time that they took, as bytes.
fn bytes(all: &[Ran]) -> String {
    let one = |ran: &Ran| {
        let outcome = &ran.outcome;
        let jobs = serde_json::to_string(&ran.jobs).unwrap();
        let samples = serde_json::to_string(&outcome.samples).unwrap();
        format!(
            "{:?}\n{jobs}\n{samples}\n{:?}\n{:?}\n{:?} {} {} {}\n",
            ran.row,
            outcome.places,
            outcome.budgets,
            outcome.totals,
            outcome.moved_between_regions,
            outcome.events,
            outcome.steps
        )
    };
    all.iter().map(one).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_again_and_on_any_number_of_threads() {
    for name in ["first-week", "price-storm", "multi-region-egress"] {
        let settings = [("length".to_owned(), "1d".to_owned()), ("limit".to_owned(), "30d".to_owned())];
        let scenario = Named::read_with(name, &settings).unwrap();
        let study = |threads| {
            let mut plan = worlds::plan(scenario.clone(), &["whole-bill", "failover"], &[1, 2]);
            (plan.threads, plan.checked) = (threads, false);
            bytes(&study::study(&plan, &|_| true, &|_| {}).unwrap())
        };
        let first = study(1);
        assert!(first == study(1), "{name}: a second time differs");
        assert!(first == study(2), "{name}: two threads differ");
    }
}

#[test]
fn another_seed_is_another_course_of_events() {
    let settings = [("length".to_owned(), "1d".to_owned()), ("limit".to_owned(), "30d".to_owned())];
    let scenario = Named::read_with("first-week", &settings).unwrap();
    let mut plan = worlds::plan(scenario, &["whole-bill"], &[1, 2]);
    plan.checked = false;
    let all = study::study(&plan, &|_| true, &|_| {}).unwrap();
    assert_ne!(bytes(&all[..1]), bytes(&all[1..]));
}
