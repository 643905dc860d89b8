//! `leeway simulate import` and `fit` as scripts see them: exit codes, JSON, files, and what is said of traces that are
//! wrong.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod local;

use local::{error, json, leeway, text};
use serde_json::Value;
use std::fs;

const JOBS: &str = "vc,job,submit_s,gpus,duration_s\na,0,0,1,3600\nb,0,7200,16,3600\nb,1,3600,9,-5\n";

#[test]
fn a_trace_is_imported_and_what_comes_out_is_imported_again_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (text(&folder.path().join("philly.csv")), text(&folder.path().join("jobs.csv.gz")));
    fs::write(&from, JOBS).unwrap();
    let answer = json(&["--json", "simulate", "import", "auto", &from, "-o", &to, "--lenient"]);
    assert_eq!((&answer["format"], &answer["skipped"]), (&"philly-vc-jobs".into(), &1.into()), "{answer}");
    assert_eq!((&answer["summary"]["jobs"], &answer["summary"]["gpus_max"]), (&2.into(), &16.into()), "{answer}");
    assert_eq!(answer["summary"]["gpu_hours"].as_f64(), Some(17.0), "{answer}");
    let bad = &answer["skipped_first"][0];
    assert_eq!((&bad["line"], &bad["column"]), (&4.into(), &"duration_s".into()), "{answer}");
    let again = text(&folder.path().join("again.csv"));
    let answer = json(&["--json", "simulate", "import", "leeway-jobs-v1", &to, "-o", &again]);
    assert_eq!(answer["summary"]["jobs"], 2);
    let lines = fs::read_to_string(&again).unwrap();
    assert_eq!(lines.lines().nth(2), Some("b/0,7200000,3600000,2,8,,0,0,b,,unknown"), "{lines}");
    let one = json(&["--json", "simulate", "import", "auto", &to, "-o", &again, "--team", "a"]);
    assert_eq!((&one["summary"]["jobs"], &one["summary"]["teams"]), (&1.into(), &1.into()), "{one}");
    assert!(error(&["simulate", "import", "auto", &to, "-o", &again, "--team", "c"], 2).contains("none of the 2 jobs"));
}

#[test]
fn a_bad_line_ends_the_import_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(&folder.path().join("philly.csv"));
    fs::write(&from, JOBS).unwrap();
    let to = text(&folder.path().join("jobs.csv"));
    let said = error(&["simulate", "import", "auto", &from, "-o", &to], 2);
    assert!(said.contains("philly.csv:4: duration_s: '-5'") && said.contains("--lenient"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let said = error(&["--json", "simulate", "import", "auto", &from, "-o", &to], 2);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["error"]["code"], "BAD_LINE", "{said}");
}

#[test]
fn a_trace_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let from = text(&folder.path().join("philly.csv"));
    fs::write(&from, JOBS).unwrap();
    let same = text(&folder.path().join(".").join("philly.csv"));
    let said = error(&["simulate", "import", "auto", &from, "--lenient", "-o", &same], 2);
    assert!(said.contains("is the trace itself"), "{said}");
    assert_eq!(fs::read_to_string(&from).unwrap(), JOBS);
}

#[test]
fn what_is_no_job_trace_is_refused_with_the_formats_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (text(&folder.path().join("x.csv")), text(&folder.path().join("jobs.csv")));
    fs::write(&from, "a,b\n1,2\n").unwrap();
    assert!(error(&["simulate", "import", "auto", &from, "-o", &to], 2).contains("alibaba2025-instances"));
    assert!(error(&["simulate", "import", "csv", &from, "-o", &to], 2).contains("there is no format 'csv'"));
    fs::write(&from, "").unwrap();
    assert!(error(&["simulate", "import", "auto", &from, "-o", &to], 2).contains("is empty"));
    assert!(error(&["simulate", "import", "auto", "nowhere.csv", "-o", &to], 2).contains("nowhere.csv"));
}

#[test]
fn fit_writes_the_parameters_that_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (text(&folder.path().join("jobs.csv")), text(&folder.path().join("params.toml")));
    let mut jobs = String::from("vc,job,submit_s,gpus,duration_s\n");
    for job in 0..400 {
        jobs.push_str(&format!("a,{job},{},{},{}\n", job * 900, 1 + job % 2 * 7, 600 + job * 30));
    }
    fs::write(&from, jobs).unwrap();
    let answer = json(&["--json", "simulate", "fit", &from, "-o", &to, "--source", "made up"]);
    let runtimes = answer["rows"].as_array().unwrap().iter().find(|row| row["what"] == "runtimes").unwrap();
    assert!(runtimes["seen"] == 400 && runtimes["distance"].as_f64().unwrap() < 0.3, "{answer}");
    assert_eq!(answer["params"]["workload"]["sizes"].as_array().unwrap().len(), 2);
    let toml = fs::read_to_string(&to).unwrap();
    assert!(toml.contains("schema = \"leeway-params-v1\"") && toml.contains("source = \"made up\""), "{toml}");
    let shown = leeway(&["simulate", "fit", &from]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("log-normal") && shown.contains("DISTANCE"), "{shown}");
    fs::write(&from, "duration_s,gpus\n60,1\n").unwrap();
    assert!(error(&["simulate", "fit", &from], 2).contains("do not say when jobs arrive"));
}
