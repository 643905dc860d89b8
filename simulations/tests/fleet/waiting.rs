//! What it is worth that `whole-bill` waits for machines that our own runs will give back, over seeds, beside a policy that
//! takes the best that can be had.

use leeway_simulations::fleet::scenario::Named;
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds;

const SEEDS: [u64; 4] = [1, 2, 3, 4];

fn ran(policy: &str) -> Vec<Ran> {
    let settings = [("length".to_owned(), "5d".to_owned())];
    let mut plan = worlds::plan(Named::read_with("shared-pool", &settings).unwrap(), &[policy], &SEEDS);
    (plan.checked, plan.threads) = (false, 2);
    study::study(&plan, &|_| true, &|_| {}).unwrap()
}

/// Money and the value of the time of all jobs whose hour is worth from one amount to another, in dollars.
fn sums(all: &[Ran]) -> (f64, f64) {
    all.iter().fold((0.0, 0.0), |(money, time), ran| {
        (money + ran.row.cost().as_units_f64(), time + ran.row.time_value_micros as f64 / 1e6)
    })
}

#[test]
fn money_and_the_value_of_time_together_are_less_than_where_nobody_waits() {
    let (waits, takes) = (ran("whole-bill"), ran("cheapest"));
    let ((money, time), (more, less)) = (sums(&waits), sums(&takes));
    let told =
        format!("money {money:.0} and time {time:.0} where jobs wait, {more:.0} and {less:.0} where they do not");
    println!("{told}");
    assert!(money < 0.85 * more && time > less, "{told}");
    assert!(money + time < 0.97 * (more + less), "{told}");
    for ran in waits.iter().chain(&takes) {
        assert_eq!((ran.row.open, ran.row.failed), (0, 0), "{}, seed {}", ran.row.policy, ran.row.seed);
    }
}

#[test]
fn whoever_is_worth_much_an_hour_hardly_waits() {
    for ran in ran("whole-bill") {
        // The third workload, a team of its own.
        let hours = |job: &leeway_simulations::fleet::Ended| job.turnaround().as_hours_f64();
        let value = |job: &leeway_simulations::fleet::Ended| job.time_value.as_units_f64() / hours(job).max(1e-9);
        let dear: Vec<_> = ran.jobs.iter().filter(|job| value(job) > 10.0).collect();
        let wait =
            |job: &leeway_simulations::fleet::Ended| job.wait().map_or(f64::INFINITY, |wait| wait.as_hours_f64());
        assert!(dear.len() > 5, "{} jobs", dear.len());
        let longest = dear.iter().map(|job| wait(job)).fold(0.0, f64::max);
        assert!(longest < 0.6, "{longest} h, seed {}", ran.row.seed);
    }
}
