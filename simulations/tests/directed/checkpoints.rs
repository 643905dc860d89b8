//! Checkpoints that are torn, damaged, doubted, late or half there.

use leeway_core::event::Event;
use leeway_model::checkpoint::CheckpointState;
use leeway_model::job::JobState;
use leeway_model::run::EndReason;
use leeway_model::{JobId, Millis};
use leeway_simulations::dst::scenario::job;
use leeway_simulations::dst::world::programs::Nature;

use crate::{add, ended, rest, until, until_running, world};

fn lose_machine(simulation: &mut leeway_simulations::dst::Simulation, id: u64) {
    let machine = simulation.machines(id)[0];
    simulation.end_instance(machine);
}

#[test]
fn k_01_a_kill_during_an_upload_leaves_the_one_before() {
    let mut simulation = world();
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    until(&mut simulation, 10, |s| s.programs.newest_acknowledged(JobId(id)).is_some());
    let newest = simulation.programs.newest_acknowledged(JobId(id)).expect("one is committed");
    // The next save begins a minute after the last and uploads for ten seconds.
    simulation.run_for(Millis::from_secs(57));
    lose_machine(&mut simulation, id);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 2);
    assert_eq!(simulation.programs.starts[&JobId(id)][1].restored, Some(newest.checkpoint));
}

#[test]
fn k_04_without_a_valid_checkpoint_a_job_fails_and_a_retry_starts_afresh() {
    let mut simulation = world();
    simulation.faults.damage = 1_000_000;
    let mut spec = job("a");
    spec.checkpoint.as_mut().expect("it has a policy").restart_without = false;
    let id = add(&mut simulation, spec);
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_mins(4));
    simulation.faults.damage = 0;
    lose_machine(&mut simulation, id);
    until(&mut simulation, 20, |s| s.state(id) == Some(JobState::Failed));
    let failed = ended(&simulation, id, JobState::Failed, 2);
    assert_eq!(&*failed.reason.as_ref().expect("a reason").code, "NO_VALID_CHECKPOINT");
    assert!(crate::alerts(&simulation, "leeway.checkpoint.quarantined") >= 1);
    simulation.ask_for(Event::JobRetried { job: JobId(id) });
    until(&mut simulation, 5, |s| s.state(id) != Some(JobState::Failed));
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 3);
    assert_eq!(simulation.programs.starts[&JobId(id)].last().expect("it started").restored, None);
}

#[test]
fn k_05_after_two_early_crashes_the_checkpoint_before_is_taken() {
    let mut simulation = world();
    let fails = vec![None, Some(1), Some(1)];
    simulation.programs.natures.insert("a".into(), Nature { fails, ..Nature::default() });
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_mins(4));
    lose_machine(&mut simulation, id);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 4);
    let starts = &simulation.programs.starts[&JobId(id)];
    assert_eq!(starts[1].restored, starts[2].restored);
    assert!(starts[3].restored < starts[2].restored && starts[3].restored.is_some());
}

#[test]
fn k_07_k_08_lost_replies_are_asked_for_again_and_commit_once() {
    let mut simulation = world();
    simulation.faults.lost = 400_000;
    simulation.faults.duplicated = 400_000;
    let id = add(&mut simulation, job("a"));
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
    let commits = &simulation.programs.acknowledged[&JobId(id)];
    assert!(commits.windows(2).all(|pair| pair[0].checkpoint < pair[1].checkpoint));
}

#[test]
fn k_11_retention_keeps_what_is_being_restored() {
    let mut simulation = world();
    let nature = Nature { restore_time: Millis::from_mins(5), ..Nature::default() };
    simulation.programs.natures.insert("a".into(), nature);
    let mut spec = job("a");
    spec.checkpoint.as_mut().expect("it has a policy").keep = 1;
    let id = add(&mut simulation, spec);
    for _ in 0..2 {
        until_running(&mut simulation, id);
        simulation.run_for(Millis::from_mins(3));
        lose_machine(&mut simulation, id);
        until(&mut simulation, 5, |s| s.state(id) != Some(JobState::Running));
    }
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
    let rows = simulation.shell.scheduler().expect("it is up").tables().checkpoints.values();
    assert!(rows.filter(|row| row.state == CheckpointState::Good).count() <= 2, "the newest, and what was restored");
}

#[test]
fn k_13_a_shard_that_is_missing_keeps_the_whole_from_being_committed() {
    let mut simulation = world();
    let mut spec = job("a");
    spec.nodes = 2;
    let id = add(&mut simulation, spec);
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_secs(55));
    let machines = simulation.machines(id);
    simulation.block(machines[1], Millis::from_secs(50), true, false);
    simulation.run_for(Millis::from_secs(45));
    assert!(simulation.programs.stored.len() >= 2, "both ranks uploaded");
    assert!(simulation.programs.newest_acknowledged(JobId(id)).is_none());
    until(&mut simulation, 3, |s| s.programs.newest_acknowledged(JobId(id)).is_some());
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
}

#[test]
fn a_gang_with_a_damaged_shard_restarts_whole_from_the_one_before() {
    let mut simulation = world();
    let mut spec = job("a");
    spec.nodes = 2;
    let id = add(&mut simulation, spec);
    until_running(&mut simulation, id);
    simulation.run_for(Millis::from_mins(4));
    let newest = simulation.programs.newest_acknowledged(JobId(id)).expect("it saved").checkpoint;
    let shard = simulation.programs.stored.get_mut(&(JobId(id), newest, 1)).expect("rank 1 stored its part");
    shard.damaged = true;
    lose_machine(&mut simulation, id);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 3);
    assert_eq!(crate::run_number(&simulation, id, 2).end, Some(EndReason::CheckpointDamaged));
    let last = simulation.programs.starts[&JobId(id)].last().expect("it started").restored;
    assert!(last.is_some_and(|restored| restored < newest), "{last:?}");
}
