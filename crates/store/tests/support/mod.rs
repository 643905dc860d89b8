//! What the tests of the disk store share.
// Each test file uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use leeway_store::conformance::{Subject, entry, rows_of};
use leeway_store::{DiskStore, Entry, Error, Head, Identity, Index, Options, Store, verify};

pub fn identity() -> Identity {
    Identity { installation: "test".into(), incarnation: "first".into() }
}

pub fn temp() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// In memory where the system offers it: for tests of bytes, not of disks, that open a store hundreds of times.
pub fn temp_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| temp())
}

pub fn init(dir: &Path) -> DiskStore {
    DiskStore::init(dir, identity(), Options::small()).unwrap()
}

pub fn open(dir: &Path) -> Result<DiskStore, Error> {
    DiskStore::open(dir, Options::small())
}

pub fn put(store: &mut impl Store, entry: Entry) -> Head {
    store.append(entry).unwrap();
    store.flush().unwrap()
}

/// Appends entries with a few changed rows each, `group` of them a flush.
pub fn fill(store: &mut impl Store, count: u64, group: u64) {
    for number in 0..count {
        let index = store.head().index + number % group + 1;
        store.append(busy_entry(index)).unwrap();
        if number % group == group - 1 || number == count - 1 {
            store.flush().unwrap();
        }
    }
}

/// An entry that overwrites one row, adds one, and removes an older one now and then.
pub fn busy_entry(index: Index) -> Entry {
    let (hot, own, old) = (format!("hot{}", index % 5), format!("own{index:06}"), format!("own{:06}", index / 2));
    let value = vec![index as u8; 40 + (index % 7) as usize * 20];
    let removal = index.is_multiple_of(3).then_some((old.as_bytes(), None));
    let mut rows = vec![(hot.as_bytes(), Some(value.as_slice())), (own.as_bytes(), Some(value.as_slice()))];
    rows.extend(removal);
    entry(index, &rows)
}

/// Rows after `busy_entry(1..=last)`.
pub fn busy_rows(last: Index) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for index in 1..=last {
        for row in busy_entry(index).rows {
            match row.value {
                Some(value) => rows.insert(row.key.to_vec(), value.to_vec()),
                None => rows.remove(&*row.key),
            };
        }
    }
    rows
}

pub fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.expect_err("a refusal").code()
}

/// The store's rows are exactly those of its history.
pub fn assert_sound(store: &DiskStore) {
    assert_eq!(rows_of(store), busy_rows(store.head().index));
}

pub fn assert_verified(dir: &Path) {
    let report = verify(dir, Options::small()).unwrap();
    assert_eq!(report.problems, [], "{report:?}");
}

/// All files below a directory, in order.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files_below(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy_dir(&path, &target) } else { assert!(std::fs::copy(&path, &target).is_ok()) }
    }
}

/// Names, lengths and contents of everything below a directory.
pub fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    files_below(dir).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// The journal's segments, in order.
pub fn segments(dir: &Path) -> Vec<PathBuf> {
    files_below(&dir.join("journal")).into_iter().filter(|path| path.extension().is_some_and(|e| e == "log")).collect()
}

/// Disk stores for the conformance suite.
#[derive(Default)]
pub struct Disks(Vec<tempfile::TempDir>);

impl Subject for Disks {
    type Store = DiskStore;

    fn make(&mut self) -> DiskStore {
        self.0.push(temp());
        init(self.0.last().unwrap().path())
    }

    fn kill(&mut self, store: DiskStore) -> DiskStore {
        let dir = store.dir().to_path_buf();
        store.abandon();
        open(&dir).unwrap()
    }
}
