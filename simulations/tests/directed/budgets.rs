//! Money: admission at the cap, drains inside the hold, stops that cost more than the reserve.

use leeway_model::job::JobState;
use leeway_model::resources::SpotPolicy;
use leeway_model::{Micros, Millis, Name};
use leeway_simulations::dst::Simulation;
use leeway_simulations::dst::run::{Options, name};
use leeway_simulations::dst::scenario::{budget, cluster, job, on, submit};
use leeway_simulations::dst::world::programs::Nature;

use crate::{add, alerts, bare, cancel, rest, until, until_running, world};

fn with_cap(machines: u32, cap: Micros) -> Simulation {
    let mut simulation = bare(Options::default());
    simulation.add_cluster(cluster("north", "aws/a", machines, 100, None));
    simulation.ask_for(budget("org", None, cap));
    simulation.run_for(Millis::from_secs(3));
    simulation
}

fn org(simulation: &Simulation) -> &leeway_model::budget::Budget {
    let of: Name = name("org");
    simulation.shell.scheduler().expect("it is up").tables().budgets.get(&of).expect("it exists")
}

/// What one job of the kind holds when it is admitted.
fn one_hold() -> Micros {
    let mut simulation = with_cap(100, Micros::from_units(1_000));
    add(&mut simulation, job("a"));
    org(&simulation).held
}

#[test]
fn b_01_of_a_hundred_submissions_at_once_exactly_ten_are_admitted() {
    let cap = Micros::new(one_hold().get() * 10);
    let mut simulation = with_cap(200, cap);
    let number = simulation.ask_for(submit("all", vec![job("a"); 100]));
    until(&mut simulation, 1, |s| s.clients.requests[number].answered);
    let jobs = &simulation.shell.scheduler().expect("it is up").tables().jobs;
    assert_eq!(jobs.values().filter(|job| job.state == JobState::Starting).count(), 10);
    assert_eq!(org(&simulation).held, cap);
    assert_eq!(alerts_of_denied(&mut simulation), 1);
}

fn alerts_of_denied(simulation: &mut Simulation) -> usize {
    simulation.run_for(Millis::from_secs(10));
    alerts(simulation, "leeway.budget.admission_denied")
}

#[test]
fn b_03_a_job_whose_budget_ends_saves_and_ends_inside_its_hold() {
    let mut simulation = with_cap(4, Micros::new(600_000));
    simulation.programs.natures.insert("a".into(), Nature { steps: 600, ..Nature::default() });
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    until(&mut simulation, 120, |s| s.state(id) == Some(JobState::Pending));
    simulation.run_for(Millis::from_mins(3));
    let row = org(&simulation);
    assert!(row.posted <= row.spec.cap && row.overrun == Micros::ZERO && !row.frozen, "{row:?}");
    assert!(simulation.job(id).checkpoint.is_some());
    assert!(alerts(&simulation, "leeway.budget.cap_reached") >= 1);
    simulation.ask_for(budget("org", None, Micros::from_units(100)));
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
}

/// A job is cancelled, and its machines stay for two hours more.
fn stopped_slowly(cap: Micros) -> Simulation {
    let mut simulation = with_cap(4, cap);
    let id = add(&mut simulation, job("a"));
    until_running(&mut simulation, id);
    simulation.cloud.stops_ignored_until = simulation.now().after(Millis::from_hours(2));
    cancel(&mut simulation, id);
    simulation.run_for(Millis::from_hours(3));
    simulation
}

#[test]
fn b_04_what_a_slow_stop_costs_beyond_its_hold_is_paid_while_the_budget_has_room() {
    let mut simulation = stopped_slowly(Micros::from_units(100));
    let row = org(&simulation);
    assert!(!row.frozen && row.overrun == Micros::ZERO && row.posted > one_hold(), "{row:?}");
    add(&mut simulation, job("b"));
    rest(&mut simulation);
}

#[test]
fn b_04_what_a_slow_stop_costs_beyond_its_cap_is_overrun_freezes_and_is_told() {
    let mut simulation = stopped_slowly(one_hold());
    let row = org(&simulation);
    assert!(row.frozen && row.overrun > Micros::ZERO && row.overrun < row.posted, "{row:?}");
    assert!(alerts(&simulation, "leeway.budget.overrun") >= 1);
    let other = add(&mut simulation, job("b"));
    let reason = simulation.job(other).reason.clone().expect("a reason");
    assert_eq!(&*reason.code, "BUDGET_FROZEN");
    rest(&mut simulation);
}

#[test]
fn a_small_job_does_not_wait_for_ever_behind_one_that_can_never_be_paid() {
    let cap = Micros::new(one_hold().get() * 18 / 10);
    let mut simulation = with_cap(20, cap);
    let first = add(&mut simulation, job("a"));
    let mut large = job("large");
    large.nodes = 8;
    add(&mut simulation, large);
    let small = add(&mut simulation, job("b"));
    until(&mut simulation, 120, |s| s.state(first) == Some(JobState::Succeeded));
    until(&mut simulation, 60, |s| s.state(small) == Some(JobState::Running));
}

#[test]
fn c_21_a_price_that_rises_between_scoring_and_launch_stays_within_the_cap() {
    let mut simulation = world();
    simulation.ask_for(budget("org", None, Micros::new(1_500_000)));
    simulation.run_for(Millis::from_secs(1));
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    let offer = simulation.market.prices.keys().next().expect("one spot offer").clone();
    let high = leeway_model::Rate::from_micros(1_900_000);
    simulation.market.prices.insert(offer.clone(), (high, high));
    let observed = simulation.shell.time_at(simulation.now());
    let prices = vec![leeway_simulations::dst::world::market::observation(&offer, high, observed)];
    simulation.inside(Millis::new(1), leeway_core::Event::PricesObserved { prices });
    simulation.run_for(Millis::from_hours(2));
    let row = org(&simulation);
    assert!(row.overrun == Micros::ZERO && row.posted <= row.spec.cap, "{row:?}");
    simulation.ask_for(budget("org", None, Micros::from_units(100)));
    rest(&mut simulation);
    assert_eq!(simulation.job(id).state, JobState::Succeeded);
}
