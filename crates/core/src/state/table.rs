//! Tables of rows in memory that remember which rows a step changed.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use leeway_model::checkpoint::CheckpointId;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::{HoldId, JobId, Name, OutboxId, RunId};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Which table a row belongs to: the first byte of its key. Numbers are part of the on-disk format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum TableId {
    Meta = 1,
    Job = 2,
    Run = 3,
    Decision = 4,
    Cluster = 5,
    Offer = 6,
    Checkpoint = 7,
    Budget = 8,
    Hold = 9,
    Ledger = 10,
    Delivery = 11,
    Endpoint = 12,
    Dataset = 13,
    Request = 14,
    Moved = 15,
    Usage = 16,
    Spells = 17,
}

impl TableId {
    pub const ALL: [Self; 17] = [
        Self::Meta,
        Self::Job,
        Self::Run,
        Self::Decision,
        Self::Cluster,
        Self::Offer,
        Self::Checkpoint,
        Self::Budget,
        Self::Hold,
        Self::Ledger,
        Self::Delivery,
        Self::Endpoint,
        Self::Dataset,
        Self::Request,
        Self::Moved,
        Self::Usage,
        Self::Spells,
    ];

    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|table| *table as u8 == byte)
    }
}

/// A key in bytes that sort as the keys do.
pub trait RowKey: Ord + Clone {
    fn write(&self, out: &mut Vec<u8>);
}

/// Takes the changed rows of a step, in a fixed order.
pub trait RowSink {
    fn put<V: Serialize>(&mut self, table: TableId, key: &[u8], value: &V);
    fn delete(&mut self, table: TableId, key: &[u8]);
}

/// Rows by key, with the keys changed since the last [`Table::drain`].
///
/// Rows are large and their keys mostly rise, which leaves nodes of a tree half empty: so the tree holds pointers. A step
/// changes one row several times: keys are noted as they come, and put in order once, when they are asked for.
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, Box<V>>,
    changed: Vec<K>,
}

impl<K: RowKey, V: Serialize + DeserializeOwned> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), changed: Vec::new() }
    }
}

impl<K: RowKey, V: Serialize + DeserializeOwned> Table<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key).map(|row| &**row)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn insert(&mut self, key: K, value: V) {
        note(&mut self.changed, &key);
        self.rows.insert(key, Box::new(value));
    }

    /// The row, marked as changed; `None` when there is none.
    pub fn change(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        note(&mut self.changed, key);
        Some(row)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.rows.remove(key)?;
        note(&mut self.changed, key);
        Some(*old)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter().map(|(key, row)| (key, &**row))
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.rows.values().map(|row| &**row)
    }

    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(range).map(|(key, row)| (key, &**row))
    }

    /// Puts a row that is already durable; it does not count as changed.
    pub fn load(&mut self, key: K, value: V) {
        self.rows.insert(key, Box::new(value));
    }

    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Keys changed since the last drain, in order, each once.
    pub fn changed(&mut self) -> &[K] {
        put_in_order(&mut self.changed);
        &self.changed
    }

    /// Hands every changed row to `sink` in the order of their keys, and forgets that it changed.
    pub fn drain(&mut self, table: TableId, sink: &mut impl RowSink) {
        if self.changed.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(32);
        put_in_order(&mut self.changed);
        for key in self.changed.drain(..) {
            bytes.clear();
            key.write(&mut bytes);
            match self.rows.get(&key) {
                Some(value) => sink.put(table, &bytes, &**value),
                None => sink.delete(table, &bytes),
            }
        }
        self.forget_changes();
    }

    /// Takes every row as durable, without handing it to anyone.
    pub fn forget_changes(&mut self) {
        self.changed.clear();
        // One large step must not keep its room for ever.
        self.changed.shrink_to(NOTED_MIN);
    }
}

/// Keys noted before they are looked through for repetitions, so that a table nobody drains stays in bounds.
const NOTED_MIN: usize = 4_096;

fn note<K: RowKey>(changed: &mut Vec<K>, key: &K) {
    if changed.last() == Some(key) {
        return;
    }
    if changed.len() >= NOTED_MIN && changed.len() == changed.capacity() {
        put_in_order(changed);
        // Room for as many again: looking through must stay rare.
        changed.reserve(changed.len());
    }
    changed.push(key.clone());
}

fn put_in_order<K: RowKey>(changed: &mut Vec<K>) {
    // Mostly it is in order already, and a stable sort finds that out in one pass.
    changed.sort();
    changed.dedup();
}

impl RowKey for JobId {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl RowKey for RunId {
    fn write(&self, out: &mut Vec<u8>) {
        self.job.write(out);
        out.extend_from_slice(&self.epoch.to_be_bytes());
    }
}

impl RowKey for HoldId {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

impl RowKey for OutboxId {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl RowKey for Name {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_str().as_bytes());
    }
}

impl RowKey for Box<str> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl RowKey for (JobId, CheckpointId) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        out.extend_from_slice(&self.1.epoch.to_be_bytes());
        out.extend_from_slice(&self.1.seq.to_be_bytes());
    }
}

impl RowKey for OfferKey {
    fn write(&self, out: &mut Vec<u8>) {
        // A name never holds a zero byte, so the parts cannot run into each other.
        self.cluster.write(out);
        out.push(0);
        self.shape.write(out);
        out.push(0);
        out.push(match self.capacity {
            CapacityType::Spot => 0,
            CapacityType::OnDemand => 1,
            CapacityType::Reserved => 2,
        });
    }
}

impl RowKey for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Log(Vec<(Vec<u8>, Option<String>)>);

    impl RowSink for Log {
        fn put<V: Serialize>(&mut self, _: TableId, key: &[u8], value: &V) {
            self.0.push((key.to_vec(), Some(serde_json::to_string(value).unwrap())));
        }

        fn delete(&mut self, _: TableId, key: &[u8]) {
            self.0.push((key.to_vec(), None));
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64, u32),
        Change(u64, u32),
        Remove(u64),
        Drain,
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = 0_u64..40;
        prop_oneof![
            3 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Insert(key, value)),
            5 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Op::Change(key, value)),
            2 => key.prop_map(Op::Remove),
            1 => Just(Op::Drain),
        ]
    }

    proptest! {
        /// Against a plain map with a plain set of the keys that were touched.
        #[test]
        fn what_a_step_changed_is_told_once_in_order_and_as_it_stands_now(ops in proptest::collection::vec(op(), 0..200)) {
            let (mut table, mut rows, mut touched) = (Table::<u64, u32>::default(), BTreeMap::new(), std::collections::BTreeSet::new());
            for op in ops.into_iter().chain([Op::Drain]) {
                match op {
                    Op::Insert(key, value) => {
                        table.insert(key, value);
                        rows.insert(key, value);
                        touched.insert(key);
                    }
                    Op::Change(key, value) => {
                        let known = rows.get_mut(&key).map(|row| *row = value).is_some();
                        prop_assert_eq!(table.change(&key).map(|row| *row = value).is_some(), known);
                        known.then(|| touched.insert(key));
                    }
                    Op::Remove(key) => {
                        let old = rows.remove(&key);
                        prop_assert_eq!(table.remove(&key), old);
                        old.map(|_| touched.insert(key));
                    }
                    Op::Drain => {
                        prop_assert_eq!(table.has_changes(), !touched.is_empty());
                        prop_assert!(table.changed().iter().eq(&touched));
                        let mut log = Log::default();
                        table.drain(TableId::Job, &mut log);
                        let expected: Vec<_> = std::mem::take(&mut touched)
                            .into_iter()
                            .map(|key| (key.to_be_bytes().to_vec(), rows.get(&key).map(u32::to_string)))
                            .collect();
                        prop_assert_eq!(log.0, expected);
                        prop_assert!(!table.has_changes());
                    }
                }
            }
            prop_assert!(table.iter().map(|(key, value)| (*key, *value)).eq(rows));
        }
    }

    #[test]
    fn a_table_that_nobody_drains_does_not_grow_with_every_change() {
        let mut table = Table::<u64, u32>::default();
        (0..10).for_each(|key| table.insert(key, 0));
        for round in 0..100_000 {
            *table.change(&(round % 10)).unwrap() += 1;
        }
        assert!(table.changed.len() <= 2 * NOTED_MIN, "{}", table.changed.len());
        assert!(table.changed().iter().copied().eq(0..10));
    }
}
