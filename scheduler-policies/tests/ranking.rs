//! How each policy ranks one market for a handful of jobs, as tables to read. A change here is a change of behaviour.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;

use leeway_core::Config;
use leeway_core::event::Event;
use leeway_core::round::select::Evaluation;
use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::cluster::ClusterSpec;
use leeway_model::decision::Candidate;
use leeway_model::egress::{EgressSpec, ProviderSpec, RuleSpec, TierSpec, Unit};
use leeway_model::job::{DataInput, DataOutput, JobSpec, Progress};
use leeway_model::market::InterruptionBelief;
use leeway_model::resources::{Accelerators, SpotPolicy};
use leeway_model::{Bytes, InstallationId, Millis};
use support::{Desk, cluster, job, name, usd};

fn tiers(tiers: &[(u64, &str)]) -> Vec<TierSpec> {
    tiers.iter().map(|&(from, price)| TierSpec { from, price: price.into() }).collect()
}

fn provider(between: &str, out: &str) -> ProviderSpec {
    let rule = |to: &str, prices: &[(u64, &str)]| RuleSpec { from: "*".into(), to: to.into(), tiers: tiers(prices) };
    ProviderSpec {
        unit: Unit::Gb,
        same_region: tiers(&[(0, "0")]),
        groups: Default::default(),
        rules: vec![rule("*", &[(0, between)]), rule("internet", &[(0, "0"), (100, out)])],
    }
}

/// Three clouds' regions and one machine room that is paid for anyway; a spot market that bites in the west, and an
/// A100 that works twice as fast. What leaves the machine room has no price.
fn market() -> Desk {
    let mut config = Config::new(InstallationId(name("test")), name("whole-bill"));
    let providers = [("aws".into(), provider("0.02", "0.09")), ("gcp".into(), provider("0.01", "0.12"))];
    config.egress = EgressSpec { providers: providers.into(), pairs: vec![] }.table().unwrap();
    config.estimates.speeds = [("A100".into(), 2.0)].into();
    let mut desk = Desk::with(config);
    let a100 = |mut spec: ClusterSpec| {
        spec.machines[0].shape.accelerators = Some(Accelerators { model: "A100".into(), count: 1 });
        spec
    };
    let mut room = cluster("room", "onprem/berlin", 2, "", "");
    room.machines[0].reserved = Some(usd("0.80"));
    for spec in [
        cluster("east", "aws/us-east-1", 8, "1.10", "3.06"),
        cluster("west", "aws/us-west-2", 8, "0.92", "3.06"),
        cluster("europe", "aws/eu-central-1", 8, "1.15", "3.82"),
        a100(cluster("google", "gcp/us-central1", 8, "1.80", "3.67")),
        room,
    ] {
        desk.apply(Event::ClusterRegistered { spec });
    }
    desk.budget("team", None, "10000");
    desk.restart(
        |offer| {
            let seen = |hours, interruptions, saved| InterruptionBelief {
                exposure: Millis::from_hours(hours),
                interruptions,
                saved,
            };
            offer.belief = match offer.key.cluster.as_str() {
                "west" => seen(100, 60, 20),
                "east" => seen(500, 10, 9),
                "google" => seen(200, 40, 0),
                _ => InterruptionBelief::default(),
            };
        },
        |_| {},
    );
    desk
}

/// Ten hours of work on either model.
fn plain() -> JobSpec {
    let mut spec = job("train");
    let mut other = spec.resources[0].clone();
    other.accelerators = Some(Accelerators { model: "A100".into(), count: 1 });
    spec.resources.push(other);
    spec.time.estimate = Some(Millis::from_hours(10));
    spec
}

fn with(change: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut spec = plain();
    change(&mut spec);
    spec
}

fn jobs(desk: &Desk) -> Vec<(&'static str, JobSpec)> {
    let input = |region: &str, gb| DataInput {
        url: "s3://corpus".into(),
        region: region.parse().ok(),
        size: Some(Bytes::from_gb(gb)),
    };
    let spot = |spec: &mut JobSpec, spot| spec.resources.iter_mut().for_each(|request| request.spot = spot);
    vec![
        ("plain", plain()),
        ("keeps no checkpoints", with(|spec| spec.checkpoint = None)),
        ("300 GB of data in aws/us-west-2", with(|spec| spec.data = vec![input("aws/us-west-2", 300)])),
        (
            "400 GB of results to onprem/berlin",
            with(|spec| {
                let region = "onprem/berlin".parse().ok();
                spec.outputs =
                    Some(DataOutput { url: "file:///results".into(), region, size: Some(Bytes::from_gb(400)) })
            }),
        ),
        ("an hour is worth 5.00", with(|spec| spec.money.value_per_hour = Some(usd("5")))),
        ("due in 6 hours", with(|spec| spec.time.deadline = Some(desk.now.after(Millis::from_hours(6))))),
        ("spot only", with(|spec| spot(spec, SpotPolicy::Spot))),
        ("on-demand only", with(|spec| spot(spec, SpotPolicy::OnDemand))),
        ("a gang of 4", with(|spec| spec.nodes = 4)),
    ]
}

/// A job at a third of its steps, its checkpoint of 50 GB in the west.
fn interrupted(policy: &str) -> Evaluation {
    let mut desk = market();
    desk.apply(Event::SpaceChanged { short: true });
    let id = desk.submit(JobSpec { policy: Some(name(policy)), ..plain() });
    desk.restart(
        |_| {},
        |job| {
            job.progress = Progress { step: 300, total: Some(900) };
            job.checkpoint = Some(CheckpointRef {
                id: CheckpointId { epoch: 1, seq: 1 },
                step: 300,
                size: Bytes::from_gb(50),
                manifests: vec![[0; 32]],
                base: "file:///checkpoints".into(),
                region: "aws/us-west-2".parse().unwrap(),
            });
        },
    );
    desk.scheduler.explain(id).unwrap().evaluation.unwrap()
}

fn row(out: &mut String, candidate: &Candidate) {
    write!(out, "  {:<24}", candidate.offer.to_string()).unwrap();
    for (_, amount) in candidate.bill.terms() {
        write!(out, "{:>11.4}", amount.as_units_f64()).unwrap();
    }
    write!(out, "{:>11.4}", candidate.bill.total().as_units_f64()).unwrap();
    write!(out, "{:>8.2}", candidate.expected_time.as_hours_f64()).unwrap();
    candidate.assumed.iter().for_each(|assumed| write!(out, "  {}", assumed.code()).unwrap());
    out.push('\n');
}

fn table(out: &mut String, title: &str, evaluation: &Evaluation) {
    write!(out, "{title}\n  {:<24}", "offer").unwrap();
    let heads = ["compute", "saving", "rework", "inputs", "move", "outputs", "disk", "waiting", "total"];
    heads.iter().for_each(|head| write!(out, "{head:>11}").unwrap());
    writeln!(out, "{:>8}", "hours").unwrap();
    evaluation.candidates.iter().for_each(|candidate| row(out, candidate));
    for count in evaluation.counts() {
        writeln!(out, "  rejected {} by {}: {}", count.count, count.rule.code(), count.example.detail).unwrap();
    }
    out.push('\n');
}

#[test]
fn every_policy_ranks_the_market_as_its_table_says() {
    let desk = market();
    for policy in leeway_policies::all().iter() {
        let mut out = String::new();
        for (title, spec) in jobs(&desk) {
            let spec = JobSpec { policy: Some(name(policy.name())), ..spec };
            table(&mut out, title, &desk.scheduler.dry_run(spec).unwrap());
        }
        table(&mut out, "a third done, its checkpoint of 50 GB in aws/us-west-2", &interrupted(policy.name()));
        insta::assert_snapshot!(policy.name(), out);
    }
}
