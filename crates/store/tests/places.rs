//! Stores without their mark, creations that never finished, copies, and what an operator may say of them.

// Everything here is a test; the lint only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;

use leeway_store::conformance::rows_of;
use leeway_store::{Adopted, DiskStore, Error, Options, adopt, is_vacant, rebuild, refuse_copy, verify};
use support::{
    assert_sound, assert_verified, busy_rows, code, copy_dir, fill, identity, init, open, segments, snapshot, temp,
};

const RESTORED: Adopted<'_> = Adopted::Restored { incarnation: "second" };

/// A closed store of 20 entries.
fn closed(dir: &Path) {
    let mut store = init(dir);
    fill(&mut store, 20, 1);
    store.close().unwrap();
}

/// Cuts the last entry off the journal, to the byte.
fn cut_last_entry(dir: &Path) {
    let path = segments(dir).pop().unwrap();
    let shorter = temp();
    let mut twin = init(shorter.path());
    fill(&mut twin, 19, 1);
    twin.close().unwrap();
    let len = fs::metadata(segments(shorter.path()).pop().unwrap()).unwrap().len();
    assert!(len < fs::metadata(&path).unwrap().len());
    fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
}

fn remove_mark(dir: &Path) {
    fs::remove_file(dir.join("journal/head")).unwrap();
}

#[test]
fn s_03_without_a_mark_nobody_can_say_that_nothing_was_cut_off_and_the_store_is_refused() {
    type Harm = (&'static str, fn(&Path));
    let harms: [Harm; 5] = [
        ("the mark is gone", remove_mark),
        ("the mark cannot be read", |dir| fs::write(dir.join("journal/head"), [0; 8192]).unwrap()),
        ("the mark is empty", |dir| fs::write(dir.join("journal/head"), []).unwrap()),
        ("mark and index are gone", |dir| {
            remove_mark(dir);
            fs::remove_dir_all(dir.join("index")).unwrap();
        }),
        ("mark, index and an acknowledged entry are gone", |dir| {
            remove_mark(dir);
            fs::remove_dir_all(dir.join("index")).unwrap();
            cut_last_entry(dir);
        }),
    ];
    for (what, harm) in harms {
        let dir = temp();
        closed(dir.path());
        harm(dir.path());
        let before = snapshot(&dir.path().join("journal"));
        let error = open(dir.path()).expect_err(what);
        assert_eq!(error.code(), "STORE_MARK_MISSING", "{what}");
        let told = error.to_string();
        let advice = format!("store adopt --restored {}", dir.path().display());
        for part in ["journal/head", "ends at entry", &advice] {
            assert!(told.contains(part), "{what}: {told}");
        }
        let report = verify(dir.path(), Options::small()).unwrap();
        let found = report.problems.iter().find(|problem| problem.code == "STORE_MARK_MISSING").expect(what);
        assert_eq!((found.place.as_str(), found.repairable), ("journal/head", false), "{what}");
        assert_eq!(code(rebuild(dir.path(), Options::small())), "STORE_MARK_MISSING", "{what}");
        assert_eq!(before, snapshot(&dir.path().join("journal")), "{what}: nothing was changed");
    }
}

#[test]
fn s_03_s_14_a_lost_end_is_accepted_only_as_a_restore_under_a_new_incarnation() {
    let dir = temp();
    closed(dir.path());
    cut_last_entry(dir.path());
    assert_eq!(code(open(dir.path())), "STORE_CORRUPT", "the mark tells");
    assert_eq!(code(adopt(dir.path(), Adopted::Moved, Options::small())), "STORE_CORRUPT");
    let old = Adopted::Restored { incarnation: "first" };
    assert_eq!(code(adopt(dir.path(), old, Options::small())), "STORE_IDENTITY_MISMATCH");
    let report = adopt(dir.path(), RESTORED, Options::small()).unwrap();
    assert_eq!((report.head.index, report.from.as_str()), (19, "first"));
    let store = open(dir.path()).unwrap();
    assert_eq!(store.identity().incarnation, "second");
    assert_eq!(rows_of(&store), busy_rows(19));
    store.close().unwrap();
    assert_verified(dir.path());
}

#[test]
fn a_creation_that_a_crash_ended_before_the_identity_is_begun_again() {
    // What a creation leaves, latest crash first.
    let undo: [fn(&Path); 7] = [
        |dir| {
            fs::remove_dir_all(dir.join("index")).unwrap();
            fs::rename(dir.join("IDENTITY"), dir.join("IDENTITY.tmp")).unwrap();
        },
        |dir| fs::remove_file(dir.join("IDENTITY.tmp")).unwrap(),
        |dir| fs::rename(dir.join("journal/head"), dir.join("journal/head.tmp")).unwrap(),
        |dir| fs::remove_file(dir.join("journal/head.tmp")).unwrap(),
        |dir| fs::write(dir.join("journal/00000000000000000001.log"), []).unwrap(),
        |dir| fs::remove_file(dir.join("journal/00000000000000000001.log")).unwrap(),
        |dir| fs::remove_dir(dir.join("journal")).unwrap(),
    ];
    for count in 1..=undo.len() {
        let dir = temp();
        init(dir.path()).close().unwrap();
        undo[..count].iter().for_each(|undo| undo(dir.path()));
        assert!(is_vacant(dir.path()).unwrap(), "{count}");
        let mut store = DiskStore::open_or_init(dir.path(), identity(), Options::small()).unwrap();
        fill(&mut store, 3, 1);
        store.close().unwrap();
        assert_sound(&open(dir.path()).unwrap());
        assert_verified(dir.path());
    }
}

#[test]
fn s_07_what_was_ever_used_is_never_taken_for_an_unfinished_creation() {
    let harms: [fn(&Path); 3] = [
        |_| (),
        |dir| fs::remove_dir_all(dir.join("index")).unwrap(),
        |dir| {
            fs::remove_dir_all(dir.join("index")).unwrap();
            remove_mark(dir);
        },
    ];
    for harm in harms {
        let dir = temp();
        closed(dir.path());
        fs::remove_file(dir.path().join("IDENTITY")).unwrap();
        harm(dir.path());
        assert!(!is_vacant(dir.path()).unwrap());
        assert_eq!(code(DiskStore::init(dir.path(), identity(), Options::small())), "STORE_NOT_EMPTY");
        let opened = DiskStore::open_or_init(dir.path(), identity(), Options::small());
        assert_eq!(code(opened), "STORE_IDENTITY_MISMATCH");
    }
    // Also one whose segments are gone, as long as its mark knows of entries.
    let dir = temp();
    closed(dir.path());
    for gone in ["IDENTITY", "journal/00000000000000000001.log"] {
        fs::remove_file(dir.path().join(gone)).unwrap();
    }
    fs::remove_dir_all(dir.path().join("index")).unwrap();
    assert!(!is_vacant(dir.path()).unwrap());
}

#[test]
fn a_copy_is_told_from_the_store_until_it_is_adopted_and_a_renamed_directory_is_no_copy() {
    let top = temp();
    let [first, renamed, copy] = ["first", "renamed", "copy"].map(|name| top.path().join(name));
    closed(&first);
    refuse_copy(&first).unwrap();
    fs::rename(&first, &renamed).unwrap();
    refuse_copy(&renamed).unwrap();
    copy_dir(&renamed, &copy);
    let error = refuse_copy(&copy).unwrap_err();
    assert!(matches!(&error, Error::Copied { dir, .. } if *dir == copy), "{error:?}");
    assert_eq!(error.code(), "STORE_COPIED");
    assert!(error.to_string().contains("--moved") && error.to_string().contains("--restored"), "{error}");
    assert_verified(&copy);
    let report = adopt(&copy, Adopted::Moved, Options::small()).unwrap();
    assert_eq!((report.identity, report.head.index), (identity(), 20));
    refuse_copy(&copy).unwrap();
    assert_sound(&open(&copy).unwrap());
    // An older copy that is put in the store's own place is a copy, too.
    fs::remove_dir_all(&renamed).unwrap();
    copy_dir(&copy, &renamed);
    assert_eq!(code(refuse_copy(&renamed)), "STORE_COPIED");
    adopt(&renamed, RESTORED, Options::small()).unwrap();
    refuse_copy(&renamed).unwrap();
    assert_eq!(open(&renamed).unwrap().identity().incarnation, "second");
}

#[test]
fn a_store_that_never_noted_its_place_is_at_home_where_it_is_opened_next() {
    let top = temp();
    let [old, copy] = ["old", "copy"].map(|name| top.path().join(name));
    closed(&old);
    let path = old.join("IDENTITY");
    let mut file: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    file.as_object_mut().unwrap().remove("place").expect("the place is there");
    fs::write(&path, file.to_string()).unwrap();
    refuse_copy(&old).unwrap();
    open(&old).unwrap().close().unwrap();
    refuse_copy(&old).unwrap();
    copy_dir(&old, &copy);
    assert_eq!(code(refuse_copy(&copy)), "STORE_COPIED");
}

#[test]
fn nothing_is_adopted_that_is_in_use_or_no_store() {
    let dir = temp();
    let store = init(dir.path());
    for as_what in [Adopted::Moved, RESTORED] {
        assert_eq!(code(adopt(dir.path(), as_what, Options::small())), "STORE_LOCKED");
    }
    store.close().unwrap();
    let empty = temp();
    for as_what in [Adopted::Moved, RESTORED] {
        assert_eq!(code(adopt(empty.path(), as_what, Options::small())), "STORE_NOT_INITIALISED");
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}
