//! Partitions, frozen machines and messages that come late, twice and out of order.

use leeway_model::Millis;
use leeway_model::job::JobState;
use leeway_model::run::{EndReason, RunState};
use leeway_simulations::dst::scenario::job;

use crate::{add, ended, rest, run_number, until, until_running, world};

#[test]
fn n_01_a_partition_shorter_than_the_lease_goes_unnoticed() {
    let mut simulation = world();
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    let machine = simulation.machines(id)[0];
    simulation.block(machine, Millis::from_secs(35), true, true);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
}

#[test]
fn n_02_n_03_n_14_a_longer_partition_ends_the_program_by_its_lease_and_only_the_next_epoch_commits() {
    for (up, down) in [(true, true), (true, false), (false, true)] {
        let mut simulation = world();
        let id = add(&mut simulation, job("a"));
        until_running(&mut simulation, id);
        let machine = simulation.machines(id)[0];
        simulation.block(machine, Millis::from_mins(30), up, down);
        let cut = simulation.now();
        until(&mut simulation, 3, |s| s.programs.executing.is_empty());
        assert!(simulation.now().since(cut) <= Millis::from_secs(71), "lease and grace after the last renewal");
        until(&mut simulation, 20, |s| s.run_of(id).is_some_and(|run| run.epoch == 2));
        until_running(&mut simulation, id);
        let epochs: Vec<u64> = simulation.programs.executing.values().map(|executing| executing.run.epoch).collect();
        assert_eq!(epochs, [2], "only the highest epoch runs");
        rest(&mut simulation);
        ended(&simulation, id, JobState::Succeeded, 2);
    }
}

#[test]
fn n_04_t_04_an_agent_that_returns_after_its_replacement_is_refused_and_paid_for() {
    for machine_too in [true, false] {
        let mut simulation = world();
        let id = add(&mut simulation, job("a"));
        until_running(&mut simulation, id);
        let machine = simulation.machines(id)[0];
        simulation.cloud.stops_ignored_until = simulation.now().after(Millis::from_mins(12));
        let thaw = simulation.now().after(Millis::from_mins(8));
        simulation.freeze(machine, thaw, machine_too);
        until(&mut simulation, 10, |s| s.run_of(id).is_some_and(|run| run.epoch == 2));
        assert_eq!(run_number(&simulation, id, 1).state, RunState::Stopping);
        rest(&mut simulation);
        ended(&simulation, id, JobState::Succeeded, 2);
        let old = run_number(&simulation, id, 1);
        assert!(old.posted.total() > leeway_model::Micros::ZERO && old.end == Some(EndReason::Lost));
    }
}

#[test]
fn n_05_messages_doubled_and_reordered_change_nothing() {
    let mut simulation = world();
    simulation.faults.duplicated = 900_000;
    simulation.faults.delayed = 500_000;
    simulation.faults.delay_max = Millis::from_secs(20);
    let id = add(&mut simulation, job("a"));
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
}

#[test]
fn n_12_a_gang_that_loses_one_node_stops_whole_and_recovers_as_one() {
    let mut simulation = world();
    let mut spec = job("a");
    spec.nodes = 2;
    let id = add(&mut simulation, spec);
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_mins(2));
    let machines = simulation.machines(id);
    simulation.end_instance(machines[1]);
    until(&mut simulation, 2, |s| run_number(s, id, 1).state == RunState::Stopping);
    let detected = simulation.now();
    until(&mut simulation, 2, |s| s.programs.executing.values().all(|executing| executing.run.epoch != 1));
    assert!(simulation.now().since(detected) <= Millis::from_secs(30));
    rest(&mut simulation);
    let done = ended(&simulation, id, JobState::Succeeded, 2);
    assert_eq!((done.retries.user_failures, done.retries.interruptions), (0, 1));
}

#[test]
fn a_gang_with_one_silent_agent_begins_no_new_epoch_while_the_other_may_still_run() {
    let mut simulation = world();
    let mut spec = job("a");
    spec.nodes = 2;
    let id = add(&mut simulation, spec);
    until_running(&mut simulation, id);
    let machines = simulation.machines(id);
    simulation.cloud.stops_ignored_until = simulation.now().after(Millis::from_mins(30));
    simulation.block(machines[1], Millis::from_mins(30), true, true);
    until(&mut simulation, 3, |s| run_number(s, id, 1).state == RunState::Stopping);
    // The other agent hears nothing from now on either, so that its lease alone ends its program.
    assert_eq!(simulation.run_of(id).map(|run| run.epoch), Some(1), "the first rank's lease is not over yet");
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 2);
}
