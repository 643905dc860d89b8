//! The ledger's lines for reading, out of the store's history. Nothing of it is mirrored: what is kept is where lines
//! stand, for a bounded number of them, so that the next page need not be looked for from the beginning.

use std::collections::BTreeMap;

use leeway_engine::{Error, history};
use leeway_model::budget::LedgerEntry;
use leeway_store::{Index, Store};

/// Entries of the history that one look examines at most, so that the scheduler answers others in between.
const EXAMINE: usize = 4_000;
/// Lines whose place is kept; then every second one is forgotten.
const MARKS_MAX: usize = 1_024;

/// Where some lines stand, learned by reading. Losing it costs time only.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The entry of a line, by the line's number.
    marks: BTreeMap<u64, Index>,
}

/// What one look found.
#[derive(Debug)]
pub struct Look {
    pub lines: Vec<LedgerEntry>,
    /// Where the next look begins; `None` when all lines were looked at, or as many found as were wanted.
    pub next: Option<Index>,
}

impl Ledger {
    /// Up to `wanted` lines above number `after` that `accepts` takes, from entry `from` on, which an earlier look gave.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn look(
        &mut self,
        store: &dyn Store,
        after: Option<u64>,
        from: Option<Index>,
        wanted: usize,
        accepts: impl Fn(&LedgerEntry) -> bool,
    ) -> Result<Look, Error> {
        let mut lines = Vec::new();
        let is_new = |line: &LedgerEntry| after.is_none_or(|after| line.number > after) && accepts(line);
        let first = store.first_entry();
        let begin = from.or_else(|| self.mark_before(after)).unwrap_or(1);
        if begin < first {
            // The history does not reach back so far: the rows do. They come in order of number.
            history::ledger_rows(store, &mut |line| {
                if lines.len() < wanted && is_new(&line) {
                    lines.push(line);
                }
            })?;
            return Ok(Look { lines, next: None });
        }
        let mut last = None;
        let next = history::ledger_lines(store, begin, EXAMINE, &mut |index, line| {
            last = Some((line.number, index));
            if is_new(&line) {
                lines.push(line);
            }
            lines.len() < wanted
        })?;
        if let Some((number, index)) = last {
            self.keep(number, index);
        }
        let next = next.filter(|_| lines.len() < wanted);
        Ok(Look { lines, next })
    }

    fn mark_before(&self, after: Option<u64>) -> Option<Index> {
        self.marks.range(..=after?).next_back().map(|(_, index)| *index)
    }

    fn keep(&mut self, number: u64, index: Index) {
        self.marks.insert(number, index);
        if self.marks.len() > MARKS_MAX {
            let mut stays = false;
            self.marks.retain(|_, _| {
                stays = !stays;
                stays
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use leeway_core::{Config, Event};
    use leeway_engine::Engine;
    use leeway_model::budget::{BudgetSpec, Period};
    use leeway_model::{InstallationId, Micros, Timestamp};
    use leeway_store::MemoryStore;

    use super::*;

    /// A store with so many lines, one an entry.
    fn store_with(lines: u64) -> MemoryStore {
        let config = Config::new(InstallationId("test".parse().unwrap()), leeway_policies::DEFAULT.parse().unwrap());
        let (mut engine, _) =
            Engine::<_, ()>::open(MemoryStore::new(), config, leeway_policies::all(), Timestamp::ZERO).unwrap();
        for number in 0..lines {
            let cap = Micros::new(i64::try_from(number).unwrap());
            let name = if number % 1_000 == 0 { "rare" } else { "common" };
            let spec =
                BudgetSpec { name: name.parse().unwrap(), parent: None, cap, period: Period::Total, soft_limit: None };
            engine.step(Timestamp::ZERO, Event::BudgetSet { spec, by: "me".parse().unwrap() }, ()).unwrap();
        }
        engine.commit().unwrap();
        engine.into_store()
    }

    /// All pages, as a client asks for them; each page may take several looks.
    fn pages(ledger: &mut Ledger, store: &dyn Store, size: usize, accepts: impl Fn(&LedgerEntry) -> bool) -> Vec<u64> {
        let (mut numbers, mut after) = (Vec::new(), None);
        loop {
            let (mut page, mut from) = (Vec::new(), None);
            loop {
                let look = ledger.look(store, after, from, size - page.len(), &accepts).unwrap();
                page.extend(look.lines.iter().map(|line| line.number));
                from = look.next;
                if from.is_none() {
                    break;
                }
            }
            after = page.last().copied().or(after);
            let is_last = page.len() < size;
            numbers.append(&mut page);
            if is_last {
                return numbers;
            }
        }
    }

    #[test]
    fn many_lines_are_read_page_by_page_and_little_is_kept_of_them() {
        let lines = 30_000;
        let store = store_with(lines);
        let mut ledger = Ledger::default();
        let all = pages(&mut ledger, &store, 17, |_| true);
        assert_eq!(all.len() as u64, lines);
        assert!(all.is_sorted_by(|a, b| a < b), "each line once, in order");
        assert!(ledger.marks.len() <= MARKS_MAX, "{}", ledger.marks.len());
        // A page in the middle begins close to where its lines are, and a forgetful ledger finds the same.
        for after in [0, 1, 12_345, lines - 2] {
            let look = |ledger: &mut Ledger| ledger.look(&store, Some(after), None, 3, |_| true).unwrap();
            let near: Vec<u64> = look(&mut ledger).lines.iter().map(|line| line.number).collect();
            assert_eq!(near.first().copied(), all.iter().copied().find(|number| *number > after));
        }
        let rare = |line: &LedgerEntry| line.at >= Timestamp::ZERO && line.number % 1_000 == 1;
        let found = pages(&mut Ledger::default(), &store, 10, rare);
        assert_eq!(found.len(), all.iter().filter(|number| *number % 1_000 == 1).count());
    }

    #[test]
    fn one_look_examines_a_bounded_stretch_of_history() {
        let store = store_with(10_000);
        let look = Ledger::default().look(&store, None, None, 5, |_| false).unwrap();
        assert_eq!(look.lines, []);
        assert_eq!(look.next, Some(EXAMINE as u64 + 1));
    }
}
