//! Offers: none, stale, and equal ones.

use leeway_core::Event;
use leeway_model::job::JobState;
use leeway_model::resources::SpotPolicy;
use leeway_model::{Micros, Millis};
use leeway_simulations::dst::run::Options;
use leeway_simulations::dst::scenario::{budget, cluster, job, on};
use leeway_simulations::dst::world::market::observation;

use crate::{add, bare, rest, run_number, until, world};

#[test]
fn c_08_a_stale_price_takes_no_new_spot_run_and_a_fresh_one_of_the_same_height_does() {
    let mut simulation = world();
    simulation.feed_every = Millis::from_hours(1_000);
    simulation.run_for(Millis::from_mins(10));
    let offer = simulation.market.prices.keys().next().expect("one spot offer").clone();
    simulation.run_for(Millis::from_hours(25));
    let id = add(&mut simulation, on(job("a"), SpotPolicy::Spot));
    simulation.run_for(Millis::from_mins(30));
    assert_eq!(simulation.state(id), Some(JobState::Pending));
    let scheduler = simulation.shell.scheduler().expect("it is up");
    let found = scheduler.fleet().find(&offer).expect("the offer exists");
    let rate = scheduler.fleet().slot(found).offer.price.as_ref().expect("it has a price").rate;
    let observed = simulation.shell.time_at(simulation.now());
    let prices = vec![observation(&offer, rate, observed)];
    simulation.inside(Millis::new(1), Event::PricesObserved { prices });
    until(&mut simulation, 10, |s| s.state(id) == Some(JobState::Running));
    rest(&mut simulation);
}

#[test]
fn c_09_without_any_offer_a_job_waits_with_its_reason() {
    let mut simulation = bare(Options::default());
    simulation.ask_for(budget("org", None, Micros::from_units(10)));
    simulation.run_for(Millis::from_secs(2));
    let id = add(&mut simulation, job("a"));
    simulation.run_for(Millis::from_hours(1));
    let scheduler = simulation.shell.scheduler().expect("it is up");
    assert_eq!(&*scheduler.reason(simulation.job(id)).expect("a reason").code, "NO_OFFERS");
    simulation.add_cluster(cluster("north", "aws/a", 2, 100, None));
    rest(&mut simulation);
    assert_eq!(simulation.state(id), Some(JobState::Succeeded));
}

#[test]
fn c_18_of_two_equal_offers_the_smaller_name_is_taken_whatever_came_first() {
    for order in [["east", "west"], ["west", "east"]] {
        let mut simulation = bare(Options::default());
        simulation.ask_for(budget("org", None, Micros::from_units(10)));
        for of in order {
            simulation.add_cluster(cluster(of, "aws/a", 2, 100, None));
            simulation.run_for(Millis::from_secs(1));
        }
        let id = add(&mut simulation, job("a"));
        assert_eq!(run_number(&simulation, id, 1).offer.cluster.as_str(), "east");
    }
}

#[test]
fn a_job_under_a_policy_that_refuses_spot_does_not_hold_up_one_that_takes_it() {
    let mut simulation = bare(Options::default());
    simulation.ask_for(budget("org", None, Micros::from_units(10)));
    let mut spec = cluster("north", "aws/a", 4, 100, Some(30));
    spec.machines[0].on_demand = None;
    simulation.add_cluster(spec);
    simulation.run_for(Millis::from_secs(2));
    let mut picky = job("picky");
    picky.policy = Some("on-demand".parse().expect("a name"));
    add(&mut simulation, picky);
    let id = add(&mut simulation, job("a"));
    until(&mut simulation, 5, |s| s.state(id) == Some(JobState::Running));
}
