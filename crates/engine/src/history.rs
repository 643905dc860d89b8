//! Reading stored rows without an engine, and lines of the ledger above all. The core writes those and never reads them
//! back, so nobody holds them in memory; whoever wants to see them reads the history, a stretch at a time.

use leeway_core::state::rows::{RowError, RowSource as _};
use leeway_core::state::table::TableId;
use leeway_model::budget::LedgerEntry;
use leeway_store::{Index, Store};
use serde::de::DeserializeOwned;

use crate::{Error, codec};

/// Visits the lines in at most `entries` entries of the history, from entry `from` on, oldest first, each with the index
/// of its entry, until `visit` returns `false`. Returns the entry to go on from, whose lines may have been visited in
/// part; `None` at the end of the durable history.
///
/// # Errors
/// When the store cannot be read, among others because entries from `from` on were trimmed, or a line is damaged.
pub fn ledger_lines(
    store: &dyn Store,
    from: Index,
    entries: usize,
    visit: &mut dyn FnMut(Index, LedgerEntry) -> bool,
) -> Result<Option<Index>, Error> {
    let (mut left, mut next, mut damage) = (entries, None, None);
    store.entries(from, &mut |entry| {
        if left == 0 {
            next = Some(entry.index);
            return false;
        }
        left -= 1;
        for row in &entry.rows {
            let Some(value) = &row.value else { continue };
            match line(&row.key, value) {
                Ok(None) => {}
                Ok(Some(line)) => {
                    if !visit(entry.index, line) {
                        next = Some(entry.index);
                        return false;
                    }
                }
                Err(error) => {
                    damage = Some(error);
                    return false;
                }
            }
        }
        true
    })?;
    match damage {
        Some(error) => Err(error),
        None => Ok(next),
    }
}

/// Visits every line of the ledger in order of number, also those from before the history begins. Looks at all rows of
/// the store, so it is for stores that [`ledger_lines`] cannot read from the start.
///
/// # Errors
/// As [`ledger_lines`]; what was visited is then to be thrown away.
pub fn ledger_rows(store: &dyn Store, visit: &mut dyn FnMut(LedgerEntry)) -> Result<(), Error> {
    let mut damage = None;
    store.rows(&mut |key, value| match line(key, value) {
        Ok(Some(line)) if damage.is_none() => visit(line),
        Ok(_) => {}
        Err(error) => damage = Some(error),
    })?;
    damage.map_or(Ok(()), Err)
}

/// The table to which a stored key belongs.
///
/// # Errors
/// A table that this program does not know.
pub fn table_of(key: &[u8]) -> Result<TableId, Error> {
    codec::split_key(key).map(|(table, _)| table).map_err(Error::UnknownTable)
}

/// A stored value of this table.
///
/// # Errors
/// Bytes that are no such value.
pub fn decode_row<V: DeserializeOwned>(table: TableId, value: &[u8]) -> Result<V, Error> {
    codec::Encoded(value).decode().map_err(|detail| RowError { table, detail }.into())
}

/// A row as a line of the ledger; nothing when it is of another table.
fn line(key: &[u8], value: &[u8]) -> Result<Option<LedgerEntry>, Error> {
    match codec::split_key(key) {
        Ok((TableId::Ledger, _)) => match codec::Encoded(value).decode() {
            Ok(line) => Ok(Some(line)),
            Err(detail) => Err(RowError { table: TableId::Ledger, detail }.into()),
        },
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use leeway_core::{Config, Event};
    use leeway_model::budget::{BudgetSpec, Period};
    use leeway_model::{InstallationId, Micros, Timestamp};
    use leeway_store::MemoryStore;

    use super::*;
    use crate::Engine;

    /// A store with a line for each of so many changes of a cap.
    fn store_with(lines: i64) -> MemoryStore {
        let config = Config::new(InstallationId("test".parse().unwrap()), leeway_policies::DEFAULT.parse().unwrap());
        let (mut engine, _) =
            Engine::<_, ()>::open(MemoryStore::new(), config, leeway_policies::all(), Timestamp::ZERO).unwrap();
        for cap in 1..=lines {
            let (name, cap) = ("team".parse().unwrap(), Micros::from_units(cap));
            let spec = BudgetSpec { name, parent: None, cap, period: Period::Total, soft_limit: None };
            engine
                .step(Timestamp::from_millis(cap.get()), Event::BudgetSet { spec, by: "me".parse().unwrap() }, ())
                .unwrap();
        }
        engine.commit().unwrap();
        engine.into_store()
    }

    #[test]
    fn every_line_is_visited_once_however_short_the_stretches_are() {
        let store = store_with(50);
        for stretch in [1, 7, 1_000] {
            let (mut numbers, mut from) = (Vec::new(), Some(0));
            while let Some(at) = from {
                from = ledger_lines(&store, at, stretch, &mut |_, line| {
                    numbers.push(line.number);
                    true
                })
                .unwrap();
            }
            let mut rows = Vec::new();
            ledger_rows(&store, &mut |line| rows.push(line.number)).unwrap();
            assert_eq!(numbers.len(), 50, "{stretch}");
            assert!(numbers.is_sorted_by(|a, b| a < b));
            assert_eq!(numbers, rows);
        }
    }

    #[test]
    fn a_visitor_that_has_enough_is_told_where_to_go_on() {
        let store = store_with(9);
        let mut seen = Vec::new();
        let next = ledger_lines(&store, 1, 100, &mut |index, line| {
            seen.push((index, line.number));
            seen.len() < 4
        });
        assert_eq!(next.unwrap(), Some(seen[3].0));
        assert_eq!(seen.len(), 4);
    }
}
