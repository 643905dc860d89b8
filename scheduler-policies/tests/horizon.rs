//! `horizon` on the desk of the real scheduler: what it does with spot, without it, and with little time.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

use leeway_core::event::Event;
use leeway_model::job::{JobSpec, JobState, TimeTerms};
use leeway_model::market::CapacityObservation;
use leeway_model::resources::CapacityType::{self, OnDemand, Spot};
use leeway_model::run::EndReason;
use leeway_model::{JobId, Millis, RunId};
use support::{Desk, job, name, offer};

/// Ten hours of work, due so many hours from now.
fn timed(desk: &Desk, hours: u64) -> JobSpec {
    let deadline = Some(desk.now.after(Millis::from_hours(hours)));
    JobSpec {
        time: TimeTerms { deadline, estimate: Some(Millis::from_hours(10)), max_duration: None },
        policy: Some(name("horizon")),
        ..job("train")
    }
}

fn markets(desk: &mut Desk, [east, west]: [u32; 2]) {
    let of = |cluster: &str, available| CapacityObservation { offer: offer(cluster, Spot), available: Some(available) };
    desk.apply(Event::CapacityObserved { capacities: vec![of("east", east), of("west", west)] });
}

fn capacity(desk: &Desk, run: RunId) -> CapacityType {
    desk.run(run).offer.capacity
}

fn reason(desk: &Desk, id: JobId) -> String {
    desk.scheduler.explain(id).unwrap().reason.unwrap().message.into()
}

fn why(desk: &Desk, run: RunId) -> String {
    desk.scheduler.tables().decisions.get(&run).unwrap().why.clone().into()
}

/// A scheduler that has watched spot in the west for two days: there for most of each, and in the east for minutes.
fn experienced() -> Desk {
    let mut desk = Desk::new();
    for hour in 0..48 {
        let west = u32::from(hour % 24 < 20) * 4;
        markets(&mut desk, [4, west]);
        desk.pass(Millis::from_mins(20));
        markets(&mut desk, [0, west]);
        desk.pass(Millis::from_mins(40));
    }
    desk
}

#[test]
fn without_any_history_it_takes_spot_and_waits_for_it_while_there_is_time() {
    let mut desk = Desk::new();
    let spec = timed(&desk, 20);
    let id = desk.submit(spec);
    let run = desk.newest(id);
    assert_eq!(desk.run(run).offer, offer("west", Spot));
    assert!(why(&desk, run).contains("spot there is expected to last"), "{}", why(&desk, run));

    let mut desk = Desk::new();
    markets(&mut desk, [0, 0]);
    let spec = timed(&desk, 40);
    let id = desk.submit(spec);
    assert_eq!(desk.state(id), JobState::Pending);
    let told = reason(&desk, id);
    assert!(told.contains("waiting for spot") && told.contains("may still pass"), "{told}");
    markets(&mut desk, [0, 4]);
    desk.pass(Millis::from_mins(2));
    assert_eq!(desk.run(desk.newest(id)).offer, offer("west", Spot));
}

#[test]
fn with_little_time_it_buys_on_demand_at_once_and_with_less_the_round_does() {
    for (minutes, expected) in [(60, "on demand"), (20, "its deadline leaves no time for a loss")] {
        let mut desk = Desk::new();
        markets(&mut desk, [0, 0]);
        let mut spec = timed(&desk, 10);
        spec.time.deadline = spec.time.deadline.map(|at| at.after(Millis::from_mins(minutes)));
        let id = desk.submit(spec);
        desk.pass(Millis::from_mins(30));
        let run = desk.newest(id);
        assert_eq!(capacity(&desk, run), OnDemand);
        assert!(why(&desk, run).contains(expected), "{}", why(&desk, run));
    }
}

#[test]
fn it_learns_which_place_is_steady_and_pays_more_for_it() {
    let mut desk = experienced();
    // By now the east costs less an hour, and both have some.
    desk.price("east", "0.85");
    desk.price("west", "0.92");
    markets(&mut desk, [4, 4]);
    desk.pass(Millis::from_mins(1));
    let spec = timed(&desk, 13);
    let id = desk.submit(spec);
    let run = desk.newest(id);
    assert_eq!(desk.run(run).offer, offer("west", Spot), "{}", why(&desk, run));

    let mut fresh = Desk::new();
    fresh.price("east", "0.85");
    fresh.price("west", "0.92");
    markets(&mut fresh, [4, 4]);
    let spec = timed(&fresh, 13);
    let id = fresh.submit(spec);
    assert_eq!(fresh.run(fresh.newest(id)).offer, offer("east", Spot), "who has seen nothing takes the cheaper");
}

#[test]
fn it_goes_back_to_spot_from_on_demand_and_on_to_cheaper_spot_where_that_repays_the_move() {
    let mut desk = Desk::new();
    markets(&mut desk, [0, 0]);
    let mut spec = timed(&desk, 12);
    spec.time.deadline = spec.time.deadline.map(|at| at.before(Millis::from_mins(50)));
    let id = desk.submit(spec);
    let first = placed(&mut desk, id);
    assert_eq!(capacity(&desk, first), OnDemand);
    desk.up(first);
    markets(&mut desk, [4, 0]);
    desk.price("east", "1.20");
    let second = moved(&mut desk, id, first);
    assert_eq!(desk.run(second).offer, offer("east", Spot));
    desk.up(second);
    desk.price("west", "0.40");
    markets(&mut desk, [4, 4]);
    let third = moved(&mut desk, id, second);
    assert_eq!(desk.run(third).offer, offer("west", Spot), "{}", why(&desk, third));
}

/// Lets a run work until it is asked to save and go, and brings it to its next place.
fn moved(desk: &mut Desk, id: JobId, run: RunId) -> RunId {
    let mut minutes = 0;
    while desk.run(run).end.is_none() && minutes < 60 {
        desk.work(run, Millis::from_mins(1), 10 * run.epoch);
        minutes += 1;
    }
    assert_eq!(desk.run(run).end, Some(EndReason::Moved), "it stays where it is");
    assert!(desk.run(run).save_on_drain);
    desk.checkpoint(run, 1, 10 * run.epoch);
    desk.exit(run, 143);
    desk.gone(run);
    placed(desk, id)
}

/// Waits for its next place, for an hour at most.
fn placed(desk: &mut Desk, id: JobId) -> RunId {
    let mut minutes = 0;
    while desk.state(id) == JobState::Pending && minutes < 60 {
        desk.pass(Millis::from_mins(1));
        minutes += 1;
    }
    desk.newest(id)
}

#[test]
fn a_restart_changes_no_decision() {
    let decide = |restarts: bool| {
        let mut desk = experienced();
        if restarts {
            desk.restart(|_| {}, |_| {});
        }
        let spec = timed(&desk, 30);
        let id = desk.submit(spec);
        desk.pass(Millis::from_mins(5));
        let explained = desk.scheduler.explain(id).unwrap();
        (explained.reason, explained.runs.into_iter().map(|(_, decision)| decision.unwrap().why).collect::<Vec<_>>())
    };
    assert_eq!(decide(false), decide(true));
}

#[test]
fn without_checkpoints_or_a_deadline_it_takes_the_lowest_bill() {
    for change in [|spec: &mut JobSpec| spec.checkpoint = None, |spec: &mut JobSpec| spec.time.deadline = None] {
        let mut desk = Desk::new();
        let mut spec = timed(&desk, 30);
        change(&mut spec);
        let id = desk.submit(spec);
        let run = desk.newest(id);
        assert!(why(&desk, run).starts_with("lowest expected bill"), "{}", why(&desk, run));
    }
}
