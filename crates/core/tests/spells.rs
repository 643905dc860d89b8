//! What the core remembers of spot places: when capacity was seen there, and when it was seen to be gone.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::event::Event;
use leeway_core::spells::Spells;
use leeway_model::Millis;
use leeway_model::market::CapacityObservation;
use leeway_model::resources::CapacityType::{OnDemand, Spot};
use leeway_model::run::LaunchErrorClass;
use support::{Desk, cluster, job, offer};

/// Sights of a place, in minutes since it was first looked at, with the machines; and whether the last goes on.
fn sights(desk: &Desk, cluster: &str) -> (Vec<(u64, u64, u32)>, bool) {
    let Some(Spells { seen, goes_on, .. }) = desk.scheduler.tables().spells.get(&offer(cluster, Spot)) else {
        return (vec![], false);
    };
    let minutes = |at: leeway_model::Timestamp| at.since(seen[0].from).as_millis() / 60_000;
    (seen.iter().map(|sight| (minutes(sight.from), minutes(sight.to), sight.machines)).collect(), *goes_on)
}

fn tell(desk: &mut Desk, cluster: &str, available: Option<u32>) {
    let capacities = vec![CapacityObservation { offer: offer(cluster, Spot), available }];
    desk.apply(Event::CapacityObserved { capacities });
}

#[test]
fn where_a_feed_tells_its_changes_are_seen_and_nothing_else() {
    let mut desk = Desk::new();
    assert_eq!(sights(&desk, "west"), (vec![], false));
    for (available, minutes) in [(Some(9), 10), (Some(8), 20), (Some(0), 5), (None, 60)] {
        tell(&mut desk, "west", available);
        desk.pass(Millis::from_mins(minutes));
    }
    assert_eq!(sights(&desk, "west"), (vec![(0, 30, 8), (30, 35, 0)], false), "9 and 8 machines are of one kind");
    tell(&mut desk, "west", Some(0));
    let run = desk.submit(job("train"));
    let run = desk.newest(run);
    assert_eq!(desk.run(run).offer, offer("east", Spot));
    desk.up(run);
    assert_eq!(sights(&desk, "east"), (vec![(0, 0, 1)], true), "there only a run tells");
}

#[test]
fn elsewhere_runs_tell_while_they_live_and_refusals_for_an_instant() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let first = desk.newest(id);
    assert_eq!(desk.run(first).offer, offer("west", Spot));
    desk.apply(Event::LaunchRefused { run: first, class: LaunchErrorClass::Capacity, message: "none left".into() });
    assert_eq!(sights(&desk, "west"), (vec![(0, 0, 0)], false));
    let second = desk.newest(id);
    assert_eq!(desk.run(second).offer, offer("east", Spot));
    desk.up(second);
    desk.work(second, Millis::from_mins(30), 100);
    assert_eq!(sights(&desk, "east"), (vec![(0, 0, 1)], true));
    desk.gone(second);
    let told = "where there is no market, a machine that is lost says nothing of the others";
    assert_eq!(sights(&desk, "east"), (vec![(0, 30, 1)], false), "{told}");
}

#[test]
fn a_quota_or_a_throttle_tells_nothing_of_capacity() {
    for class in [LaunchErrorClass::Quota, LaunchErrorClass::Throttled, LaunchErrorClass::Transient] {
        let mut desk = Desk::new();
        let id = desk.submit(job("train"));
        let run = desk.newest(id);
        desk.apply(Event::LaunchRefused { run, class, message: "not now".into() });
        assert_eq!(sights(&desk, "west"), (vec![], false), "{class:?}");
    }
}

#[test]
fn a_notice_ends_a_spell_and_the_end_of_a_job_does_not() {
    let mut desk = Desk::new();
    let taken = desk.submit(job("taken"));
    let run = desk.newest(taken);
    desk.up(run);
    desk.work(run, Millis::from_mins(20), 100);
    let deadline = desk.now.after(Millis::from_mins(2));
    desk.apply(Event::InterruptionNoticed { run, deadline, source: "provider".into() });
    desk.pass(Millis::from_mins(2));
    desk.gone(run);
    assert_eq!(sights(&desk, "west"), (vec![(0, 21, 1), (21, 21, 0)], false));

    let mut desk = Desk::new();
    let done = desk.submit(job("done"));
    let run = desk.newest(done);
    desk.up(run);
    desk.work(run, Millis::from_mins(20), 100);
    desk.exit(run, 0);
    desk.gone(run);
    assert_eq!(
        sights(&desk, "west"),
        (vec![(0, 20, 1)], false),
        "nobody knows how much longer it would have been there"
    );
}

#[test]
fn what_was_seen_outlives_a_restart_and_not_its_cluster() {
    let mut desk = Desk::new();
    tell(&mut desk, "east", Some(4));
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    desk.work(run, Millis::from_mins(20), 100);
    let before = desk.scheduler.tables().spells.values().cloned().collect::<Vec<_>>();
    assert_eq!(before.len(), 2);
    desk.restart(|_| {}, |_| {});
    assert_eq!(desk.scheduler.tables().spells.values().cloned().collect::<Vec<_>>(), before);
    leeway_core::invariants::check(&desk.scheduler);
    tell(&mut desk, "east", Some(0));
    assert_eq!(sights(&desk, "east").0.last().unwrap().2, 0, "it goes on from where it was");
    desk.apply(Event::ClusterRemoved { cluster: support::name("east") });
    assert_eq!(sights(&desk, "east"), (vec![], false));
    assert_eq!(sights(&desk, "west").0.len(), 1);
}

#[test]
fn nothing_is_kept_of_what_no_market_takes_back() {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("room", "onprem/here", 4, "", "1.00") });
    desk.budget("team", None, "100");
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    assert_eq!(desk.run(run).offer, offer("room", OnDemand));
    desk.up(run);
    assert_eq!(desk.scheduler.tables().spells.values().count(), 0);
}
