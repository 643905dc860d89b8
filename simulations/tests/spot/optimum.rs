//! The optimum against every schedule there is, and against markets where it is known.

use leeway_policies::deadline::{Mode, Task};
use leeway_simulations::random::stream;
use leeway_simulations::spot::optimum::{Error, optimum};

use super::markets::{Markets, close, task};

/// The cost of holding these modes tick by tick; none where that is not possible or not done in time.
fn cost(plan: &[Mode], markets: &Markets, task: &Task) -> Option<f64> {
    let (mut held, mut checkpoint): (Mode, Option<usize>) = (Mode::Idle, None);
    let (mut changeover, mut done, mut cost) = (0.0, 0.0, 0.0);
    for (tick, &mode) in plan.iter().enumerate() {
        if let Mode::Spot(zone) = held
            && !markets.available[zone][tick]
        {
            held = Mode::Idle;
        }
        if let Mode::Spot(zone) | Mode::OnDemand(zone) = mode {
            if matches!(mode, Mode::Spot(_)) && !markets.available[zone][tick] {
                return None;
            }
            if mode != held {
                changeover = task.changeover;
                cost += checkpoint.map_or(0.0, |from| markets.zones[from].egress[zone]);
                checkpoint = Some(zone);
            }
            let price = if matches!(mode, Mode::Spot(_)) {
                markets.spot_price[zone][tick]
            } else {
                markets.zones[zone].on_demand
            };
            cost += price * task.tick / 3600.0;
            let useful = (task.tick - changeover).max(0.0);
            changeover -= task.tick - useful;
            done += useful;
            if task.work - done <= 1e-6 {
                return Some(cost);
            }
        }
        held = mode;
    }
    None
}

/// The least over all plans.
fn exhaustive(markets: &Markets, task: &Task, ticks: usize) -> f64 {
    let mut modes = vec![Mode::Idle];
    for zone in 0..markets.zones.len() {
        modes.extend([Mode::Spot(zone), Mode::OnDemand(zone)]);
    }
    let mut least = f64::INFINITY;
    for number in 0..modes.len().pow(ticks as u32) {
        let plan: Vec<Mode> =
            (0..ticks as u32).map(|tick| modes[number / modes.len().pow(tick) % modes.len()]).collect();
        least = least.min(cost(&plan, markets, task).unwrap_or(f64::INFINITY));
    }
    least
}

#[test]
fn no_schedule_is_cheaper_and_one_costs_as_much() {
    let mut luck = stream(7, "optimum");
    let (mut possible, mut moves_cost) = (0, 0);
    for case in 0..150 {
        let zones = 1 + luck.below(2) as usize;
        let ticks = if zones == 2 { 5 + luck.below(2) } else { 6 + luck.below(3) } as usize;
        let changeover = [0.0, 3.0, 10.0, 12.0][luck.below(4) as usize];
        let work = [10.0, 20.0, 25.0, 30.0][luck.below(4) as usize];
        let task = task(work, ticks as f64 * 10.0, changeover);
        let markets = Markets::random(&mut luck, zones, ticks, 2);
        let (found, expected) =
            (optimum(&task, &markets.zones, &markets.paths()).unwrap(), exhaustive(&markets, &task, ticks));
        assert!(close(found, expected), "case {case}: {found} instead of {expected}\n{task:?}\n{markets:?}");
        possible += usize::from(expected.is_finite());
        let mut free = markets.clone();
        free.zones.iter_mut().for_each(|zone| zone.egress.fill(0.0));
        moves_cost += usize::from(optimum(&task, &free.zones, &free.paths()).unwrap() < found - 1e-9);
    }
    assert!(possible > 100 && moves_cost > 0, "{possible} possible, {moves_cost} where moves cost");
}

#[test]
fn spot_all_the_time_costs_spot_and_the_changeover_is_paid() {
    let markets = Markets::one(&"#".repeat(12), 0.6, 3.0);
    let check = |work, changeover, ticks: f64| {
        let found = optimum(&task(work, 120.0, changeover), &markets.zones, &markets.paths()).unwrap();
        assert!(close(found, ticks * 0.1), "{work} {changeover}: {found}");
    };
    check(60.0, 0.0, 6.0);
    check(60.0, 10.0, 7.0);
    check(60.0, 1.0, 7.0);
    check(55.0, 5.0, 6.0);
}

#[test]
fn too_little_time_is_infinite() {
    let markets = Markets::one(&"#".repeat(12), 0.6, 3.0);
    assert_eq!(optimum(&task(115.0, 120.0, 10.0), &markets.zones, &markets.paths()), Ok(f64::INFINITY));
    assert!(optimum(&task(110.0, 120.0, 10.0), &markets.zones, &markets.paths()).unwrap().is_finite());
}

#[test]
fn zones_of_one_region_are_one_place_and_cost_the_same_as_two() {
    let mut luck = stream(11, "places");
    for _ in 0..50 {
        let mut markets = Markets::random(&mut luck, 4, 30, 4);
        // The zones 0 and 1 lie in one region, 2 and 3 in another.
        for (from, zone) in markets.zones.iter_mut().enumerate() {
            zone.egress = (0..4).map(|to| if from / 2 == to / 2 { 0.0 } else { 0.25 }).collect();
        }
        let task = task(150.0, 300.0, 7.0);
        let together = optimum(&task, &markets.zones, &markets.paths()).unwrap();
        // A fee that nobody notices makes them places of their own.
        markets.zones[0].egress[1] = 1e-15;
        markets.zones[2].egress[3] = 1e-15;
        assert!(close(together, optimum(&task, &markets.zones, &markets.paths()).unwrap()));
    }
}

#[test]
fn what_cannot_be_computed_is_said() {
    let markets = Markets::one("####", 0.6, 3.0);
    let of = |task: &Task| optimum(task, &markets.zones, &markets.paths());
    assert_eq!(of(&task(30.0, 60.0, 1.0)), Err(Error::TooShort { has: 4, needs: 6 }));
    let odd = Task { work: 100.5, ..task(10.0, 40.0, 1.0) };
    assert!(of(&odd).unwrap_err().to_string().contains("the work must be a whole number of seconds"));
    assert!(matches!(of(&Task { work: f64::NAN, ..odd }), Err(Error::NotWhole(..))));
    assert!(matches!(of(&Task { deadline: -1.0, work: 600.0, ..odd }), Err(Error::NotWhole(..))));
    assert!(matches!(of(&Task { tick: 0.0, work: 600.0, ..odd }), Err(Error::NotWhole(..))));
    assert_eq!(optimum(&task(30.0, 40.0, 1.0), &[], &[]), Err(Error::NoZone));
    let vast = Task { work: 999_999_999.0, deadline: 999_999_999.0, changeover: 1.0, tick: 1.0 };
    assert!(matches!(of(&vast), Err(Error::TooLarge(_))));
}
