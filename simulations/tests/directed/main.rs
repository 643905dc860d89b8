//! One fault at a time, each test named after its row of the fault table. No seed draws here: the world is quiet but
//! for what the test does to it.

mod agents;
mod budgets;
mod checkpoints;
mod crashes;
mod interruptions;
mod market;
mod matrix;
mod providers;

use leeway_core::event::Event;
use leeway_model::job::{Job, JobSpec, JobState};
use leeway_model::run::Run;
use leeway_model::{JobId, Micros, Millis};
use leeway_simulations::dst::faults::FaultPlan;
use leeway_simulations::dst::run::{Options, Simulation};
use leeway_simulations::dst::scenario::{budget, cluster, endpoint, submit};

/// A quiet world: one cluster of eight machines, spot and on-demand, a budget nobody reaches, a receiver of alerts.
pub fn world() -> Simulation {
    let mut simulation = bare(Options::default());
    simulation.add_cluster(cluster("north", "aws/a", 8, 100, Some(30)));
    simulation.ask_for(budget("org", None, Micros::from_units(1_000)));
    simulation.run_for(Millis::from_secs(3));
    simulation
}

pub fn bare(options: Options) -> Simulation {
    let mut simulation = Simulation::new(1, options, FaultPlan::none());
    simulation.ask_for(endpoint());
    simulation
}

/// Submits one job and returns its number.
pub fn add(simulation: &mut Simulation, spec: JobSpec) -> u64 {
    let request = format!("r-{}", simulation.clients.requests.len());
    let number = simulation.ask_for(submit(&request, vec![spec]));
    assert!(simulation.run_while(Millis::from_mins(5), |s| !s.clients.requests[number].answered));
    simulation.clients.requests[number].jobs[0].expect("the job is accepted").0
}

pub fn until_running(simulation: &mut Simulation, job: u64) {
    until(simulation, 20, |s| s.state(job) == Some(JobState::Running));
}

/// Lets the world go on until something is so; panics when it is not within so many minutes.
pub fn until(simulation: &mut Simulation, minutes: u64, so: impl Fn(&Simulation) -> bool) {
    let came = simulation.run_while(Millis::from_mins(minutes), |s| !so(s));
    assert!(came, "it did not come to be within {minutes} minutes; open is: {:?}", simulation.unquiet());
}

/// Comes to a quiet end and audits the journal.
pub fn rest(simulation: &mut Simulation) {
    simulation.come_to_rest(Millis::from_hours(24)).expect("the world comes to rest");
    simulation.audit();
}

pub fn run_number(simulation: &Simulation, job: u64, epoch: u64) -> &Run {
    let id = leeway_model::RunId { job: JobId(job), epoch };
    simulation.shell.scheduler().expect("the scheduler is up").run(id).expect("the run exists")
}

pub fn ended(simulation: &Simulation, job: u64, state: JobState, epoch: u64) -> &Job {
    let row = simulation.job(job);
    assert_eq!((row.state, row.epoch), (state, epoch), "{:?}", row.reason);
    row
}

pub fn alerts(simulation: &Simulation, type_name: &str) -> usize {
    simulation.receiver.seen.values().filter(|n| n.alert.type_name() == type_name).count()
}

pub fn cancel(simulation: &mut Simulation, job: u64) {
    simulation.ask_for(Event::JobCancelled { job: JobId(job), by: "alice".parse().expect("a name") });
}
