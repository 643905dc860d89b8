//! Whatever the text: no panic, and what is accepted keeps the promises of the model.

mod support;

use std::collections::BTreeMap;

use leeway_jobfile::{JobFile, example, limits, parse};
use leeway_model::Millis;
use leeway_model::checkpoint::Interval;
use proptest::prelude::*;
use support::{context, context_with};

const FILES: [&str; 5] = [
    include_str!("files/finetune.yaml"),
    include_str!("files/any_of.yaml"),
    include_str!("files/pipeline.yaml"),
    include_str!("files/leeway.yaml"),
    include_str!("files/broken.yaml"),
];

/// What the core relies on.
fn assert_valid(job: &JobFile, jobs: usize) {
    let spec = &job.spec;
    assert!((1..=1_024).contains(&spec.nodes));
    assert!((1..=limits::MAX_ALTERNATIVES).contains(&spec.resources.len()));
    assert!(!spec.program.run.trim().is_empty());
    assert!(spec.labels.len() <= 64);
    assert!(spec.money.max_cost.is_none_or(|cost| cost.get() > 0));
    assert!(spec.time.deadline.is_none_or(|deadline| deadline > context().now));
    for length in [spec.time.estimate, spec.time.max_duration, spec.retry.within].into_iter().flatten() {
        assert!(length.in_range().is_ok());
    }
    for machine in &spec.resources {
        assert!(machine.accelerators.as_ref().is_none_or(|a| a.count >= 1 && !a.model.is_empty()));
        assert!(machine.cpus.is_none_or(|cpus| cpus.amount.0 > 0));
        assert!(machine.memory.is_none_or(|memory| !memory.amount.is_zero()));
        assert!(machine.max_hourly_cost.is_none_or(|rate| !rate.is_zero()));
    }
    if let Some(policy) = &spec.checkpoint {
        assert!(policy.keep >= 1);
        if let Interval::Every(length) = policy.interval {
            assert!((Millis::from_secs(1)..=Millis::from_hours(168)).contains(&length));
        }
    }
    let environment = || spec.program.env.iter().chain(&job.secrets);
    for (name, value) in environment() {
        assert!(!name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0'));
        assert!(value.len() <= limits::MAX_VALUE_BYTES);
    }
    assert!(environment().map(|(n, v)| n.len() + v.len()).sum::<usize>() <= limits::MAX_ENVIRONMENT_BYTES);
    let submitted: Vec<_> = (0..jobs as u64).map(leeway_model::JobId).collect();
    assert!(job.dependencies(&submitted).is_some(), "every dependency exists");
}

fn parse_and_check(text: &str) {
    match parse(text, &context()) {
        Ok(jobs) => {
            assert!(!jobs.is_empty());
            jobs.iter().for_each(|job| assert_valid(job, jobs.len()));
        }
        Err(errors) => {
            assert!(!errors.as_slice().is_empty());
            for error in &errors {
                assert!(!error.problem.is_empty() && !error.fix.is_empty());
                assert!(!error.to_string().chars().any(char::is_control), "{error}");
            }
        }
    }
}

/// Pieces from which YAML that nearly makes sense is built.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "run: ",
            "name: ",
            "resources:",
            "accelerators: ",
            "any_of: ",
            "ordered: ",
            "cpus: ",
            "memory: ",
            "envs:",
            "secrets: ",
            "checkpoint: ",
            "interval: ",
            "retry: ",
            "deadline: ",
            "max_cost: ",
            "data: ",
            "url: ",
            "outputs: ",
            "labels: ",
            "depends_on: ",
            "job_recovery: ",
            "num_nodes: ",
            "- ",
            "\n",
            "\n  ",
            "\n    ",
            "{",
            "}",
            "[",
            "]",
            ", ",
            ": ",
            "---\n",
            "&a ",
            "*a",
            "<<: ",
            "!!int ",
            "!x ",
            "|\n",
            ">\n",
            "'",
            "\"",
            "#",
            "~",
            "null",
            "true",
            "NO",
            "010",
            "1e3",
            "-1",
            ".nan",
            ".inf",
            "18446744073709551616",
            "V100:8",
            "25 USD",
            "+6h",
            "90s",
            "4+",
            "s3://b/c",
            "$X",
            "${",
            "\\0",
            "\u{feff}",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,8}",
        any::<char>().prop_map(String::from),
    ]
}

proptest! {
    // Failures are kept as tests, not as files.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        parse_and_check(&text);
    }

    #[test]
    fn text_that_nearly_is_a_job_never_panics(pieces in prop::collection::vec(piece(), 0..40)) {
        parse_and_check(&pieces.concat());
    }

    #[test]
    fn a_mutated_file_errs_or_gives_a_valid_job(
        file in 0..=FILES.len(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..24, piece()), 1..6)
    ) {
        let mut text: Vec<char> = FILES.get(file).copied().unwrap_or_else(|| example()).chars().collect();
        for (at, removed, inserted) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, inserted.chars());
        }
        parse_and_check(&text.into_iter().collect::<String>());
    }

    #[test]
    fn an_environment_value_arrives_as_it_was_quoted(value in "[^\0]{0,64}") {
        let quoted: String = value.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect();
        let jobs = parse(&format!("run: x\nenvs: {{A: \"{quoted}\"}}\n"), &context()).unwrap();
        prop_assert_eq!(&jobs[0].spec.program.env["A"], &value);
    }

    #[test]
    fn a_value_given_on_the_command_line_is_taken_or_refused(name in "\\PC{0,12}", value in any::<String>()) {
        match parse("run: x\n", &context_with(&[(&name, &value)])) {
            Ok(jobs) => prop_assert_eq!(&jobs[0].spec.program.env, &BTreeMap::from([(name, value)])),
            Err(errors) => prop_assert!(!value.contains('\0') || errors.to_string().contains("--env")),
        }
    }

    #[test]
    fn reading_a_file_twice_gives_the_same(file in 0..FILES.len()) {
        prop_assert_eq!(parse(FILES[file], &context()), parse(FILES[file], &context()));
    }
}
