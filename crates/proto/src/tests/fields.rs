//! Each field that can be wrong, made wrong: the error names it.

use leeway_model::Currency;
use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::dataset::Dataset;
use leeway_model::market::{OfferKey, Price};

use crate::convert::webhook::NewEndpoint;
use crate::testing::{minimal_budget_spec, minimal_cluster_spec, minimal_job_spec};
use crate::{Invalid, agent, pb};

const USD: Currency = Currency::USD;

/// A sound job with every optional part present.
fn job() -> pb::JobSpec {
    let mut wire = pb::JobSpec::from_model(&minimal_job_spec(), USD);
    let upload = pb::Upload { sha256: vec![7; 32].into(), size_bytes: 9 };
    wire.resources[0] = pb::ResourceRequest {
        accelerators: Some(pb::Accelerators { model: "A100".into(), count: 1 }),
        cpus: Some(pb::CpuQuantity { milli_cpus: 500, or_more: true }),
        memory: Some(pb::ByteQuantity { amount_bytes: 1 << 30, or_more: true }),
        infra: Some(pb::Infra { region: Some("us-east-1".into()), ..Default::default() }),
        ..Default::default()
    };
    let program = wire.program.as_mut().unwrap();
    program.setup = Some("true".into());
    program.workdir = Some(upload.clone());
    program.mounts.insert("/data/x".into(), upload);
    wire.data.push(pb::DataInput { url: "s3://b/k".into(), ..Default::default() });
    wire.outputs = Some(pb::DataOutput { url: "s3://b/out".into(), ..Default::default() });
    wire.checkpoint = Some(pb::CheckpointPolicy { path: Some("ckpt".into()), keep: 2, ..Default::default() });
    wire.depends_on.push("j-1".into());
    wire.labels.insert("team".into(), "vision".into());
    wire
}

fn refused<T: std::fmt::Debug>(result: Result<T, Invalid>, field: &str, words: &str) {
    let invalid = result.expect_err(&format!("{field} should be refused: {words}"));
    assert_eq!(invalid.field, field, "{invalid}");
    assert!(invalid.message.contains(words), "'{words}' is missing in: {invalid}");
}

fn refused_job(change: impl FnOnce(&mut pb::JobSpec), field: &str, words: &str) {
    let mut wire = job();
    change(&mut wire);
    refused(wire.into_model(USD), field, words);
}

fn program(wire: &mut pb::JobSpec) -> &mut pb::Program {
    wire.program.as_mut().unwrap()
}

#[test]
fn the_base_of_these_tests_is_sound() {
    job().into_model(USD).unwrap();
}

#[test]
fn every_plain_field_of_a_job_is_checked() {
    refused_job(|w| w.name = String::new(), "name", "must not be empty");
    refused_job(|w| w.name = "a\u{202e}b".into(), "name", "U+202E");
    refused_job(|w| w.owner = "../x".into(), "owner", "'../x' is not a name");
    refused_job(|w| w.nodes = 0, "nodes", "0 is out of range; use 1 to 1024");
    refused_job(|w| w.nodes = 1_025, "nodes", "1025 is out of range");
    refused_job(|w| w.program = None, "program", "is missing");
    refused_job(|w| w.depends_on = vec!["j-1".into(), "j-01".into()], "depends_on[1]", "'j-01' is not a job id");
    refused_job(|w| w.depends_on = vec!["j-1".into(); 257], "depends_on", "has 257 items; use 0 to 256");
    refused_job(|w| w.policy = Some("Best".into()), "policy", "'Best' is not a name");
    refused_job(|w| w.currency = "EUR".into(), "currency", "reckons in USD");
    refused_job(|w| w.currency = "usd".into(), "currency", "'usd' is not a currency");
}

#[test]
fn errors_carry_no_control_characters_to_a_terminal() {
    refused_job(|w| w.depends_on = vec!["j-1\u{1b}[31m".into()], "depends_on[0]", "'j-1\\u{1b}[31m' is not a job id");
    refused_job(|w| w.owner = "a\nb".into(), "owner", "'a\\nb' is not a name");
}

#[test]
fn an_empty_currency_means_the_ledgers() {
    let mut wire = job();
    wire.currency.clear();
    wire.into_model(USD).unwrap();
}

#[test]
fn what_a_job_asks_of_a_machine_is_checked() {
    type Change = fn(&mut pb::ResourceRequest);
    let cases: &[(Change, &str, &str)] = &[
        (|r| r.accelerators.as_mut().unwrap().count = 0, "accelerators.count", "use 1 to 1024"),
        (|r| r.accelerators.as_mut().unwrap().model = String::new(), "accelerators.model", "is empty"),
        (|r| r.accelerators.as_mut().unwrap().model = "A 100".into(), "accelerators.model", "without spaces"),
        (|r| r.cpus.as_mut().unwrap().milli_cpus = 0, "cpus.milli_cpus", "out of range"),
        (|r| r.memory.as_mut().unwrap().amount_bytes = 0, "memory.amount_bytes", "out of range"),
        (|r| r.instance_type = Some("x".repeat(129)), "instance_type", "has 129 bytes; use 1 to 128"),
        (|r| r.infra.as_mut().unwrap().region = Some(String::new()), "infra.region", "is empty"),
        (|r| r.infra.as_mut().unwrap().zone = Some("a\nb".into()), "infra.zone", "a\\nb"),
        (|r| r.spot = 9, "spot", "9 is unknown to this version; use one of SPOT_POLICY_SPOT"),
    ];
    for (change, field, words) in cases {
        refused_job(|w| change(&mut w.resources[0]), &format!("resources[0].{field}"), words);
    }
    refused_job(|w| w.resources.clear(), "resources", "has 0 items; use 1 to 64");
    refused_job(|w| w.resources = vec![Default::default(); 65], "resources", "has 65 items");
}

#[test]
fn x_05_environments_are_checked() {
    fn env(key: &str, value: String) -> impl FnOnce(&mut pb::JobSpec) {
        let key = key.to_owned();
        move |w| {
            program(w).env.insert(key, value);
        }
    }
    refused_job(env("A=B", String::new()), "program.env", "'A=B' cannot name a variable");
    refused_job(env("", String::new()), "program.env", "'' cannot name a variable");
    refused_job(env("1A", String::new()), "program.env", "'1A' cannot name a variable");
    refused_job(env("A", "x\0y".into()), "program.env[\"A\"]", "holds a NUL byte at 1");
    refused_job(env("A", "x".repeat(1 << 20)), "program.env[\"A\"]", "has 1048576 bytes; use at most 131072");
    let many = |w: &mut pb::JobSpec| program(w).env.extend((0..1_025).map(|i| (format!("V{i}"), String::new())));
    refused_job(many, "program.env", "has 1025 items; use 0 to 1024");
}

#[test]
fn x_08_labels_are_bounded() {
    let many = |w: &mut pb::JobSpec| w.labels.extend((0..100_000).map(|i| (format!("k{i}"), String::new())));
    refused_job(many, "labels", "use 0 to 64");
    let label = |key: String, value: String| {
        move |w: &mut pb::JobSpec| {
            w.labels.insert(key, value);
        }
    };
    refused_job(label("k".repeat(64), String::new()), "labels", "has 64 bytes; use 1 to 63");
    refused_job(label(String::new(), String::new()), "labels", "is empty");
    refused_job(label("k".into(), "v".repeat(257)), "labels[\"k\"]", "has 257 bytes; use 0 to 256");
    refused_job(label("k".into(), "\u{1b}[31m".into()), "labels[\"k\"]", "U+001B");
}

#[test]
fn programs_are_checked() {
    refused_job(|w| program(w).run.clear(), "program.run", "is empty");
    refused_job(|w| program(w).run = "x".repeat((1 << 20) + 1), "program.run", "use 1 to 1048576");
    refused_job(|w| program(w).setup = Some("a\0".into()), "program.setup", "holds a NUL byte at 1");
    refused_job(|w| program(w).secret_names = vec!["a b".into()], "program.secret_names[0]", "cannot name a variable");
    refused_job(
        |w| program(w).workdir.as_mut().unwrap().sha256 = vec![0; 31].into(),
        "program.workdir.sha256",
        "has 31 bytes; a SHA-256 has 32",
    );
    refused_job(
        |w| program(w).mounts.get_mut("/data/x").unwrap().sha256.clear(),
        "program.mounts[\"/data/x\"].sha256",
        "has 0 bytes",
    );
    refused_job(
        |w| {
            program(w).mounts.insert("a/../../etc".into(), pb::Upload::default());
        },
        "program.mounts",
        "'a/../../etc' must not hold '..'",
    );
}

#[test]
fn money_time_and_data_are_checked() {
    refused_job(|w| w.money.as_mut().unwrap().budget = Some("A".into()), "money.budget", "is not a name");
    for micros in [0, -1, i64::MIN] {
        refused_job(
            |w| w.money.as_mut().unwrap().max_cost_micros = Some(micros),
            "money.max_cost_micros",
            "out of range",
        );
    }
    for millis in [-1, i64::MIN, i64::MAX] {
        refused_job(|w| w.time.as_mut().unwrap().deadline_ms = Some(millis), "time.deadline_ms", "is no instant");
    }
    refused_job(|w| w.data[0].url = "b/k".into(), "data[0].url", "write it with its scheme");
    refused_job(|w| w.data[0].url = "s3://a b".into(), "data[0].url", "without spaces");
    refused_job(|w| w.data[0].region = Some("us-east-1".into()), "data[0].region", "is not a region");
    refused_job(|w| w.data = vec![w.data[0].clone(); 257], "data", "use 0 to 256");
    refused_job(|w| w.outputs.as_mut().unwrap().url = "x".repeat(2_049), "outputs.url", "use 1 to 2048");
}

#[test]
fn t_09_lengths_of_time_lie_between_a_second_and_ten_years() {
    for millis in [0, 999, 316_224_000_001, 1 << 63, u64::MAX] {
        let some = Some(millis);
        refused_job(|w| w.time.as_mut().unwrap().estimate_ms = some, "time.estimate_ms", "(1 s) to");
        refused_job(|w| w.time.as_mut().unwrap().max_duration_ms = some, "time.max_duration_ms", "(1 s) to");
        refused_job(|w| w.time.as_mut().unwrap().deadline_in_ms = some, "time.deadline_in_ms", "(1 s) to");
        refused_job(|w| w.checkpoint.as_mut().unwrap().interval_ms = some, "checkpoint.interval_ms", "(1 s) to");
        refused_job(|w| w.retry.as_mut().unwrap().within_ms = some, "retry.within_ms", "(1 s) to");
    }
    for millis in [1_000, 316_224_000_000] {
        let mut wire = job();
        wire.time.as_mut().unwrap().estimate_ms = Some(millis);
        assert_eq!(wire.into_model(USD).unwrap().time.estimate.unwrap().as_millis(), millis);
    }
}

#[test]
fn checkpoints_and_retries_are_checked() {
    for path in ["/abs", "~/x", "a/../b", "c:\\x", ""] {
        let change = |w: &mut pb::JobSpec| w.checkpoint.as_mut().unwrap().path = Some(path.into());
        refused_job(change, "checkpoint.path", if path.is_empty() { "is empty" } else { "must" });
    }
    refused_job(|w| w.checkpoint.as_mut().unwrap().keep = 0, "checkpoint.keep", "use 1 to 1000");
    refused_job(|w| w.checkpoint.as_mut().unwrap().save_time_ms = Some(u64::MAX), "checkpoint.save_time_ms", "range");
    refused_job(
        |w| w.checkpoint.as_mut().unwrap().restore_time_ms = Some(u64::MAX),
        "checkpoint.restore_time_ms",
        "range",
    );
    refused_job(|w| w.retry.as_mut().unwrap().exit_codes = vec![1, 0], "retry.exit_codes[1]", "use 1 to 255");
    refused_job(|w| w.retry.as_mut().unwrap().exit_codes = vec![1; 65], "retry.exit_codes", "use 0 to 64");
}

#[test]
fn clusters_are_checked() {
    let check = |change: fn(&mut pb::ClusterSpec), field: &str, words: &str| {
        let mut wire = pb::ClusterSpec::from_model(&minimal_cluster_spec(), USD);
        wire.clone().into_model(USD).unwrap();
        change(&mut wire);
        refused(wire.into_model(USD), field, words);
    };
    check(|w| w.name = "A".into(), "name", "is not a name");
    check(|w| w.driver.clear(), "driver", "is not a name");
    check(|w| w.region = "x".into(), "region", "is not a region");
    check(|w| w.zone = Some("a b".into()), "zone", "without spaces");
    check(|w| w.machines.clear(), "machines", "use 1 to 1024");
    check(|w| w.machines.push(w.machines[0].clone()), "machines[1].shape.name", "'small' is there twice");
    check(|w| w.machines[0].shape = None, "machines[0].shape", "is missing");
    check(|w| w.machines[0].count = Some(0), "machines[0].count", "out of range");
    check(|w| w.machines[0].spot_nanos_per_hour = Some(0), "machines[0].spot_nanos_per_hour", "0 is no price");
    check(
        |w| w.machines[0].on_demand_nanos_per_hour = Some(0),
        "machines[0].on_demand_nanos_per_hour",
        "0 is no price",
    );
    check(|w| w.machines[0].shape.as_mut().unwrap().milli_cpus = 0, "machines[0].shape.milli_cpus", "range");
    check(|w| w.machines[0].shape.as_mut().unwrap().memory_bytes = 0, "machines[0].shape.memory_bytes", "range");
    check(|w| w.machines[0].shape.as_mut().unwrap().instance_type.clear(), "machines[0].shape.instance_type", "empty");
    check(|w| w.checkpoints_url = "/var/x".into(), "checkpoints_url", "is not a URL");
    check(|w| w.currency = "EUR".into(), "currency", "reckons in USD");
    check(|w| w.labels.extend((0..65).map(|i| (i.to_string(), String::new()))), "labels", "use 0 to 64");
}

#[test]
fn budgets_are_checked() {
    let check = |change: fn(&mut pb::SetBudgetRequest), field: &str, words: &str| {
        let spec = Some(pb::BudgetSpec::from_model(&minimal_budget_spec(), USD));
        let mut wire = pb::SetBudgetRequest { spec, actor: String::new() };
        assert_eq!(wire.clone().into_model(USD).unwrap().1.as_str(), "operator");
        change(&mut wire);
        refused(wire.into_model(USD), field, words);
    };
    check(|w| w.spec = None, "spec", "is missing");
    check(|w| w.actor = "A B".into(), "actor", "is not a name");
    check(|w| w.spec.as_mut().unwrap().name.clear(), "spec.name", "is not a name");
    check(|w| w.spec.as_mut().unwrap().parent = Some("team".into()), "spec.parent", "cannot be part of itself");
    check(|w| w.spec.as_mut().unwrap().cap_micros = -1, "spec.cap_micros", "-1 is out of range");
    check(|w| w.spec.as_mut().unwrap().soft_limit_micros = Some(i64::MIN), "spec.soft_limit_micros", "out of range");
    check(|w| w.spec.as_mut().unwrap().period = 7, "spec.period", "7 is unknown to this version");
    check(|w| w.spec.as_mut().unwrap().currency = "EUR".into(), "spec.currency", "reckons in USD");
}

#[test]
fn offers_prices_and_checkpoints_are_checked() {
    let key = pb::OfferKey { cluster: "a".into(), shape: "b".into(), capacity: 1 };
    refused(OfferKey::try_from(pb::OfferKey { cluster: "A".into(), ..key.clone() }), "cluster", "is not a name");
    refused(OfferKey::try_from(pb::OfferKey { shape: String::new(), ..key.clone() }), "shape", "is not a name");
    refused(OfferKey::try_from(pb::OfferKey { capacity: 0, ..key.clone() }), "capacity", "is not set; use one of");

    let price = pb::Price { rate_nanos_per_hour: 1, currency: "EUR".into(), observed_ms: 1, source: 3 };
    assert!(Price::try_from(price.clone()).is_ok());
    refused(Price::try_from(pb::Price { currency: "e".into(), ..price.clone() }), "currency", "'e' is not a currency");
    refused(Price::try_from(pb::Price { observed_ms: -5, ..price.clone() }), "observed_ms", "-5 is no instant");
    refused(Price::try_from(pb::Price { source: 0, ..price }), "source", "is not set");

    refused(CheckpointId::try_from(pb::CheckpointId { epoch: 0, seq: 1 }), "epoch", "out of range");
    refused(CheckpointId::try_from(pb::CheckpointId { epoch: 1, seq: 0 }), "seq", "out of range");
    let reference = pb::CheckpointRef {
        id: Some(pb::CheckpointId { epoch: 1, seq: 1 }),
        manifests: vec![vec![1; 32].into()],
        base_url: "file:///x".into(),
        region: "local/a".into(),
        ..Default::default()
    };
    assert!(CheckpointRef::try_from(reference.clone()).is_ok());
    let with = |change: fn(&mut pb::CheckpointRef)| {
        let mut wire = reference.clone();
        change(&mut wire);
        CheckpointRef::try_from(wire)
    };
    refused(with(|w| w.id = None), "id", "is missing");
    refused(with(|w| w.id.as_mut().unwrap().seq = 0), "id.seq", "out of range");
    refused(with(|w| w.manifests.clear()), "manifests", "use 1 to 1024");
    refused(with(|w| w.manifests.push(vec![1].into())), "manifests[1]", "has 1 bytes; a SHA-256 has 32");
    refused(with(|w| w.base_url = "x".into()), "base_url", "is not a URL");
    refused(with(|w| w.region.clear()), "region", "is not a region");
}

#[test]
fn observations_are_refused_one_by_one_and_bounded_together() {
    let key = Some(pb::OfferKey { cluster: "a".into(), shape: "b".into(), capacity: 1 });
    let price = Some(pb::Price { rate_nanos_per_hour: 1, currency: "USD".into(), observed_ms: 1, source: 3 });
    let request = pb::ObserveMarketRequest {
        prices: vec![
            pb::PriceObservation { offer: key.clone(), price: price.clone() },
            pb::PriceObservation { offer: None, price },
        ],
        capacities: vec![pb::CapacityObservation { offer: key, available: Some(0) }, Default::default()],
    };
    let observations = request.into_model().unwrap();
    assert!(observations.prices[0].is_ok() && observations.capacities[0].is_ok());
    refused(observations.prices[1].clone(), "offer", "is missing");
    refused(observations.capacities[1].clone(), "offer", "is missing");
    let many = pb::ObserveMarketRequest { prices: vec![Default::default(); 10_001], capacities: vec![] };
    refused(many.into_model(), "prices", "has 10001 items");
}

#[test]
fn datasets_and_endpoints_are_checked() {
    let replica = pb::Replica { region: "aws/us-east-1".into(), url: "s3://b".into() };
    let dataset =
        |replicas: Vec<pb::Replica>| Dataset::try_from(pb::Dataset { name: "d".into(), size_bytes: 1, replicas });
    assert!(dataset(vec![replica.clone()]).is_ok());
    refused(dataset(vec![]), "replicas", "use 1 to 64");
    refused(dataset(vec![replica.clone(), replica.clone()]), "replicas[1].region", "is there twice");
    refused(dataset(vec![pb::Replica { url: "b".into(), ..replica }]), "replicas[0].url", "is not a URL");

    let endpoint = |change: fn(&mut pb::AddEndpointRequest)| {
        let mut wire = pb::AddEndpointRequest {
            name: "ops".into(),
            url: "https://example.com/hook".into(),
            types: vec!["leeway.job.state_changed".into(), "leeway.budget.*".into(), "*".into()],
            secret: None,
        };
        change(&mut wire);
        NewEndpoint::try_from(wire)
    };
    assert!(endpoint(|_| ()).is_ok());
    refused(endpoint(|w| w.name = "a/b".into()), "name", "is not a name");
    refused(endpoint(|w| w.url = "file:///etc/passwd".into()), "url", "must begin with https:// or http://");
    refused(endpoint(|w| w.types.push("leeway*x".into())), "types[3]", "'leeway*x' is no event type");
    refused(endpoint(|w| w.types.push("leeway.jo*".into())), "types[3]", "is no event type");
    refused(endpoint(|w| w.types = vec!["*".into(); 65]), "types", "use 0 to 64");
    let short = |w: &mut pb::AddEndpointRequest| w.secret = Some(pb::SecretValue { value: "hush".into() });
    refused(endpoint(short), "secret", "its length 4 is out of range; use 24 to 64");
}

#[test]
fn what_agents_say_is_checked() {
    let caller = pb::AgentCaller { run_id: "j-1-r2".into(), rank: 0, token: vec![1; 32].into(), sequence: 1 };
    let commit = |change: fn(&mut pb::CommitCheckpointRequest)| {
        let mut wire = pb::CommitCheckpointRequest {
            caller: Some(caller.clone()),
            seq: 1,
            manifest_sha256: vec![1; 32].into(),
            ..Default::default()
        };
        change(&mut wire);
        agent::Commit::try_from(wire)
    };
    assert!(commit(|_| ()).is_ok());
    refused(commit(|w| w.caller = None), "caller", "is missing");
    refused(commit(|w| w.caller.as_mut().unwrap().run_id = "j-1".into()), "caller.run_id", "is not a run id");
    refused(commit(|w| w.caller.as_mut().unwrap().run_id = "j-1-r0".into()), "caller.run_id", "out of range");
    refused(commit(|w| w.caller.as_mut().unwrap().rank = 1_024), "caller.rank", "use 0 to 1023");
    refused(commit(|w| w.caller.as_mut().unwrap().token.clear()), "caller.token", "has 0 bytes");
    refused(commit(|w| w.seq = 0), "seq", "out of range");
    refused(commit(|w| w.manifest_sha256.clear()), "manifest_sha256", "has 0 bytes");
    refused(commit(|w| w.save_time_ms = Some(u64::MAX)), "save_time_ms", "out of range");

    let exit = |exit| {
        agent::ExitReport::try_from(pb::ReportExitRequest {
            caller: Some(caller.clone()),
            exit,
            during_notice: false,
            phase: 3,
        })
    };
    use pb::report_exit_request::Exit;
    assert_eq!(exit(Some(Exit::Signal(9))).unwrap().exit.code(), 137);
    refused(exit(None), "exit", "is missing");
    refused(exit(Some(Exit::ExitCode(256))), "exit_code", "use 0 to 255");
    refused(exit(Some(Exit::Signal(0))), "signal", "use 1 to 64");
    refused(exit(Some(Exit::AgentError("x".repeat(5_000)))), "agent_error", "use 0 to 4096");

    let notice = |time_left_ms, source: &str| {
        let (caller, source) = (Some(caller.clone()), source.to_owned());
        agent::NoticeReport::try_from(pb::ReportNoticeRequest { caller, time_left_ms, source })
    };
    assert!(notice(120_000, "slurm").is_ok());
    refused(notice(u64::MAX, "slurm"), "time_left_ms", "out of range");
    refused(notice(1, ""), "source", "is empty; it must be set");

    let phase = |phase, restored, restored_step| {
        let caller = Some(caller.clone());
        agent::PhaseReport::try_from(pb::ReportPhaseRequest { caller, phase, restored, restored_step })
    };
    let id = Some(pb::CheckpointId { epoch: 1, seq: 4 });
    assert!(phase(3, id, Some(7)).is_ok() && phase(1, None, None).is_ok());
    refused(phase(0, None, None), "phase", "is not set; use one of AGENT_PHASE_SETUP");
    refused(phase(3, id, None), "restored_step", "is missing");
    refused(phase(3, None, Some(7)), "restored", "is missing");
    refused(phase(1, id, Some(7)), "restored", "belongs only to AGENT_PHASE_RUNNING");
    refused(agent::chunk(&vec![0; (1 << 20) + 1]), "data", "send at most 1048576");
}
