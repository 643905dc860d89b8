//! The rules of the house: who may depend on whom, and which licences come in.

// Helpers of tests may fail a test as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

fn metadata(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(arguments)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Normal dependencies of each crate of ours, without development and build dependencies.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata(&["--no-deps"]);
    let mut all = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|one| one["kind"].is_null());
        let names = normal.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
        all.insert(package["name"].as_str().unwrap().to_owned(), names);
    }
    all
}

#[test]
fn dependencies_run_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = [
        ("leeway-model", &[] as &[&str]),
        ("leeway-core", &["model"]),
        ("leeway-policies", &["core", "model"]),
        ("leeway-store", &[]),
        ("leeway-engine", &["core", "model", "store"]),
        ("leeway-market", &["model"]),
        ("leeway-data", &["model"]),
        ("leeway-jobfile", &["model"]),
        ("leeway-webhook", &["model"]),
        ("leeway-proto", &["model"]),
        ("leeway-drivers", &["model"]),
        ("leeway-aws", &["drivers", "model"]),
        ("leeway-agent", &["data", "drivers", "model", "proto"]),
        (
            "leeway-server",
            &["aws", "core", "data", "drivers", "engine", "market", "model", "policies", "proto", "store", "webhook"],
        ),
        ("leeway-simulations", &["core", "engine", "market", "model", "policies", "store"]),
    ]
    .into();
    for (name, uses) in dependencies() {
        if matches!(name.as_str(), "leeway-cli" | "leeway-tests") {
            continue;
        }
        let allowed = allowed.get(name.as_str()).unwrap_or_else(|| panic!("say in this test what {name} may use"));
        let ours = uses.iter().filter_map(|used| used.strip_prefix("leeway-"));
        let strangers: Vec<&str> = ours.filter(|used| !allowed.contains(used)).collect();
        assert!(strangers.is_empty(), "{name} must not use {strangers:?}");
    }
}

#[test]
fn outside_libraries_stay_where_they_belong() {
    let only: [(&str, &[&str]); 6] = [
        ("sled", &["leeway-store"]),
        ("petgraph", &["leeway-core"]),
        ("prost", &["leeway-proto"]),
        ("object_store", &["leeway-data"]),
        ("serde-saphyr", &["leeway-jobfile"]),
        ("config", &["leeway-server"]),
    ];
    let pure = ["leeway-model", "leeway-core", "leeway-policies", "leeway-engine", "leeway-simulations"];
    for (name, uses) in dependencies() {
        for (library, homes) in only {
            assert!(!uses.contains(library) || homes.contains(&name.as_str()), "{name} must not use {library}");
        }
        if pure.contains(&name.as_str()) {
            for library in ["tokio", "tonic", "reqwest", "axum", "rustix", "futures"] {
                assert!(!uses.contains(library), "{name} must not use {library}");
            }
        }
    }
}

#[test]
fn every_dependency_has_a_compatible_licence() {
    const COMPATIBLE: [&str; 13] = [
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CDLA-Permissive-2.0",
        "ISC",
        "MIT",
        "MIT-0",
        "Unicode-3.0",
        "Unlicense",
        "Zlib",
    ];
    let choice = |text: &str| text.split(" OR ").any(|one| COMPATIBLE.contains(&one.trim_matches(['(', ')', ' '])));
    let metadata = metadata(&[]);
    let mut bad = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let licence = package["license"].as_str().unwrap_or("none").replace(" / ", " OR ").replace('/', " OR ");
        if !licence.split(" AND ").all(choice) {
            bad.push(format!("{} {licence}", package["name"]));
        }
    }
    assert!(bad.is_empty(), "not compatible with Apache-2.0, or unknown here: {bad:?}");
}
