//! `failover` on a market: back to the old place, however dear by now; patience that fits the cool-down; then elsewhere.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

use leeway_core::event::Event;
use leeway_core::round::select::KEEP;
use leeway_model::job::{JobSpec, JobState};
use leeway_model::resources::SpotPolicy;
use leeway_model::{JobId, Millis};
use support::{Desk, cluster, job, name};

/// Ten spot markets, each a little dearer than the one before.
fn markets() -> Desk {
    let mut desk = Desk::empty();
    for number in 10..20 {
        let (title, region) = (format!("c{number}"), format!("aws/region-{number}"));
        desk.apply(Event::ClusterRegistered { spec: cluster(&title, &region, 2, "1.00", "3.06") });
        desk.price(&title, &format!("0.{number}"));
    }
    desk.budget("team", None, "1000");
    desk
}

fn patient() -> JobSpec {
    let mut spec = job("train");
    spec.policy = Some(name("failover"));
    spec.resources[0].spot = SpotPolicy::Spot;
    spec
}

fn cluster_of(desk: &Desk, id: JobId) -> String {
    desk.run(desk.newest(id)).offer.cluster.to_string()
}

fn lose(desk: &mut Desk, id: JobId) {
    let run = desk.newest(id);
    desk.up(run);
    desk.gone(run);
}

#[test]
fn it_goes_back_to_its_old_place_though_many_are_cheaper_by_now() {
    let mut desk = markets();
    let id = desk.submit(patient());
    assert_eq!(cluster_of(&desk, id), "c10");
    lose(&mut desk, id);
    assert_eq!(desk.state(id), JobState::Pending);
    assert_eq!(desk.job(id).reason.as_ref().unwrap().code.as_ref(), "POLICY_WAITS");
    desk.price("c10", "0.90");
    desk.pass(Millis::from_mins(5));
    assert_eq!(cluster_of(&desk, id), "c10", "the first cool-down is over within its patience");
    let decision = desk.scheduler.tables().decisions.get(&desk.newest(id)).unwrap();
    assert_eq!(&*decision.why, "back at its old place");
    assert_eq!(decision.others.len(), KEEP, "the best of the others are kept beside it");
    assert!(decision.others.iter().all(|other| other.price.rate < decision.chosen.price.rate));
}

#[test]
fn it_does_not_wait_for_a_place_that_cools_for_longer_than_its_patience() {
    let mut desk = markets();
    let id = desk.submit(patient());
    lose(&mut desk, id);
    desk.pass(Millis::from_mins(5));
    assert_eq!(cluster_of(&desk, id), "c10");
    lose(&mut desk, id);
    assert_eq!(
        cluster_of(&desk, id),
        "c11",
        "twice within the hour: it cools for ten minutes, and the job goes on at once"
    );
}

#[test]
fn it_goes_elsewhere_when_the_old_place_does_not_come_back() {
    let mut desk = markets();
    let id = desk.submit(patient());
    let run = desk.newest(id);
    desk.up(run);
    desk.gone(run);
    // Somebody else takes all of it as soon as it can be had.
    let key = desk.run(run).offer.clone();
    let none = leeway_model::market::CapacityObservation { offer: key, available: Some(0) };
    desk.apply(Event::CapacityObserved { capacities: vec![none] });
    desk.pass(Millis::from_mins(8).saturating_sub(Millis::new(1)));
    assert_eq!(desk.state(id), JobState::Pending);
    desk.pass(Millis::new(1));
    assert_eq!(cluster_of(&desk, id), "c11");
}

#[test]
fn other_policies_hear_of_the_best_places_only() {
    let mut desk = markets();
    let mut spec = patient();
    spec.policy = None;
    let id = desk.submit(spec);
    lose(&mut desk, id);
    assert_eq!(cluster_of(&desk, id), "c11");
    let decision = desk.scheduler.tables().decisions.get(&desk.newest(id)).unwrap();
    assert_eq!(decision.others.len(), KEEP - 1);
}
