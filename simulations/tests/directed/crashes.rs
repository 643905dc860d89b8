//! Crashes of the scheduler, and its clock.

use leeway_model::Millis;
use leeway_model::job::JobState;
use leeway_simulations::dst::run::Options;
use leeway_simulations::dst::scenario::{budget, cluster, job, submit};
use leeway_simulations::dst::shell::CrashAt;
use leeway_simulations::dst::world::programs::Nature;

use crate::{add, bare, ended, rest, until_running, world};

/// A short fixed run with a checkpoint, a loss and a gang; returns how many steps it took.
fn fixed(crash_at: Option<CrashAt>) -> u64 {
    let mut simulation = bare(Options { crash_at, ..Options::default() });
    simulation.faults.down = (Millis::from_secs(2), Millis::from_secs(2));
    simulation.add_cluster(cluster("north", "aws/a", 4, 100, Some(30)));
    simulation.ask_for(budget("org", None, leeway_model::Micros::from_units(100)));
    for name in ["one", "two"] {
        let nature = Nature { steps: 15, ..Nature::default() };
        simulation.programs.natures.insert(name.into(), nature);
    }
    let mut gang = job("two");
    gang.nodes = 2;
    simulation.ask_for(submit("r", vec![job("one"), gang]));
    simulation.run_for(Millis::from_mins(3));
    let first = simulation.cloud.alive().next().map(|(id, _)| id);
    if let Some(id) = first {
        simulation.end_instance(id);
    }
    simulation.come_to_rest(Millis::from_hours(6)).unwrap_or_else(|open| panic!("{crash_at:?}: {open}"));
    simulation.audit();
    assert_eq!(simulation.clients.promised.len(), 2, "{crash_at:?}");
    for id in [1, 2] {
        assert_eq!(simulation.state(id), Some(JobState::Succeeded), "{crash_at:?}");
    }
    assert_eq!(simulation.shell.crashes, u64::from(crash_at.is_some()), "{crash_at:?}");
    simulation.shell.steps
}

#[test]
fn s_01_b_11_a_crash_at_every_step_loses_nothing_that_was_acknowledged_and_leaves_nothing_open() {
    let steps = fixed(None);
    assert!(steps > 100, "{steps}");
    for step in 1..=steps {
        for before_commit in [true, false] {
            fixed(Some(CrashAt { step, before_commit }));
        }
    }
}

#[test]
fn t_01_a_clock_that_jumps_a_day_ahead_expires_no_lease() {
    let mut simulation = world();
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    simulation.shell.jump(24 * 3_600_000);
    simulation.run_for(Millis::from_secs(100));
    let run = crate::run_number(&simulation, id, 1);
    assert_ne!(run.end, Some(leeway_model::run::EndReason::Lost));
    assert_eq!(simulation.job(id).retries.interruptions, 0);
}

#[test]
fn t_02_a_clock_that_jumps_back_never_shows_in_the_journal() {
    let mut simulation = world();
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    simulation.shell.jump(-600_000);
    rest(&mut simulation);
    ended(&simulation, id, JobState::Succeeded, 1);
}
