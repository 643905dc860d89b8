//! Values of single fields: what they become, and what is refused with which range.

mod support;

use leeway_jobfile::{Code, Dependency, limits, parse};
use leeway_model::checkpoint::Interval;
use leeway_model::resources::SpotPolicy;
use leeway_model::{Bytes, JobId, Micros, Millis, Rate};
use support::{check, context, context_with, errors, job, mistake, one};

#[test]
fn accelerators_are_taken_in_all_four_forms() {
    let read = |text: &str| {
        let spec = job(&format!("resources:\n  accelerators: {text}")).spec;
        let all: Vec<_> = spec.resources.iter().map(|r| r.accelerators.as_ref().unwrap().to_string()).collect();
        (all.join(" "), spec.ordered)
    };
    for (text, accelerators, ordered) in [
        ("V100", "V100:1", false),
        ("'V100:8'", "V100:8", false),
        ("v100:8", "V100:8", false),
        ("{V100: 8}", "V100:8", false),
        ("[A100:8, V100:4]", "A100:8 V100:4", true),
        ("[A100:8]", "A100:8", false),
        ("{A100:1, V100:2}", "A100:1 V100:2", false),
        ("{A100: 1, V100: 2}", "A100:1 V100:2", false),
        ("{'A100-40GB:1', 'T4:1', 'T4:4'}", "A100:1 T4:1 T4:4", false),
        ("tpu-v5p-8", "tpu-v5p-8:1", false),
    ] {
        assert_eq!(read(text), (accelerators.to_owned(), ordered), "{text}");
    }
    for text in [
        "'V100:0'",
        "'V100:-1'",
        "'V100:0.5'",
        "'V100:08'",
        "'V100:9999'",
        "'V100:'",
        "{V100: 0}",
        "{V100: .nan}",
        "{V100: 1e1}",
    ] {
        let (code, _, message) = mistake(&format!("resources:\n  accelerators: {text}"));
        assert_eq!(code, Code::OutOfRange, "{message}");
    }
    for text in ["':8'", "'V 100:8'", "'../x'", "[]", "{}", "'V100:8:8'"] {
        assert!(parse(&format!("run: x\nresources:\n  accelerators: {text}"), &context()).is_err(), "{text}");
    }
    check("resources: {accelerators: 8}", Code::WrongType, "resources.accelerators");
    check("resources: {accelerators: [8]}", Code::WrongType, "resources.accelerators[0]");
    check("resources: {accelerators: {V100: many}}", Code::WrongType, "resources.accelerators.V100");
}

#[test]
fn amounts_of_machines_are_exact_or_at_least() {
    let machine = job("resources: {cpus: 0.5, memory: 1.5+, disk_size: 256GB}").spec.resources.remove(0);
    assert_eq!(machine.cpus.map(|cpus| (cpus.amount.0, cpus.or_more)), Some((500, false)));
    assert_eq!(machine.memory.map(|memory| (memory.amount, memory.or_more)), Some((Bytes::new(3 << 29), true)));
    assert_eq!(machine.disk, Some(Bytes::from_gb(256)));
    for (field, value, code) in [
        ("cpus", "0", Code::OutOfRange),
        ("cpus", "0.0001", Code::OutOfRange),
        ("cpus", "99999999999999999999", Code::OutOfRange),
        ("cpus", "-4", Code::OutOfRange),
        ("cpus", ".inf", Code::InvalidValue),
        ("cpus", "1e3", Code::InvalidValue),
        ("cpus", "010", Code::InvalidValue),
        ("cpus", "4x", Code::InvalidValue),
        ("cpus", "[4]", Code::WrongType),
        ("cpus", "true", Code::WrongType),
        ("memory", "0", Code::OutOfRange),
        ("memory", "-1", Code::OutOfRange),
        ("memory", ".nan", Code::InvalidValue),
        ("memory", "0x10", Code::InvalidValue),
        ("memory", "4 parsecs", Code::InvalidValue),
        ("memory", "99999999999999999999GB", Code::InvalidValue),
        ("disk_size", "0", Code::OutOfRange),
        ("disk_size", "-5", Code::OutOfRange),
        ("disk_size", "1_000", Code::InvalidValue),
        ("disk_size", "99999999999999999999", Code::InvalidValue),
        ("max_hourly_cost", "0", Code::OutOfRange),
        ("max_hourly_cost", "-3.5", Code::OutOfRange),
        ("max_hourly_cost", ".nan", Code::InvalidValue),
        ("max_hourly_cost", "1e999", Code::InvalidValue),
        ("max_hourly_cost", "99999999999999999999", Code::OutOfRange),
        ("max_hourly_cost", "3.5 EUR", Code::InvalidValue),
        ("priority", "1001", Code::OutOfRange),
        ("priority", "99999999999999999999", Code::OutOfRange),
        ("priority", "1.0", Code::InvalidValue),
        ("priority", "high", Code::WrongType),
        ("use_spot", "NO", Code::WrongType),
        ("use_spot", "1", Code::WrongType),
        ("instance_type", "'; rm -rf /'", Code::InvalidValue),
        ("infra", "a/b/c/d", Code::InvalidValue),
        ("infra", "../etc", Code::InvalidValue),
        ("infra", "'aws/us east'", Code::InvalidValue),
        ("zone", "'..'", Code::InvalidValue),
    ] {
        check(&format!("resources: {{{field}: {value}}}"), code, &format!("resources.{field}"));
    }
    let price = |text: &str| job(&format!("resources: {{max_hourly_cost: {text}}}")).spec.resources[0].max_hourly_cost;
    assert_eq!(price("3.06"), Some(Rate::from_nanos(3_060_000_000)));
    assert_eq!(price("2.5 USD"), price("2.50"));
}

#[test]
fn places_leave_open_what_they_do_not_say() {
    let place = |text: &str| {
        let infra = job(&format!("resources: {{{text}}}")).spec.resources.remove(0).infra;
        let part = |part: Option<Box<str>>| part.map_or_else(|| "*".to_owned(), String::from);
        [part(infra.cluster_or_provider), part(infra.region), part(infra.zone)].join(" ")
    };
    assert_eq!(place("infra: '*'"), "* * *");
    assert_eq!(place("infra: AWS"), "aws * *");
    assert_eq!(place("infra: aws/us-east-1/us-east-1a"), "aws us-east-1 us-east-1a");
    assert_eq!(place("infra: '*/*/us-east-1a'"), "* * us-east-1a");
    assert_eq!(place("infra: k8s/team/ctx"), "kubernetes team/ctx *");
    assert_eq!(place("cloud: gcp, region: us-central1"), "gcp us-central1 *");
    // Older fields of an alternative take the rest from the base, as SkyPilot's do.
    let spec = job("resources: {cloud: aws, any_of: [{region: us-west-2}, {infra: gcp}]}").spec;
    let infra: Vec<_> =
        spec.resources.iter().map(|r| (r.infra.cluster_or_provider.as_deref(), r.infra.region.as_deref())).collect();
    assert_eq!(infra, [(Some("aws"), Some("us-west-2")), (Some("gcp"), None)]);
}

#[test]
fn spot_is_what_the_file_says_and_otherwise_the_policys_choice() {
    let spot = |lines: &str| job(lines).spec.resources[0].spot;
    assert_eq!(spot(""), SpotPolicy::Auto);
    assert_eq!(spot("resources: {use_spot: true}"), SpotPolicy::Spot);
    assert_eq!(spot("resources: {use_spot: false}"), SpotPolicy::OnDemand);
    assert_eq!(spot("spot_policy: on-demand"), SpotPolicy::OnDemand);
    check("spot_policy: on_demand", Code::InvalidValue, "spot_policy");
    check("spot_policy: true", Code::WrongType, "spot_policy");
    assert!(job("").notes.iter().any(|note| note.contains("no checkpoint")));
    assert!(job("spot_policy: on-demand").notes.is_empty());
}

#[test]
fn t_09_lengths_of_time_have_a_unit_and_a_range() {
    assert_eq!(job("max_duration: 1h 30m").spec.time.max_duration, Some(Millis::from_mins(90)));
    assert_eq!(job("estimate: 4h").spec.time.estimate, Some(Millis::from_hours(4)));
    for field in ["max_duration", "estimate"] {
        for (value, code) in [
            ("-5m", Code::OutOfRange),
            ("0s", Code::OutOfRange),
            ("999ms", Code::OutOfRange),
            ("11000d", Code::OutOfRange),
            ("9223372036854775808h", Code::InvalidValue),
            ("5 fortnights", Code::InvalidValue),
            ("1.5h", Code::InvalidValue),
            ("90", Code::InvalidValue),
            ("[1h]", Code::WrongType),
        ] {
            let lines = format!("{field}: {value}");
            let (found, path, text) = mistake(&lines);
            assert_eq!((found, path.as_str()), (code, field), "{text}");
            assert!(code == Code::WrongType || text.contains("1 s to 10 years"), "{text}");
        }
    }
}

#[test]
fn k_17_an_absurd_checkpoint_interval_is_refused_with_the_range() {
    let interval = |text: &str| job(&format!("checkpoint: {{interval: {text}}}")).spec.checkpoint.unwrap().interval;
    assert_eq!(interval("auto"), Interval::Auto);
    assert_eq!(interval("10m"), Interval::Every(Millis::from_mins(10)));
    for value in ["0s", "-10m", "8d", "500ms", "0", "10", "never"] {
        let (_, path, text) = mistake(&format!("checkpoint: {{interval: {value}}}"));
        assert_eq!(path, "checkpoint.interval");
        assert!(text.contains("1 s to 7 days, or auto"), "{text}");
    }
    let kept = job("checkpoint: {}").spec.checkpoint.unwrap();
    assert_eq!((kept.keep, kept.restart_without, kept.interval), (3, false, Interval::Auto));
    for (line, path) in [
        ("keep: 0", "checkpoint.keep"),
        ("size: 0GB", "checkpoint.size"),
        ("size: 50", "checkpoint.size"),
        ("size: -1GB", "checkpoint.size"),
        ("save_time: 0ms", "checkpoint.save_time"),
        ("restore_time: 2d", "checkpoint.restore_time"),
        ("path: /abs", "checkpoint.path"),
        ("path: a/../b", "checkpoint.path"),
        ("path: ~/c", "checkpoint.path"),
        ("path: 'c:\\x'", "checkpoint.path"),
        ("on_no_checkpoint: ignore", "checkpoint.on_no_checkpoint"),
        ("interval:", "checkpoint.interval"),
    ] {
        assert_eq!(mistake(&format!("checkpoint:\n  {line}")).1, path);
    }
}

#[test]
fn money_states_its_currency_and_is_never_a_float() {
    assert_eq!(job("max_cost: 25 USD").spec.money.max_cost, Some(Micros::from_units(25)));
    assert_eq!(job("max_cost: $0.000001").spec.money.max_cost, Some(Micros::new(1)));
    assert_eq!(job("value_per_hour: 0 USD").spec.money.value_per_hour, Some(Rate::ZERO));
    for (value, code) in [
        ("25", Code::InvalidValue),
        ("25 EUR", Code::InvalidValue),
        ("0 USD", Code::OutOfRange),
        ("-5 USD", Code::OutOfRange),
        (".nan", Code::InvalidValue),
        ("NaN USD", Code::InvalidValue),
        ("1e3 USD", Code::InvalidValue),
        ("99999999999999999999 USD", Code::InvalidValue),
        ("0.0000001 USD", Code::InvalidValue),
        ("[25 USD]", Code::WrongType),
    ] {
        check(&format!("max_cost: {value}"), code, "max_cost");
    }
    check("max_cost:", Code::MissingField, "max_cost");
    check("value_per_hour: -1 USD", Code::OutOfRange, "value_per_hour");
    let euros = leeway_jobfile::Context { currency: "EUR".parse().unwrap(), ..context() };
    assert!(parse("run: x\nmax_cost: 25 EUR", &euros).is_ok());
    assert!(parse("run: x\nresources: {max_hourly_cost: 3.5}", &euros).is_err(), "a bare price is in USD");
}

#[test]
fn deadlines_are_instants_ahead_or_lengths_from_now() {
    let now = context().now;
    assert_eq!(job("deadline: +6h").spec.time.deadline, Some(now.after(Millis::from_hours(6))));
    assert_eq!(job("deadline: +6h").deadline_in, Some(Millis::from_hours(6)));
    assert_eq!(job("deadline: 2026-03-14T13:00:00Z").spec.time.deadline, Some(now.after(Millis::from_hours(1))));
    assert_eq!(job("deadline: 2026-03-14T13:00:00Z").deadline_in, None);
    for (value, code) in [
        ("2026-03-14T12:00:00Z", Code::OutOfRange),
        ("2126-03-14T12:00:00Z", Code::OutOfRange),
        ("+0s", Code::OutOfRange),
        ("+9999999d", Code::OutOfRange),
        ("2026-03-15", Code::InvalidValue),
        ("2026-02-30T00:00:00Z", Code::InvalidValue),
        ("6h", Code::InvalidValue),
        ("1773500000", Code::InvalidValue),
        ("{}", Code::WrongType),
    ] {
        check(&format!("deadline: {value}"), code, "deadline");
    }
}

#[test]
fn nodes_are_a_plain_whole_number_within_the_limit() {
    assert_eq!(job("num_nodes: 1024").spec.nodes, 1_024);
    for (value, code) in [
        ("0", Code::OutOfRange),
        ("-1", Code::OutOfRange),
        ("1025", Code::OutOfRange),
        ("99999999999999999999", Code::OutOfRange),
        ("2.0", Code::InvalidValue),
        ("1e1", Code::InvalidValue),
        ("0x2", Code::InvalidValue),
        (".nan", Code::InvalidValue),
        ("010", Code::WrongType),
        ("'2'", Code::WrongType),
        ("yes", Code::WrongType),
    ] {
        check(&format!("num_nodes: {value}"), code, "num_nodes");
    }
}

#[test]
fn recovery_in_both_forms_becomes_a_policy_and_allowances() {
    let spec = job("resources: {job_recovery: failover}").spec;
    assert_eq!(spec.policy.unwrap().as_str(), "failover");
    let spec = job("resources: {spot_recovery: EAGER_NEXT_REGION}").spec;
    assert_eq!(spec.policy.unwrap().as_str(), "failover");
    let spec = job("resources: {job_recovery: {max_restarts_on_errors: 3, recover_on_exit_codes: 42}}").spec;
    assert_eq!((spec.policy, spec.retry.user_failures, spec.retry.exit_codes), (None, 3, vec![42]));
    assert_eq!(job("resources: {job_recovery: none}").spec.policy, None);
    check("resources: {job_recovery: HOPE}", Code::InvalidValue, "resources.job_recovery");
    check("resources: {job_recovery: [FAILOVER]}", Code::WrongType, "resources.job_recovery");
    for line in ["max_restarts_on_errors: -1", "recover_on_exit_codes: 256", "recover_on_exit_codes: [0]"] {
        let (code, _, text) = mistake(&format!("resources:\n  job_recovery:\n    {line}"));
        assert_eq!(code, Code::OutOfRange, "{text}");
    }
}

#[test]
fn an_event_that_is_not_listed_is_not_retried() {
    let retry = job("retry: {on_events: [interruption]}").spec.retry;
    assert_eq!((retry.user_failures, retry.infrastructure_failures, retry.interruptions), (0, 0, None));
    let retry = job("retry: {on_events: [failure], duration: 1h}").spec.retry;
    assert!(retry.user_failures > 0 && retry.interruptions == Some(0) && retry.within == Some(Millis::from_hours(1)));
    let retry = job("retry: {interruptions: unlimited, infrastructure_failures: 0}").spec.retry;
    assert_eq!((retry.interruptions, retry.infrastructure_failures), (None, 0));
    check("retry: {on_events: [failure]}", Code::MissingField, "retry.on_events");
    check("retry: {on_events: [interuption]}", Code::InvalidValue, "retry.on_events[0]");
    check("retry: {on_events: interruption}", Code::WrongType, "retry.on_events");
    check("retry: {user_failures: unlimited}", Code::WrongType, "retry.user_failures");
    check("retry: {user_failures: -1}", Code::OutOfRange, "retry.user_failures");
    check("retry: {interruptions: 99999999999}", Code::OutOfRange, "retry.interruptions");
}

#[test]
fn x_01_x_02_names_are_identities_or_text_for_people() {
    assert_eq!(job("name: 'e\u{301}tude'").spec.name.as_str(), "\u{e9}tude");
    for name in ["\"a\\nb\"", "\"\\u202E\"", "''", &format!("'{}'", "x".repeat(257))] {
        check(&format!("name: {name}"), Code::InvalidValue, "name");
    }
    check("name: 12", Code::WrongType, "name");
    check("name: true", Code::WrongType, "name");
    for field in ["owner", "budget", "policy"] {
        for value in ["../x", "/etc", "A", "a_b", "'a\\b'", "\"a\\0b\"", "ä"] {
            check(&format!("{field}: {value}"), Code::InvalidValue, field);
        }
    }
    assert_eq!(job("owner: team-b").spec.owner.as_str(), "team-b");
    assert_eq!(job("").spec.owner.as_str(), "alice");
}

#[test]
fn x_05_variables_that_no_process_could_be_given_are_refused_with_the_limit() {
    for name in ["'A=B'", "\"A\\0\"", "''", "1A", "'A B'", "ä", "LEEWAY_EPOCH"] {
        let (code, _, text) = mistake(&format!("envs: {{{name}: x}}"));
        assert_eq!(code, Code::InvalidValue, "{text}");
    }
    check("envs: {A: \"x\\0y\"}", Code::InvalidValue, "envs.A");
    check("envs: [A]", Code::WrongType, "envs");
    check("envs: {A: [x]}", Code::WrongType, "envs.A");
    let value = "v".repeat(limits::MAX_VALUE_BYTES);
    assert_eq!(job(&format!("envs: {{A: {value}}}")).spec.program.env["A"], value);
    let (code, _, text) = mistake(&format!("envs: {{A: {value}v}}"));
    assert!(code == Code::OutOfRange && text.contains("131072"), "{text}");
    let four: String = ["A", "B", "C", "D"].iter().map(|name| format!("  {name}: {value}\n")).collect();
    let (code, _, text) = mistake(&format!("envs:\n{four}"));
    assert!(code == Code::OutOfRange && text.contains("524288"), "{text}");
}

#[test]
fn values_from_the_command_line_go_first_and_to_the_secret_when_the_name_is_one() {
    let text = "run: x\nenvs: {A: file, B:}\nsecrets: {TOKEN: null}";
    let given = context_with(&[("A", "given"), ("B", "2"), ("TOKEN", "s3cret"), ("NEW", "n")]);
    let job = parse(text, &given).unwrap().remove(0);
    let env: Vec<_> = job.spec.program.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=given", "B=2", "NEW=n"]);
    assert_eq!(job.secrets["TOKEN"], "s3cret");
    assert!(job.spec.program.secrets.is_empty());
    for shown in [format!("{job:?}"), format!("{job:#?}"), format!("{given:?}")] {
        assert!(!shown.contains("s3cret") && shown.contains("TOKEN"), "{shown}");
    }
    check("envs: {B:}", Code::MissingField, "envs.B");
    check("secrets: {TOKEN:}", Code::MissingField, "secrets.TOKEN");
    let bad = parse("run: x", &context_with(&[("A=B", "x"), ("C", "\0")])).unwrap_err();
    assert_eq!(bad.as_slice().len(), 2, "{bad}");
}

#[test]
fn no_error_shows_a_secret() {
    for lines in [
        "secrets: {T: \"hunter2\\0\"}",
        "secrets: hunter2",
        "secrets: [hunter2]",
        "secrets: {T: [hunter2]}",
        "secrets: {T: hunter2}\nenvs: {T: x}",
        "data: [{url: 's3://user:hunter2@host/x'}]",
        "inputs: {'s3://user:hunter2@host/x': 1}",
        "outputs: {'s3://user:hunter2@host/x': 1}",
        "secrets: {T: hunter2, T: hunter2}",
        "secrets: {T: hunter2}\nworkdir: ./$T",
    ] {
        let errors = errors(&format!("run: x\n{lines}"));
        assert!(!errors.to_string().contains("hunter2"), "{errors}");
        assert!(!format!("{errors:?}").contains("hunter2"), "{errors:?}");
    }
}

#[test]
fn x_08_labels_have_a_limit() {
    let labels = |count: usize| (0..count).map(|i| format!("  l{i}: v\n")).collect::<String>();
    assert_eq!(job(&format!("labels:\n{}", labels(64))).spec.labels.len(), 64);
    for count in [65, 20_000] {
        let (code, _, text) = mistake(&format!("labels:\n{}", labels(count)));
        assert!(code == Code::TooMany && text.contains("64"), "{text}");
    }
    check("labels: {'a b': c}", Code::InvalidValue, "labels.a b");
    check("labels: {a: \"x\\ny\"}", Code::OutOfRange, "labels.a");
    check("labels: {a: true}", Code::WrongType, "labels.a");
    assert_eq!(job("labels: {rev: 007}").spec.labels["rev"], "007");
}

#[test]
fn variables_are_filled_into_paths_and_urls_or_refused() {
    let job = job(
        "envs: {NAME: cats}\nworkdir: ./$NAME/x\ninputs: {'s3://b/${NAME}/all': 0.5}\nfile_mounts: {'d/$NAME': a.txt}",
    );
    assert_eq!(job.workdir.unwrap().to_str(), Some("/home/alice/project/cats/x"));
    assert_eq!((&*job.spec.data[0].url, job.spec.data[0].size), ("s3://b/cats/all", Some(Bytes::new(500_000_000))));
    assert_eq!(job.mounts["d/cats"].to_str(), Some("/home/alice/project/a.txt"));
    for path in ["./$NONE", "./${NONE}", "./${NONE", "./$"] {
        check(&format!("workdir: {path}"), Code::InvalidValue, "workdir");
    }
}

#[test]
fn mounts_stay_inside_the_job_and_come_from_local_files() {
    assert_eq!(job("file_mounts: {etc/x: /opt/x, ~/y: ~/y}").mounts["~/y"].to_str(), Some("/home/alice/y"));
    for target in ["a/../../etc", "'..'", "~", "~/", "~bob/x", ".", "./", "'c:\\x'", "\"a\\nb\"", "''", "s3://x"] {
        let (code, _, text) = mistake(&format!("file_mounts: {{{target}: a}}"));
        assert_eq!(code, Code::InvalidValue, "{text}");
    }
    check("file_mounts: {/a:}", Code::MissingField, "file_mounts./a");
    check("file_mounts: {/a: 5}", Code::WrongType, "file_mounts./a");
    check("file_mounts: [/a]", Code::WrongType, "file_mounts");
    for both in ["{x: a, $A: b}", "{x: a, ./x: b}", "{x: a, x/: b}", "{~/x: a, ~//x: b}"] {
        check(&format!("envs: {{A: x}}\nfile_mounts: {both}"), Code::Conflict, "file_mounts");
    }
    let homeless = leeway_jobfile::Context { home: None, ..context() };
    assert!(parse("run: x\nworkdir: ~/x", &homeless).unwrap_err().to_string().contains("home folder"));
}

#[test]
fn an_absolute_mount_is_refused_at_launch_with_where_it_can_go() {
    for (target, advice) in [
        ("/data", "write 'data' (relative to the working directory) or '~/data'"),
        ("//configs/./a.yaml", "write 'configs/a.yaml'"),
        ("/", "relative to the working directory"),
        ("/../x", "relative to the working directory"),
    ] {
        let (code, path, text) = mistake(&format!("file_mounts: {{{target}: a}}"));
        assert_eq!((code, path), (Code::NotSupported, format!("file_mounts.{target}")), "{text}");
        assert!(text.contains("every run of the machine would share") && text.contains(advice), "{text}");
    }
    let (_, _, text) = mistake("envs: {WHERE: /data}\nfile_mounts: {$WHERE: a}");
    assert!(text.contains("absolute path"), "{text}");
}

#[test]
fn a_secret_is_never_empty_and_the_advice_says_how_to_give_it() {
    for text in ["secrets: {TOKEN:}", "secrets: {TOKEN: null}", "secrets: {TOKEN: \"\"}", "secrets: {TOKEN: ''}"] {
        let (code, path, told) = mistake(text);
        assert_eq!((code, path.as_str()), (Code::MissingField, "secrets.TOKEN"), "{told}");
        assert!(told.contains("--secret TOKEN takes it from your environment"), "{told}");
    }
    let text = "run: x\nsecrets: {TOKEN: ''}";
    assert_eq!(parse(text, &context_with(&[("TOKEN", "s3cret")])).unwrap()[0].secrets["TOKEN"], "s3cret");
    let empty = parse(text, &context_with(&[("TOKEN", "")])).unwrap_err();
    assert_eq!(empty.as_slice()[0].code, Code::MissingField, "{empty}");
    assert_eq!(job("envs: {PLAIN: ''}").spec.program.env["PLAIN"], "");
}

#[test]
fn data_says_where_and_how_much_or_stays_unknown() {
    let spec = job("data: [{url: 's3://b/x'}]").spec;
    assert_eq!((spec.data[0].region.is_none(), spec.data[0].size), (true, None));
    assert_eq!(job("inputs: {gs://b: }").spec.data[0].size, None);
    for (lines, code, path) in [
        ("data: [{size: 5GB}]", Code::MissingField, "data[0].url"),
        ("data: [{url: nowhere}]", Code::InvalidValue, "data[0].url"),
        ("data: [{url: 's3://'}]", Code::InvalidValue, "data[0].url"),
        ("data: [{url: 's3://a b'}]", Code::InvalidValue, "data[0].url"),
        ("data: [{url: 'S3://a'}]", Code::InvalidValue, "data[0].url"),
        ("data: [{url: 's3://b', region: us-east-1}]", Code::InvalidValue, "data[0].region"),
        ("data: [{url: 's3://b', size: 5}]", Code::InvalidValue, "data[0].size"),
        ("data: [{url: 's3://b', size: 2000000TB}]", Code::OutOfRange, "data[0].size"),
        ("data: {url: 's3://b'}", Code::WrongType, "data"),
        ("inputs: {s3://b: -5}", Code::OutOfRange, "inputs.s3://b"),
        ("inputs: {s3://b: .nan}", Code::InvalidValue, "inputs.s3://b"),
        ("inputs: {s3://b: 1e3}", Code::InvalidValue, "inputs.s3://b"),
        ("outputs: {s3://b: 1, s3://c: 2}", Code::TooMany, "outputs"),
        ("outputs: [s3://b]", Code::WrongType, "outputs"),
    ] {
        check(lines, code, path);
    }
}

#[test]
fn the_commands_are_required_and_are_text() {
    for (text, code) in [
        ("name: x", Code::MissingField),
        ("run:", Code::MissingField),
        ("run: ''", Code::InvalidValue),
        ("run: true", Code::WrongType),
        ("run: 5", Code::WrongType),
        ("run: [ls]", Code::WrongType),
        ("run: \"a\\0\"", Code::InvalidValue),
    ] {
        let errors = errors(text);
        assert_eq!((errors.as_slice()[0].code, errors.as_slice()[0].path.as_str()), (code, "run"), "{errors}");
    }
}

#[test]
fn documents_may_wait_for_each_other_and_not_in_a_circle() {
    let text = "name: a\nrun: x\ndepends_on: []\n---\nname: b\nrun: x\ndepends_on: [a, j-7, a]\n---\nname: c\nrun: x\n";
    let jobs = parse(text, &context()).unwrap();
    assert_eq!(jobs[0].depends_on, []);
    assert_eq!(jobs[1].depends_on, [Dependency::Document(0), Dependency::Job(JobId(7))]);
    assert_eq!(jobs[2].depends_on, [], "a file that says depends_on is no chain");

    let circle =
        "name: a\nrun: x\ndepends_on: c\n---\nname: b\nrun: x\ndepends_on: a\n---\nname: c\nrun: x\ndepends_on: [b]\n";
    let found = errors(circle);
    assert_eq!(found.as_slice()[0].code, Code::DependencyCycle);
    assert!(found.to_string().contains("a -> c -> b -> a"), "{found}");
    assert_eq!(errors("name: a\nrun: x\ndepends_on: a").as_slice()[0].code, Code::DependencyCycle);

    let twice = errors("name: a\nrun: x\n---\nname: a\nrun: x\n---\nname: b\nrun: x\ndepends_on: a\n");
    assert!(twice.to_string().contains("2 documents"), "{twice}");
    let near = errors("name: prepare\nrun: x\n---\nrun: x\ndepends_on: [prepaer]\n");
    assert!(near.to_string().contains("did you mean 'prepare'?"), "{near}");
    assert_eq!(near.as_slice()[0].path, "document 2.depends_on[0]");
    check("depends_on: [j-012]", Code::UnknownDependency, "depends_on[0]");
    check("depends_on: [12]", Code::WrongType, "depends_on[0]");
    check("depends_on: {a: b}", Code::WrongType, "depends_on");
}

#[test]
fn a_single_document_is_no_pipeline_and_a_header_is_no_job() {
    assert_eq!(one("run: x").depends_on, []);
    let jobs = parse("name: p\n---\nrun: a\n---\nrun: b\n", &context()).unwrap();
    assert_eq!(jobs.iter().map(|job| job.spec.name.as_str()).collect::<Vec<_>>(), ["p-1", "p-2"]);
    let parallel = errors("name: p\nexecution: parallel\n---\nrun: a\n---\nrun: b\n");
    assert_eq!(
        (parallel.as_slice()[0].code, parallel.as_slice()[0].path.as_str()),
        (Code::NotSupported, "header.execution")
    );
}

#[test]
fn a_group_of_jobs_is_no_pipeline() {
    let group =
        errors("name: g\nexecution: parallel\nprimary_tasks: [a]\n---\nname: a\nrun: x\n---\nname: b\nrun: x\n");
    let paths: Vec<_> = group.iter().map(|error| (error.code, error.path.as_str())).collect();
    let not = Code::NotSupported;
    assert_eq!(paths, [(not, "header.execution"), (not, "header.primary_tasks")], "{group}");
}

#[test]
fn variables_that_only_skypilot_sets_are_noted() {
    let told = |run: &str| one(&format!("run: {run}\nspot_policy: on-demand\n")).notes;
    assert!(told("'torchrun --nnodes=$SKYPILOT_NUM_NODES'")[0].contains("LEEWAY_WORLD_SIZE"));
    assert!(told("'torchrun --nnodes=$LEEWAY_WORLD_SIZE'").is_empty());
}

#[test]
fn errors_are_data_for_programs_too() {
    let errors = errors("run: x\nnum_nodes: 0\n");
    let json = serde_json::to_value(errors.as_slice()).unwrap();
    assert_eq!(json[0]["code"], "OUT_OF_RANGE");
    assert_eq!(json[0]["position"]["line"], 2);
    assert_eq!(json[0]["path"], "num_nodes");
    assert_eq!(errors.as_slice()[0].code.as_str(), json[0]["code"]);
}
