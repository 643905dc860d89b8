//! Generators of valid values, for property tests here and in other crates, and the smallest valid ones to start from.

use std::collections::BTreeMap;

use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::checkpoint::{CheckpointId, CheckpointPolicy, CheckpointRef, Interval};
use leeway_model::cluster::{ClusterSpec, Machines, Region};
use leeway_model::dataset::{Dataset, Replica};
use leeway_model::decision::{Assumption, Candidate, Decision, Rejection, RejectionCount, Rule};
use leeway_model::job::{DataInput, DataOutput, JobSpec, MoneyTerms, Program, RetryPolicy, TimeTerms, Upload};
use leeway_model::market::{OfferKey, Price, Source};
use leeway_model::resources::{
    Accelerators, CapacityType, Infra, MachineShape, MilliCpus, Quantity, ResourceRequest, SpotPolicy,
};
use leeway_model::{Bill, Bytes, Currency, JobId, Micros, Millis, Name, Rate, RunId, Term, Text, Timestamp};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::limits::{INSTANT_MAX_MS, LENGTH_MAX_MS, NODES_MAX};

fn known<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().expect("the text is a valid constant")
}

/// A job that asks for any machine and runs `true`.
pub fn minimal_job_spec() -> JobSpec {
    JobSpec {
        name: known("minimal"),
        owner: known("nobody"),
        nodes: 1,
        resources: vec![ResourceRequest::default()],
        ordered: false,
        priority: 0,
        program: Program { run: "true".into(), ..Program::default() },
        money: MoneyTerms::default(),
        time: TimeTerms::default(),
        data: Vec::new(),
        outputs: None,
        checkpoint: None,
        retry: RetryPolicy::default(),
        depends_on: Vec::new(),
        policy: None,
        labels: BTreeMap::new(),
    }
}

/// A local cluster of one shape with one price.
pub fn minimal_cluster_spec() -> ClusterSpec {
    let shape = MachineShape {
        name: known("small"),
        instance_type: "small".into(),
        cpus: MilliCpus(1_000),
        memory: Bytes::from_gib(1),
        accelerators: None,
        disk: Bytes::ZERO,
    };
    let on_demand = Some(Rate::from_micros(1_000_000));
    ClusterSpec {
        name: known("local-a"),
        driver: known("local"),
        region: known("local/a"),
        zone: None,
        machines: vec![Machines { shape, count: Some(2), on_demand, spot: None, reserved: None }],
        checkpoints: "file:///var/lib/leeway/checkpoints".into(),
        labels: BTreeMap::new(),
    }
}

/// A budget of 100 units.
pub fn minimal_budget_spec() -> BudgetSpec {
    BudgetSpec {
        name: known("team"),
        parent: None,
        cap: Micros::from_units(100),
        period: Period::Total,
        soft_limit: None,
    }
}

pub fn arb_name() -> impl Strategy<Value = Name> {
    "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?".prop_map(|text| known(&text))
}

pub fn arb_text() -> impl Strategy<Value = Text> {
    r"[a-zA-Zäéß🚂 ._-]{0,20}[a-z]".prop_map(|text| known(&text))
}

pub fn arb_region() -> impl Strategy<Value = Region> {
    "[a-z]{2,6}/[a-z]{2}-[a-z]{3,8}-[0-9]".prop_map(|text| known(&text))
}

fn arb_word() -> impl Strategy<Value = Box<str>> {
    r"[!-~]{1,40}".prop_map(Into::into)
}

fn arb_url() -> impl Strategy<Value = Box<str>> {
    "(s3|gs|file|dataset)://[a-zA-Z0-9./_-]{1,40}".prop_map(Into::into)
}

fn arb_bytes() -> impl Strategy<Value = Bytes> {
    any::<u64>().prop_map(Bytes::new)
}

fn arb_rate() -> impl Strategy<Value = Rate> {
    any::<u64>().prop_map(Rate::from_nanos)
}

pub fn arb_instant() -> impl Strategy<Value = Timestamp> {
    (0..=INSTANT_MAX_MS).prop_map(Timestamp::from_millis)
}

fn arb_length() -> impl Strategy<Value = Millis> {
    (1_000..=LENGTH_MAX_MS).prop_map(Millis::new)
}

fn arb_measured() -> impl Strategy<Value = Millis> {
    (0..=LENGTH_MAX_MS).prop_map(Millis::new)
}

fn arb_labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[a-z./é-]{1,30}", "[ -~ü]{0,30}", 0..6)
}

fn arb_script() -> impl Strategy<Value = Box<str>> {
    r"[ -~\n\tü]{1,80}".prop_map(Into::into)
}

pub fn arb_accelerators() -> impl Strategy<Value = Accelerators> {
    ("[A-Z0-9-]{1,20}", 1..=1_024_u32).prop_map(|(model, count)| Accelerators { model: model.into(), count })
}

pub fn arb_upload() -> impl Strategy<Value = Upload> {
    (any::<[u8; 32]>(), arb_bytes()).prop_map(|(sha256, size)| Upload { sha256, size })
}

fn quantity<T: std::fmt::Debug + Clone>(amount: impl Strategy<Value = T>) -> impl Strategy<Value = Quantity<T>> {
    (amount, any::<bool>()).prop_map(|(amount, or_more)| Quantity { amount, or_more })
}

pub fn arb_resource_request() -> impl Strategy<Value = ResourceRequest> {
    let infra = (option::of(arb_word()), option::of(arb_word()), option::of(arb_word()))
        .prop_map(|(cluster_or_provider, region, zone)| Infra { cluster_or_provider, region, zone });
    let machine = (
        option::of(arb_accelerators()),
        option::of(quantity((1..=u32::MAX).prop_map(MilliCpus))),
        option::of(quantity((1..=u64::MAX).prop_map(Bytes::new))),
        option::of(arb_bytes()),
        option::of(arb_word()),
    );
    let spot = select(vec![SpotPolicy::Spot, SpotPolicy::OnDemand, SpotPolicy::Auto]);
    (machine, infra, spot, option::of(arb_rate())).prop_map(
        |((accelerators, cpus, memory, disk, instance_type), infra, spot, max_hourly_cost)| ResourceRequest {
            accelerators,
            cpus,
            memory,
            disk,
            instance_type,
            infra,
            spot,
            max_hourly_cost,
        },
    )
}

pub fn arb_program() -> impl Strategy<Value = Program> {
    (
        option::of(arb_script()),
        arb_script(),
        btree_map("[A-Z_][A-Z0-9_]{0,12}", r"[ -~\nü]{0,40}", 0..6),
        option::of(arb_upload()),
        btree_map("(/|~/)?[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,3}", arb_upload(), 0..4),
    )
        .prop_map(|(setup, run, env, workdir, mounts)| Program {
            setup,
            run,
            env,
            secrets: BTreeMap::new(),
            workdir,
            mounts,
        })
}

pub fn arb_checkpoint_policy() -> impl Strategy<Value = CheckpointPolicy> {
    (
        option::of("[a-z0-9]{1,8}(/[a-z0-9]{1,8}){0,3}".prop_map(Into::into)),
        option::of(arb_length()).prop_map(|length| length.map_or(Interval::Auto, Interval::Every)),
        option::of(arb_bytes()),
        option::of(arb_measured()),
        option::of(arb_measured()),
        1..=1_000_u32,
        any::<bool>(),
    )
        .prop_map(|(path, interval, size, save_time, restore_time, keep, restart_without)| CheckpointPolicy {
            path,
            interval,
            size,
            save_time,
            restore_time,
            keep,
            restart_without,
        })
}

pub fn arb_retry_policy() -> impl Strategy<Value = RetryPolicy> {
    (any::<u32>(), any::<u32>(), option::of(any::<u32>()), option::of(arb_length()), vec(1..=255, 0..6)).prop_map(
        |(user_failures, infrastructure_failures, interruptions, within, exit_codes)| RetryPolicy {
            user_failures,
            infrastructure_failures,
            interruptions,
            within,
            exit_codes,
        },
    )
}

/// Any valid spec without secrets: those travel beside it.
pub fn arb_job_spec() -> impl Strategy<Value = JobSpec> {
    let what = (arb_text(), arb_name(), 1..=NODES_MAX, any::<bool>(), any::<i32>(), arb_program());
    let money = (option::of(arb_name()), option::of(1..=i64::MAX), option::of(arb_rate())).prop_map(
        |(budget, max_cost, value_per_hour)| MoneyTerms { budget, max_cost: max_cost.map(Micros::new), value_per_hour },
    );
    let time = (option::of(arb_instant()), option::of(arb_length()), option::of(arb_length()))
        .prop_map(|(deadline, estimate, max_duration)| TimeTerms { deadline, estimate, max_duration });
    let place = || (arb_url(), option::of(arb_region()), option::of(arb_bytes()));
    let data = vec(place().prop_map(|(url, region, size)| DataInput { url, region, size }), 0..4);
    let outputs = option::of(place().prop_map(|(url, region, size)| DataOutput { url, region, size }));
    let terms = (vec(arb_resource_request(), 1..4), money, time, data, outputs);
    let rest = (
        option::of(arb_checkpoint_policy()),
        arb_retry_policy(),
        vec(any::<u64>().prop_map(JobId), 0..4),
        option::of(arb_name()),
        arb_labels(),
    );
    (what, terms, rest).prop_map(
        |(
            (name, owner, nodes, ordered, priority, program),
            (resources, money, time, data, outputs),
            (checkpoint, retry, depends_on, policy, labels),
        )| JobSpec {
            name,
            owner,
            nodes,
            resources,
            ordered,
            priority,
            program,
            money,
            time,
            data,
            outputs,
            checkpoint,
            retry,
            depends_on,
            policy,
            labels,
        },
    )
}

pub fn arb_machine_shape() -> impl Strategy<Value = MachineShape> {
    (arb_name(), arb_word(), 1..=u32::MAX, 1..=u64::MAX, option::of(arb_accelerators()), arb_bytes()).prop_map(
        |(name, instance_type, cpus, memory, accelerators, disk)| MachineShape {
            name,
            instance_type,
            cpus: MilliCpus(cpus),
            memory: Bytes::new(memory),
            accelerators,
            disk,
        },
    )
}

pub fn arb_cluster_spec() -> impl Strategy<Value = ClusterSpec> {
    let price = || option::of((1..=u64::MAX).prop_map(Rate::from_nanos));
    let machines = (arb_machine_shape(), option::of(1..=u32::MAX), price(), price(), option::of(arb_rate()))
        .prop_map(|(shape, count, on_demand, spot, reserved)| Machines { shape, count, on_demand, spot, reserved });
    let machines = vec(machines, 1..5).prop_map(|mut machines: Vec<Machines>| {
        machines.sort_by(|a, b| a.shape.name.cmp(&b.shape.name));
        machines.dedup_by(|a, b| a.shape.name == b.shape.name);
        machines
    });
    (arb_name(), arb_name(), arb_region(), option::of(arb_word()), machines, arb_url(), arb_labels()).prop_map(
        |(name, driver, region, zone, machines, checkpoints, labels)| ClusterSpec {
            name,
            driver,
            region,
            zone,
            machines,
            checkpoints,
            labels,
        },
    )
}

pub fn arb_budget_spec() -> impl Strategy<Value = BudgetSpec> {
    (arb_name(), option::of(arb_name()), 0..=i64::MAX, option::of(0..=i64::MAX))
        .prop_filter("no budget is its own parent", |(name, parent, ..)| parent.as_ref() != Some(name))
        .prop_map(|(name, parent, cap, soft_limit)| BudgetSpec {
            name,
            parent,
            cap: Micros::new(cap),
            period: Period::Total,
            soft_limit: soft_limit.map(Micros::new),
        })
}

pub fn arb_dataset() -> impl Strategy<Value = Dataset> {
    (arb_name(), arb_bytes(), btree_set(arb_region(), 1..4), arb_url()).prop_map(|(name, size, regions, url)| {
        let replicas = regions.into_iter().map(|region| Replica { region, url: url.clone() }).collect();
        Dataset { name, size, replicas }
    })
}

pub fn arb_checkpoint_ref() -> impl Strategy<Value = CheckpointRef> {
    let id = (1..=u64::MAX, 1..=u64::MAX).prop_map(|(epoch, seq)| CheckpointId { epoch, seq });
    (id, any::<u64>(), arb_bytes(), vec(any::<[u8; 32]>(), 1..5), arb_url(), arb_region())
        .prop_map(|(id, step, size, manifests, base, region)| CheckpointRef { id, step, size, manifests, base, region })
}

pub fn arb_offer_key() -> impl Strategy<Value = OfferKey> {
    (arb_name(), arb_name(), select(CapacityType::ALL.to_vec())).prop_map(|(cluster, shape, capacity)| OfferKey {
        cluster,
        shape,
        capacity,
    })
}

pub fn arb_price() -> impl Strategy<Value = Price> {
    let source = select(vec![Source::Declared, Source::Catalog, Source::Feed, Source::Trace]);
    (arb_rate(), "[A-Z]{3}", arb_instant(), source).prop_map(|(rate, currency, observed, source)| Price {
        rate,
        currency: known::<Currency>(&currency),
        observed,
        source,
    })
}

pub fn arb_bill() -> impl Strategy<Value = Bill> {
    any::<[i64; 8]>().prop_map(|amounts| {
        let mut bill = Bill::default();
        for (term, amount) in Term::ALL.into_iter().zip(amounts) {
            bill.set(term, Micros::new(amount));
        }
        bill
    })
}

pub fn arb_candidate() -> impl Strategy<Value = Candidate> {
    let assumption =
        select(vec![Assumption::Estimate, Assumption::EgressPrice, Assumption::InputSize, Assumption::InputRegion]);
    (arb_offer_key(), arb_price(), arb_bill(), any::<u64>(), vec(assumption, 0..4)).prop_map(
        |(offer, price, bill, time, assumed)| Candidate {
            offer,
            price,
            bill,
            expected_time: Millis::new(time),
            assumed,
        },
    )
}

pub fn arb_decision() -> impl Strategy<Value = Decision> {
    let run = (any::<u64>(), any::<u64>()).prop_map(|(job, epoch)| RunId { job: JobId(job), epoch });
    let rejected = (select(Rule::ALL.to_vec()), any::<u32>(), arb_offer_key(), arb_script()).prop_map(
        |(rule, count, offer, detail)| RejectionCount { rule, count, example: Rejection { offer, rule, detail } },
    );
    (
        (run, arb_instant(), arb_name(), arb_script(), any::<i64>()),
        (arb_candidate(), vec(arb_candidate(), 0..3), vec(rejected, 0..4)),
    )
        .prop_map(|((run, at, policy, why, held), (chosen, others, rejected))| Decision {
            run,
            at,
            policy,
            chosen,
            others,
            rejected,
            why,
            held: Micros::new(held),
        })
}
