//! `leeway simulate` as scripts see it: exit codes, JSON, and what is said of traces that are wrong.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod local;

use local::{error, json, leeway, text};
use serde_json::Value;
use std::fs;

/// Half an hour with spot, half an hour without, for four days.
fn trace(gap_seconds: i32) -> String {
    let data: Vec<&str> = (0..576).map(|tick| if tick / 3 % 2 == 0 { "2" } else { "0" }).collect();
    format!(
        r#"{{"schema": "spot-trace-v1", "family": "made", "cloud": "aws", "region": "us-east-1", "zone": "us-east-1a",
            "accelerator": null, "accelerators_per_instance": 0, "instance_type": "m", "nodes_requested": 2,
            "kind": "availability-probe", "gap_seconds": {gap_seconds}, "on_demand_usd_per_h": 3.0,
            "spot_usd_per_h": 0.9, "data": [{}]}}"#,
        data.join(",")
    )
}

fn set() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("made")).unwrap();
    fs::write(folder.path().join("made/us-east-1a.json"), trace(600)).unwrap();
    folder
}

#[test]
fn the_optimum_of_a_window_stands_beside_what_each_rule_pays() {
    let set = set();
    let file = text(&set.path().join("made/us-east-1a.json"));
    // Without a changeover 24 h of work fit in the spot of 48 h exactly.
    let words = ["--json", "simulate", "optimum", &file, "--work-h", "24", "--deadline-h", "48", "--changeover-h", "0"];
    let answer = json(&words);
    assert!((answer["optimum"].as_f64().unwrap() - 24.0 * 0.9).abs() < 1e-9, "{answer}");
    assert!((answer["on_demand"].as_f64().unwrap() - 72.0).abs() < 1e-9, "{answer}");
    let greedy = answer["policies"].as_array().unwrap().iter().find(|one| one["policy"] == "greedy-spot").unwrap();
    assert_eq!((greedy["launches"].as_u64(), greedy["missed"].as_bool()), (Some(48), Some(false)), "{answer}");
    let table = leeway(&words[1..]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("uniform-progress") && table.contains("21.60 USD"), "{table}");
    assert!(error(&["simulate", "optimum", &file, "--start", "570"], 2).contains("576 ticks"));
    assert!(error(&["simulate", "optimum", &file, "--work-h", "60"], 2).contains("choose a later deadline"));
}

#[test]
fn a_set_is_measured_for_people_and_for_programs() {
    let set = set();
    let (folder, runs) = (text(set.path()), text(&set.path().join("runs.csv")));
    let words = [
        "simulate",
        "bench-spot",
        "--set",
        &folder,
        "--grid",
        "small",
        "--policy",
        "uniform-progress",
        "--runs",
        &runs,
    ];
    let table = leeway(&words);
    assert!(table.status.success(), "{table:?}");
    assert!(String::from_utf8_lossy(&table.stdout).contains("OVER OPTIMUM"), "{table:?}");
    // Two deadlines, two changeovers, four windows, and a header.
    assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 1 + 16);
    let answer = json(&[&["--json"], &words[..]].concat());
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{answer}");
    for (row, family) in rows.iter().zip(["made:1", "all"]) {
        assert_eq!((row["setting"].as_str(), row["family"].as_str()), (Some("one-zone"), Some(family)));
        assert_eq!((row["policy"].as_str(), row["windows"].as_u64()), (Some("uniform-progress"), Some(16)));
        assert_eq!(row["misses"].as_u64(), Some(0));
        let number = |name: &str| row[name].as_f64().unwrap();
        assert!(number("ci_low") <= number("mean_over_optimum") && number("mean_over_optimum") <= number("ci_high"));
        assert!(number("p90_over_optimum") <= number("max_over_optimum") && number("mean_cost_over_on_demand") <= 1.1);
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_exit_code_2() {
    let set = set();
    let folder = text(set.path());
    let bench = ["simulate", "bench-spot", "--set", &folder];
    let told = error(&[&bench[..], &["--family", "mad:1"]].concat(), 2);
    assert!(told.contains("no folder 'mad'") && told.contains("it has made"), "{told}");
    let told = error(&[&bench[..], &["--policy", "uniform"]].concat(), 2);
    assert!(told.contains("uniform-progress"), "{told}");
    assert!(error(&[&bench[..], &["--family", "made:0"]].concat(), 2).contains("FAMILY:GANG"));
    assert!(error(&["simulate", "bench-spot", "--set", "/nowhere/at/all"], 2).contains("/nowhere/at/all"));
    fs::write(set.path().join("made/us-east-1a.json"), trace(-5)).unwrap();
    let told = error(&[&["--json"], &bench[..]].concat(), 2);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["error"]["code"], "INVALID_TRACE");
    let message = told["error"]["message"].as_str().unwrap();
    assert!(message.contains("us-east-1a.json: gap_seconds"), "{message}");
}
