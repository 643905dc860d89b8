//! Bounds: disk under churn, long values, time to open, speed of the memory store.

// Everything here is a test; the lint only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::time::Instant;

use leeway_store::conformance::{entry, rows_of};
use leeway_store::{DiskStore, Entry, MAX_INLINE_BYTES, MemoryStore, Options, RowChange, Store};
use support::{assert_sound, assert_verified, code, files_below, fill, identity, init, open, temp};

/// CPU time of this process: on a shared machine it says more than the clock on the wall.
fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

fn disk_bytes(dir: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    files_below(dir).iter().filter_map(|path| path.metadata().ok()).map(|meta| meta.blocks() * 512).sum()
}

#[test]
fn s_13_overwriting_values_of_all_sizes_keeps_the_disk_bounded() {
    let dir = temp();
    let options = || Options { segment_bytes: 4 << 20, history_bytes: Some(4 << 20), ..Options::small() };
    let mut store = DiskStore::init(dir.path(), identity(), options()).unwrap();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut luck = 99u64;
    let mut written = 0u64;
    let mut peak = 0;
    for index in 1..=900u64 {
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // From 1 KiB to 1 MiB, small ones more often.
        let len = 1024usize << ((luck >> 33) % 11).min((luck >> 50) % 11);
        let key = format!("key{}", (luck >> 20) % 12).into_bytes();
        let mut value = vec![(luck >> 13) as u8; len];
        value[..8].copy_from_slice(&index.to_le_bytes());
        store.append(entry(index, &[(&key, Some(&value))])).unwrap();
        store.flush().unwrap();
        model.insert(key, value);
        written += len as u64;
        if index % 50 == 0 {
            let live: u64 = model.values().map(|value| value.len() as u64).sum();
            let used = disk_bytes(dir.path());
            peak = peak.max(used);
            assert!(used <= 4 * live + (64 << 20), "{used} bytes on disk for {live} live bytes after {index} entries");
        }
    }
    let live: u64 = model.values().map(|value| value.len() as u64).sum();
    let report = store.compact(0).unwrap();
    let used = disk_bytes(dir.path());
    println!("{written} bytes written, {live} live, {peak} at most on disk, {used} after compaction: {report:?}");
    assert!(rows_of(&store) == model);
    assert_eq!(report.first_entry, 901);
    store.close().unwrap();
    assert_verified(dir.path());
    assert!(rows_of(&DiskStore::open(dir.path(), options()).unwrap()) == model);
}

#[test]
fn s_13_long_values_never_enter_the_index() {
    let dir = temp();
    let mut store = init(dir.path());
    for index in 1..=20u64 {
        let mut value = vec![0xd7; MAX_INLINE_BYTES + 1000];
        value[..8].copy_from_slice(&index.to_le_bytes());
        support::put(&mut store, entry(index, &[(b"one", Some(&value))]));
    }
    rows_of(&store);
    store.close().unwrap();
    for path in files_below(&dir.path().join("index")) {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(64).any(|window| window == [0xd7; 64]), "{} holds a long value", path.display());
    }
    assert_eq!(files_below(&dir.path().join("blobs")).len(), 20, "history still names them all");
    let mut store = open(dir.path()).unwrap();
    let report = store.compact(0).unwrap();
    assert_eq!(report.blobs_removed, 19);
    assert_eq!(rows_of(&store)[b"one".as_slice()].len(), MAX_INLINE_BYTES + 1000);
}

#[test]
fn compaction_keeps_the_history_it_is_asked_to_keep() {
    let dir = temp();
    let mut store =
        DiskStore::init(dir.path(), identity(), Options { segment_bytes: 4096, ..Options::small() }).unwrap();
    fill(&mut store, 100, 5);
    let all = store.compact(u64::MAX).unwrap();
    assert_eq!((all.segments_removed, all.first_entry, all.base_index), (0, 1, 100));
    let some = store.compact(8192).unwrap();
    assert!(some.segments_removed > 0 && some.first_entry > 1 && some.first_entry < 100);
    assert_eq!(code(store.entries(1, &mut |_| true)), "STORE_HISTORY_TRIMMED");
    let mut seen = 0;
    store
        .entries(some.first_entry, &mut |_| {
            seen += 1;
            true
        })
        .unwrap();
    assert_eq!(seen, 101 - some.first_entry);
    fill(&mut store, 20, 3);
    assert_sound(&store);
    store.abandon();
    let store = open(dir.path()).unwrap();
    assert_sound(&store);
    assert_eq!(store.first_entry(), some.first_entry);
}

#[test]
fn an_index_that_cannot_keep_up_is_fed_from_the_journal() {
    let dir = temp();
    // A queue that holds nothing: every group is read back from the journal.
    let options = Options { queue_bytes: 0, segment_bytes: 8192, ..Options::small() };
    let mut store = DiskStore::init(dir.path(), identity(), options).unwrap();
    fill(&mut store, 500, 3);
    assert_sound(&store);
    store.abandon();
    assert_sound(&open(dir.path()).unwrap());
}

/// A figure, not a test of speed: printed with `--ignored --nocapture`, best with `--release`.
#[test]
#[ignore = "prints figures; run by hand in release"]
fn figures_of_opening_and_of_the_memory_store() {
    let dir = temp();
    let options = || Options { segment_bytes: 64 << 20, ..Options::small() };
    let mut store = DiskStore::init(dir.path(), identity(), options()).unwrap();
    let rows = |index: u64| -> Vec<RowChange> {
        (0..100u64)
            .map(|row| RowChange {
                key: (index * 100 + row).to_be_bytes().into(),
                value: Some(vec![row as u8; 400].into()),
            })
            .collect()
    };
    for index in 1..=1000 {
        let mut entry = entry(index, &[]);
        entry.rows = rows(index);
        store.append(entry).unwrap();
        if index % 16 == 0 {
            store.flush().unwrap();
        }
    }
    store.flush().unwrap();
    let started = Instant::now();
    let mut count = 0;
    store.rows(&mut |_, _| count += 1).unwrap();
    println!("{count} rows: index caught up and read in {:?}", started.elapsed());
    store.close().unwrap();
    let started = Instant::now();
    let store = DiskStore::open(dir.path(), options()).unwrap();
    println!("opened in {:?}, {} entries behind", started.elapsed(), store.report().index_behind);
    count = 0;
    store.rows(&mut |_, _| count += 1).unwrap();
    println!("opened and {count} rows read in {:?}", started.elapsed());
    drop(store);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let started = Instant::now();
    let store = DiskStore::open(dir.path(), options()).unwrap();
    println!("opened with an index made anew in {:?}", started.elapsed());
    drop(store);

    for (name, mut store) in [("with", MemoryStore::new()), ("without", MemoryStore::without_history())] {
        let mut spent = 0.0;
        for first in (1..=100_000u64).step_by(100) {
            // Made in small lots, as a simulation makes them, and not counted.
            let lot: Vec<_> = (first..first + 100).map(ten_rows).collect();
            let cpu = cpu_seconds();
            for entry in lot {
                store.append(entry).unwrap();
                store.flush().unwrap();
            }
            spent += cpu_seconds() - cpu;
        }
        println!("memory store {name} history: {:.0} rows changed per CPU second", 1e6 / spent);
    }
}

fn ten_rows(index: u64) -> Entry {
    let mut entry = entry(index, &[]);
    let row = |row: u64| RowChange {
        key: ((index * 7919 + row * 31) % 50_000).to_be_bytes().into(),
        value: Some(vec![row as u8; 200].into()),
    };
    entry.rows = (0..10).map(row).collect();
    entry
}
