//! When the runs that hold an offer are expected to give its machines back.
//!
//! A run is expected to take what it was expected to take when it was placed. One that takes longer is expected to go on for as
//! long again as it is late by now: nothing else is known of it, and so who waits for it is told of an ever later instant.

use std::collections::{BTreeMap, BTreeSet};

use leeway_model::{Millis, RunId, Timestamp};

use super::fleet::OfferId;

/// Runs of an offer that are looked at, those that should end first.
const LOOK_AT: usize = 32;

/// A run that should have ended this moment has this long to say so.
const LEAST: Millis = Millis::from_mins(1);

#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// The end that was expected when it was placed, the run, and its machines.
    by_offer: BTreeMap<OfferId, BTreeSet<(Timestamp, RunId, u32)>>,
    of: BTreeMap<RunId, (OfferId, Timestamp, u32)>,
}

impl Ends {
    pub fn expect(&mut self, run: RunId, offer: OfferId, machines: u32, end: Timestamp) {
        self.forget(run);
        self.of.insert(run, (offer, end, machines));
        self.by_offer.entry(offer).or_default().insert((end, run, machines));
    }

    pub fn forget(&mut self, run: RunId) {
        let Some((offer, end, machines)) = self.of.remove(&run) else { return };
        if let Some(ends) = self.by_offer.get_mut(&offer) {
            ends.remove(&(end, run, machines));
            if ends.is_empty() {
                self.by_offer.remove(&offer);
            }
        }
    }

    /// When so many machines will have been given back; `None` where the runs that are looked at do not hold as many.
    pub fn given_back(&self, offer: OfferId, machines: u32, now: Timestamp) -> Option<Timestamp> {
        let ends = self.by_offer.get(&offer)?;
        let expected = |end: Timestamp| if end > now { end } else { now.after(now.since(end).max(LEAST)) };
        let mut next: Vec<_> = ends.iter().take(LOOK_AT).map(|&(end, _, held)| (expected(end), held)).collect();
        next.sort_unstable();
        let mut back = 0_u32;
        next.into_iter().find_map(|(end, held)| {
            back = back.saturating_add(held);
            (back >= machines).then_some(end)
        })
    }
}

#[cfg(test)]
mod tests {
    use leeway_model::JobId;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1_000)
    }

    fn run(number: u64) -> RunId {
        RunId { job: JobId(number), epoch: 1 }
    }

    #[test]
    fn machines_come_back_as_runs_are_expected_to_end() {
        let offer = OfferId::first();
        let mut ends = Ends::default();
        ends.expect(run(1), offer, 2, at(100));
        ends.expect(run(2), offer, 1, at(50));
        ends.expect(run(3), offer, 1, at(70));
        let when = |ends: &Ends, machines| ends.given_back(offer, machines, at(0));
        assert_eq!([1, 2, 3, 4].map(|count| when(&ends, count)), [50, 70, 100, 100].map(|secs| Some(at(secs))));
        assert_eq!(when(&ends, 5), None);
        ends.forget(run(2));
        assert_eq!(when(&ends, 1), Some(at(70)));
    }

    #[test]
    fn a_run_that_is_late_is_expected_to_be_as_late_again() {
        let offer = OfferId::first();
        let mut ends = Ends::default();
        ends.expect(run(1), offer, 1, at(100));
        assert_eq!(ends.given_back(offer, 1, at(190)), Some(at(280)));
        assert_eq!(ends.given_back(offer, 1, at(100)), Some(at(160)));
        ends.expect(run(2), offer, 1, at(200));
        assert_eq!(ends.given_back(offer, 1, at(160)), Some(at(200)), "another one ends before that");
    }
}
