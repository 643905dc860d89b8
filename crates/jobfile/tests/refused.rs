//! What Leeway cannot do is refused by name, each time with what to do instead.

mod support;

use leeway_jobfile::Code;
use support::{check, job, mistake};

/// Asserts a refusal that names the field and offers something to do.
fn refused(lines: &str, path: &str, advice: &str) {
    let (code, at, text) = mistake(lines);
    assert_eq!((code, at.as_str()), (Code::NotSupported, path), "{lines}\n{text}");
    assert!(text.contains(advice), "{text}");
}

#[test]
fn fields_of_the_job_that_leeway_has_not_are_refused_by_name() {
    for (lines, path, advice) in [
        ("smoke_test: {run: pytest}", "smoke_test", "depends_on"),
        ("early_stop: {metric: loss}", "early_stop", "max_duration"),
        ("config: {docker: {run_options: [--privileged]}}", "config", "server's configuration"),
        ("service: {readiness_probe: /}", "service", "remove it"),
        ("pool: {workers: 3}", "pool", "remove it"),
        ("event_callback: echo done", "event_callback", "webhook"),
        ("experimental: {}", "experimental", "remove it"),
        ("managed_secrets: [hf]", "managed_secrets", "--secret"),
        ("volumes: {/mnt: vol}", "volumes", "data"),
        ("volume_mounts: []", "volume_mounts", "data"),
        ("file_mounts_mapping: {}", "file_mounts_mapping", "original"),
        ("api_server_access: true", "api_server_access", "remove it"),
        ("_metadata: {}", "_metadata", "original"),
        ("execution: parallel", "execution", "execution: serial"),
        ("hooks: []", "hooks", "LEEWAY_NOTICE_FILE"),
        ("workdir: {url: 'https://example.com/r.git'}", "workdir", "clone it in setup"),
    ] {
        refused(lines, path, advice);
    }
}

#[test]
fn fields_of_the_resources_that_leeway_has_not_are_refused_by_name() {
    for (line, name, advice) in [
        ("image_id: docker:pytorch/pytorch", "image_id", "setup"),
        ("image_id: {us-east-1: ami-1}", "image_id", "setup"),
        ("disk_tier: best", "disk_tier", "instance_type"),
        ("local_disk: nvme:1000", "local_disk", "instance_type"),
        ("ephemeral_storage: 100", "ephemeral_storage", "disk_size"),
        ("ports: [8080]", "ports", "outwards"),
        ("network_tier: best", "network_tier", "instance_type"),
        ("accelerator_args: {tpu_vm: true}", "accelerator_args", "setup"),
        ("volumes: []", "volumes", "data"),
        ("priority_class: high", "priority_class", "priority"),
        ("hooks: []", "hooks", "LEEWAY_NOTICE_FILE"),
        ("_cluster_config_overrides: {}", "_cluster_config_overrides", "remove it"),
        ("_docker_login_config: {}", "_docker_login_config", "remove it"),
        ("_is_image_managed: true", "_is_image_managed", "original"),
        ("_requires_fuse: true", "_requires_fuse", "original"),
        ("_no_missing_accel_warnings: true", "_no_missing_accel_warnings", "original"),
    ] {
        refused(&format!("resources:\n  {line}"), &format!("resources.{name}"), advice);
    }
    refused("resources: {autostop: {hook: 'git push'}}", "resources.autostop.hook", "end of run");
    refused("resources: {any_of: [{ports: 80}]}", "resources.any_of[0].ports", "outwards");
    for field in ["labels: {a: b}", "priority: 1", "job_recovery: FAILOVER", "autostop: 5", "any_of: []", "ordered: []"]
    {
        let name = field.split(':').next().unwrap();
        refused(&format!("resources: {{any_of: [{{{field}}}]}}"), &format!("resources.any_of[0].{name}"), "write");
    }
}

#[test]
fn buckets_are_not_mounted_whatever_their_scheme() {
    for source in [
        "s3://b/x",
        "gs://b",
        "r2://b",
        "azure://b",
        "https://example.com/f",
        "hf://m",
        "{source: s3://b, mode: MOUNT}",
        "{name: new-bucket}",
    ] {
        refused(&format!("file_mounts: {{/data: {source}}}"), "file_mounts./data", "'data'");
    }
}

#[test]
fn a_refused_field_that_asks_for_nothing_is_no_request() {
    job("service:\nresources:\n  image_id: null\n  ports: ~");
}

#[test]
fn unknown_fields_are_told_at_every_level_with_what_was_meant() {
    for (lines, path, advice) in [
        ("resorces: {}", "resorces", "did you mean 'resources'?"),
        ("max-cost: 5 USD", "max-cost", "did you mean 'max_cost'?"),
        ("accelerators: V100", "accelerators", "it is a field of resources"),
        ("resources: {deadline: +6h}", "resources.deadline", "it is a field of a job"),
        ("resources: {spot_policy: auto}", "resources.spot_policy", "it is a field of a job"),
        ("resources: {cpu: 4}", "resources.cpu", "did you mean 'cpus'?"),
        ("resources: {ordered: [{memmory: 4}]}", "resources.ordered[0].memmory", "did you mean 'memory'?"),
        ("resources: {job_recovery: {stategy: x}}", "resources.job_recovery.stategy", "did you mean 'strategy'?"),
        ("resources: {autostop: {idle: 5}}", "resources.autostop.idle", "known fields are idle_minutes"),
        ("checkpoint: {intervall: 5m}", "checkpoint.intervall", "did you mean 'interval'?"),
        ("retry: {on_event: []}", "retry.on_event", "did you mean 'on_events'?"),
        ("data: [{url: 's3://b', sizes: 5GB}]", "data[0].sizes", "did you mean 'size'?"),
        ("outputs: {url: 's3://b', regoin: aws/x}", "outputs.regoin", "did you mean 'region'?"),
        ("walrus: 1", "walrus", "known fields are name"),
    ] {
        let (code, at, text) = mistake(lines);
        assert_eq!((code, at.as_str()), (Code::UnknownField, path), "{text}");
        assert!(text.contains(advice), "{text}");
    }
}

#[test]
fn fields_that_exclude_each_other_are_told_with_both_names() {
    for (lines, path, names) in [
        ("resources: {use_spot: true}\nspot_policy: auto", "spot_policy", ["resources.use_spot", "spot_policy"]),
        ("resources: {any_of: [{use_spot: true}]}\nspot_policy: spot", "spot_policy", ["use_spot", "spot_policy"]),
        (
            "resources: {any_of: [{cpus: 1}], ordered: [{cpus: 2}]}",
            "resources.ordered",
            ["any_of", "resources.ordered"],
        ),
        (
            "resources: {accelerators: T4, any_of: [{accelerators: L4}]}",
            "resources.any_of[0].accelerators",
            ["resources.accelerators", "resources.any_of[0].accelerators"],
        ),
        (
            "resources: {accelerators: [T4, L4], any_of: [{cpus: 4}]}",
            "resources.any_of",
            ["resources.accelerators", "resources.any_of"],
        ),
        ("resources: {accelerators: T4, gpus: T4}", "resources.gpus", ["accelerators", "gpus"]),
        ("resources: {infra: aws, cloud: aws}", "resources.cloud", ["resources.infra", "resources.cloud"]),
        ("resources: {infra: aws, zone: a}", "resources.zone", ["resources.infra", "resources.zone"]),
        (
            "resources: {job_recovery: FAILOVER, spot_recovery: FAILOVER}",
            "resources.spot_recovery",
            ["job_recovery", "spot_recovery"],
        ),
        ("resources: {labels: {a: b}}\nlabels: {c: d}", "labels", ["resources.labels", "labels"]),
        ("resources: {job_recovery: FAILOVER}\npolicy: cheapest", "policy", ["resources.job_recovery", "policy"]),
        (
            "resources: {job_recovery: {max_restarts_on_errors: 1}}\nretry: {user_failures: 2}",
            "retry.user_failures",
            ["resources.job_recovery.max_restarts_on_errors", "retry.user_failures"],
        ),
        (
            "resources: {job_recovery: {recover_on_exit_codes: 3}}\nretry: {exit_codes: [4]}",
            "retry.exit_codes",
            ["resources.job_recovery.recover_on_exit_codes", "retry.exit_codes"],
        ),
        (
            "retry: {on_events: [failure], user_failures: 1, interruptions: 3}",
            "retry.interruptions",
            ["on_events", "retry.interruptions"],
        ),
        ("data: [{url: 's3://b'}]\ninputs: {s3://c: 1}", "inputs", ["data", "inputs"]),
        ("envs: {A: x}\nsecrets: {A: y}", "secrets.A", ["envs.A", "secrets.A"]),
    ] {
        let (code, at, text) = mistake(lines);
        assert_eq!((code, at.as_str()), (Code::Conflict, path), "{lines}\n{text}");
        assert!(names.iter().all(|name| text.contains(name)), "{text}");
    }
}

#[test]
fn alternatives_inside_an_alternative_are_refused() {
    check("resources: {any_of: [{accelerators: [T4, L4]}]}", Code::Conflict, "resources.any_of[0].accelerators");
}

#[test]
fn an_autostop_that_means_nothing_is_refused_though_it_has_no_effect() {
    for (line, path, range) in [
        ("autostop: -2", "resources.autostop", "-1 to 527040"),
        ("autostop: 527041", "resources.autostop", "-1 to 527040"),
        ("autostop: {idle_minutes: -1}", "resources.autostop.idle_minutes", "0 to 527040"),
        ("autostop: {idle_minutes: 99999999999}", "resources.autostop.idle_minutes", "0 to 527040"),
        ("autostop: {idle_minutes: soon}", "resources.autostop.idle_minutes", "0 to 527040"),
        ("autostop: {idle_minutes: 1.5}", "resources.autostop.idle_minutes", "0 to 527040"),
        ("autostop: {idle_minutes: 10, down: maybe}", "resources.autostop.down", "true"),
    ] {
        let (_, at, text) = mistake(&format!("resources: {{{line}}}"));
        assert_eq!(at, path, "{line}: {text}");
        assert!(text.replace(',', "").contains(range), "{line}: {text}");
    }
}
