//! Tables of rows in memory that remember which rows a step changed.

use std::collections::{BTreeMap, BTreeSet};
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
}

impl TableId {
    pub const ALL: [Self; 15] = [
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

/// Rows by key, with the set of keys changed since the last [`Table::drain`].
#[derive(Clone, Debug)]
pub struct Table<K, V> {
    rows: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K: RowKey, V: Serialize + DeserializeOwned> Default for Table<K, V> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K: RowKey, V: Serialize + DeserializeOwned> Table<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
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
        self.changed.insert(key.clone());
        self.rows.insert(key, value);
    }

    /// The row, marked as changed; `None` when there is none.
    pub fn change(&mut self, key: &K) -> Option<&mut V> {
        let row = self.rows.get_mut(key)?;
        if !self.changed.contains(key) {
            self.changed.insert(key.clone());
        }
        Some(row)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let old = self.rows.remove(key)?;
        self.changed.insert(key.clone());
        Some(old)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.rows.values()
    }

    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.rows.range(range)
    }

    /// Puts a row that is already durable; it does not count as changed.
    pub fn load(&mut self, key: K, value: V) {
        self.rows.insert(key, value);
    }

    pub fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Keys changed since the last drain, in order.
    pub fn changed(&self) -> impl Iterator<Item = &K> {
        self.changed.iter()
    }

    /// Hands every changed row to `sink` and forgets that it changed.
    pub fn drain(&mut self, table: TableId, sink: &mut impl RowSink) {
        let mut bytes = Vec::with_capacity(32);
        for key in std::mem::take(&mut self.changed) {
            bytes.clear();
            key.write(&mut bytes);
            match self.rows.get(&key) {
                Some(value) => sink.put(table, &bytes, value),
                None => sink.delete(table, &bytes),
            }
        }
    }
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
