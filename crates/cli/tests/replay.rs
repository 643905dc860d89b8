//! `leeway simulate replay` as scripts and people see it, on stores that the real scheduler wrote in a simulated world.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod local;

use std::fs;
use std::path::Path;

use leeway_simulations::fleet::scenario::{Named, build::Choice};
use leeway_store::{DiskStore, Identity, Options};
use local::{error, json, json_with, leeway, text, world};

fn six() -> String {
    world(6, 9.5)
}

/// A data directory as a server leaves it, after the jobs of this world.
fn data(world: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let named = Named::parse("a-test", world, Path::new("."), &[]).unwrap();
    let choice = Choice { policy: "whole-bill".parse().unwrap(), seed: 3, checked: false };
    let identity = Identity { installation: "test".into(), incarnation: "first".into() };
    let store = DiskStore::init(&dir.path().join("store"), identity, Options::small()).unwrap();
    let setup = named.setup(&choice).unwrap();
    leeway_simulations::fleet::run(setup, leeway_policies::all(), store, &mut |_| {}, &mut |_| {}).unwrap();
    dir
}

#[test]
fn a_history_is_compared_with_what_happened_and_with_another_policy() {
    let dir = data(&six());
    let (from, page, runs) = (text(dir.path()), dir.path().join("page.html"), dir.path().join("runs.csv"));
    let words = [
        "simulate",
        "replay",
        "--from",
        &from,
        "--policy",
        "on-demand",
        "--report",
        &text(&page),
        "--runs",
        &text(&runs),
    ];
    let with_json: Vec<&str> = std::iter::once("--json").chain(words).collect();
    let told = json(&with_json);
    let policies: Vec<&str> =
        told["policies"].as_array().unwrap().iter().map(|of| of["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["whole-bill", "on-demand"]);
    assert_eq!((&told["history"]["jobs"], &told["history"]["whole"]), (&6.into(), &true.into()));
    assert_eq!(told["history"]["policies"]["whole-bill"], 6);
    assert_eq!((&told["happened"]["policy"], &told["happened"]["succeeded"]), (&"as it happened".into(), &6.into()));
    let check = &told["check"];
    let apart = check["difference"].as_f64().unwrap();
    assert!(apart.abs() < 0.05 && check["jobs"] == 6, "{check}");
    let (recorded, of_row) = (check["recorded"].as_f64().unwrap(), told["happened"]["cost_micros"].as_i64().unwrap());
    assert!((recorded - of_row as f64 / 1e6).abs() < 1e-6, "{recorded} and {of_row}");
    assert!(told["policies"][1]["cost_against_first"].as_f64().unwrap() > 0.3, "{told}");
    assert!(told["assumptions"].as_array().unwrap().len() >= 5);

    let page = fs::read_to_string(page).unwrap();
    for says in ["as it happened", "How far to trust this", "What the replay assumes", "whole-bill", "on-demand"] {
        assert!(page.contains(says), "no '{says}' in the page");
    }
    let rows = fs::read_to_string(runs).unwrap();
    assert_eq!(rows.lines().count(), 4, "{rows}");

    let output = leeway(&words);
    let shown = String::from_utf8(output.stdout).unwrap();
    let at = |what: &str| shown.find(what).unwrap_or_else(|| panic!("no '{what}' in {shown}"));
    assert!(
        at("as it happened") < at("on-demand") && at("on-demand") < at("Check of the model: 6 jobs cost"),
        "{shown}"
    );
    assert!(String::from_utf8(output.stderr).unwrap().contains("a history is one course of events"));
}

#[test]
fn a_configuration_says_how_fast_machines_are() {
    let dir = data(&six());
    let (from, config) = (text(dir.path()), dir.path().join("leeway.toml"));
    fs::write(&config, "[estimates.speeds]\nA10G = 2.0\n").unwrap();
    let told = |more: &[&str]| {
        let words = ["--json", "simulate", "replay", "--from", &from, "--policy", "whole-bill"];
        json(&words.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let (plain, fast) = (told(&[]), told(&["--config", &text(&config)]));
    let hours = |of: &serde_json::Value| of["happened"]["work_hours"].as_f64().unwrap();
    assert!((hours(&fast) / hours(&plain) - 2.0).abs() < 0.01, "{} and {}", hours(&fast), hours(&plain));
    fs::write(&config, "[estimates.speeds]\nA10G = \"fast\"\n").unwrap();
    let said = error(&["simulate", "replay", "--from", &from, "--config", &text(&config)], 2);
    assert!(said.contains("estimates.speeds"), "{said}");
}

#[test]
fn what_cannot_be_replayed_is_wrong_usage_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let from = |path: &Path, more: &[&str], code: &str| {
        let path = text(path);
        let words = ["--json", "simulate", "replay", "--from", &path];
        let said = error(&words.into_iter().chain(more.iter().copied()).collect::<Vec<_>>(), 2);
        let value: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(value["error"]["code"], code, "{said}");
        value["error"]["message"].as_str().unwrap().to_owned()
    };
    assert!(from(&dir.path().join("gone"), &[], "FILE").contains("gone"));
    assert!(from(dir.path(), &[], "STORE_NOT_INITIALISED").contains("holds no store"));
    let file = dir.path().join("foreign");
    fs::write(&file, "this is a text of somebody else's").unwrap();
    assert!(from(&file, &[], "STORE_CORRUPT").contains("not an export"));

    let data = data(&six());
    let said = from(data.path(), &["--policy", "whole-bil"], "NO_POLICY");
    assert!(said.contains("'whole-bil'") && said.contains("whole-bill"), "{said}");
    let store = data.path().join("store");
    let held = DiskStore::open(&store, Options::small()).unwrap();
    assert!(from(data.path(), &[], "STORE_LOCKED").contains("stop that server"));
    drop(held);
    let mut trimmed = DiskStore::open(&store, Options::small()).unwrap();
    trimmed.compact(0).unwrap();
    trimmed.close().unwrap();
    assert!(from(data.path(), &[], "STORE_HISTORY_TRIMMED").contains("leeway store export"));

    let empty = tempfile::tempdir().unwrap();
    let identity = Identity { installation: "test".into(), incarnation: "first".into() };
    drop(DiskStore::init(&empty.path().join("store"), identity, Options::small()).unwrap());
    assert!(from(empty.path(), &[], "NO_JOBS").contains("no jobs"));
}

#[test]
fn jobs_that_a_policy_leaves_over_end_with_1() {
    let dir = data(&six().replace("cap = 500", "cap = 6"));
    let from = text(dir.path());
    let told = json_with(&["--json", "simulate", "replay", "--from", &from, "--policy", "on-demand"], 1);
    assert!(told["runs"].as_array().unwrap().iter().any(|run| run["open"].as_u64().unwrap() > 0), "{told}");
    assert!(told["notes"].to_string().contains("had not ended when the history did"), "{}", told["notes"]);
}
