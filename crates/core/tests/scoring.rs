//! Each term of the bill against sums done by hand, and what holds of every bill.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::Config;
use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::checkpoint::{CheckpointId, CheckpointRef, Interval};
use leeway_model::cluster::ClusterSpec;
use leeway_model::dataset::{Dataset, Replica};
use leeway_model::decision::{Assumption, Candidate, Rule};
use leeway_model::egress::{EgressSpec, ProviderSpec, RuleSpec, TierSpec, Unit};
use leeway_model::job::{DataInput, DataOutput, JobSpec, JobState, Progress};
use leeway_model::market::InterruptionBelief;
use leeway_model::resources::CapacityType::{self, OnDemand, Spot};
use leeway_model::{Bytes, InstallationId, Micros, Millis, Term};
use proptest::prelude::*;
use support::{Desk, cluster, dollars, job, name, offer, usd};

/// Launch and restore take six minutes, disk costs 0.0001 a GB and hour, staging brings 18 GB in six minutes; between
/// regions of aws the first 10 GB of a month are free, then 0.02 a GB; V100 has speed 1 and A100 speed 2.
fn config() -> Config {
    let tier = |from, price: &str| TierSpec { from, price: price.into() };
    let rule = RuleSpec { from: "*".into(), to: "*".into(), tiers: vec![tier(0, "0"), tier(10, "0.02")] };
    let aws =
        ProviderSpec { unit: Unit::Gb, same_region: vec![tier(0, "0")], groups: Default::default(), rules: vec![rule] };
    let mut config = Config::new(InstallationId(name("test")), name("whole-bill"));
    config.egress = EgressSpec { providers: [("aws".into(), aws)].into(), pairs: vec![] }.table().unwrap();
    config.estimates.launch_time = Millis::from_mins(6);
    config.estimates.bandwidth = Bytes::new(50_000_000);
    config.estimates.speeds = [("A100".into(), 2.0)].into();
    config.money.disk_gb = usd("0.0001");
    config
}

/// One region with a machine at 3.00 on demand and 1.00 on the spot market.
fn desk() -> Desk {
    let mut desk = Desk::with(config());
    desk.apply(Event::ClusterRegistered { spec: cluster("east", "aws/us-east-1", 8, "1.00", "3.00") });
    desk.budget("team", None, "10000");
    desk
}

/// Ten hours of work that saves every hour, 36 seconds each time.
fn work(change: impl FnOnce(&mut JobSpec)) -> JobSpec {
    let mut spec = job("train");
    spec.time.estimate = Some(Millis::from_hours(10));
    if let Some(policy) = spec.checkpoint.as_mut() {
        policy.interval = Interval::Every(Millis::from_hours(1));
        policy.save_time = Some(Millis::from_secs(36));
        policy.restore_time = Some(Millis::from_mins(6));
    }
    change(&mut spec);
    spec
}

fn look(desk: &Desk, spec: JobSpec, capacity: CapacityType) -> Candidate {
    let all = desk.scheduler.dry_run(spec).unwrap();
    let found = all.candidates.iter().find(|candidate| candidate.offer == offer("east", capacity));
    found.unwrap_or_else(|| panic!("{:?}", all.rejections)).clone()
}

/// A term is a sum rounded up to a micro-unit.
#[track_caller]
fn check(spec: JobSpec, capacity: CapacityType, term: Term, expected: &str) {
    check_at(&desk(), spec, capacity, term, expected);
}

#[track_caller]
fn check_at(desk: &Desk, spec: JobSpec, capacity: CapacityType, term: Term, expected: &str) {
    let amount = look(desk, spec, capacity).bill.get(term);
    let above = amount.get() - dollars(expected).get();
    assert!((0..=1).contains(&above), "{term} is {amount}, by hand {expected}");
}

fn input(region: Option<&str>, size: Option<u64>) -> DataInput {
    DataInput {
        url: "s3://corpus".into(),
        region: region.map(|text| text.parse().unwrap()),
        size: size.map(Bytes::from_gb),
    }
}

fn output(region: &str, size: Option<u64>) -> DataOutput {
    DataOutput { url: "s3://out".into(), region: region.parse().ok(), size: size.map(Bytes::from_gb) }
}

#[test]
fn compute_is_the_price_of_the_whole_gang_for_the_time_left_at_its_speed() {
    check(work(|_| {}), OnDemand, Term::Compute, "30");
    check(work(|_| {}), Spot, Term::Compute, "10");
    check(work(|spec| spec.nodes = 4), OnDemand, Term::Compute, "120");
    let mut fast = Desk::with(config());
    let mut spec: ClusterSpec = cluster("east", "aws/us-east-1", 8, "1.00", "3.00");
    let a100 = leeway_model::resources::Accelerators { model: "A100".into(), count: 1 };
    spec.machines[0].shape.accelerators = Some(a100.clone());
    fast.apply(Event::ClusterRegistered { spec });
    fast.budget("team", None, "10000");
    let on_a100 = work(|spec| spec.resources[0].accelerators = Some(a100));
    check_at(&fast, on_a100, OnDemand, Term::Compute, "15");
}

/// A job at a quarter of its steps with a checkpoint of 20 GB elsewhere.
fn resumed(checkpoint: &str) -> (Desk, leeway_model::JobId) {
    let mut desk = desk();
    desk.apply(Event::SpaceChanged { short: true });
    let id = desk.submit(work(|_| {}));
    desk.restart(
        |_| {},
        |job| {
            job.progress = Progress { step: 400, total: Some(1_000) };
            job.checkpoint = Some(reference(checkpoint));
        },
    );
    (desk, id)
}

fn reference(region: &str) -> CheckpointRef {
    CheckpointRef {
        id: CheckpointId { epoch: 1, seq: 1 },
        step: 250,
        size: Bytes::from_gb(20),
        manifests: vec![[0; 32]],
        base: "file:///checkpoints".into(),
        region: region.parse().unwrap(),
    }
}

#[test]
fn a_job_pays_again_for_the_steps_after_its_checkpoint_and_for_moving_it() {
    for (region, moved) in [("aws/us-east-1", "0"), ("aws/us-west-2", "0.2"), ("onprem/berlin", "2.4")] {
        let (desk, id) = resumed(region);
        let evaluation = desk.scheduler.explain(id).unwrap().evaluation.unwrap();
        let there = evaluation.candidates.iter().find(|there| there.offer == offer("east", OnDemand)).unwrap();
        assert_eq!(there.bill.get(Term::Compute), dollars("22.5"), "a quarter is saved, not two fifths");
        assert_eq!(there.bill.get(Term::CheckpointMove), dollars(moved), "from {region}");
        assert_eq!(there.assumed.contains(&Assumption::EgressPrice), region == "onprem/berlin");
    }
}

#[test]
fn saving_costs_its_pauses_on_spot_and_nothing_where_nothing_interrupts() {
    check(work(|_| {}), Spot, Term::Checkpoints, "0.1");
    check(work(|spec| spec.nodes = 4), Spot, Term::Checkpoints, "0.4");
    check(work(|_| {}), OnDemand, Term::Checkpoints, "0");
    check(work(|spec| spec.checkpoint = None), Spot, Term::Checkpoints, "0");
}

#[test]
fn rework_with_checkpoints_is_half_an_interval_and_a_restart_for_each_interruption() {
    // 0.05 interruptions an hour x 10.1 hours x (half an hour + 12 minutes).
    check(work(|_| {}), Spot, Term::Rework, "0.3535");
    // A gang of four is interrupted four times as often, and four machines work again.
    check(work(|spec| spec.nodes = 4), Spot, Term::Rework, "5.656");
    check(work(|_| {}), OnDemand, Term::Rework, "0");
}

#[test]
fn rework_without_checkpoints_starts_from_nothing_every_time() {
    // (e^0.5 - 1) x (20 hours + 6 minutes) - 10 hours.
    check(work(|spec| spec.checkpoint = None), Spot, Term::Rework, "3.039297");
    check(work(|spec| spec.checkpoint = None), OnDemand, Term::Rework, "0");
}

#[test]
fn inputs_and_outputs_are_priced_by_the_tier_and_are_free_at_home() {
    let from = |region: &'static str, gb| work(move |spec| spec.data = vec![input(Some(region), Some(gb))]);
    check(from("aws/us-west-2", 18), OnDemand, Term::InputEgress, "0.16");
    check(from("aws/us-west-2", 10), OnDemand, Term::InputEgress, "0");
    check(from("aws/us-east-1", 5_000), OnDemand, Term::InputEgress, "0");
    let to = |region: &'static str, gb| work(move |spec| spec.outputs = Some(output(region, Some(gb))));
    check(to("aws/us-west-2", 60), OnDemand, Term::OutputEgress, "1");
    check(to("aws/us-east-1", 60), OnDemand, Term::OutputEgress, "0");
}

#[test]
fn the_transfers_of_one_bill_go_up_the_tiers_together() {
    let two =
        work(|spec| spec.data = vec![input(Some("aws/us-west-2"), Some(9)), input(Some("aws/us-west-2"), Some(9))]);
    check(two, OnDemand, Term::InputEgress, "0.16");
    let there_and_back = work(|spec| {
        spec.data = vec![input(Some("aws/us-west-2"), Some(9))];
        spec.outputs = Some(output("aws/us-west-2", Some(9)));
    });
    check(there_and_back.clone(), OnDemand, Term::InputEgress, "0");
    check(there_and_back, OnDemand, Term::OutputEgress, "0.16");
    let mut desk = desk();
    desk.apply(Event::SpaceChanged { short: true });
    let other = desk.submit(work(|spec| spec.data = vec![input(Some("aws/us-west-2"), Some(10))]));
    desk.restart(|_| {}, |job| job.checkpoint = Some(reference("aws/us-west-2")));
    let evaluation = desk.scheduler.explain(other).unwrap().evaluation.unwrap();
    let there = evaluation.candidates.iter().find(|there| there.offer == offer("east", OnDemand)).unwrap();
    assert_eq!(there.bill.get(Term::CheckpointMove), dollars("0.4"), "the inputs used up what is free");
}

fn dataset(replicas: &[&str]) -> Event {
    let replica = |region: &&str| Replica { region: region.parse().unwrap(), url: "s3://copy".into() };
    let replicas = replicas.iter().map(replica).collect();
    Event::DatasetRegistered { dataset: Dataset { name: name("corpus"), size: Bytes::from_gb(60), replicas } }
}

fn reading(url: &str) -> JobSpec {
    work(|spec| spec.data = vec![DataInput { url: url.into(), region: None, size: None }])
}

#[test]
fn a_dataset_is_brought_from_its_cheapest_replica_and_has_its_own_size() {
    for (replicas, expected) in [
        (&["aws/us-west-2"][..], "1"),
        (&["onprem/berlin", "aws/us-west-2"], "1"),
        (&["aws/us-west-2", "aws/us-east-1"], "0"),
        (&["onprem/berlin"], "7.2"),
    ] {
        let mut desk = desk();
        desk.apply(dataset(replicas));
        check_at(&desk, reading("dataset://corpus"), OnDemand, Term::InputEgress, expected);
        let assumed = look(&desk, reading("dataset://corpus/"), OnDemand).assumed;
        assert_eq!(assumed.contains(&Assumption::EgressPrice), replicas == ["onprem/berlin"], "{replicas:?}");
        assert!(!assumed.contains(&Assumption::InputSize), "the dataset has its size");
    }
}

#[test]
fn an_input_without_any_replica_is_rejected_everywhere_and_starts_when_one_is_declared() {
    for url in ["dataset://corpus", "dataset://other", "dataset://No Name"] {
        let mut desk = desk();
        desk.apply(dataset(&[]));
        let rejected = desk.scheduler.dry_run(reading(url)).unwrap();
        assert!(rejected.candidates.is_empty());
        for rejection in &rejected.rejections {
            assert_eq!(rejection.rule, Rule::DataUnreachable);
            assert!(rejection.detail.starts_with(&format!("input {url} has no replica")), "{}", rejection.detail);
        }
        assert_eq!(rejected.rejections.len(), 2);
        let id = desk.submit(reading(url));
        let like = desk.submit(work(|_| {}));
        assert_eq!(desk.state(id), JobState::Pending);
        assert_eq!(desk.scheduler.reason(desk.job(id)).unwrap().code.as_ref(), "DATA_UNREACHABLE");
        assert_eq!(desk.state(like), JobState::Starting, "one that asks for the same machines is not held up");
        desk.restart(|_| {}, |_| {});
        desk.pass(Millis::from_hours(2));
        assert_eq!(desk.scheduler.reason(desk.job(id)).unwrap().code.as_ref(), "DATA_UNREACHABLE");
        desk.apply(dataset(&["aws/us-west-2"]));
        assert_eq!(desk.state(id) == JobState::Starting, url == "dataset://corpus", "{url}");
    }
}

#[test]
fn a_dataset_is_not_removed_while_an_unfinished_job_reads_it() {
    let mut desk = desk();
    desk.apply(dataset(&["aws/us-west-2"]));
    let id = desk.submit(reading("dataset://corpus"));
    let removal = || Event::DatasetRemoved { dataset: name("corpus") };
    let Reply::Refused(refused) = desk.apply(removal()) else { panic!("it was removed") };
    assert_eq!(refused.code, "DATASET_IN_USE");
    assert!(refused.message.contains(&id.to_string()), "{}", refused.message);
    let run = desk.newest(id);
    desk.up(run);
    desk.exit(run, 0);
    assert_eq!(desk.apply(removal()), Reply::Done);
}

#[test]
fn disk_and_waiting_are_paid_for_the_whole_time_with_launch_and_staging() {
    let disk = |spec: &mut JobSpec| spec.resources[0].disk = Some(Bytes::from_gb(100));
    check(work(disk), OnDemand, Term::Disk, "0.101");
    check(work(|_| {}), OnDemand, Term::Disk, "0");
    let worth = |spec: &mut JobSpec| spec.money.value_per_hour = Some(usd("2"));
    check(work(worth), OnDemand, Term::Waiting, "20.2");
    let far = |spec: &mut JobSpec| {
        worth(spec);
        spec.data = vec![input(Some("aws/us-west-2"), Some(18))];
    };
    check(work(far), OnDemand, Term::Waiting, "20.4");
    // 10 hours + 0.1 of launch + 0.1 of saving + 0.3535 of rework.
    check(work(worth), Spot, Term::Waiting, "21.107");
    assert_eq!(look(&desk(), work(far), OnDemand).expected_time, Millis::from_mins(612));
}

#[test]
fn c_14_an_unknown_size_is_bounded_and_flagged() {
    let check = |spec: JobSpec, term, expected: &str| {
        let there = look(&desk(), spec, OnDemand);
        assert_eq!(there.bill.get(term), dollars(expected));
        assert_eq!(there.assumed, [Assumption::InputSize], "INPUT_SIZE_UPPER_BOUND");
    };
    // 100 GB are assumed, 10 of them free.
    check(work(|spec| spec.data = vec![input(Some("aws/us-west-2"), None)]), Term::InputEgress, "1.8");
    check(work(|spec| spec.outputs = Some(output("aws/us-west-2", None))), Term::OutputEgress, "1.8");
    assert_eq!(Assumption::InputSize.code(), "INPUT_SIZE_UPPER_BOUND");
}

#[test]
fn c_15_an_unknown_egress_price_is_bounded_and_flagged_and_never_zero() {
    let spec = work(|spec| spec.data = vec![input(Some("onprem/berlin"), Some(50))]);
    let there = look(&desk(), spec, OnDemand);
    assert_eq!(there.bill.get(Term::InputEgress), dollars("6"));
    assert_eq!(there.assumed.iter().map(|what| what.code()).collect::<Vec<_>>(), ["EGRESS_UPPER_BOUND"]);
    let nowhere = look(&desk(), work(|spec| spec.data = vec![input(None, Some(50))]), OnDemand);
    assert_eq!(nowhere.bill.get(Term::InputEgress), dollars("6"));
    assert_eq!(nowhere.assumed.iter().map(|what| what.code()).collect::<Vec<_>>(), ["INPUT_REGION_UNKNOWN"]);
}

#[test]
fn an_unknown_running_time_is_the_installations_and_flagged() {
    let there = look(&desk(), work(|spec| spec.time.estimate = None), OnDemand);
    assert_eq!(there.bill.get(Term::Compute), dollars("3"));
    assert_eq!(there.assumed.iter().map(|what| what.code()).collect::<Vec<_>>(), ["ESTIMATE_ASSUMED"]);
    assert!(look(&desk(), work(|_| {}), OnDemand).assumed.is_empty());
}

#[test]
fn a_job_is_advised_the_interval_that_costs_least_and_keeps_its_own() {
    let interval = |change: fn(&mut JobSpec)| {
        let mut desk = desk();
        let id = desk.submit(work(change));
        desk.run(desk.newest(id)).interval
    };
    // Young: sqrt(2 x 36 s x 20 hours).
    assert_eq!(
        interval(|spec| spec.checkpoint.as_mut().unwrap().interval = Interval::Auto),
        Some(Millis::new(2_276_840))
    );
    // A gang of four has a quarter of the time between interruptions, hence half the interval.
    let gang = |spec: &mut JobSpec| {
        spec.nodes = 4;
        spec.checkpoint.as_mut().unwrap().interval = Interval::Auto;
    };
    assert_eq!(interval(gang), Some(Millis::new(1_138_420)));
    assert_eq!(interval(|_| {}), Some(Millis::from_hours(1)));
    assert_eq!(interval(|spec| spec.checkpoint = None), None);
}

/// The bill at `east` after so much was seen of its spot machines.
fn after_history(spec: &JobSpec, belief: InterruptionBelief) -> Candidate {
    let mut desk = desk();
    desk.restart(|row| row.belief = belief, |_| {});
    look(&desk, spec.clone(), Spot)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn more_interruptions_are_never_cheaper_and_no_term_is_ever_negative(
        hours in 0_u64..3_000,
        interruptions in 0_u32..2_000,
        more in 0_u32..2_000,
        estimate in 1_u64..1_000_000,
        auto: bool,
        keeps: bool,
        nodes in 1_u32..8,
    ) {
        let spec = work(|spec| {
            spec.nodes = nodes;
            spec.time.estimate = Some(Millis::from_secs(estimate));
            spec.money.value_per_hour = Some(usd("1"));
            match (keeps, &mut spec.checkpoint) {
                (true, Some(policy)) if auto => policy.interval = Interval::Auto,
                (true, _) => {}
                (false, checkpoint) => *checkpoint = None,
            }
        });
        let belief = |interruptions| InterruptionBelief { exposure: Millis::from_hours(hours), interruptions, saved: 0 };
        let (calm, rough) =
            (after_history(&spec, belief(interruptions)), after_history(&spec, belief(interruptions + more)));
        for (term, amount) in calm.bill.terms() {
            prop_assert!(amount >= Micros::ZERO, "{term} is {amount}");
        }
        // A float's last digit may round a term up by one micro-unit.
        let slack = Micros::new(8);
        prop_assert!(calm.bill.total() <= rough.bill.total().saturating_add(slack));
        prop_assert!(calm.expected_time <= rough.expected_time);
    }

    #[test]
    fn the_bill_of_parts_in_sequence_is_the_bill_of_their_sum(parts in proptest::collection::vec(0_u64..40, 1..6)) {
        let bill = |parts: &[u64]| {
            let data = parts.iter().map(|gb| input(Some("aws/us-west-2"), Some(*gb))).collect();
            look(&desk(), work(|spec| spec.data = data), OnDemand).bill
        };
        prop_assert_eq!(bill(&parts), bill(&[parts.iter().sum()]));
    }

    #[test]
    fn nearer_or_smaller_data_is_never_dearer(gb in 0_u64..100_000, more in 0_u64..100_000, sized: bool) {
        let at = |region: &str, size: Option<u64>| {
            look(&desk(), work(|spec| spec.data = vec![input(Some(region), size)]), OnDemand).bill.total()
        };
        let size = sized.then_some(gb);
        let [here, near, far] = ["aws/us-east-1", "aws/us-west-2", "onprem/berlin"].map(|region| at(region, size));
        prop_assert!(here <= near && near <= far);
        prop_assert!(at("aws/us-west-2", Some(gb)) <= at("aws/us-west-2", Some(gb + more)));
    }
}
