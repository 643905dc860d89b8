//! A store in memory, for the simulator and for tests. Fast, and honest about crashes: what was not flushed is gone.

use std::collections::HashMap;

use crate::{Chain, Entry, Error, Head, Index, Key, Store, codec};

/// Rows and history in memory. "Durable" means: survives [`MemoryStore::crash`].
#[derive(Debug, Default)]
pub struct MemoryStore {
    /// In no order, for rows are written all the time and visited seldom.
    rows: HashMap<Key, Box<[u8]>>,
    history: Vec<Entry>,
    forgetful: bool,
    head: Head,
    staged: Vec<Entry>,
    staged_chain: Chain,
    scratch: Vec<u8>,
}

impl MemoryStore {
    /// An empty store that keeps its history.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// An empty store that keeps rows only; `entries` then refuses. For long simulations.
    pub fn without_history() -> Self {
        MemoryStore { forgetful: true, ..MemoryStore::default() }
    }

    /// The store as a machine that lost its power would find it: only what was flushed.
    pub fn crash(mut self) -> Self {
        self.staged.clear();
        self.staged_chain = self.head.chain;
        self
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn keep(&mut self, entry: Entry) {
        if !self.forgetful {
            self.history.push(entry.clone());
        }
        for row in entry.rows {
            match row.value {
                Some(value) => self.rows.insert(row.key, value),
                None => self.rows.remove(&row.key),
            };
        }
    }
}

impl Store for MemoryStore {
    fn head(&self) -> Head {
        self.head
    }

    fn append(&mut self, entry: Entry) -> Result<(), Error> {
        codec::check(&entry, self.head.index + self.staged.len() as Index + 1)?;
        self.scratch.clear();
        codec::encode(&entry, &mut self.scratch, |_, _| Ok::<_, Error>(()))?;
        self.staged_chain = codec::link(self.staged_chain, &self.scratch);
        self.staged.push(entry);
        Ok(())
    }

    fn flush(&mut self) -> Result<Head, Error> {
        let staged = std::mem::take(&mut self.staged);
        self.head = Head { index: self.head.index + staged.len() as Index, chain: self.staged_chain };
        staged.into_iter().for_each(|entry| self.keep(entry));
        Ok(self.head)
    }

    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable();
        rows.into_iter().for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        let from = from.max(1);
        if from < self.first_entry() {
            return Err(Error::HistoryTrimmed { asked: from, first: self.first_entry() });
        }
        for entry in self.history.iter().skip((from - 1) as usize) {
            if !visit(entry.clone()) {
                break;
            }
        }
        Ok(())
    }

    fn first_entry(&self) -> Index {
        if self.forgetful { self.head.index + 1 } else { 1 }
    }
}
