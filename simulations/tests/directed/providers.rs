//! A provider that errs, hides what it made, has no room, or does not let go.

use leeway_core::event::Event;
use leeway_model::job::JobState;
use leeway_model::market::OfferKey;
use leeway_model::resources::{CapacityType, SpotPolicy};
use leeway_model::run::RunState;
use leeway_model::{JobId, Millis, RunId};
use leeway_simulations::dst::run::name;
use leeway_simulations::dst::scenario::{job, on};

use crate::{add, alerts, cancel, ended, rest, run_number, until, until_running, world};

fn first(id: u64) -> RunId {
    RunId { job: JobId(id), epoch: 1 }
}

#[test]
fn p_01_a_launch_that_times_out_after_its_effect_is_adopted_once() {
    let mut simulation = world();
    simulation.faults.error_after = 1_000_000;
    let id = add(&mut simulation, job("a"));
    until(&mut simulation, 5, |s| s.cloud.launch_calls >= 2);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
    assert_eq!(simulation.cloud.instances.len(), 1);
}

#[test]
fn p_02_a_crash_after_the_launch_call_finds_the_machine_by_its_token() {
    let mut simulation = world();
    let id = add(&mut simulation, job("a"));
    until(&mut simulation, 5, |s| s.cloud.has_alive(first(id)));
    assert_eq!(run_number(&simulation, id, 1).launched, None);
    simulation.crash(Millis::from_secs(30));
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
    assert_eq!(simulation.cloud.instances.len(), 1);
}

#[test]
fn p_03_a_machine_that_is_not_listed_yet_is_not_called_gone() {
    let mut simulation = world();
    simulation.faults.invisible_max = Millis::from_secs(60);
    let id = add(&mut simulation, job("a"));
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
}

#[test]
fn p_04_no_job_fails_from_throttling_alone() {
    let mut simulation = world();
    simulation.faults.throttled = 1_000_000;
    let id = add(&mut simulation, job("a"));
    simulation.run_for(Millis::from_hours(1));
    assert!(simulation.cloud.launch_calls < 600, "{} calls are a hot loop", simulation.cloud.launch_calls);
    assert!(!simulation.job(id).state.is_terminal());
    simulation.faults.throttled = 0;
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
    assert_eq!(simulation.job(id).retries.infrastructure_failures, 0);
}

#[test]
fn p_06_an_offer_without_capacity_cools_down_and_is_no_hot_loop() {
    let mut simulation = world();
    let spot = OfferKey { cluster: name("north"), shape: name("m"), capacity: CapacityType::Spot };
    let until_then = simulation.now().after(Millis::from_hours(3));
    simulation.cloud.closed.insert(spot, until_then);
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    simulation.run_for(Millis::from_hours(2));
    assert!((2..=6).contains(&simulation.cloud.launch_calls), "{} calls", simulation.cloud.launch_calls);
    let other = add(&mut simulation, job("b"));
    until_running(&mut simulation, other);
    assert_eq!(run_number(&simulation, other, 1).offer.capacity, CapacityType::OnDemand);
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
}

#[test]
fn p_08_a_machine_that_will_not_go_is_asked_again_told_of_and_paid_for_to_the_end() {
    let mut simulation = world();
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    simulation.cloud.stops_ignored_until = simulation.now().after(Millis::from_mins(25));
    cancel(&mut simulation, id);
    simulation.run_for(Millis::from_mins(9));
    assert_eq!(run_number(&simulation, id, 1).state, RunState::Stopping);
    assert_eq!(alerts(&simulation, "leeway.instance.termination_stuck"), 0);
    simulation.run_for(Millis::from_mins(4));
    assert_eq!(alerts(&simulation, "leeway.instance.termination_stuck"), 1);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Cancelled, 1);
    let run = run_number(&simulation, id, 1);
    let lived = run.released.expect("released").since(run.launched.expect("launched"));
    assert!(lived >= Millis::from_mins(25) && run.posted_until == run.released.expect("released"));
}

#[test]
fn p_12_a_gang_of_which_one_machine_is_missing_is_given_back_whole() {
    let mut simulation = world();
    simulation.faults.partial = 1_000_000;
    let mut spec = job("a");
    spec.nodes = 3;
    let id = add(&mut simulation, spec);
    until(&mut simulation, 15, |s| run_number(s, id, 1).state.is_over());
    assert!(!simulation.cloud.has_alive(first(id)));
    let holds = &simulation.shell.scheduler().expect("it is up").tables().holds;
    assert!(holds.get(&leeway_model::HoldId(first(id))).is_some_and(|hold| !hold.open));
    simulation.faults.partial = 0;
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
}

#[test]
fn a_cancel_while_the_launch_is_under_way_leaves_no_machine() {
    for wait in [0, 500, 1_500, 3_000, 6_000, 12_000] {
        let mut simulation = world();
        simulation.faults.error_after = 1_000_000;
        let id = add(&mut simulation, job("a"));
        simulation.run_for(Millis::new(wait));
        simulation.ask_for(Event::JobCancelled { job: JobId(id), by: name("alice") });
        simulation.run_for(Millis::from_secs(5));
        simulation.faults.error_after = 0;
        rest(&mut simulation);
        ended(&simulation, id, JobState::Cancelled, 1);
    }
}
