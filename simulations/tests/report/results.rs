//! Results made by hand, so that a change of a policy changes no page.

use std::path::Path;

use leeway_model::job::JobState;
use leeway_model::run::EndReason;
use leeway_model::{JobId, Micros, Millis, Name};
use leeway_simulations::fleet::Outcome;
use leeway_simulations::fleet::outcome::{BudgetUse, Ended, PlaceUse, Sample, Stretch};
use leeway_simulations::fleet::scenario::Named;
use leeway_simulations::fleet::study::{Plan, Ran, Row};

/// What a user may write into a name that is shown.
pub const MISCHIEF: &str = "<script>alert('\"team\" & co')</script>";

const SCENARIO: &str = r#"
about = "Two days of a lab, where \"someone\" tries <script>alert(1)</script>."
length = "2d"
policies = ["on-demand", "whole-bill"]

[[clusters]]
name = "east"
region = "aws/us-east-1"
accelerators = "A10G:1"
instance_type = "g5.2xlarge"
count = 4
on_demand = 1.212
spot = 0.48
carbon = 380
watts = 400

[[budgets]]
name = "lab"
cap = 100

[[jobs]]
name = "<b>bold</b>"
runtime = "4h"
gpus = 1
accelerator = "A10G"
ask.deadline = 2.5
ask.checkpoint = { size = "3GB", save = "15s", restore = "40s" }

[[shocks]]
at = "12h"
length = "3h"
capacity = 0.5
"#;

pub fn plan(policies: &[&str], seeds: &[u64]) -> Plan {
    Plan {
        scenario: Named::parse("a-lab", SCENARIO, Path::new("."), &[]).unwrap(),
        policies: policies.iter().map(|policy| policy.parse().unwrap()).collect(),
        seeds: seeds.to_vec(),
        threads: 1,
        history: None,
        checked: false,
    }
}

/// Every policy of the plan with every seed; whatever stands first costs twice as much as the rest.
pub fn results(plan: &Plan) -> Vec<Ran> {
    let pairs = plan.policies.iter().enumerate().flat_map(|of| plan.seeds.iter().map(move |seed| (of, *seed)));
    pairs.map(|((number, policy), seed)| ran(plan, policy, seed, number > 0)).collect()
}

fn ran(plan: &Plan, policy: &Name, seed: u64, is_spot: bool) -> Ran {
    let hourly: i64 = if is_spot { 480_000 } else { 1_212_000 };
    let mut outcome = Outcome { is_complete: true, length: Millis::from_hours(50), ..Outcome::default() };
    let jobs: Vec<Ended> = (0..3).map(|number| job(plan, JobId(number), seed, is_spot, hourly)).collect();
    for job in &jobs {
        outcome.totals.all.add(job);
        outcome.totals.by_team.entry(job.team.clone()).or_default().add(job);
        outcome.totals.turnarounds.add(job.turnaround());
        outcome.totals.waits.add(job.wait().unwrap());
    }
    let cost = outcome.totals.all.cost;
    outcome.samples = (0..=50)
        .map(|hour| {
            let machines = if (2..14).contains(&hour) { 2 } else { 0 };
            Sample {
                at: Millis::from_hours(hour),
                spot: if is_spot { machines } else { 0 },
                other: if is_spot { 0 } else { machines },
                queued: u64::from(hour == 1),
                spent: Micros::new(cost.get() * hour.min(14) as i64 / 14),
            }
        })
        .collect();
    let hours = outcome.totals.all.spot_hours + outcome.totals.all.other_hours;
    let [spot_hours, other_hours] = if is_spot { [hours, 0.0] } else { [0.0, hours] };
    outcome.places = vec![PlaceUse { cluster: "east".parse().unwrap(), spot_hours, other_hours }];
    outcome.budgets = vec![BudgetUse {
        budget: "lab".parse().unwrap(),
        parent: None,
        cap: Micros::from_units(100),
        posted: cost,
        held: Micros::ZERO,
        overrun: Micros::ZERO,
    }];
    Ran { row: Row::of(policy.as_str(), seed, &outcome), outcome, jobs }
}

/// A job of four hours; on spot it is interrupted once. Later seeds cost a little more.
fn job(plan: &Plan, id: JobId, seed: u64, is_spot: bool, hourly: i64) -> Ended {
    let start = plan.scenario.scenario.start.after(Millis::from_hours(id.0));
    let at = |minutes: u64| start.after(Millis::from_mins(minutes));
    let stretch = |from: u64, to: u64, end: EndReason| Stretch {
        cluster: "east".parse().unwrap(),
        is_spot,
        from: at(from),
        started: Some(at(from + 3)),
        to: at(to),
        end: Some(end),
    };
    let stretches = if is_spot {
        vec![stretch(5, 100, EndReason::Interrupted), stretch(115, 280, EndReason::Succeeded)]
    } else {
        vec![stretch(5, 248, EndReason::Succeeded)]
    };
    let paid = stretches.iter().map(|one| one.to.since(one.from)).fold(Millis::ZERO, Millis::saturating_add);
    Ended {
        job: id,
        name: "<b>bold</b>".into(),
        team: if id.0 == 0 { MISCHIEF.into() } else { "vision".into() },
        state: JobState::Succeeded,
        failure: None,
        submitted: start,
        first_start: Some(at(8 + 20 * id.0)),
        ended: stretches[stretches.len() - 1].to,
        deadline: (id.0 < 2).then(|| at(600)),
        nodes: 1,
        work: Millis::from_hours(4),
        lost: if is_spot { Millis::from_mins(12) } else { Millis::ZERO },
        runs: stretches.len() as u32,
        interruptions: u32::from(is_spot),
        spot: if is_spot { paid } else { Millis::ZERO },
        other: if is_spot { Millis::ZERO } else { paid },
        cost: Micros::new((paid.as_hours_f64() * hourly as f64) as i64 + seed as i64 * 40_000),
        egress: Micros::ZERO,
        time_value: Micros::ZERO,
        carbon: 0.6,
        stretches: stretches.into(),
        source: None,
        over_optimum: None,
    }
}
