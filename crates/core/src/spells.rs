//! When spot capacity of a place was seen, and when it was seen to be gone: what policies learn the rhythm of markets
//! from.
//!
//! Where a feed tells how many machines there are, that is what is seen, at each change. Elsewhere capacity is seen while
//! our own runs live there; a launch that is refused for want of it, or a loss of the last of them, shows for an instant
//! that there is none, and after that nobody looks. So a sight that still goes on, or that ended because a run had done
//! its work, says no more than that a spell lasted at least so long.
//!
//! These are facts and have a row for each place, bounded in number and in age. What follows from them is for policies to
//! say.

use std::collections::BTreeMap;

use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::run::{LaunchErrorClass, Run};
use leeway_model::{Millis, Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::round::fleet::OfferId;
use crate::scheduler::Scheduler;

/// What was seen of one spot place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spells {
    pub place: OfferKey,
    /// Oldest first. They do not overlap; between two of them nobody looked.
    pub seen: Vec<Sight>,
    /// Whether the last of them still goes on.
    pub goes_on: bool,
}

/// A stretch in which as many machines could be held all along; an instant where both ends are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sight {
    pub from: Timestamp,
    pub to: Timestamp,
    /// Rounded down to a power of two, so that a market of many machines does not make a new sight of each; 0 where there
    /// was none.
    pub machines: u32,
}

impl Spells {
    /// Sights that are kept of a place at most.
    pub const KEEP: usize = 48;
    /// Those that are forgotten at once, when there are more or when so many are too old: who learns from them begins anew
    /// each time.
    const FORGET: usize = 16;
    /// What ended so long ago may be forgotten.
    pub const REACH: Millis = Millis::from_hours(24 * 14);

    pub fn new(place: OfferKey) -> Self {
        Self { place, seen: Vec::new(), goes_on: false }
    }

    /// A number of machines as sights have it.
    pub fn level(machines: u32) -> u32 {
        machines.checked_ilog2().map_or(0, |power| 1 << power)
    }

    /// The number of machines that can be held now, where somebody looks.
    pub fn now(&self) -> Option<u32> {
        self.seen.last().filter(|_| self.goes_on).map(|sight| sight.machines)
    }

    /// From now on, or at this instant, so many machines are seen.
    fn see(&mut self, now: Timestamp, machines: u32, goes_on: bool) {
        self.look_away(now);
        // What lasted for no time but to be replaced was never seen.
        if self.seen.last().is_some_and(|last| last.from == now) {
            self.seen.pop();
        }
        self.seen.push(Sight { from: now, to: now, machines });
        self.goes_on = goes_on;
        let oldest = now.before(Self::REACH);
        let stale = self.seen.iter().take_while(|sight| sight.to < oldest).count();
        if self.seen.len() > Self::KEEP || stale >= Self::FORGET {
            self.seen.drain(..stale.max(Self::FORGET));
        }
    }

    /// Nobody looks any more.
    fn look_away(&mut self, now: Timestamp) {
        if self.goes_on
            && let Some(last) = self.seen.last_mut()
        {
            last.to = now;
        }
        self.goes_on = false;
    }
}

/// What happened to a run where nothing but runs tells of the market.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Came,
    Refused,
    /// The market took it.
    Taken,
    /// It ended for reasons of its own.
    Left,
}

impl Scheduler {
    /// A feed told how many machines there are, or that it does not know any more.
    pub(crate) fn see_market(&mut self, offer: OfferId) {
        let slot = self.fleet.slot(offer);
        if slot.offer.key.capacity != CapacityType::Spot {
            return;
        }
        let (told, alive) = (slot.offer.available, slot.alive);
        match told.or((alive > 0).then_some(alive)) {
            Some(machines) => self.see(offer, Spells::level(machines), true),
            None => self.look_away(offer),
        }
    }

    /// A run has its machines.
    pub(crate) fn see_arrival(&mut self, key: &OfferKey, machines: u32) {
        self.see_run(key, News::Came, machines);
    }

    /// A launch came to nothing.
    pub(crate) fn see_refusal(&mut self, key: &OfferKey, class: LaunchErrorClass) {
        if class == LaunchErrorClass::Capacity {
            self.see_run(key, News::Refused, 0);
        }
    }

    /// A run that had machines has ended.
    pub(crate) fn see_departure(&mut self, key: &OfferKey, machines: u32, taken: bool) {
        self.see_run(key, if taken { News::Taken } else { News::Left }, machines);
    }

    fn see_run(&mut self, key: &OfferKey, news: News, machines: u32) {
        if key.capacity != CapacityType::Spot {
            return;
        }
        let Some(offer) = self.fleet.find(key) else { return };
        let alive = self.fleet.count_alive(offer, |alive| match news {
            News::Came => alive.saturating_add(machines),
            News::Refused => alive,
            News::Taken | News::Left => alive.saturating_sub(machines),
        });
        if self.fleet.slot(offer).offer.available.is_some() {
            return;
        }
        let level = Spells::level(alive);
        let known = self.tables.spells.get(key).and_then(Spells::now);
        match news {
            News::Came => self.see(offer, level.max(known.unwrap_or(0)), true),
            // What others of ours still hold is there all the same.
            News::Refused | News::Taken => self.see(offer, level, alive > 0),
            News::Left if alive == 0 => self.look_away(offer),
            News::Left => {}
        }
    }

    fn see(&mut self, offer: OfferId, machines: u32, goes_on: bool) {
        let (now, key) = (self.now, &self.fleet.slot(offer).offer.key);
        let known = self.tables.spells.get(key);
        if goes_on && known.is_some_and(|known| known.now() == Some(machines)) {
            return;
        }
        if known.is_none() {
            self.tables.spells.insert(key.clone(), Spells::new(key.clone()));
        }
        if let Some(row) = self.tables.spells.change(key) {
            row.see(now, machines, goes_on);
        }
    }

    fn look_away(&mut self, offer: OfferId) {
        let key = &self.fleet.slot(offer).offer.key;
        if self.tables.spells.get(key).is_some_and(|known| known.goes_on)
            && let Some(row) = self.tables.spells.change(key)
        {
            row.look_away(self.now);
        }
    }

    /// Counts the machines of runs from their rows.
    pub(crate) fn count_alive(&mut self) {
        for run in self.tables.runs.values().filter(is_alive).filter(|run| run.offer.capacity == CapacityType::Spot) {
            if let Some(offer) = self.fleet.find(&run.offer) {
                self.fleet.count_alive(offer, |alive| alive.saturating_add(run.nodes));
            }
        }
    }

    /// Forgets places of a cluster that it offers no more.
    pub(crate) fn forget_spells(&mut self, cluster: &Name) {
        let rows = self.tables.spells.range(OfferKey::first_of(cluster)..).map(|(place, _)| place);
        let gone = rows.take_while(|place| place.cluster == *cluster).filter(|place| self.fleet.find(place).is_none());
        for place in gone.cloned().collect::<Vec<_>>() {
            self.tables.spells.remove(&place);
        }
    }

    /// Whether as many machines are counted as runs have.
    pub(crate) fn check_alive(&self) {
        let mut alive: BTreeMap<&OfferKey, u32> = BTreeMap::new();
        for run in self.tables.runs.values().filter(is_alive) {
            let sum = alive.entry(&run.offer).or_default();
            *sum = sum.saturating_add(run.nodes);
        }
        for (_, slot) in self.fleet.iter().filter(|(_, slot)| slot.offer.key.capacity == CapacityType::Spot) {
            let expected = alive.get(&slot.offer.key).copied().unwrap_or(0);
            assert_eq!(slot.alive, expected, "machines of {} are counted while runs have them", slot.offer.key);
        }
    }
}

fn is_alive(run: &&Run) -> bool {
    run.launched.is_some() && run.stopped.is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_millis(0).after(Millis::from_mins(minutes))
    }

    fn place() -> Spells {
        let name = |text: &str| text.parse().unwrap();
        Spells::new(OfferKey { cluster: name("east"), shape: name("v100"), capacity: CapacityType::Spot })
    }

    #[test]
    fn a_spell_that_was_watched_to_its_end_is_followed_at_once_by_the_next() {
        let mut spells = place();
        spells.see(at(0), 4, true);
        spells.see(at(90), 0, true);
        assert_eq!(spells.seen[0], Sight { from: at(0), to: at(90), machines: 4 });
        assert_eq!((spells.seen[1].from, spells.now()), (at(90), Some(0)));
        spells.look_away(at(100));
        assert_eq!((spells.seen[1].to, spells.now()), (at(100), None));
    }

    #[test]
    fn an_instant_tells_nothing_of_what_follows() {
        let mut spells = place();
        spells.see(at(5), 0, false);
        spells.look_away(at(50));
        assert_eq!(spells.seen, [Sight { from: at(5), to: at(5), machines: 0 }]);
    }

    #[test]
    fn numbers_of_machines_are_rounded_down_to_powers_of_two() {
        let levels: Vec<u32> = [0, 1, 2, 3, 4, 7, 8, u32::MAX].map(Spells::level).into();
        assert_eq!(levels, [0, 1, 2, 2, 4, 4, 8, 1 << 31]);
    }

    proptest! {
        #[test]
        fn sights_stay_bounded_in_order_and_apart(
            news in prop::collection::vec((0..3_000_u64, 0..3_u32, any::<bool>(), any::<bool>()), 1..400),
        ) {
            let (mut spells, mut now) = (place(), 0);
            for (later, machines, goes_on, leaves) in news {
                now += later;
                if leaves { spells.look_away(at(now)) } else { spells.see(at(now), machines, goes_on) }
                prop_assert!(spells.seen.len() <= Spells::KEEP);
                prop_assert!(spells.seen.windows(2).all(|pair| pair[0].to <= pair[1].from && pair[0].from < pair[1].from));
                prop_assert!(spells.seen.iter().all(|sight| sight.from <= sight.to && sight.to <= at(now)));
            }
        }
    }
}
