//! Every state of a job against everything a client or an operator may do.

use leeway_core::event::{Event, Submission};
use leeway_model::job::JobState;
use leeway_model::run::RunState;
use leeway_model::{JobId, Micros, Millis};
use leeway_simulations::dst::Simulation;
use leeway_simulations::dst::run::name;
use leeway_simulations::dst::scenario::{budget, job};
use leeway_simulations::dst::world::clients::submission;
use leeway_simulations::dst::world::programs::Nature;

use crate::{cancel, rest, run_number, until, until_running, world};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Waiting,
    Pending,
    Launching,
    Setup,
    Running,
    Draining,
    Stopping,
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Nothing,
    Cancel,
    CancelTwice,
    Retry,
    CutCap,
    DrainCluster,
    RemoveCluster,
    Crash,
    CrashAndCancel,
}

const STAGES: [Stage; 11] = [
    Stage::Waiting,
    Stage::Pending,
    Stage::Launching,
    Stage::Setup,
    Stage::Running,
    Stage::Draining,
    Stage::Stopping,
    Stage::Cancelling,
    Stage::Succeeded,
    Stage::Failed,
    Stage::Cancelled,
];

const DEEDS: [Deed; 9] = [
    Deed::Nothing,
    Deed::Cancel,
    Deed::CancelTwice,
    Deed::Retry,
    Deed::CutCap,
    Deed::DrainCluster,
    Deed::RemoveCluster,
    Deed::Crash,
    Deed::CrashAndCancel,
];

/// Brings job 2, which needs job 1, to a stage; returns its number, which is 1 for all stages but waiting.
fn bring(simulation: &mut Simulation, stage: Stage) -> u64 {
    let fails = if stage == Stage::Failed { vec![Some(78)] } else { Vec::new() };
    simulation.programs.natures.insert("a".into(), Nature { steps: 20, fails, ..Nature::default() });
    if stage == Stage::Pending {
        simulation.ask_for(Event::ClusterDrained { cluster: name("north") });
        simulation.run_for(Millis::from_secs(2));
    }
    let first = Submission { spec: job("a"), after: Vec::new() };
    let second = Submission { spec: job("b"), after: vec![0] };
    let number = simulation.ask_for(submission("pair", vec![first, second]));
    until(simulation, 1, |s| s.clients.requests[number].answered);
    let reached = |state: JobState| move |s: &Simulation| s.state(1) == Some(state);
    match stage {
        Stage::Waiting => return 2,
        Stage::Pending => {}
        Stage::Launching => assert_eq!(run_number(simulation, 1, 1).state, RunState::Launching),
        Stage::Setup => until(simulation, 5, |s| run_number(s, 1, 1).state == RunState::Setup),
        Stage::Running => until_running(simulation, 1),
        Stage::Draining | Stage::Stopping => {
            until_running(simulation, 1);
            let machine = simulation.machines(1)[0];
            simulation.give_notice(machine, Millis::from_secs(120), true, 1);
            let wanted = if stage == Stage::Draining { RunState::Draining } else { RunState::Stopping };
            until(simulation, 5, |s| run_number(s, 1, 1).state == wanted);
        }
        Stage::Cancelling => {
            until_running(simulation, 1);
            cancel(simulation, 1);
            until(simulation, 1, reached(JobState::Cancelling));
        }
        Stage::Succeeded => until(simulation, 30, reached(JobState::Succeeded)),
        Stage::Failed => until(simulation, 30, reached(JobState::Failed)),
        Stage::Cancelled => {
            cancel(simulation, 1);
            until(simulation, 5, reached(JobState::Cancelled));
        }
    }
    1
}

fn commit(simulation: &mut Simulation, id: u64, deed: Deed) {
    match deed {
        Deed::Nothing => {}
        Deed::Cancel => cancel(simulation, id),
        Deed::CancelTwice => {
            cancel(simulation, id);
            cancel(simulation, id);
        }
        Deed::Retry => {
            simulation.ask_for(Event::JobRetried { job: JobId(id) });
        }
        Deed::CutCap => {
            simulation.ask_for(budget("org", None, Micros::ZERO));
            simulation.run_for(Millis::from_mins(30));
            simulation.ask_for(budget("org", None, Micros::from_units(1_000)));
        }
        Deed::DrainCluster => {
            simulation.ask_for(Event::ClusterDrained { cluster: name("north") });
        }
        Deed::RemoveCluster => {
            // Refused while a run stands on it; else the cluster comes back later.
            simulation.ask_for(Event::ClusterRemoved { cluster: name("north") });
            simulation.run_for(Millis::from_secs(5));
            let spec = leeway_simulations::dst::scenario::cluster("north", "aws/a", 8, 100, Some(30));
            simulation.add_cluster(spec);
        }
        Deed::Crash => simulation.crash(Millis::from_secs(20)),
        Deed::CrashAndCancel => {
            cancel(simulation, id);
            simulation.crash(Millis::from_secs(20));
        }
    }
}

#[test]
fn a_06_a_07_every_deed_in_every_state_ends_well_and_leaves_nothing_without_an_owner() {
    for stage in STAGES {
        for deed in DEEDS {
            let mut simulation = world();
            let id = bring(&mut simulation, stage);
            // What was only staged may be lost in a crash; let it become durable.
            simulation.run_for(Millis::new(20));
            let before = simulation.state(id).expect("the job exists");
            commit(&mut simulation, id, deed);
            simulation.run_for(Millis::from_secs(90));
            for number in leeway_simulations::dst::scenario::amnesty(&mut simulation) {
                let event = simulation.clients.requests[number].event.clone();
                simulation.ask_for(event);
            }
            rest(&mut simulation);
            let after = simulation.state(id).expect("the job exists");
            let cancels = matches!(deed, Deed::Cancel | Deed::CancelTwice | Deed::CrashAndCancel);
            let expected = match before {
                JobState::Failed | JobState::Cancelled if matches!(deed, Deed::Retry) => JobState::Succeeded,
                ended if ended.is_terminal() => ended,
                JobState::Cancelling => JobState::Cancelled,
                _ if cancels => JobState::Cancelled,
                _ => JobState::Succeeded,
            };
            assert_eq!(after, expected, "{stage:?} x {deed:?}");
        }
    }
}
