//! One suite for all stores, and a model against which random histories are checked.

// Everything here is a test; the lint only knows functions marked as such.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;

use leeway_store::conformance::{self, Subject, entries_of, rows_of};
use leeway_store::{
    DiskStore, Entry, Error, Fault, FaultyStore, Index, MemoryStore, RowChange, SeededPlan, Step, Store,
};
use proptest::prelude::*;
use support::{Disks, open};

struct Memories;

impl Subject for Memories {
    type Store = MemoryStore;
    fn make(&mut self) -> MemoryStore {
        MemoryStore::new()
    }
    fn kill(&mut self, store: MemoryStore) -> MemoryStore {
        store.crash()
    }
}

fn harmless(_: Step) -> Fault {
    Fault::None
}

struct Faulty<S>(S);

impl<T: Subject> Subject for Faulty<T> {
    type Store = FaultyStore<T::Store, fn(Step) -> Fault>;
    fn make(&mut self) -> Self::Store {
        FaultyStore::new(self.0.make(), harmless)
    }
    fn kill(&mut self, store: Self::Store) -> Self::Store {
        FaultyStore::new(self.0.kill(store.crash()), harmless)
    }
}

#[test]
fn the_memory_store_conforms() {
    conformance::check(&mut Memories);
}

#[test]
fn the_disk_store_conforms() {
    conformance::check(&mut Disks::default());
}

#[test]
fn the_faulty_store_conforms_while_nothing_fails() {
    conformance::check(&mut Faulty(Memories));
    conformance::check(&mut Faulty(Disks::default()));
}

#[test]
fn a_store_without_history_refuses_to_tell_it() {
    let mut store = MemoryStore::without_history();
    support::fill(&mut store, 10, 3);
    assert_eq!(rows_of(&store), support::busy_rows(10));
    assert_eq!(support::code(store.entries(1, &mut |_| true)), "STORE_HISTORY_TRIMMED");
    assert!(store.entries(11, &mut |_| true).is_ok());
}

#[test]
fn a_failed_flush_fails_the_store_and_what_was_durable_is_found_again() {
    for kept in 0..=3 {
        let mut flushes = 0;
        let plan = move |step| match step {
            Step::Flush { .. } => {
                flushes += 1;
                if flushes == 2 { Fault::FailAfter(kept) } else { Fault::None }
            }
            Step::Append { .. } => Fault::None,
        };
        let mut store = FaultyStore::new(MemoryStore::new(), plan);
        let head = support::put(&mut store, support::busy_entry(1));
        for index in 2..=4 {
            store.append(support::busy_entry(index)).unwrap();
        }
        assert_eq!(support::code(store.flush()), "STORE_IO");
        assert_eq!(store.head(), head, "nothing staged is treated as durable");
        assert_eq!(support::code(store.append(support::busy_entry(2))), "STORE_FAILED");
        assert_eq!(support::code(store.flush()), "STORE_FAILED");
        assert_eq!(support::code(store.rows(&mut |_, _| ())), "STORE_FAILED");
        let inner = store.crash();
        assert_eq!(inner.head().index, 1 + kept as Index);
    }
}

#[test]
fn a_planned_full_disk_is_a_clean_refusal_and_passes() {
    let mut full = 3;
    let plan = move |step| match step {
        Step::Append { index: 2, essential: false } if full > 0 => {
            full -= 1;
            Fault::DiskFull
        }
        _ => Fault::None,
    };
    let mut store = FaultyStore::new(MemoryStore::new(), plan);
    support::put(&mut store, support::busy_entry(1));
    for _ in 0..3 {
        assert_eq!(support::code(store.append(support::busy_entry(2))), "DISK_FULL");
        store.flush().unwrap();
    }
    support::fill(&mut store, 3, 1);
    assert_eq!(rows_of(&store), support::busy_rows(4));
}

#[test]
fn a_seeded_plan_is_the_same_every_time() {
    let run = |seed| {
        let mut plan = SeededPlan::new(seed, 100_000, 100_000, 3);
        (0..500u64)
            .map(|index| {
                let step =
                    if index % 4 == 3 { Step::Flush { staged: 3 } } else { Step::Append { index, essential: false } };
                leeway_store::Plan::fault(&mut plan, step)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert!(run(7).contains(&Fault::DiskFull));
    assert!(run(7).iter().any(|fault| matches!(fault, Fault::FailAfter(_))));
}

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<(u8, Option<u8>)>),
    Flush,
    Kill,
    Close,
    Compact,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let row = (0..12u8, prop::option::weighted(0.7, any::<u8>()));
    let op = prop_oneof![
        8 => prop::collection::vec(row, 0..5).prop_map(Op::Append),
        4 => Just(Op::Flush),
        1 => Just(Op::Kill),
        1 => Just(Op::Close),
        1 => Just(Op::Compact),
    ];
    prop::collection::vec(op, 1..40)
}

fn entry(index: Index, rows: &[(u8, Option<u8>)]) -> Entry {
    let rows = rows.iter().map(|(key, value)| RowChange {
        key: Box::new([b'k', *key]),
        value: value.map(|byte| vec![byte; 30 + usize::from(byte)].into()),
    });
    Entry { index, time_ms: 0, event: Box::new([7; 900]), rows: rows.collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_disk_store_is_a_map_with_a_history(ops in ops()) {
        let dir = support::temp();
        let options = || leeway_store::Options { segment_bytes: 4096, ..leeway_store::Options::small() };
        let mut store = DiskStore::init(dir.path(), support::identity(), options()).unwrap();
        let mut staged: Vec<Entry> = Vec::new();
        let mut durable: Vec<Entry> = Vec::new();
        for op in ops {
            match op {
                Op::Append(rows) => {
                    let entry = entry((durable.len() + staged.len()) as Index + 1, &rows);
                    store.append(entry.clone()).unwrap();
                    staged.push(entry);
                }
                Op::Flush => {
                    store.flush().unwrap();
                    durable.append(&mut staged);
                }
                Op::Kill | Op::Close => {
                    if matches!(op, Op::Kill) { store.abandon() } else { drop(store.close()) }
                    store = DiskStore::open(dir.path(), options()).unwrap();
                    let recovered = store.head().index as usize;
                    prop_assert!(recovered >= durable.len());
                    prop_assert!(recovered <= durable.len() + staged.len());
                    durable.extend(staged.drain(..).take(recovered - durable.len()));
                }
                Op::Compact => {
                    store.compact(0).unwrap();
                    // Sealing makes staged entries durable no sooner than their flush; the model does not care.
                }
            }
        }
        store.flush().unwrap();
        durable.append(&mut staged);
        let mut model = BTreeMap::new();
        for row in durable.iter().flat_map(|entry| &entry.rows) {
            match &row.value {
                Some(value) => model.insert(row.key.to_vec(), value.to_vec()),
                None => model.remove(&row.key.to_vec()),
            };
        }
        prop_assert_eq!(rows_of(&store), model);
        let first = store.first_entry();
        prop_assert_eq!(entries_of(&store, first), &durable[first as usize - 1..]);
        if first > 1 {
            let refused = store.entries(1, &mut |_| true);
            let trimmed = matches!(refused, Err(Error::HistoryTrimmed { .. }));
            prop_assert!(trimmed);
        }
        store.close().unwrap();
        prop_assert!(leeway_store::verify(dir.path(), options()).unwrap().problems.is_empty());
    }
}

#[test]
fn s_16_replaying_the_rows_gives_one_chain_and_one_hash() {
    let (one, two) = (support::temp(), support::temp());
    let (mut first, mut second) = (support::init(one.path()), support::init(two.path()));
    support::fill(&mut first, 400, 7);
    // The same history in other groups, with kills, a compaction and a rebuilt index on the way.
    for _ in 0..4 {
        support::fill(&mut second, 100, 13);
        second.abandon();
        second = open(two.path()).unwrap();
    }
    second.compact(0).unwrap();
    assert_eq!(first.head(), second.head());
    assert_eq!(rows_of(&first), rows_of(&second));
    first.close().unwrap();
    second.close().unwrap();
    std::fs::remove_dir_all(two.path().join("index")).unwrap();
    open(two.path()).unwrap().close().unwrap();
    let report = |dir: &tempfile::TempDir| leeway_store::verify(dir.path(), leeway_store::Options::small()).unwrap();
    let (first, second) = (report(&one), report(&two));
    assert_eq!((first.problems.len(), second.problems.len()), (0, 0));
    assert_eq!(first.rows_hash, second.rows_hash);
    assert_eq!((first.head, first.rows, first.live_bytes), (second.head, second.rows, second.live_bytes));
}
