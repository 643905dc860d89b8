//! Small worlds in which nothing is left to chance, and ways to run them.

use std::path::Path;

use leeway_simulations::fleet::outcome::Ended;
use leeway_simulations::fleet::scenario::{Named, build::Choice};
use leeway_simulations::fleet::study::{self, Plan, Ran};

/// Machines come within 90 seconds and are always warned of their end.
pub const WORLD: &str = r#"
about = "A small world for a test."
length = "1d"
limit = "10d"

[world]
provision = "30s"
boot = "60s"
unwarned_percent = 0
short_percent = 0
"#;

/// A cluster with this many spot machines whose price does not move.
pub fn cluster(name: &str, region: &str, spot: f64, nodes: u32) -> String {
    format!(
        r#"
[[clusters]]
name = "{name}"
region = "{region}"
accelerators = "A10G:1"
on_demand = 1.2

[clusters.market.generate]
gap_s = 600
on_demand_usd_per_h = 1.2
nodes = {nodes}
price = {{ mean_usd_per_h = {spot}, floor_usd_per_h = 0.1, cap_of_on_demand = 1.0 }}
"#
    )
}

/// A job on one GPU; `more` are further lines of it.
pub fn job(name: &str, at: &str, runtime: &str, more: &str) -> String {
    format!(
        "\n[[jobs]]\nname = \"{name}\"\nat = \"{at}\"\nruntime = \"{runtime}\"\ngpus = 1\naccelerator = \"A10G\"\n{more}\n"
    )
}

pub fn named(text: &str) -> Named {
    Named::parse("a-test", text, Path::new("."), &[]).unwrap()
}

/// One seed of each of these policies, with invariants checked after every step.
pub fn plan(scenario: Named, policies: &[&str], seeds: &[u64]) -> Plan {
    Plan {
        scenario,
        policies: policies.iter().map(|policy| policy.parse().unwrap()).collect(),
        seeds: seeds.to_vec(),
        threads: 1,
        history: None,
        checked: true,
    }
}

/// Runs a text under one policy, with its jobs in order of their numbers.
pub fn run(text: &str, policy: &str) -> Ran {
    let plan = plan(named(text), &[policy], &[1]);
    let mut ran = study::study(&plan, &|_| true, &|_| {}).unwrap().remove(0);
    ran.jobs.sort_by_key(|job| job.job);
    ran
}

/// Jobs that the scenario submits with this seed.
pub fn arrivals(scenario: &Named, seed: u64) -> u64 {
    let choice = Choice { policy: "whole-bill".parse().unwrap(), seed, checked: false };
    scenario.setup(&choice).unwrap().workload.0.inspect(|arrival| assert!(arrival.is_ok(), "{arrival:?}")).count()
        as u64
}

/// Where a job was, in order of time.
pub fn clusters(job: &Ended) -> Vec<&str> {
    job.stretches.iter().map(|stretch| stretch.cluster.as_str()).collect()
}
