//! What `horizon` is worth to jobs with a deadline, over seeds, beside the even pace.

use leeway_simulations::fleet::scenario::Named;
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds;

const SEEDS: [u64; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn ran(scenario: &str, policy: &str, sight: &str) -> Vec<Ran> {
    let settings = [("world.sight".to_owned(), sight.to_owned())];
    let mut plan = worlds::plan(Named::read_with(scenario, &settings).unwrap(), &[policy], &SEEDS);
    (plan.checked, plan.threads) = (false, 2);
    study::study(&plan, &|_| true, &|_| {}).unwrap()
}

fn cost(all: &[Ran]) -> f64 {
    all.iter().map(|ran| ran.row.cost().as_units_f64()).sum::<f64>() / all.len() as f64
}

#[test]
fn it_keeps_every_deadline_for_less_than_an_even_pace_in_one_zone_and_for_no_more_in_three() {
    for (scenario, sight, at_most) in [
        ("single-zone-deadline", "tried", 0.97),
        ("single-zone-deadline", "free", 0.97),
        ("three-region-deadline", "tried", 1.0),
        ("three-region-deadline", "free", 1.0),
    ] {
        let (paced, planned) = (ran(scenario, "uniform-progress", sight), ran(scenario, "horizon", sight));
        let told = format!(
            "{scenario}, {} seeds, sight {sight}: {:.2} at an even pace, {:.2} by a plan",
            SEEDS.len(),
            cost(&paced),
            cost(&planned)
        );
        println!("{told}");
        for ran in paced.iter().chain(&planned) {
            let missed = ran.jobs.iter().filter(|job| job.missed_deadline()).count();
            assert_eq!((missed, ran.row.open), (0, 0), "{told}: {} with seed {}", ran.row.policy, ran.row.seed);
        }
        assert!(cost(&planned) <= at_most * cost(&paced), "{told}");
    }
}

#[test]
fn one_seed_gives_the_same_run_twice() {
    let once = |_| ran("three-region-deadline", "horizon", "tried").swap_remove(0);
    let [one, other] = [0, 1].map(once);
    let costs = |ran: &Ran| ran.jobs.iter().map(|job| (job.job, job.cost, job.ended, job.runs)).collect::<Vec<_>>();
    assert_eq!(costs(&one), costs(&other));
}
