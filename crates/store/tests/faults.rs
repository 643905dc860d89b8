//! Power cuts, failing syncs, full and read-only disks.

// Everything here is a test; the lint only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;

use leeway_store::conformance::{entries_of, entry, rows_of};
use leeway_store::files::faulty::{FaultyFiles, PowerCut};
use leeway_store::{DiskStore, Options, Store};
use support::{assert_sound, busy_entry, busy_rows, code, fill, identity, open, temp};

fn options(files: &FaultyFiles) -> Options {
    Options { files: Arc::new(files.clone()), segment_bytes: 8 * 1024, ..Options::small() }
}

/// Appends in groups until the plug is pulled; returns how many entries were acknowledged and how many only staged.
fn run_until_power_cut(dir: &Path, cut: PowerCut, seed: u64) -> (u64, u64) {
    let files = FaultyFiles::new();
    let fresh = !dir.join("IDENTITY").exists();
    let mut store = if fresh {
        DiskStore::init(dir, identity(), options(&files)).unwrap()
    } else {
        DiskStore::open(dir, options(&files)).unwrap()
    };
    let mut next = store.head().index + 1;
    let mut acknowledged = store.head().index;
    for group in 0..(3 + seed % 9) {
        for _ in 0..(1 + (seed + group) % 5) {
            store.append(busy_entry(next)).unwrap();
            next += 1;
        }
        if group % 4 != 3 {
            acknowledged = store.flush().unwrap().index;
        }
    }
    // And some that nobody will ever be told of.
    for _ in 0..seed % 4 {
        store.append(busy_entry(next)).unwrap();
        next += 1;
    }
    // Between the write and the sync.
    store.abandon();
    files.freeze();
    files.power_cut(cut).unwrap();
    (acknowledged, next - 1)
}

#[test]
fn s_02_after_a_power_cut_everything_acknowledged_is_recovered() {
    let mut torn = 0;
    for seed in 0..60 {
        let dir = temp();
        let cut = if seed % 4 == 0 { PowerCut::DropAll } else { PowerCut::Scramble { seed } };
        for round in 0..3 {
            let (acknowledged, staged) = run_until_power_cut(dir.path(), cut, seed * 31 + round);
            let store = open(dir.path()).unwrap_or_else(|error| panic!("seed {seed} round {round}: {error}"));
            let recovered = store.head().index;
            assert!(recovered >= acknowledged, "seed {seed}: {acknowledged} acknowledged, {recovered} recovered");
            assert!(recovered <= staged, "seed {seed}: {recovered} recovered of {staged}");
            assert_eq!(entries_of(&store, 1), (1..=recovered).map(busy_entry).collect::<Vec<_>>());
            assert_sound(&store);
            torn += u64::from(store.report().cut_bytes > 0);
            store.close().unwrap();
        }
    }
    assert!(torn > 5, "the power cuts tore the tail only {torn} times: the test proves too little");
}

#[test]
fn s_02_without_the_sync_the_same_power_cut_would_lose_entries() {
    let dir = temp();
    let files = FaultyFiles::new();
    let mut store = DiskStore::init(dir.path(), identity(), options(&files)).unwrap();
    fill(&mut store, 5, 1);
    store.append(busy_entry(6)).unwrap();
    store.abandon();
    files.freeze();
    files.power_cut(PowerCut::DropAll).unwrap();
    assert_eq!(open(dir.path()).unwrap().head().index, 5, "the layer below really drops what was not synced");
}

#[test]
fn s_09_a_failed_sync_fails_the_store_for_good() {
    for ahead in 0..3 {
        let dir = temp();
        let files = FaultyFiles::new();
        let mut store =
            DiskStore::init(dir.path(), identity(), Options { segment_bytes: 1 << 20, ..options(&files) }).unwrap();
        fill(&mut store, 3, 1);
        let head = store.head();
        files.fail_sync(0);
        for index in 0..=ahead {
            store.append(busy_entry(4 + index)).unwrap();
        }
        // The index thread syncs the mark once a second and may meet the planned failure first; then it is planned again.
        let mut failed = store.flush();
        let mut next = store.head().index + 1;
        while failed.is_ok() {
            files.fail_sync(0);
            store.append(busy_entry(next)).unwrap();
            failed = store.flush();
            next += 1;
        }
        assert_eq!(code(failed), "STORE_IO");
        let syncs = files.syncs();
        assert_eq!(code(store.flush()), "STORE_FAILED");
        assert_eq!(code(store.append(busy_entry(next))), "STORE_FAILED");
        assert_eq!(code(store.append_essential(busy_entry(next))), "STORE_FAILED");
        assert_eq!(code(store.rows(&mut |_, _| ())), "STORE_FAILED");
        assert!(store.head().index >= head.index);
        assert!(files.syncs() <= syncs + 1, "a failed sync of the journal is never tried again");
        let acknowledged = store.head().index;
        assert_eq!(code(store.close()), "STORE_FAILED");
        // Whatever the cut leaves: all that was acknowledged, nothing half.
        files.power_cut(PowerCut::Scramble { seed: ahead }).unwrap();
        let store = open(dir.path()).unwrap();
        assert!(store.head().index >= acknowledged);
        assert_sound(&store);
    }
}

#[test]
fn s_09_entries_that_a_failed_sync_left_in_memory_are_written_again_before_they_are_trusted() {
    let dir = temp();
    let files = FaultyFiles::new();
    let mut store = DiskStore::init(dir.path(), identity(), options(&files)).unwrap();
    fill(&mut store, 3, 1);
    store.append(busy_entry(4)).unwrap();
    // The process dies between writing and syncing; the bytes are in the page cache, not on the disk.
    store.abandon();
    let mut store = DiskStore::open(dir.path(), options(&files)).unwrap();
    assert_eq!(store.head().index, 4);
    store.append(busy_entry(5)).unwrap();
    store.flush().unwrap();
    files.freeze();
    store.abandon();
    files.power_cut(PowerCut::DropAll).unwrap();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.head().index, 5);
    assert_sound(&store);
}

#[test]
fn s_08_a_full_disk_refuses_cleanly_and_writing_resumes_by_itself() {
    let dir = temp();
    let files = FaultyFiles::new();
    let mut store = DiskStore::init(dir.path(), identity(), options(&files)).unwrap();
    fill(&mut store, 20, 4);
    for quota in [0, 10, 60, 200, 500, 3_000, 9_000] {
        files.set_quota(Some(quota));
        let refused = loop {
            let next = store.head().index + 1;
            match store.append(busy_entry(next)) {
                Ok(()) => drop(store.flush().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), "DISK_FULL");
        let head = store.head();
        assert_eq!(code(store.append(busy_entry(head.index + 1))), "DISK_FULL");
        assert_eq!(store.flush().unwrap(), head, "nothing half-applied");
        assert_sound(&store);
        files.set_quota(None);
        let next = store.head().index + 1;
        store.append(busy_entry(next)).unwrap();
        assert_eq!(store.flush().unwrap().index, next);
    }
    let head = store.close().unwrap();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.head(), head);
    assert_eq!(store.report().cut_bytes, 0);
    assert_sound(&store);
}

#[test]
fn s_08_what_was_promised_room_is_written_when_the_disk_is_full_at_the_flush() {
    let dir = temp();
    let files = FaultyFiles::new();
    let options = Options { promise_bytes: 1 << 20, ..options(&files) };
    let mut store = DiskStore::init(dir.path(), identity(), options).unwrap();
    files.set_quota(Some((1 << 20) + 100));
    store.append(busy_entry(1)).unwrap();
    files.set_quota(Some(0));
    let mut last = 1;
    while store.append(busy_entry(last + 1)).is_ok() {
        last += 1;
    }
    assert!(last > 10, "a megabyte takes more than {last} entries");
    assert_eq!(store.flush().unwrap().index, last);
    store.close().unwrap();
    assert_eq!(open(dir.path()).unwrap().head().index, last);
}

#[test]
fn s_08_entries_staged_before_a_full_disk_are_kept() {
    let dir = temp();
    let files = FaultyFiles::new();
    let mut store = DiskStore::init(dir.path(), identity(), options(&files)).unwrap();
    store.append(busy_entry(1)).unwrap();
    store.append(busy_entry(2)).unwrap();
    files.set_quota(Some(17));
    assert_eq!(code(store.append(busy_entry(3))), "DISK_FULL");
    assert_eq!(store.flush().unwrap().index, 2);
    store.abandon();
    assert_eq!(open(dir.path()).unwrap().head().index, 2);
}

#[test]
fn s_08_essential_entries_are_taken_from_the_reserve_and_the_reserve_comes_back() {
    let dir = temp();
    let files = FaultyFiles::new();
    let options = Options { reserve_bytes: 64 * 1024, ..options(&files) };
    let mut store = DiskStore::init(dir.path(), identity(), options).unwrap();
    let reserve = dir.path().join("RESERVE");
    assert_eq!(std::fs::metadata(&reserve).unwrap().len(), 64 * 1024);
    fill(&mut store, 5, 1);
    files.set_quota(Some(0));
    assert_eq!(code(store.append(busy_entry(6))), "DISK_FULL");
    assert!(reserve.exists(), "ordinary entries never touch the reserve");
    store.append_essential(busy_entry(6)).unwrap();
    assert!(!reserve.exists());
    assert_eq!(store.flush().unwrap().index, 6);
    assert!(store.append_essential(busy_entry(7)).is_ok(), "and more of them");
    store.flush().unwrap();
    files.set_quota(None);
    store.append(busy_entry(8)).unwrap();
    store.flush().unwrap();
    assert!(reserve.exists(), "space came back, and so does the reserve");
    assert_sound(&store);
}

#[test]
fn s_08_writing_stops_while_little_space_is_free() {
    let dir = temp();
    let files = FaultyFiles::new();
    let options = Options { min_free_bytes: 1 << 20, ..options(&files) };
    let mut store = DiskStore::init(dir.path(), identity(), options).unwrap();
    files.set_quota(Some((1 << 20) + 4096));
    let mut count = 0u64;
    while store.append(busy_entry(store.head().index + 1)).is_ok() {
        store.flush().unwrap();
        count += 1;
        assert!(count < 10_000, "writing went on into the last megabyte");
    }
    assert!(store.is_short_of_space());
    let next = store.head().index + 1;
    store.append_essential(busy_entry(next)).unwrap();
    assert_eq!(store.flush().unwrap().index, next);
    files.set_quota(None);
    store.append(busy_entry(next + 1)).unwrap();
    store.flush().unwrap();
    assert!(!store.is_short_of_space());
}

#[test]
fn s_08_a_full_disk_refuses_a_long_value_without_a_trace() {
    let dir = temp();
    let files = FaultyFiles::new();
    let mut store = DiskStore::init(dir.path(), identity(), options(&files)).unwrap();
    fill(&mut store, 2, 1);
    let long = vec![1; 400_000];
    files.set_quota(Some(100_000));
    assert_eq!(code(store.append(entry(3, &[(b"long", Some(&long))]))), "DISK_FULL");
    assert!(support::files_below(&dir.path().join("blobs")).is_empty());
    files.set_quota(None);
    store.append(entry(3, &[(b"long", Some(&long))])).unwrap();
    store.flush().unwrap();
    assert_eq!(rows_of(&store)[b"long".as_slice()], long);
}

#[test]
fn s_10_a_disk_that_turns_read_only_fails_the_store_with_its_own_code() {
    let dir = temp();
    let files = FaultyFiles::new();
    let mut store = DiskStore::init(dir.path(), identity(), options(&files)).unwrap();
    fill(&mut store, 3, 1);
    files.set_read_only(true);
    assert_eq!(code(store.append(busy_entry(4))), "STORE_READ_ONLY");
    assert_eq!(code(store.append(busy_entry(4))), "STORE_FAILED");
    drop(store);
    assert_eq!(code(DiskStore::open(dir.path(), options(&files))), "STORE_READ_ONLY");
    files.set_read_only(false);
    let store = DiskStore::open(dir.path(), options(&files)).unwrap();
    assert_eq!(store.head().index, 3);
    assert_sound(&store);
}

/// A small real file system, for whoever may mount one.
struct Mount(tempfile::TempDir);

impl Mount {
    fn new(size: &str) -> Option<Mount> {
        let dir = temp();
        let options = format!("size={size}");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path())
            .stderr(std::process::Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Mount(dir));
        }
        println!("skipped: a small file system cannot be mounted here");
        None
    }

    fn remount(&self, options: &str) -> bool {
        let options = format!("remount,{options}");
        let status = std::process::Command::new("mount").args(["-o", &options]).arg(self.0.path()).status();
        status.is_ok_and(|status| status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn s_08_a_really_full_file_system_refuses_cleanly_opens_and_resumes() {
    let Some(mount) = Mount::new("6m") else { return };
    let dir = mount.0.path().join("data");
    let options = || Options { reserve_bytes: 512 * 1024, ..Options::small() };
    let mut store = DiskStore::init(&dir, identity(), options()).unwrap();
    fill(&mut store, 50, 5);
    // Somebody else fills the disk.
    let hog = mount.0.path().join("hog");
    let mut file = std::fs::File::create(&hog).unwrap();
    let chunk = [0; 4096];
    while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
    let refused = loop {
        let next = store.head().index + 1;
        match store.append(busy_entry(next)) {
            Ok(()) => drop(store.flush().unwrap()),
            Err(error) => break error.code(),
        }
    };
    assert_eq!(refused, "DISK_FULL");
    let next = store.head().index + 1;
    store.append_essential(busy_entry(next)).unwrap();
    assert_eq!(store.flush().unwrap().index, next);
    assert_eq!(rows_of(&store), busy_rows(next));
    store.close().unwrap();
    let mut store = DiskStore::open(&dir, options()).unwrap();
    assert_eq!(rows_of(&store), busy_rows(next));
    drop(file);
    std::fs::remove_file(&hog).unwrap();
    fill(&mut store, 20, 1);
    assert_eq!(rows_of(&store), busy_rows(next + 20));
    // Free space is looked at now and then, and the reserve is taken again when there is enough.
    let started = std::time::Instant::now();
    while !dir.join("RESERVE").exists() {
        assert!(started.elapsed().as_secs() < 20, "the reserve never came back");
        fill(&mut store, 1, 1);
    }
}

#[test]
fn s_10_a_really_read_only_file_system_is_refused_with_its_own_code() {
    let Some(mount) = Mount::new("16m") else { return };
    let dir = mount.0.path().join("data");
    let mut store = support::init(&dir);
    fill(&mut store, 5, 1);
    store.close().unwrap();
    assert!(mount.remount("ro"));
    assert_eq!(code(open(&dir)), "STORE_READ_ONLY");
    assert!(mount.remount("rw"));
    assert_sound(&open(&dir).unwrap());
}
