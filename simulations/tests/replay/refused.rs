//! What cannot be replayed is answered with what to do instead, and stays as it is.

use std::collections::BTreeMap;
use std::path::Path;

use leeway_simulations::fleet::history::History;
use leeway_simulations::fleet::study::{self, Plan};
use leeway_store::{DiskStore, Options, Store as _};

use super::recorded::{folder, live, store};
use super::worlds::{WORLD, cluster, job};

fn said(path: &Path) -> (&'static str, String) {
    let error = History::read(path, None).unwrap_err();
    (error.code(), error.to_string())
}

fn small() -> String {
    WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 4) + &job("one", "0s", "2h", "")
}

fn files(dir: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn a_folder_or_file_that_is_no_store_is_refused() {
    let dir = folder();
    let (code, text) = said(&dir.path().join("gone"));
    assert!(code == "FILE" && text.contains("gone") && text.contains("leeway store export"), "{code}: {text}");
    let (code, text) = said(dir.path());
    assert!(code == "STORE_NOT_INITIALISED" && text.contains("holds no store"), "{code}: {text}");
    std::fs::write(dir.path().join("notes.txt"), "nothing of ours, but longer than a header").unwrap();
    let (code, text) = said(dir.path());
    assert!(code == "STORE_NOT_INITIALISED", "{code}: {text}");
    let (code, text) = said(&dir.path().join("notes.txt"));
    assert!(code == "STORE_CORRUPT" && text.contains("not an export"), "{code}: {text}");
    assert!(!dir.path().join("LOCK").exists(), "nothing is written");
}

#[test]
fn a_store_without_jobs_is_refused() {
    let dir = folder();
    let mut setup = store(&dir.path().join("s"), Options::small());
    setup.flush().unwrap();
    drop(setup);
    let (code, text) = said(&dir.path().join("s"));
    assert!(code == "NO_JOBS" && text.contains("has no jobs"), "{code}: {text}");
}

#[test]
fn a_store_in_use_is_refused_and_one_at_rest_is_not_changed() {
    let dir = folder();
    let path = dir.path().join("s");
    live(&small(), "whole-bill", &path);
    let held = DiskStore::open(&path, Options::small()).unwrap();
    let (code, text) = said(&path);
    assert!(code == "STORE_LOCKED" && text.contains(&std::process::id().to_string()), "{code}: {text}");
    assert!(text.contains("stop that server") && text.contains("export"), "{text}");
    drop(held);
    let before = files(&path);
    History::read(&path, None).unwrap();
    assert_eq!(files(&path), before);
}

#[test]
fn a_history_without_its_beginning_is_refused_and_its_export_is_not() {
    let dir = folder();
    let path = dir.path().join("s");
    live(&small(), "whole-bill", &path);
    let mut trimmed = DiskStore::open(&path, Options::small()).unwrap();
    trimmed.compact(0).unwrap();
    trimmed.close().unwrap();
    let (code, text) = said(&path);
    assert!(code == "STORE_HISTORY_TRIMMED" && text.contains("leeway store export"), "{code}: {text}");
    let file = dir.path().join("x.export");
    leeway_store::export(&path, &file, Options::small()).unwrap();
    History::read(&file, None).unwrap();
    let copy = dir.path().join("copy");
    leeway_store::import(&file, &copy, "second", Options::small()).unwrap();
    assert_eq!(said(&copy).0, "STORE_HISTORY_TRIMMED");
}

#[test]
fn a_policy_that_is_not_known_is_answered_with_those_that_are() {
    let dir = folder();
    let path = dir.path().join("s");
    live(&small(), "whole-bill", &path);
    let history = std::sync::Arc::new(History::read(&path, None).unwrap());
    let plan = Plan {
        scenario: history.facade(&[]),
        history: Some(history),
        policies: vec!["whole-bil".parse().unwrap()],
        seeds: vec![1],
        threads: 1,
        checked: false,
    };
    let said = study::study(&plan, &|_| false, &|_| {}).unwrap_err().to_string();
    assert!(said.contains("'whole-bil'") && said.contains("whole-bill"), "{said}");
}
