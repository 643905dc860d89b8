//! What the orders of the queue are worth where there are fewer machines than jobs, over seeds.

use leeway_model::{Millis, Timestamp};
use leeway_simulations::fleet::outcome::Ended;
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds::{self, WORLD};

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// A room of twelve machines that are paid for anyway, and what is asked of them.
fn room(order: &str, workload: &str) -> Vec<Ran> {
    let text = format!(
        r#"queue_order = "{order}"
{WORLD}
[[clusters]]
name = "room"
region = "onprem/here"
accelerators = "A10G:1"
count = 12
reserved = 0.5
{workload}"#
    );
    let mut plan = worlds::plan(worlds::named(&text), &["whole-bill"], &SEEDS);
    plan.checked = false;
    study::study(&plan, &|_| true, &|_| {}).unwrap()
}

/// Jobs of somewhat less than an hour, of one owner.
fn stream(team: &str, per_hour: u32, most: u32) -> String {
    format!(
        r#"
[[workload]]
most = {most}
ask.accelerator = "A10G"
[workload.generate]
runtime_max_s = 14400
arrivals = {{ per_hour = {per_hour} }}
runtime = {{ kind = "log-normal", mu = 8.0, sigma = 0.5 }}
sizes = [{{ weight = 1, gpus = 1 }}]
teams = [{{ name = "{team}", weight = 1, users = 1 }}]
"#
    )
}

fn mean_wait(all: &[Ran], team: &str) -> f64 {
    let waits: Vec<f64> = jobs(all, team).filter_map(|job| job.wait()).map(Millis::as_hours_f64).collect();
    waits.iter().sum::<f64>() / waits.len() as f64
}

fn jobs<'a>(all: &'a [Ran], team: &'a str) -> impl Iterator<Item = &'a Ended> {
    all.iter().flat_map(|ran| &ran.jobs).filter(move |job| &*job.team == team)
}

/// Machine-hours that a team had until then.
fn hours_until(all: &[Ran], team: &str, end: Timestamp) -> f64 {
    let stretches = jobs(all, team).flat_map(|job| &job.stretches);
    stretches.map(|stretch| stretch.to.min(end).since(stretch.from).as_hours_f64()).sum()
}

#[test]
fn fair_share_spares_a_small_owner_the_queue_of_one_who_floods() {
    let two = stream("flood", 400, 400) + &stream("trickle", 3, 1_000);
    let (plain, fair) = (room("first-come", &two), room("fair-share", &two));
    let counts = |all: &[Ran]| ["flood", "trickle"].map(|team| jobs(all, team).count());
    assert_eq!(counts(&plain), counts(&fair), "both orders finish the same jobs");
    let waits = |all: &[Ran]| (mean_wait(all, "trickle"), mean_wait(all, "flood"));
    let ((small, large), (small_fair, large_fair)) = (waits(&plain), waits(&fair));
    let told = format!(
        "over {} seeds the small owner waits {small:.2} h at first come and {small_fair:.2} h at a fair share; \
         the one who floods {large:.2} h and {large_fair:.2} h",
        SEEDS.len()
    );
    println!("{told}");
    assert!(small_fair < small / 5.0, "{told}");
    assert!(large_fair < large * 1.5, "{told}");
}

#[test]
fn two_owners_who_both_flood_share_by_their_weights() {
    let both = |weights: &str| {
        let all = room("fair-share", &(stream("one", 400, 400) + &stream("other", 400, 400) + weights));
        let start = all.iter().flat_map(|ran| &ran.jobs).map(|job| job.submitted).min().unwrap();
        let [one, other] = ["one", "other"].map(|team| hours_until(&all, team, start.after(Millis::from_hours(15))));
        one / other
    };
    let (even, double) = (both(""), both("[fair_share.weights]\none-1 = 2\n"));
    let told = format!("hours of one owner for an hour of the other: {even:.2} at even weights, {double:.2} at 2 to 1");
    println!("{told}");
    assert!((0.85..1.18).contains(&even) && (1.7..2.35).contains(&double), "{told}");
}

/// More work than there are machines for a while: some of it due soon, most of it much later.
const DEADLINES: &str = r#"
[[workload]]
ask.accelerator = "A10G"
ask.deadline = 12.0
[workload.generate]
runtime_max_s = 14400
arrivals = { per_hour = 11 }
runtime = { kind = "log-normal", mu = 8.0, sigma = 0.5 }
sizes = [{ weight = 1, gpus = 1 }]

[[workload]]
ask.accelerator = "A10G"
ask.deadline = 2.0
[workload.generate]
runtime_max_s = 14400
arrivals = { per_hour = 3 }
runtime = { kind = "log-normal", mu = 8.0, sigma = 0.5 }
sizes = [{ weight = 1, gpus = 1 }]
"#;

#[test]
fn earliest_deadline_misses_fewer_deadlines_where_machines_are_short() {
    let missed = |order: &str| {
        let all = room(order, DEADLINES);
        let sum = |of: &dyn Fn(&Ran) -> u64| all.iter().map(of).sum::<u64>();
        (sum(&|ran| ran.row.missed), sum(&|ran| ran.row.with_deadline))
    };
    let ((plain, jobs), (timed, same)) = (missed("first-come"), missed("earliest-deadline"));
    let told = format!("of {jobs} jobs {plain} end late at first come, and {timed} at the earliest deadline");
    println!("{told}");
    assert_eq!(jobs, same);
    assert!(plain > 0 && timed * 2 < plain, "{told}");
}
