//! `availability-price` as a story: a cheap place that refuses, and one that is always there for more.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

use leeway_core::event::Event;
use leeway_model::job::JobSpec;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Millis, RunId};
use support::{Desk, cluster, job, name};

fn desk() -> Desk {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("cheap", "aws/us-east-1", 4, "", "1.00") });
    desk.apply(Event::ClusterRegistered { spec: cluster("steady", "aws/us-west-2", 4, "", "1.30") });
    desk.budget("team", None, "1000");
    desk
}

fn by(policy: &str) -> JobSpec {
    JobSpec { policy: Some(name(policy)), ..job("train") }
}

fn best(desk: &Desk, policy: &str) -> String {
    desk.scheduler.choose(&by(policy)).places[0].ranked.offer.cluster.to_string()
}

/// A job is sent to the cheap place and comes to no machine there; it is not tried elsewhere.
fn refused(desk: &mut Desk) -> RunId {
    let id = desk.submit(by("cheapest"));
    let run = desk.newest(id);
    assert_eq!(desk.run(run).offer.cluster, name("cheap"));
    desk.apply(Event::LaunchRefused { run, class: LaunchErrorClass::Capacity, message: "none left".into() });
    let next = desk.newest(id);
    desk.apply(Event::JobCancelled { job: id, by: name("ada") });
    desk.gone(next);
    desk.pass(Millis::from_hours(1));
    run
}

#[test]
fn a_place_that_refuses_is_as_dear_as_one_that_is_there_for_more_until_that_has_faded() {
    let mut desk = desk();
    assert_eq!(best(&desk, "availability-price"), "cheap");
    refused(&mut desk);
    refused(&mut desk);
    assert_eq!((best(&desk, "availability-price"), best(&desk, "cheapest")), ("steady".into(), "cheap".into()));
    let share = |desk: &Desk| desk.scheduler.choose(&by("cheapest")).places[0].ranked.scored.launched;
    let before = share(&desk);
    assert!((0.5..0.6).contains(&before), "two refusals of late: {before}");
    desk.restart(|_| {}, |_| {});
    // Cool-downs that are over end with the first step.
    desk.apply(Event::Woke);
    assert_eq!(share(&desk), before, "a restart counts the same launches");
    let id = desk.submit(by("availability-price"));
    assert_eq!(desk.run(desk.newest(id)).offer.cluster, name("steady"));
    let why = &desk.scheduler.explain(id).unwrap().runs[0].1.as_ref().unwrap().why.to_string();
    assert!(why.contains("100 %"), "{why}");
    desk.apply(Event::JobCancelled { job: id, by: name("ada") });
    desk.gone(desk.newest(id));
    desk.pass(Millis::from_hours(36));
    assert_eq!(best(&desk, "availability-price"), "cheap");
}

#[test]
fn launches_that_came_speak_for_a_place() {
    let mut desk = desk();
    for _ in 0..6 {
        let id = desk.submit(by("cheapest"));
        let run = desk.newest(id);
        desk.up(run);
        desk.exit(run, 0);
        desk.gone(run);
    }
    refused(&mut desk);
    assert_eq!(best(&desk, "availability-price"), "cheap", "one refusal among seven launches");
}
