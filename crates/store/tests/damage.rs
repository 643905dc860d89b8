//! Torn tails, flipped bits, missing files, second owners.

// Everything here is a test; the lint only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use leeway_store::conformance::rows_of;
use leeway_store::{Adopted, DiskStore, Error, Options, Store, adopt, export, import, rebuild, verify};
use support::{
    assert_sound, assert_verified, busy_entry, busy_rows, code, copy_dir, files_below, fill, identity, init, open,
    segments, snapshot, temp, temp_in_memory,
};

/// Offsets at which the last `count` entries of a segment begin, newest last, and the segment's length.
fn tail_starts(path: &Path, lens: &[u64]) -> Vec<u64> {
    let mut at = fs::metadata(path).unwrap().len();
    let mut starts: Vec<u64> = lens
        .iter()
        .rev()
        .map(|len| {
            at -= len;
            at
        })
        .collect();
    starts.reverse();
    starts
}

/// Appends entries one by one, flushes each, and returns how many bytes each took in the journal.
fn append_measured(store: &mut DiskStore, count: u64) -> Vec<u64> {
    let len = |store: &DiskStore| fs::metadata(segments(store.dir()).pop().unwrap()).unwrap().len();
    let first = store.head().index + 1;
    (first..first + count)
        .map(|index| {
            let before = len(store);
            store.append(busy_entry(index)).unwrap();
            store.flush().unwrap();
            len(store) - before
        })
        .collect()
}

#[test]
fn s_03_torn_tail_is_cut() {
    let origin = temp_in_memory();
    let mut store = init(origin.path());
    fill(&mut store, 20, 4);
    let twin = temp_in_memory();
    copy_dir(origin.path(), twin.path());
    let lens = append_measured(&mut open(twin.path()).unwrap(), 3);
    for index in 21..=23 {
        store.append(busy_entry(index)).unwrap();
    }
    // Written and not synced, so nobody was answered for them.
    store.abandon();
    let path = segments(origin.path()).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let starts = tail_starts(&path, &lens);
    assert_eq!(starts.len(), 3);
    let dir = temp_in_memory();
    for cut in starts[0]..=whole.len() as u64 {
        let _ = fs::remove_dir_all(dir.path());
        copy_dir(origin.path(), dir.path());
        fs::write(dir.path().join("journal").join(path.file_name().unwrap()), &whole[..cut as usize]).unwrap();
        let store = open(dir.path()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let ends = [starts[1], starts[2], whole.len() as u64];
        let kept = ends.iter().filter(|end| **end <= cut).count() as u64;
        assert_eq!(store.head().index, 20 + kept, "cut at {cut}");
        let last_whole = [starts[0], starts[1], starts[2], whole.len() as u64][kept as usize];
        assert_eq!(store.report().cut_bytes, cut - last_whole, "cut at {cut}");
        // Reading all rows each time would take long; the first byte of each entry will do.
        if cut == last_whole {
            assert_sound(&store);
        }
        store.abandon();
    }
}

#[test]
fn s_03_a_tail_that_was_acknowledged_is_never_cut() {
    let origin = temp_in_memory();
    let mut store = init(origin.path());
    fill(&mut store, 20, 4);
    let lens = append_measured(&mut store, 3);
    store.abandon();
    let path = segments(origin.path()).pop().unwrap();
    let whole = fs::read(&path).unwrap();
    let place = format!("journal/{}", path.file_name().unwrap().to_string_lossy());
    let starts = tail_starts(&path, &lens);
    let dir = temp_in_memory();
    copy_dir(origin.path(), dir.path());
    for cut in starts[0]..whole.len() as u64 {
        fs::write(dir.path().join("journal").join(path.file_name().unwrap()), &whole[..cut as usize]).unwrap();
        let begun = *starts.iter().rfind(|start| **start <= cut).unwrap();
        match open(dir.path()) {
            Err(Error::Corrupt { place: found, offset, .. }) => {
                assert_eq!((found, offset), (place.clone(), begun), "cut at {cut}");
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
        assert_eq!(fs::metadata(dir.path().join("journal").join(path.file_name().unwrap())).unwrap().len(), cut);
    }
}

#[test]
fn s_03_damage_before_the_tail_is_refused_with_segment_and_offset_even_without_the_mark() {
    let dir = temp();
    let mut store =
        DiskStore::init(dir.path(), identity(), Options { segment_bytes: 3000, ..Options::small() }).unwrap();
    fill(&mut store, 40, 2);
    store.close().unwrap();
    fs::remove_file(dir.path().join("journal/head")).unwrap();
    let all = segments(dir.path());
    assert!(all.len() > 2);
    for path in [&all[0], &all[all.len() / 2], &all[all.len() - 1]] {
        let whole = fs::read(path).unwrap();
        // The first entry of each segment: further acknowledged entries follow it.
        let mut damaged = whole.clone();
        damaged[56 + 60] ^= 1;
        fs::write(path, &damaged).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match open(dir.path()) {
            Err(Error::Corrupt { place, offset, .. }) => assert_eq!((place, offset), (format!("journal/{name}"), 56)),
            other => panic!("{name}: {other:?}"),
        }
        let report = verify(dir.path(), Options::small()).unwrap();
        let named = report.problems.iter().any(|problem| problem.place.ends_with(&name) && problem.offset == 56);
        assert!(named, "{:?}", report.problems);
        fs::write(path, &whole).unwrap();
    }
    assert_eq!(code(open(dir.path())), "STORE_MARK_MISSING");
}

#[test]
fn s_03_a_missing_segment_is_refused() {
    let origin = temp();
    let mut store =
        DiskStore::init(origin.path(), identity(), Options { segment_bytes: 3000, ..Options::small() }).unwrap();
    fill(&mut store, 60, 2);
    store.close().unwrap();
    let names: Vec<_> = segments(origin.path()).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    for name in &names {
        let dir = temp();
        copy_dir(origin.path(), dir.path());
        fs::remove_file(dir.path().join("journal").join(name)).unwrap();
        let before = snapshot(&dir.path().join("journal"));
        let refused = code(open(dir.path()));
        assert!(["STORE_CORRUPT", "STORE_IDENTITY_MISMATCH"].contains(&refused), "{name:?}: {refused}");
        assert_eq!(before, snapshot(&dir.path().join("journal")));
    }
}

/// Opens a damaged directory and checks the one rule: the identical state, or a clean refusal.
fn same_or_refused(dir: &Path, last: u64, what: &str) -> bool {
    match open(dir) {
        Ok(store) => {
            assert_eq!(store.head().index, last, "{what}: entries are missing");
            assert!(rows_of(&store) == busy_rows(last), "{what}: rows differ");
            store.abandon();
            true
        }
        Err(error) => {
            let known = ["STORE_CORRUPT", "STORE_IDENTITY_MISMATCH", "STORE_FORMAT_NEWER", "STORE_FORMAT_OLDER"];
            assert!(known.contains(&error.code()), "{what}: {error:?}");
            false
        }
    }
}

#[test]
fn s_04_a_thousand_flipped_bytes_give_the_identical_state_or_a_clean_refusal() {
    let origin = temp_in_memory();
    let options = Options { segment_bytes: 16 * 1024, ..Options::small() };
    let mut store = DiskStore::init(origin.path(), identity(), options).unwrap();
    fill(&mut store, 60, 5);
    store.compact(0).unwrap();
    fill(&mut store, 60, 5);
    let last = store.head().index;
    store.close().unwrap();
    let mut luck = 0x1234_5678_9abc_def0u64;
    let mut draw = move |bound: u64| {
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (luck >> 33) % bound.max(1)
    };
    let relative: Vec<_> =
        files_below(origin.path()).iter().map(|path| path.strip_prefix(origin.path()).unwrap().to_owned()).collect();
    let group = |prefix: &str| relative.iter().filter(|path| path.starts_with(prefix)).collect::<Vec<_>>();
    let (journal, sled, base) = (group("journal"), group("index"), group("base"));
    // Where bytes matter: sled's file is mostly empty space, so flips are drawn from what is in use.
    let used = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        (0..bytes.len()).filter(|at| bytes[*at] != 0 || at % 4096 < 2).map(|at| at as u64).collect::<Vec<_>>()
    };
    let (mut same, mut refused) = (0, 0);
    let dir = temp_in_memory();
    for flip in 0..1000 {
        let files = match flip % 10 {
            0..6 => &journal,
            6..9 => &sled,
            _ => &base,
        };
        let file = files[draw(files.len() as u64) as usize];
        let _ = fs::remove_dir_all(dir.path());
        copy_dir(origin.path(), dir.path());
        let path = dir.path().join(file);
        let places = used(&path);
        if places.is_empty() {
            continue;
        }
        let at = places[draw(places.len() as u64) as usize];
        let mut bytes = fs::read(&path).unwrap();
        bytes[at as usize] ^= 1 << draw(8);
        fs::write(&path, bytes).unwrap();
        if same_or_refused(dir.path(), last, &format!("flip {flip} in {} at {at}", file.display())) {
            same += 1;
        } else {
            refused += 1;
            assert!(!file.starts_with("index"), "the index alone is never a reason to refuse: {}", file.display());
        }
    }
    println!("{same} flips healed or harmless, {refused} refused");
    assert!(same > 100 && refused > 100);
}

#[test]
fn s_04_a_flipped_byte_of_the_identity_is_refused_or_harmless() {
    let dir = temp_in_memory();
    init(dir.path()).close().unwrap();
    let path = dir.path().join("IDENTITY");
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        match open(dir.path()) {
            Ok(store) => assert_eq!(store.identity(), &identity(), "flip at {at}"),
            Err(error) => {
                let known = ["STORE_CORRUPT", "STORE_FORMAT_NEWER", "STORE_FORMAT_OLDER"];
                assert!(known.contains(&error.code()), "flip at {at}: {error}")
            }
        }
    }
}

#[test]
fn s_05_a_corpus_of_damaged_index_files_is_contained_and_rebuilt() {
    let origin = temp();
    let mut store = init(origin.path());
    fill(&mut store, 200, 10);
    store.close().unwrap();
    type Damage = (&'static str, fn(&Path));
    let corpus: [Damage; 9] = [
        ("db emptied", |index| fs::write(index.join("db"), b"").unwrap()),
        ("db cut in half", |index| {
            let bytes = fs::read(index.join("db")).unwrap();
            fs::write(index.join("db"), &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("db all zeroes", |index| {
            let len = fs::metadata(index.join("db")).unwrap().len() as usize;
            fs::write(index.join("db"), vec![0; len]).unwrap();
        }),
        ("db all noise", |index| {
            let len = fs::metadata(index.join("db")).unwrap().len() as usize;
            let noise: Vec<u8> =
                (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect();
            fs::write(index.join("db"), noise).unwrap();
        }),
        ("db missing", |index| fs::remove_file(index.join("db")).unwrap()),
        ("conf missing", |index| fs::remove_file(index.join("conf")).unwrap()),
        ("conf is noise", |index| fs::write(index.join("conf"), [0xff; 64]).unwrap()),
        ("a snapshot of noise", |index| fs::write(index.join("snap.00000000000FFFFF"), [0xa5; 512]).unwrap()),
        ("index missing", |index| fs::remove_dir_all(index).unwrap()),
    ];
    for (what, damage) in corpus {
        let dir = temp();
        copy_dir(origin.path(), dir.path());
        damage(&dir.path().join("index"));
        let store = open(dir.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_sound(&store);
        let rebuilt = store.report().index_rebuilt.clone();
        store.close().unwrap();
        // No loop: the next open finds nothing to do.
        let store = open(dir.path()).unwrap();
        assert_eq!(store.report().index_rebuilt, None, "{what}");
        assert_sound(&store);
        println!("{what}: {}", rebuilt.as_deref().unwrap_or("opened as it was"));
    }
}

#[test]
fn s_05_only_the_newest_damaged_index_is_kept() {
    let dir = temp();
    let mut store = init(dir.path());
    fill(&mut store, 10, 1);
    store.close().unwrap();
    for number in 1..=3 {
        fs::write(dir.path().join("index/db"), [7; 100_000]).unwrap();
        let store = open(dir.path()).unwrap();
        assert_sound(&store);
        let kept = dir.path().join(format!("index.damaged-{number}"));
        assert_eq!(store.report().index_set_aside.as_ref(), Some(&kept));
        assert!(kept.exists());
        assert!(!dir.path().join(format!("index.damaged-{}", number - 1)).exists());
    }
}

#[test]
fn s_06_half_written_snapshots_are_removed_before_opening() {
    for content in [b"".as_slice(), b"half a snapshot"] {
        let dir = temp();
        let mut store = init(dir.path());
        fill(&mut store, 50, 5);
        store.close().unwrap();
        let good =
            files_below(&dir.path().join("index")).into_iter().find(|path| path.to_string_lossy().contains("snap."));
        let leftover = dir.path().join("index/snap.0000000000001234.generating");
        fs::write(&leftover, content).unwrap();
        let also = dir.path().join("IDENTITY.tmp");
        fs::write(&also, content).unwrap();
        let store = open(dir.path()).unwrap();
        assert!(!leftover.exists() && !also.exists());
        assert_eq!(store.report().leftovers_removed, 2);
        assert_eq!(store.report().index_rebuilt, None, "the good snapshot {good:?} is used");
        assert_sound(&store);
    }
}

#[test]
fn s_07_a_store_without_its_main_files_is_never_taken_for_an_empty_one() {
    let origin = temp();
    let mut store = init(origin.path());
    fill(&mut store, 20, 5);
    store.close().unwrap();
    type Loss = (&'static str, fn(&Path));
    let losses: [Loss; 5] = [
        ("journal", |dir| fs::remove_dir_all(dir.join("journal")).unwrap()),
        ("segments", |dir| segments(dir).iter().for_each(|path| fs::remove_file(path).unwrap())),
        ("identity", |dir| fs::remove_file(dir.join("IDENTITY")).unwrap()),
        ("journal and index", |dir| {
            fs::remove_dir_all(dir.join("journal")).unwrap();
            fs::remove_dir_all(dir.join("index")).unwrap();
        }),
        ("identity and journal", |dir| {
            fs::remove_file(dir.join("IDENTITY")).unwrap();
            fs::remove_dir_all(dir.join("journal")).unwrap();
        }),
    ];
    for (what, lose) in losses {
        let dir = temp();
        copy_dir(origin.path(), dir.path());
        lose(dir.path());
        let before = snapshot(dir.path());
        assert_eq!(code(open(dir.path())), "STORE_IDENTITY_MISMATCH", "{what}");
        assert_eq!(code(DiskStore::open_or_init(dir.path(), identity(), Options::small())), "STORE_IDENTITY_MISMATCH");
        assert_eq!(code(DiskStore::init(dir.path(), identity(), Options::small())), "STORE_NOT_EMPTY");
        assert_eq!(code(verify(dir.path(), Options::small())), "STORE_IDENTITY_MISMATCH");
        assert!(before == snapshot(dir.path()), "{what}: something was written");
    }
    // An empty volume where the store was: opening never makes one.
    let empty = temp();
    assert_eq!(code(open(empty.path())), "STORE_NOT_INITIALISED");
    assert!(files_below(empty.path()).is_empty());
    assert_eq!(code(open(&empty.path().join("absent"))), "STORE_NOT_INITIALISED");
}

#[test]
fn s_07_an_index_that_has_seen_more_than_the_journal_is_proof_of_a_loss() {
    let (dir, old) = (temp(), temp());
    let mut store = init(dir.path());
    fill(&mut store, 20, 5);
    store.close().unwrap();
    copy_dir(&dir.path().join("journal"), &old.path().join("journal"));
    let mut store = open(dir.path()).unwrap();
    fill(&mut store, 20, 5);
    rows_of(&store);
    store.close().unwrap();
    // A partial restore: the old journal under the new index.
    fs::remove_dir_all(dir.path().join("journal")).unwrap();
    copy_dir(&old.path().join("journal"), &dir.path().join("journal"));
    assert_eq!(code(open(dir.path())), "STORE_CORRUPT");
    assert_eq!(code(rebuild(dir.path(), Options::small())), "STORE_CORRUPT", "it would throw the proof away");
    // The operator says that this is meant.
    let report = adopt(dir.path(), Adopted::Restored { incarnation: "second" }, Options::small()).unwrap();
    assert_eq!(report.head.index, 20);
    assert_sound(&open(dir.path()).unwrap());
}

#[test]
fn s_07_an_index_or_base_of_another_store_is_not_used() {
    let (one, two) = (temp(), temp());
    let mut store = init(one.path());
    fill(&mut store, 20, 5);
    store.close().unwrap();
    let mut store = init(two.path());
    for index in 1..=20 {
        let mut entry = busy_entry(index);
        entry.time_ms += 1;
        store.append(entry).unwrap();
    }
    store.flush().unwrap();
    store.compact(u64::MAX).unwrap();
    store.close().unwrap();
    fs::remove_dir_all(one.path().join("index")).unwrap();
    copy_dir(&two.path().join("index"), &one.path().join("index"));
    let store = open(one.path()).unwrap();
    assert!(store.report().index_rebuilt.as_ref().unwrap().contains("another history"));
    assert_sound(&store);
    store.close().unwrap();
    copy_dir(&two.path().join("base"), &one.path().join("base"));
    assert_eq!(code(open(one.path())), "STORE_CORRUPT");
}

#[test]
fn s_12_a_second_owner_is_refused_by_name_and_the_first_is_unaffected() {
    let dir = temp();
    let mut store = init(dir.path());
    fill(&mut store, 5, 1);
    let refused = open(dir.path()).unwrap_err();
    assert_eq!(refused.code(), "STORE_LOCKED");
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    assert_eq!(code(rebuild(dir.path(), Options::small())), "STORE_LOCKED");
    let looked = verify(dir.path(), Options::small()).unwrap();
    assert_eq!(looked.in_use_by, Some(std::process::id().to_string()));
    assert_eq!(looked.problems, []);
    fill(&mut store, 5, 1);
    assert_sound(&store);
    store.close().unwrap();
    assert_sound(&open(dir.path()).unwrap());
}

#[test]
fn s_14_an_import_goes_on_under_a_new_incarnation() {
    let (dir, away) = (temp(), temp());
    let mut store = init(dir.path());
    fill(&mut store, 30, 5);
    let long = vec![3; 300_000];
    support::put(&mut store, leeway_store::conformance::entry(31, &[(b"long", Some(&long))]));
    let (head, rows) = (store.head(), rows_of(&store));
    store.close().unwrap();
    let file = away.path().join("rows.export");
    let written = export(dir.path(), &file, Options::small()).unwrap();
    assert_eq!((written.head, written.rows), (head, rows.len() as u64));
    assert_eq!(code(export(dir.path(), &file, Options::small())), "STORE_NOT_EMPTY");

    let new = away.path().join("new");
    assert_eq!(code(import(&file, &new, "first", Options::small())), "STORE_IDENTITY_MISMATCH");
    assert!(!new.exists());
    let report = import(&file, &new, "second", Options::small()).unwrap();
    assert_eq!((report.from.incarnation.as_str(), report.identity.incarnation.as_str()), ("first", "second"));
    assert_eq!(report.identity.installation, "test");
    let mode = fs::metadata(&new).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700, "rows hold sealed secrets and commands; they are nobody else's");
    assert_eq!(code(import(&file, &new, "third", Options::small())), "STORE_NOT_EMPTY");

    let mut store = open(&new).unwrap();
    assert_eq!(store.identity().incarnation, "second");
    assert_eq!(store.head(), head);
    assert!(rows_of(&store) == rows);
    assert_eq!(code(store.entries(1, &mut |_| true)), "STORE_HISTORY_TRIMMED");
    fill(&mut store, 10, 3);
    assert_eq!(store.head().index, head.index + 10);
    store.close().unwrap();
    assert_verified(&new);
    assert_eq!(open(&new).unwrap().head().index, head.index + 10);
}

#[test]
fn s_14_a_damaged_export_makes_no_store() {
    let (dir, away) = (temp(), temp());
    let mut store = init(dir.path());
    fill(&mut store, 10, 5);
    store.close().unwrap();
    let file = away.path().join("rows.export");
    export(dir.path(), &file, Options::small()).unwrap();
    let whole = fs::read(&file).unwrap();
    let new = away.path().join("new");
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&file, &bytes).unwrap();
        assert_eq!(code(import(&file, &new, "second", Options::small())), "STORE_CORRUPT", "flip at {at}");
        fs::write(&file, &whole[..at]).unwrap();
        assert_eq!(code(import(&file, &new, "second", Options::small())), "STORE_CORRUPT", "cut at {at}");
        assert!(!new.exists());
    }
    fs::write(&file, [whole.as_slice(), b"x"].concat()).unwrap();
    assert_eq!(code(import(&file, &new, "second", Options::small())), "STORE_CORRUPT");
    // A base is not an export.
    let mut store = open(dir.path()).unwrap();
    store.compact(0).unwrap();
    let base = files_below(&dir.path().join("base")).pop().unwrap();
    assert_eq!(code(import(&base, &new, "second", Options::small())), "STORE_CORRUPT");
}

#[test]
fn s_14_an_import_cut_short_is_never_taken_for_a_store() {
    let (dir, away) = (temp(), temp());
    let mut store = init(dir.path());
    fill(&mut store, 10, 5);
    store.close().unwrap();
    let file = away.path().join("rows.export");
    export(dir.path(), &file, Options::small()).unwrap();
    let new = away.path().join("new");
    import(&file, &new, "second", Options::small()).unwrap();
    fs::remove_file(new.join("IDENTITY")).unwrap();
    assert_eq!(code(DiskStore::open_or_init(&new, identity(), Options::small())), "STORE_IDENTITY_MISMATCH");
}

#[test]
fn a_damaged_base_is_written_anew_while_the_index_is_sound_and_refused_otherwise() {
    let origin = temp();
    let mut store = init(origin.path());
    fill(&mut store, 40, 5);
    store.compact(0).unwrap();
    fill(&mut store, 10, 5);
    store.close().unwrap();
    let base = files_below(&origin.path().join("base")).pop().unwrap();
    let mut bytes = fs::read(&base).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&base, bytes).unwrap();
    let dir = temp();
    copy_dir(origin.path(), dir.path());
    let store = open(dir.path()).unwrap();
    assert!(store.report().base_rebuilt.is_some());
    assert_sound(&store);
    store.close().unwrap();
    assert_verified(dir.path());
    fs::remove_dir_all(origin.path().join("index")).unwrap();
    match open(origin.path()) {
        Err(Error::Corrupt { place, .. }) => assert!(place.starts_with("base/")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn verify_changes_nothing_and_finds_nothing_wrong_with_a_sound_store() {
    let dir = temp();
    let mut store = init(dir.path());
    fill(&mut store, 100, 9);
    let long = vec![5; 300_000];
    support::put(&mut store, leeway_store::conformance::entry(101, &[(b"long", Some(&long))]));
    let head = store.head();
    store.close().unwrap();
    let before = snapshot(dir.path());
    let report = verify(dir.path(), Options::small()).unwrap();
    assert!(before == snapshot(dir.path()));
    assert_eq!(report.problems, []);
    assert_eq!((report.head, report.marked, report.first_entry, report.entries), (head, 101, 1, 101));
    assert_eq!(report.rows, busy_rows(100).len() as u64 + 1);
    assert_eq!((report.blobs.files, report.blobs.not_in_rows), (1, 0));
    assert!(report.index.unwrap().agrees);
    let blob = files_below(&dir.path().join("blobs")).pop().unwrap();
    fs::write(&blob, b"something else").unwrap();
    let report = verify(dir.path(), Options::small()).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].place.starts_with("blobs/"));
    let store = open(dir.path()).unwrap();
    assert_eq!(code(store.rows(&mut |_, _| ())), "STORE_CORRUPT");
}
