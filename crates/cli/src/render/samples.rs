//! Answers as a server gives them, for the golden tables.

use leeway_model::Timestamp;
use leeway_proto::pb;
use pb::ledger_entry::Kind;

use crate::terminal::View;

/// 2026-03-14T15:09:26Z.
const NOW: i64 = 1_773_500_966_000;
const MINUTE: i64 = 60_000;

pub fn view(width: Option<u16>) -> View {
    View { width, colour: false, now: Timestamp::from_millis(NOW) }
}

fn key(cluster: &str, capacity: pb::CapacityType) -> pb::OfferKey {
    pb::OfferKey { cluster: cluster.into(), shape: "p3-2xlarge".into(), capacity: capacity.into() }
}

fn price(nanos: u64) -> pb::Price {
    pb::Price {
        rate_nanos_per_hour: nanos,
        currency: "USD".into(),
        observed_ms: NOW - 3 * MINUTE,
        source: pb::Source::Trace.into(),
    }
}

fn bill(amounts: [i64; 8]) -> pb::Bill {
    let lines = amounts.iter().enumerate();
    pb::Bill {
        lines: lines.map(|(index, amount)| pb::BillLine { term: index as i32 + 1, amount_micros: *amount }).collect(),
        total_micros: amounts.iter().sum(),
    }
}

pub fn running_job() -> pb::Job {
    pb::Job {
        job_id: "j-42".into(),
        spec: Some(pb::JobSpec {
            name: "resnet-nightly".into(),
            owner: "team-vision".into(),
            nodes: 2,
            money: Some(pb::MoneyTerms {
                budget: Some("vision".into()),
                max_cost_micros: Some(250_000_000),
                ..pb::MoneyTerms::default()
            }),
            time: Some(pb::TimeTerms {
                deadline_ms: Some(NOW + 90 * MINUTE),
                estimate_ms: Some(360 * MINUTE as u64),
                max_duration_ms: None,
                deadline_in_ms: None,
            }),
            depends_on: vec!["j-40".into(), "j-41".into()],
            policy: Some("whole-bill".into()),
            ..pb::JobSpec::default()
        }),
        state: pb::JobState::Running.into(),
        submitted_ms: NOW - 200 * MINUTE,
        since_ms: NOW - 12 * MINUTE,
        newest_run_id: Some("j-42-r2".into()),
        checkpoint: Some(pb::CheckpointRef {
            id: Some(pb::CheckpointId { epoch: 2, seq: 7 }),
            step: 1_800,
            size_bytes: 1_500_000_000,
            region: "aws/us-east-1".into(),
            ..pb::CheckpointRef::default()
        }),
        progress: Some(pb::Progress { step: 1_850, total_steps: Some(4_000) }),
        posted: Some(bill([3_061_234, 12_000, 0, 90_000, 4_200, 0, 1_000, 0])),
        retries: Some(pb::RetriesUsed { interruptions: 1, infrastructure_failures: 2, user_failures: 0 }),
        version: 9,
        currency: "USD".into(),
        ..pb::Job::default()
    }
}

pub fn jobs() -> Vec<pb::Job> {
    let spec = |name: &str| Some(pb::JobSpec { name: name.into(), owner: "me".into(), ..pb::JobSpec::default() });
    let job = |id: &str, name: &str, state: pb::JobState, ago: i64| pb::Job {
        job_id: id.into(),
        spec: spec(name),
        state: state.into(),
        submitted_ms: NOW - 2 * ago,
        since_ms: NOW - ago,
        currency: "USD".into(),
        ..pb::Job::default()
    };
    let reason = pb::Reason { code: "NO_CAPACITY".into(), message: "no machine with 8 A100 is free".into() };
    vec![
        running_job(),
        pb::Job { reason: Some(reason), ..job("j-43", "llm", pb::JobState::Pending, 5 * MINUTE) },
        pb::Job {
            posted: Some(bill([4_200, 0, 0, 0, 0, 0, 0, 0])),
            progress: Some(pb::Progress { step: 12, total_steps: None }),
            ..job("j-44", "tiny", pb::JobState::Succeeded, 3_000 * MINUTE)
        },
        job("j-45", "broken", pb::JobState::Failed, 61 * MINUTE),
    ]
}

pub fn runs() -> Vec<pb::Run> {
    let first = pb::Run {
        run_id: "j-42-r1".into(),
        offer: Some(key("aws-us-east-1", pb::CapacityType::Spot)),
        nodes: 2,
        state: pb::RunState::Released.into(),
        end: Some(pb::RunEnd { reason: "interrupted".into(), ..pb::RunEnd::default() }),
        placed_ms: NOW - 199 * MINUTE,
        launched_ms: Some(NOW - 195 * MINUTE),
        stopped_ms: Some(NOW - 16 * MINUTE),
        released_ms: Some(NOW - 15 * MINUTE),
        price: Some(price(950_000_000)),
        posted: Some(bill([2_850_000, 12_000, 0, 0, 0, 0, 1_000, 0])),
        progress: Some(pb::Progress { step: 1_790, total_steps: Some(4_000) }),
        steps_redone: 40,
        currency: "USD".into(),
        ..pb::Run::default()
    };
    let refused =
        pb::RunEnd { reason: "launch-failed".into(), launch_error: Some("capacity".into()), ..pb::RunEnd::default() };
    let second = pb::Run {
        run_id: "j-42-r2".into(),
        end: Some(refused),
        launched_ms: None,
        posted: None,
        progress: None,
        steps_redone: 0,
        ..first.clone()
    };
    let third = pb::Run {
        run_id: "j-42-r3".into(),
        offer: Some(key("gcp-us-central1", pb::CapacityType::OnDemand)),
        state: pb::RunState::Running.into(),
        end: None,
        launched_ms: Some(NOW - 12 * MINUTE),
        stopped_ms: None,
        released_ms: None,
        price: Some(price(2_480_000_000)),
        posted: Some(bill([211_234, 0, 0, 90_000, 4_200, 0, 0, 0])),
        restored_from: Some(pb::CheckpointRef { step: 1_750, ..pb::CheckpointRef::default() }),
        progress: Some(pb::Progress { step: 1_850, total_steps: Some(4_000) }),
        steps_redone: 0,
        ..first.clone()
    };
    vec![first, second, third]
}

fn candidate(cluster: &str, capacity: pb::CapacityType, nanos: u64, amounts: [i64; 8]) -> pb::Candidate {
    pb::Candidate {
        offer: Some(key(cluster, capacity)),
        price: Some(price(nanos)),
        bill: Some(bill(amounts)),
        expected_time_ms: 7_890_000,
        assumed: vec![],
        currency: "USD".into(),
    }
}

fn candidates() -> Vec<pb::Candidate> {
    use pb::CapacityType::{OnDemand, Spot};
    let mut dearest = candidate("onprem-berlin", OnDemand, 3_060_000_000, [6_120_000, 0, 0, 0, 0, 0, 10_000, 250_000]);
    dearest.assumed = vec![pb::Assumption::Estimate.into(), pb::Assumption::EgressPrice.into()];
    vec![
        candidate("aws-us-east-1", Spot, 950_000_000, [1_900_000, 21_000, 114_000, 0, 0, 180_000, 9_000, 33]),
        candidate("gcp-us-central1", Spot, 740_000_000, [1_480_000, 21_000, 92_000, 1_200_000, 4_200, 0, 9_000, 0]),
        dearest,
    ]
}

fn rejections() -> Vec<pb::Rejection> {
    let rejection = |cluster: &str, rule: pb::Rule, detail: &str| pb::Rejection {
        offer: Some(key(cluster, pb::CapacityType::Spot)),
        rule: rule.into(),
        detail: detail.into(),
    };
    vec![
        rejection("aws-eu-west-1", pb::Rule::StalePrice, "its price is 26h old; 24h are allowed"),
        rejection("azure-westeurope", pb::Rule::NoCapacity, "2 machines are asked for and 1 is free"),
        rejection("onprem-berlin", pb::Rule::MaxHourlyCost, "$3.06 an hour is above the job's $2.50"),
    ]
}

pub fn evaluation() -> pb::Evaluation {
    let rejected = rejections();
    pb::Evaluation {
        at_ms: NOW - 2_000,
        policy: "whole-bill".into(),
        candidates: candidates(),
        rejected: rejected
            .iter()
            .map(|one| pb::RejectionCount { rule: one.rule, count: 2, example: Some(one.clone()) })
            .collect(),
        rejections: rejected,
        reason: None,
        holds: vec![],
        why: None,
    }
}

pub fn decision() -> pb::Decision {
    let mut ranked = candidates();
    pb::Decision {
        run_id: "j-42-r1".into(),
        at_ms: NOW - 199 * MINUTE,
        policy: "whole-bill".into(),
        chosen: Some(ranked.remove(0)),
        others: ranked,
        rejected: evaluation().rejected,
        why: "lowest expected bill among the places that can be had now".into(),
        held_micros: 2_375_000,
        currency: "USD".into(),
    }
}

pub fn offers() -> Vec<pb::Offer> {
    let shape = |gpus: Option<u32>| pb::MachineShape {
        name: "p3-2xlarge".into(),
        instance_type: "p3.2xlarge".into(),
        milli_cpus: 8_000,
        memory_bytes: 61 << 30,
        accelerators: gpus.map(|count| pb::Accelerators { model: "V100".into(), count }),
        disk_bytes: 100_000_000_000,
    };
    vec![
        pb::Offer {
            key: Some(key("aws-us-east-1", pb::CapacityType::Spot)),
            region: "aws/us-east-1".into(),
            shape: Some(shape(Some(1))),
            price: Some(price(950_000_000)),
            price_age_ms: Some(185_000),
            available: Some(4),
            cooling_until_ms: Some(NOW + 5 * MINUTE),
            belief: Some(pb::InterruptionBelief { per_hour: 0.05, ..pb::InterruptionBelief::default() }),
            launches: Some(pb::LaunchBelief { tried: 2.5, came: 1.5, share: 0.78 }),
            ..pb::Offer::default()
        },
        pb::Offer {
            key: Some(key("onprem-berlin", pb::CapacityType::OnDemand)),
            region: "onprem/berlin".into(),
            shape: Some(shape(None)),
            price_fault: pb::PriceFault::OutOfRange.into(),
            price_faults: 3,
            ..pb::Offer::default()
        },
    ]
}

pub fn clusters() -> Vec<pb::Cluster> {
    let machines = |name: &str, count| pb::Machines {
        shape: Some(pb::MachineShape { name: name.into(), ..pb::MachineShape::default() }),
        count,
        ..pb::Machines::default()
    };
    let spec = |name: &str, machines| pb::ClusterSpec {
        name: name.into(),
        driver: "local".into(),
        region: "onprem/here".into(),
        machines,
        ..pb::ClusterSpec::default()
    };
    vec![
        pb::Cluster {
            spec: Some(pb::ClusterSpec {
                zone: Some("rack-1".into()),
                ..spec("here", vec![machines("gpu", Some(2)), machines("cpu", Some(6))])
            }),
            state: pb::ClusterState::Ready.into(),
            active_runs: 1,
            machines_in_use: 2,
        },
        pb::Cluster {
            spec: Some(spec("there", vec![machines("gpu", None)])),
            state: pb::ClusterState::Draining.into(),
            ..pb::Cluster::default()
        },
    ]
}

pub fn budgets() -> Vec<pb::Budget> {
    let spec = |name: &str, parent: Option<&str>, cap| pb::BudgetSpec {
        name: name.into(),
        parent: parent.map(Into::into),
        cap_micros: cap,
        period: pb::Period::Total.into(),
        soft_limit_micros: Some(20_000_000),
        currency: "USD".into(),
    };
    vec![
        pb::Budget {
            spec: Some(spec("team", Some("company"), 25_000_000)),
            held_micros: 2_375_000,
            posted_micros: 19_168_434,
            overrun_micros: 1_200,
            available_micros: 3_456_566,
            frozen: true,
            fired: vec![
                pb::FiredThreshold { kind: pb::ThresholdKind::Actual.into(), percent: 50 },
                pb::FiredThreshold { kind: pb::ThresholdKind::Committed.into(), percent: 80 },
            ],
            currency: "USD".into(),
            ..pb::Budget::default()
        },
        pb::Budget {
            spec: Some(spec("company", None, 1_000_000_000)),
            available_micros: 1_000_000_000,
            currency: "USD".into(),
            ..pb::Budget::default()
        },
    ]
}

pub fn ledger() -> Vec<pb::LedgerEntry> {
    let run_id = || "j-42-r1".to_owned();
    let path = || vec!["team".to_owned(), "company".to_owned()];
    let (term, from_ms, to_ms) = (pb::Term::Compute.into(), NOW - MINUTE, NOW);
    let budget = || "team".to_owned();
    let kinds = [
        Kind::CapSet(pb::CapSet { budget: budget(), cap_micros: 25_000_000, by: "me".into() }),
        Kind::HoldOpen(pb::HoldOpen { run_id: run_id(), path: path(), amount_micros: 2_375_000 }),
        Kind::HoldExtend(pb::HoldExtend { run_id: run_id(), amount_micros: 950_000 }),
        Kind::Post(pb::Post { run_id: run_id(), amount_micros: 15_834, term, from_ms, to_ms }),
        Kind::HoldClose(pb::HoldClose { run_id: run_id(), released_micros: 3_309_166 }),
        Kind::ForcePost(pb::ForcePost {
            run_id: run_id(),
            path: path(),
            amount_micros: 1_200,
            term,
            from_ms,
            to_ms,
            cause: pb::Overrun::SlowStop.into(),
        }),
        Kind::Adjust(pb::Adjust {
            budget: budget(),
            reference: "invoice 7".into(),
            amount_micros: -500_000,
            source: "me".into(),
        }),
        Kind::Credit(pb::Credit { budget: budget(), reference: "grant".into(), amount_micros: 5_000_000 }),
    ];
    let entry = |(number, kind)| pb::LedgerEntry { number, at_ms: NOW + number as i64, kind: Some(kind) };
    (1..).zip(kinds).map(entry).collect()
}

pub fn endpoints() -> Vec<pb::Endpoint> {
    vec![
        pb::Endpoint {
            name: "ops".into(),
            url: "https://hooks.example.com/leeway".into(),
            types: vec!["leeway.job.state_changed".into(), "leeway.budget.*".into()],
            last_success_ms: Some(NOW - 3 * MINUTE),
            ..pb::Endpoint::default()
        },
        pb::Endpoint {
            name: "old".into(),
            url: "https://old.example.com".into(),
            disabled: Some("failing for 5 days".into()),
            failing_since_ms: Some(NOW - 7_200 * MINUTE),
            failures: 31,
            ..pb::Endpoint::default()
        },
    ]
}

pub fn deliveries() -> Vec<pb::Delivery> {
    vec![pb::Delivery {
        delivery_id: "msg_7".into(),
        endpoint: "old".into(),
        r#type: "leeway.job.state_changed".into(),
        subject: "jobs/j-42".into(),
        state: pb::DeliveryState::Pending.into(),
        at_ms: NOW - 12 * MINUTE,
        attempts: 3,
        next_attempt_ms: Some(NOW + 2 * MINUTE),
        detail: Some("503 Service Unavailable".into()),
    }]
}
