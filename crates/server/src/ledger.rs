//! The ledger's lines for reading. The core writes them and never reads them back, so this mirror collects them from the
//! store: all of it once, when somebody first asks, and from then on what each step added.

use std::collections::BTreeMap;

use leeway_core::state::table::TableId;
use leeway_model::budget::LedgerEntry;
use leeway_store::{Error, Index, Store};

#[derive(Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<u64, LedgerEntry>,
    /// Entries of the store up to here are in it.
    upto: Option<Index>,
}

impl Ledger {
    /// Everything that is durable.
    pub fn current(&mut self, store: &dyn Store) -> Result<&BTreeMap<u64, LedgerEntry>, Error> {
        let head = store.head().index;
        match self.upto {
            Some(upto) if upto == head => {}
            Some(upto) => {
                let entries = &mut self.entries;
                store.entries(upto + 1, &mut |entry| {
                    for row in &entry.rows {
                        if let Some(value) = &row.value {
                            take(entries, &row.key, value);
                        }
                    }
                    true
                })?;
            }
            None => {
                let entries = &mut self.entries;
                store.rows(&mut |key, value| take(entries, key, value))?;
            }
        }
        self.upto = Some(head);
        Ok(&self.entries)
    }
}

/// The engine writes rows with postcard under a key that begins with the table's number.
fn take(entries: &mut BTreeMap<u64, LedgerEntry>, key: &[u8], value: &[u8]) {
    if key.first() != Some(&(TableId::Ledger as u8)) {
        return;
    }
    match postcard::from_bytes::<LedgerEntry>(value) {
        Ok(entry) => {
            entries.insert(entry.number, entry);
        }
        Err(error) => tracing::error!(%error, "a line of the ledger cannot be read"),
    }
}
