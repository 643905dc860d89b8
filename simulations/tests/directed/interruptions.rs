//! Machines that the market takes back, with and without a word.

use leeway_model::job::{JobState, StartReason};
use leeway_model::resources::SpotPolicy;
use leeway_model::run::{EndReason, RunState};
use leeway_model::{JobId, Micros, Millis};
use leeway_simulations::dst::run::Options;
use leeway_simulations::dst::scenario::{budget, cluster, job, on, submit};
use leeway_simulations::dst::world::programs::Nature;

use crate::{add, bare, ended, rest, run_number, until, until_running, world};

#[test]
fn i_01_after_a_notice_the_last_state_is_saved_and_the_job_is_in_line_before_the_kill() {
    let mut simulation = world();
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_secs(30));
    let machine = simulation.machines(id)[0];
    simulation.give_notice(machine, Millis::from_secs(120), true, 1);
    until(&mut simulation, 2, |s| s.state(id) != Some(JobState::Running));
    assert!(simulation.cloud.instances[&machine].ended.is_none(), "in line before the kill");
    rest(&mut simulation);
    let done = ended(&simulation, id, JobState::Succeeded, 2);
    assert_eq!((done.retries.user_failures, done.retries.interruptions), (0, 1));
    let old = run_number(&simulation, id, 1);
    assert!(old.notice.as_ref().is_some_and(|notice| notice.saved) && old.steps_redone <= 1, "{}", old.steps_redone);
    assert_eq!(run_number(&simulation, id, 2).start_reason, StartReason::Interrupted);
}

#[test]
fn i_02_a_notice_that_is_not_carried_out_leaves_no_machine_behind() {
    let mut simulation = world();
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    until_running(&mut simulation, id);
    let machine = simulation.machines(id)[0];
    simulation.give_notice(machine, Millis::from_secs(120), false, 1);
    simulation.run_for(Millis::from_mins(5));
    assert!(simulation.cloud.instances[&machine].ended.is_some(), "it is stopped all the same");
    rest(&mut simulation);
}

#[test]
fn i_03_a_kill_without_notice_resumes_from_the_last_commit() {
    let mut simulation = world();
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_mins(3));
    let machine = simulation.machines(id)[0];
    simulation.end_instance(machine);
    let killed = simulation.now();
    until(&mut simulation, 2, |s| run_number(s, id, 1).state.is_over());
    assert!(simulation.now().since(killed) <= Millis::from_secs(30), "within two looks of the driver");
    let newest = simulation.programs.newest_acknowledged(JobId(id)).expect("it saved every minute");
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 2);
    assert_eq!(run_number(&simulation, id, 1).end, Some(EndReason::Lost));
    let starts = &simulation.programs.starts[&JobId(id)];
    assert_eq!(starts[1].restored, Some(newest.checkpoint));
}

#[test]
fn i_04_a_notice_too_short_for_a_last_checkpoint_tries_none() {
    let mut simulation = world();
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    until_running(&mut simulation, id);
    let machine = simulation.machines(id)[0];
    simulation.give_notice(machine, Millis::from_secs(9), true, 1);
    until(&mut simulation, 1, |s| run_number(s, id, 1).notice.is_some());
    assert!(!run_number(&simulation, id, 1).save_on_drain, "5 s of saving do not fit into 9 s less the margins");
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 2);
}

#[test]
fn i_05_two_sources_of_one_notice_make_one_drain() {
    let mut simulation = world();
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    until_running(&mut simulation, id);
    let machine = simulation.machines(id)[0];
    simulation.give_notice(machine, Millis::from_secs(120), true, 2);
    rest(&mut simulation);
    let done = ended(&simulation, id, JobState::Succeeded, 2);
    assert_eq!(done.retries.interruptions, 1);
    assert_eq!(crate::alerts(&simulation, "leeway.job.interrupted"), 1);
}

#[test]
fn i_06_a_notice_before_the_program_runs_counts_as_an_interruption() {
    for state in [RunState::Setup, RunState::Restoring] {
        let mut simulation = world();
        let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
        let epoch = if state == RunState::Restoring {
            until_running(&mut simulation, id);
            simulation.run_for(Millis::from_mins(2));
            let machine = simulation.machines(id)[0];
            simulation.end_instance(machine);
            2
        } else {
            1
        };
        let there = |s: &leeway_simulations::dst::Simulation| {
            s.run_of(id).is_some_and(|run| run.epoch == epoch && run_number(s, id, epoch).state == state)
        };
        until(&mut simulation, 20, there);
        let machine = simulation.machines(id)[0];
        simulation.give_notice(machine, Millis::from_secs(120), true, 1);
        rest(&mut simulation);
        let done = ended(&simulation, id, JobState::Succeeded, epoch + 1);
        assert_eq!((done.retries.user_failures, done.retries.infrastructure_failures), (0, 0));
        assert_eq!(run_number(&simulation, id, epoch).end, Some(EndReason::Interrupted));
    }
}

#[test]
fn i_09_a_thousand_interruptions_in_a_second_are_recovered_from_within_cap_and_capacity() {
    let mut simulation = bare(Options { check_every: 0, ..Options::default() });
    simulation.add_cluster(cluster("north", "aws/a", 1_000, 100, Some(30)));
    simulation.ask_for(budget("org", None, Micros::from_units(1_000)));
    simulation.programs.natures.insert("mass".into(), Nature { steps: 12, ..Nature::default() });
    simulation.ask_for(submit("all", vec![on(job("mass"), SpotPolicy::Spot); 1_000]));
    until(&mut simulation, 20, |s| s.programs.executing.len() >= 900);
    let machines: Vec<u64> = simulation.cloud.alive().map(|(id, _)| id).collect();
    for machine in machines {
        simulation.end_instance(machine);
    }
    simulation.come_to_rest(Millis::from_hours(24)).expect("all recover");
    let tables = simulation.shell.scheduler().expect("it is up").tables();
    assert!(tables.jobs.values().all(|job| job.state == JobState::Succeeded));
    assert!(tables.budgets.values().all(|budget| budget.overrun == Micros::ZERO));
}

#[test]
fn a_program_that_ends_well_during_a_drain_has_succeeded() {
    let mut simulation = world();
    let mut spec = on(job("a"), SpotPolicy::Spot);
    spec.checkpoint = None;
    simulation.programs.natures.insert("a".into(), Nature { steps: 6, ..Nature::default() });
    let id = add(&mut simulation, spec);
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_secs(50));
    let machine = simulation.machines(id)[0];
    // The agent does not hear that it should drain until its program is done.
    simulation.block(machine, Millis::from_secs(14), false, true);
    simulation.give_notice(machine, Millis::from_secs(120), true, 1);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
}
