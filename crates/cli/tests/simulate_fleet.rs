//! `leeway simulate scenarios`, `run`, `compare` and `sweep` as scripts see them: exit codes, JSON, files, and going on
//! after an interruption.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod local;

use local::{error, json_with, leeway, text, world};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A folder with a scenario of three jobs of a day in it, and the path of that.
fn small() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    let own = "policies = [\"on-demand\", \"whole-bill\"]\nrepetitions = 2\n";
    fs::write(&path, own.to_owned() + &world(3, 10.5)).unwrap();
    let path = text(&path);
    (folder, path)
}

fn has_keys(value: &Value, keys: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for key in keys {
        assert!(object.contains_key(*key), "no '{key}' in {value}");
    }
}

const RUN: [&str; 32] = [
    "policy",
    "seed",
    "complete",
    "jobs",
    "succeeded",
    "failed",
    "open",
    "refused",
    "with_deadline",
    "missed",
    "interruptions",
    "cost_micros",
    "egress_micros",
    "overrun_micros",
    "time_value_micros",
    "cost_per_work_hour",
    "work_hours",
    "lost_hours",
    "spot_hours",
    "other_hours",
    "carbon_kg",
    "wait_mean_hours",
    "wait_p50_hours",
    "wait_p90_hours",
    "wait_max_hours",
    "turnaround_mean_hours",
    "turnaround_p90_hours",
    "length_hours",
    "over_optimum_jobs",
    "over_optimum_p50",
    "over_optimum_p90",
    "over_optimum_worst",
];

const POLICY: [&str; 9] = [
    "policy",
    "runs",
    "cost",
    "cost_low",
    "cost_high",
    "cost_per_work_hour",
    "cost_against_first",
    "against_low",
    "against_high",
];

#[test]
fn the_ready_scenarios_are_listed_and_printed() {
    let listed = json_with(&["--json", "simulate", "scenarios"], 0);
    let scenarios = listed["scenarios"].as_array().unwrap();
    assert!(scenarios.len() >= 6, "{listed}");
    for scenario in scenarios {
        has_keys(scenario, &["name", "about", "length_ms", "policies", "repetitions"]);
        let name = scenario["name"].as_str().unwrap();
        let printed = leeway(&["simulate", "scenarios", "--print", name]);
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert!(printed.contains(scenario["about"].as_str().unwrap()), "{name}: {printed}");
        let object = json_with(&["--json", "simulate", "scenarios", "--print", name], 0);
        assert_eq!((object["name"].as_str(), object["text"].as_str().unwrap().trim()), (Some(name), printed.trim()));
    }
    assert!(error(&["simulate", "scenarios", "--print", "price-strom"], 2).contains("price-storm"));
}

#[test]
fn one_run_is_told_for_programs_and_people_and_its_jobs_go_to_a_file() {
    let (folder, path) = small();
    let jobs = text(&folder.path().join("jobs.csv"));
    let page = text(&folder.path().join("page.html"));
    let words = ["--json", "simulate", "run", &path, "--check", "--jobs", &jobs, "--report", &page];
    let answer = json_with(&words, 0);
    let keys = ["scenario", "about", "run", "teams", "clusters", "budgets", "refusals", "open_states", "failures"];
    has_keys(&answer, &keys);
    has_keys(&answer, &["launches_refused", "moved_between_regions_bytes", "events", "steps"]);
    has_keys(&answer["run"], &RUN);
    assert_eq!((&answer["run"]["policy"], &answer["run"]["jobs"]), (&"on-demand".into(), &3.into()), "{answer}");
    has_keys(&answer["budgets"][0], &["budget", "parent", "cap", "posted", "held", "overrun"]);
    has_keys(&answer["clusters"][0], &["cluster", "spot_hours", "other_hours"]);
    let jobs = fs::read_to_string(&jobs).unwrap();
    let column = jobs.lines().next().unwrap().split(',').position(|name| name == "cost_micros").unwrap();
    let costs = jobs.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().parse::<i64>().unwrap());
    assert_eq!(Some(costs.sum::<i64>()), answer["run"]["cost_micros"].as_i64(), "{jobs}");
    assert!(fs::read_to_string(&page).unwrap().contains("Some jobs for a test."));
    let shown = leeway(&["simulate", "run", &path, "--policy", "whole-bill"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("whole-bill with seed 1: 3 jobs") && shown.contains("lab"), "{shown}");
}

#[test]
fn policies_are_compared_and_every_run_is_a_line_of_a_table() {
    let (folder, path) = small();
    let runs = text(&folder.path().join("runs.csv"));
    let answer = json_with(&["--json", "simulate", "compare", &path, "--runs", &runs], 0);
    has_keys(&answer, &["scenario", "about", "seeds", "policies", "runs", "warnings"]);
    assert_eq!(answer["seeds"], serde_json::json!([1, 2]));
    let (policies, rows) = (answer["policies"].as_array().unwrap(), answer["runs"].as_array().unwrap());
    assert_eq!((policies.len(), rows.len()), (2, 4), "{answer}");
    policies.iter().for_each(|policy| has_keys(policy, &POLICY));
    rows.iter().for_each(|row| has_keys(row, &RUN));
    assert_eq!(policies[0]["cost_against_first"].as_f64(), Some(0.0), "{answer}");
    assert!(answer["warnings"].as_array().unwrap().iter().any(|said| said.as_str().unwrap().contains("few")));
    let table = fs::read_to_string(&runs).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    assert_eq!(lines.next().unwrap(), RUN);
    for (line, row) in lines.by_ref().zip(rows) {
        assert_eq!((line[0], line[1]), (row["policy"].as_str().unwrap(), row["seed"].to_string().as_str()));
        assert_eq!(line[11].parse::<i64>().ok(), row["cost_micros"].as_i64());
    }
    assert!(lines.next().is_none(), "{table}");
}

#[test]
fn orders_of_the_queue_are_compared_beside_policies() {
    let (folder, path) = small();
    let orders = ["--queue-order", "first-come", "--queue-order", "fair-share"];
    let compare = [&["--json", "simulate", "compare", &path][..], &orders[..]].concat();
    let answer = json_with(&compare, 0);
    let named: Vec<&str> =
        answer["policies"].as_array().unwrap().iter().map(|one| one["policy"].as_str().unwrap()).collect();
    let expected =
        ["on-demand, first-come", "whole-bill, first-come", "on-demand, fair-share", "whole-bill, fair-share"];
    assert_eq!(named, expected, "{answer}");
    assert_eq!(answer["runs"].as_array().unwrap().len(), 8);
    let one = json_with(&["--json", "simulate", "compare", &path, "--queue-order", "earliest-deadline"], 0);
    assert_eq!(one["policies"][0]["policy"], "on-demand", "one order needs no name: {one}");
    let said = error(&["simulate", "compare", &path, "--queue-order", "fairshare"], 2);
    assert!(said.contains("queue_order") && said.contains("did you mean 'fair-share'?"), "{said}");
    let page = text(&folder.path().join("page.html"));
    let report = [&["simulate", "compare", &path, "--report", &page][..], &orders[..]].concat();
    assert!(error(&report, 2).contains("--report shows one order"));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_table_that_cannot_be_written_is_refused_before_anything_runs() {
    let (folder, path) = small();
    let runs = text(&folder.path().join("runs.parquet"));
    for words in [["compare", &path, "--runs", &runs], ["run", &path, "--jobs", &runs]] {
        let said = error(&[&["simulate"], &words[..]].concat(), 2);
        assert!(said.contains("--features parquet") && said.contains(".csv"), "{said}");
        assert!(!Path::new(&runs).exists());
    }
}

#[test]
fn jobs_that_are_left_over_end_with_1_and_are_told_of() {
    let (_folder, path) = small();
    let poor = ["simulate", "run", &path, "--set", "budgets.0.cap=1"];
    let answer = json_with(&[&["--json"], &poor[..]].concat(), 1);
    assert!(answer["run"]["open"].as_u64() > Some(0) && answer["run"]["complete"] == false, "{answer}");
    has_keys(&answer["open_states"][0], &["state", "count"]);
    let shown = leeway(&poor);
    assert_eq!(shown.status.code(), Some(1));
    let said = String::from_utf8(shown.stderr).unwrap();
    assert!(said.contains("had not ended") && said.contains("left over with BUDGET_EXCEEDED"), "{said}");
    assert_eq!(answer["open_reasons"][0]["code"], "BUDGET_EXCEEDED", "{answer}");
    let compared = json_with(&["--json", "simulate", "compare", &path, "--set", "budgets.0.cap=1"], 1);
    assert!(compared["warnings"].to_string().contains("had not ended"), "{compared}");
}

#[test]
fn a_sweep_that_was_interrupted_ends_as_one_that_was_not() {
    let (folder, path) = small();
    let (whole, halves) = (text(&folder.path().join("whole.jsonl")), text(&folder.path().join("halves.jsonl")));
    let sweep = |out: &str, threads: &str| {
        let over = ["--over", "world.notice=0s,120s", "--over", "clusters.0.count=4,8"];
        let words = ["--json", "simulate", "sweep", &path, "--threads", threads, "--out", out];
        json_with(&[&words[..], &over[..]].concat(), 0)
    };
    let at_once = sweep(&whole, "1");
    // Four combinations, two policies, two seeds.
    let lines = fs::read_to_string(&whole).unwrap();
    assert_eq!((lines.lines().count(), &at_once["runs_done_before"]), (16, &0.into()));
    let results = at_once["results"].as_array().unwrap();
    assert_eq!(results.len(), 4, "{at_once}");
    assert_eq!(results[1]["settings"], serde_json::json!({"world.notice": "0s", "clusters.0.count": "8"}));
    results[1]["policies"].as_array().unwrap().iter().for_each(|policy| has_keys(policy, &POLICY));
    // Seven lines and a half, the half cut in the middle of a word.
    let end = lines.match_indices('\n').nth(6).unwrap().0 + 1;
    fs::write(&halves, &lines[..end + 100]).unwrap();
    let resumed = sweep(&halves, "2");
    assert_eq!((&resumed["runs_done_before"], &resumed["results"]), (&7.into(), &at_once["results"]));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&fs::read_to_string(&halves).unwrap()), sorted(&lines));
    let again = sweep(&halves, "2");
    assert_eq!((&again["runs_done_before"], &again["results"]), (&16.into(), &at_once["results"]));
}

#[test]
fn a_file_that_is_no_sweep_of_this_scenario_is_left_alone() {
    let (folder, path) = small();
    let out = folder.path().join("notes.txt");
    let words = ["simulate", "sweep", &path, "--over", "world.notice=0s,120s", "--out", out.to_str().unwrap()];
    fs::write(&out, "not a sweep\n").unwrap();
    let said = error(&words, 2);
    assert!(said.contains("line 1") && said.contains("another --out"), "{said}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "not a sweep\n");
    assert!(error(&["simulate", "sweep", &path, "--over", "world.notise=0s", "--out", "x"], 2).contains("notice"));
}

#[test]
fn what_is_wrong_with_a_scenario_has_a_code_and_exit_2() {
    let (_folder, path) = small();
    let code = |words: &[&str]| {
        let said: Value = serde_json::from_str(&error(&[&["--json", "simulate"], words].concat(), 2)).unwrap();
        said["error"]["code"].as_str().unwrap().to_owned()
    };
    assert_eq!(code(&["run", "price-strom"]), "NO_SCENARIO");
    assert_eq!(code(&["run", &path, "--policy", "whole-bil"]), "NO_POLICY");
    // Also where the scenario's own policies are not asked for.
    let slip = Path::new(&path).with_file_name("slip.toml");
    fs::write(&slip, fs::read_to_string(&path).unwrap().replace("\"whole-bill\"]", "\"whole-bil\"]")).unwrap();
    assert_eq!(code(&["run", &text(&slip), "--policy", "whole-bill"]), "NO_POLICY");
    assert_eq!(code(&["compare", &text(&slip), "--policy", "whole-bill"]), "NO_POLICY");
    assert_eq!(code(&["run", &path, "--set", "policies=[]"]), "INVALID_SCENARIO");
    assert_eq!(code(&["compare", &path, "--set", "repetitions=4000000000"]), "INVALID_SCENARIO");
    assert_eq!(code(&["compare", &path, "--set", "clusters=[]"]), "INVALID_SCENARIO");
    assert_eq!(code(&["run", &path, "--set", "workload.0.ask.budget=labs"]), "INVALID_SCENARIO");
}
