//! What every store must do, as plain functions: one suite for memory, faulty and disk, and for whatever comes next.
//!
//! A test names how its store is made and how it is killed, and calls [`check`]. Each check panics with what it
//! expected, as tests do.

use std::collections::BTreeMap;

use crate::{Chain, Entry, Error, Head, Index, MAX_INLINE_BYTES, MAX_KEY_BYTES, MemoryStore, RowChange, Store};

/// How the suite gets and kills stores.
pub trait Subject {
    type Store: Store;
    /// A new, empty store.
    fn make(&mut self) -> Self::Store;
    /// The store as its owner finds it after being killed: what was flushed is there; what was not may be.
    fn kill(&mut self, store: Self::Store) -> Self::Store;
}

/// Runs the whole suite, each check on a new store.
pub fn check(subject: &mut impl Subject) {
    an_empty_store_has_nothing(subject);
    rows_follow_the_entries(subject);
    entries_read_back_whole_and_in_order(subject);
    nothing_staged_is_visible(subject);
    a_flush_of_nothing_changes_nothing(subject);
    entries_may_be_staged_while_a_flush_is_under_way(subject);
    what_was_flushed_survives_a_kill(subject);
    a_store_goes_on_after_a_kill(subject);
    the_chain_names_the_history(subject);
    long_values_come_back_whole(subject);
    refused_entries_leave_no_trace(subject);
    odd_keys_and_values_are_kept(subject);
}

/// An entry with these row changes, and an event made of its index.
pub fn entry(index: Index, rows: &[(&[u8], Option<&[u8]>)]) -> Entry {
    Entry {
        index,
        time_ms: 1_700_000_000_000 + index as i64,
        event: format!("event {index}").into_bytes().into(),
        rows: rows.iter().map(|(key, value)| RowChange { key: (*key).into(), value: value.map(Into::into) }).collect(),
    }
}

/// All rows of a store.
pub fn rows_of(store: &impl Store) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    let mut last: Option<Vec<u8>> = None;
    let visited = store.rows(&mut |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "rows are visited in key order, each once");
        last = Some(key.to_vec());
        rows.insert(key.to_vec(), value.to_vec());
    });
    visited.expect("rows can be read");
    rows
}

/// All entries of a store from `from` on.
pub fn entries_of(store: &impl Store, from: Index) -> Vec<Entry> {
    let mut entries = Vec::new();
    let visited = store.entries(from, &mut |entry| {
        entries.push(entry);
        true
    });
    visited.expect("entries can be read");
    entries
}

fn put(store: &mut impl Store, entry: Entry) {
    store.append(entry).expect("the entry is taken");
}

fn flush(store: &mut impl Store) -> Head {
    store.flush().expect("the flush succeeds")
}

fn an_empty_store_has_nothing(subject: &mut impl Subject) {
    let store = subject.make();
    assert_eq!(store.head(), Head { index: 0, chain: Chain::default() });
    assert!(rows_of(&store).is_empty());
    assert!(entries_of(&store, 0).is_empty());
    assert!(entries_of(&store, 9).is_empty());
    assert_eq!(store.first_entry(), 1);
}

fn rows_follow_the_entries(subject: &mut impl Subject) {
    let mut store = subject.make();
    put(&mut store, entry(1, &[(b"b", Some(b"1")), (b"a", Some(b"2"))]));
    put(&mut store, entry(2, &[(b"c", Some(b"3")), (b"b", None), (b"never", None)]));
    put(&mut store, entry(3, &[(b"a", Some(b"4")), (b"a", Some(b"5")), (b"d", Some(b"6")), (b"d", None)]));
    assert_eq!(flush(&mut store).index, 3);
    let expected: BTreeMap<Vec<u8>, Vec<u8>> = [(b"a".to_vec(), b"5".to_vec()), (b"c".to_vec(), b"3".to_vec())].into();
    assert_eq!(rows_of(&store), expected);
    let store = subject.kill(store);
    assert_eq!(rows_of(&store), expected);
}

fn entries_read_back_whole_and_in_order(subject: &mut impl Subject) {
    let mut store = subject.make();
    let all: Vec<Entry> = (1..=20).map(|index| entry(index, &[(&[index as u8], Some(b"value"))])).collect();
    for (number, entry) in all.iter().enumerate() {
        put(&mut store, entry.clone());
        if number % 7 == 0 {
            flush(&mut store);
        }
    }
    flush(&mut store);
    assert_eq!(entries_of(&store, 0), all);
    assert_eq!(entries_of(&store, 1), all);
    assert_eq!(entries_of(&store, 13), all[12..]);
    assert_eq!(entries_of(&store, 21), []);
    let mut seen = 0;
    let visited = store.entries(5, &mut |_| {
        seen += 1;
        seen < 3
    });
    visited.expect("entries can be read");
    assert_eq!(seen, 3, "the visit ends when the visitor has enough");
}

fn nothing_staged_is_visible(subject: &mut impl Subject) {
    let mut store = subject.make();
    put(&mut store, entry(1, &[(b"a", Some(b"1"))]));
    let head = flush(&mut store);
    put(&mut store, entry(2, &[(b"a", Some(b"2")), (b"b", Some(b"2"))]));
    assert_eq!(store.head(), head);
    assert_eq!(rows_of(&store), [(b"a".to_vec(), b"1".to_vec())].into());
    assert_eq!(entries_of(&store, 0).len(), 1);
    assert_eq!(flush(&mut store).index, 2);
    assert_eq!(rows_of(&store).len(), 2);
}

fn a_flush_of_nothing_changes_nothing(subject: &mut impl Subject) {
    let mut store = subject.make();
    assert_eq!(flush(&mut store), Head::default());
    put(&mut store, entry(1, &[]));
    let head = flush(&mut store);
    assert_eq!(flush(&mut store), head);
    assert_eq!(entries_of(&store, 1), [entry(1, &[])]);
}

fn entries_may_be_staged_while_a_flush_is_under_way(subject: &mut impl Subject) {
    let mut store = subject.make();
    put(&mut store, entry(1, &[(b"a", Some(b"1"))]));
    let flushing = store.begin_flush().expect("the flush begins");
    put(&mut store, entry(2, &[(b"a", Some(b"2")), (b"b", Some(b"2"))]));
    let head = store.end_flush(flushing.wait()).expect("the flush ends");
    assert_eq!((head.index, store.head()), (1, head), "what came later is not covered");
    assert_eq!(rows_of(&store), BTreeMap::from([(b"a".to_vec(), b"1".to_vec())]));
    let flushing = store.begin_flush().expect("the next flush begins");
    assert_eq!(store.end_flush(flushing.wait()).expect("and ends").index, 2);
    let store = subject.kill(store);
    assert_eq!(store.head().index, 2);
    assert_eq!(rows_of(&store).get(b"a".as_slice()), Some(&b"2".to_vec()));
}

fn what_was_flushed_survives_a_kill(subject: &mut impl Subject) {
    let mut store = subject.make();
    for index in 1..=10 {
        put(&mut store, entry(index, &[(&[index as u8], Some(b"kept"))]));
    }
    let head = flush(&mut store);
    put(&mut store, entry(11, &[(b"perhaps", Some(b"x"))]));
    let store = subject.kill(store);
    let (found, entries) = (store.head(), entries_of(&store, 1));
    assert!(found == head || found.index == head.index + 1, "flushed is there, staged is there whole or not at all");
    assert_eq!(entries.len() as Index, found.index);
    assert_eq!(rows_of(&store).len() as Index, found.index);
}

fn a_store_goes_on_after_a_kill(subject: &mut impl Subject) {
    let mut store = subject.make();
    for round in 0..3u8 {
        let next = store.head().index + 1;
        put(&mut store, entry(next, &[(&[round], Some(b"1"))]));
        put(&mut store, entry(next + 1, &[(&[round], Some(b"2"))]));
        flush(&mut store);
        store = subject.kill(store);
    }
    assert_eq!(store.head().index, 6);
    assert_eq!(rows_of(&store).len(), 3);
    assert!(rows_of(&store).values().all(|value| value == b"2"));
}

fn the_chain_names_the_history(subject: &mut impl Subject) {
    let (mut store, mut model, mut other) = (subject.make(), MemoryStore::new(), subject.make());
    for index in 1..=5 {
        let long = vec![index as u8; MAX_INLINE_BYTES + 1];
        let rows: &[(&[u8], Option<&[u8]>)] = &[(b"k", Some(b"v")), (b"gone", None), (b"long", Some(&long))];
        put(&mut store, entry(index, rows));
        put(&mut model, entry(index, rows));
        let mut changed = entry(index, rows);
        changed.time_ms += i64::from(index == 3);
        put(&mut other, changed);
        let (one, two) = (flush(&mut store), flush(&mut model));
        assert_eq!(one, two, "all stores chain the same entries to the same value");
        assert_eq!(flush(&mut other) == one, index < 3, "another history has another chain, from there on");
    }
}

fn long_values_come_back_whole(subject: &mut impl Subject) {
    let mut store = subject.make();
    let long: Vec<u8> = (0..MAX_INLINE_BYTES * 2).map(|at| (at / 251) as u8).collect();
    let edge = vec![9; MAX_INLINE_BYTES];
    let first = entry(1, &[(b"long", Some(&long)), (b"edge", Some(&edge)), (b"twin", Some(&long))]);
    put(&mut store, first.clone());
    flush(&mut store);
    let mut store = subject.kill(store);
    assert_eq!(entries_of(&store, 1), [first]);
    assert_eq!(rows_of(&store)[b"long".as_slice()], long);
    put(&mut store, entry(2, &[(b"long", None)]));
    flush(&mut store);
    let store = subject.kill(store);
    assert_eq!(rows_of(&store).keys().map(Vec::as_slice).collect::<Vec<_>>(), [b"edge".as_slice(), b"twin"]);
    assert_eq!(rows_of(&store)[b"twin".as_slice()], long);
}

fn refused_entries_leave_no_trace(subject: &mut impl Subject) {
    let mut store = subject.make();
    put(&mut store, entry(1, &[(b"a", Some(b"1"))]));
    let refused = |result: Result<(), Error>, code: &str| {
        let error = result.expect_err("the entry is refused");
        assert!(error.is_refusal());
        assert_eq!(error.code(), code);
    };
    refused(store.append(entry(1, &[])), "STORE_OUT_OF_ORDER");
    refused(store.append(entry(3, &[])), "STORE_OUT_OF_ORDER");
    let long_key = vec![0; MAX_KEY_BYTES + 1];
    refused(store.append(entry(2, &[(b"x", Some(b"1")), (&long_key, None)])), "STORE_ENTRY_TOO_LARGE");
    put(&mut store, entry(2, &[(b"b", Some(b"2"))]));
    assert_eq!(flush(&mut store).index, 2);
    assert_eq!(rows_of(&store).len(), 2);
}

fn odd_keys_and_values_are_kept(subject: &mut impl Subject) {
    let mut store = subject.make();
    let key = vec![0xff; MAX_KEY_BYTES];
    put(&mut store, entry(1, &[(b"", Some(b"")), (b"\0", Some(b"\0")), (&key, Some(b"\xff")), (b"m", Some(b"meta"))]));
    flush(&mut store);
    let store = subject.kill(store);
    let expected: BTreeMap<Vec<u8>, Vec<u8>> = [
        (b"".to_vec(), b"".to_vec()),
        (b"\0".to_vec(), b"\0".to_vec()),
        (key, b"\xff".to_vec()),
        (b"m".to_vec(), b"meta".to_vec()),
    ]
    .into();
    assert_eq!(rows_of(&store), expected);
}
