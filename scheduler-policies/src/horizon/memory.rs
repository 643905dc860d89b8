//! What is believed of places, from what was seen of them.
//!
//! Sights are read off at even ticks: in each, whether there was capacity, by what was seen last in it, or that nobody
//! looked. The belief of the one-job rule takes them in one by one. It is the same however often it is asked for: what
//! was computed for a moment is gone on from only where the rows still say the same of the time until then.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use leeway_core::policy::Prospect;
use leeway_core::spells::{Sight, Spells};
use leeway_model::market::OfferKey;
use leeway_model::{Millis, Timestamp};
use lru::LruCache;

use crate::deadline::horizon::belief::{Belief, Rhythm};
use crate::deadline::horizon::market::Market;

/// Distance between two ticks.
pub(super) const TICK: Millis = Millis::from_mins(10);

/// Ticks of one kind in a row that are taken in. After a week of it, there is nothing more to learn from another.
const IN_A_ROW: u32 = 1008;

/// Beliefs that are kept for the next time.
const TRACKS: NonZeroUsize = NonZeroUsize::new(256).expect("256 is not 0");

/// Places, and how many machines they must have at once.
type Asked = (u32, Vec<OfferKey>);

#[derive(Debug)]
pub(super) struct Memory {
    rhythm: Rhythm,
    tracks: Mutex<LruCache<Asked, Track>>,
}

/// A belief on its way through the ticks.
#[derive(Clone, Debug)]
struct Track {
    /// What was taken in of each place.
    taken: Vec<Vec<Sight>>,
    /// The tick that comes next.
    next: i64,
    /// What was seen last, and for how many ticks.
    last: (Option<bool>, u32),
    belief: Belief,
}

impl Track {
    /// Whether the rows still say what was taken in.
    fn holds(&self, places: &[&Prospect<'_>]) -> bool {
        let mut each = self.taken.iter().zip(places);
        self.taken.len() == places.len()
            && each.all(|(taken, place)| sights_before(place, self.next).eq(taken.iter().copied()))
    }

    fn take(&mut self, rhythm: &Rhythm, seen: Option<bool>) {
        self.last = if self.last.0 == seen { (seen, self.last.1.saturating_add(1)) } else { (seen, 1) };
        if self.last.1 > IN_A_ROW {
            return;
        }
        self.belief.advance(rhythm);
        if let Some(is_up) = seen {
            self.belief.observe(is_up);
        }
    }
}

impl Memory {
    pub(super) fn new(library: &[Market]) -> Self {
        Self { rhythm: Rhythm::new(library, TICK.as_hours_f64()), tracks: Mutex::new(LruCache::new(TRACKS)) }
    }

    /// What is believed now of some places as one market, which has capacity for so many machines at once while any of
    /// them has.
    pub(super) fn belief(&self, places: &[&Prospect<'_>], machines: u32, now: Timestamp) -> Belief {
        let firsts = places.iter().filter_map(|place| place.seen?.seen.first());
        let Some(first) = firsts.map(|sight| tick(sight.from)).min() else {
            return Belief::new(&self.rhythm);
        };
        let machines = Spells::level(machines.max(1));
        let seen = |tick: i64| any_up(places, machines, tick);
        let key = (machines, places.iter().map(|place| place.offer.clone()).collect());
        let present = tick(now);
        let mut tracks = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tracks.pop(&key);
        let mut track = known.filter(|track| track.next <= present && track.holds(places)).unwrap_or_else(|| Track {
            taken: vec![],
            next: first,
            last: (None, 0),
            belief: Belief::new(&self.rhythm),
        });
        if track.next < present {
            while track.next < present {
                track.take(&self.rhythm, seen(track.next));
                track.next += 1;
            }
            track.taken = places.iter().map(|place| sights_before(place, present).collect()).collect();
        }
        // More may be seen within the present tick, so that it is taken in anew each time.
        let mut by_now = track.clone();
        by_now.take(&self.rhythm, seen(present));
        tracks.put(key, track);
        by_now.belief
    }
}

/// What a row says of the time before a tick.
fn sights_before<'a>(place: &'a Prospect<'_>, tick: i64) -> impl Iterator<Item = Sight> + 'a {
    let end = Timestamp::from_millis(tick.saturating_mul(TICK.as_millis() as i64));
    let last = place.seen.filter(|seen| seen.goes_on).map_or(0, |seen| seen.seen.len());
    let seen = place.seen.into_iter().flat_map(|seen| seen.seen.iter().enumerate());
    seen.take_while(move |(_, sight)| sight.from < end).map(move |(position, sight)| {
        let to = if position + 1 == last { end } else { sight.to.min(end) };
        Sight { to, ..*sight }
    })
}

fn tick(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(TICK.as_millis() as i64)
}

/// Whether one of the places had capacity in a tick; `None` while some were not looked at and the others had none.
fn any_up(places: &[&Prospect<'_>], machines: u32, tick: i64) -> Option<bool> {
    let each = places.iter().map(|place| place.seen.and_then(|seen| is_up(seen, machines, tick)));
    each.reduce(|one, other| match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    })?
}

/// Whether a place had capacity in a tick, by the last sight of it.
fn is_up(spells: &Spells, machines: u32, tick: i64) -> Option<bool> {
    let length = TICK.as_millis() as i64;
    let (begin, end) = (tick.saturating_mul(length), tick.saturating_add(1).saturating_mul(length));
    let until = spells.seen.partition_point(|sight| sight.from.as_millis() < end);
    let last = spells.seen[..until].last()?;
    let goes_on = spells.goes_on && until == spells.seen.len();
    (goes_on || last.to.as_millis() >= begin).then_some(last.machines >= machines)
}

#[cfg(test)]
mod tests {
    use leeway_core::policy::Scored;
    use leeway_model::resources::CapacityType;
    use leeway_model::{Bill, Rate};
    use proptest::prelude::*;

    use super::*;
    use crate::deadline::horizon::market::library;
    use crate::deadline::horizon::zones::Lives;

    fn at(minutes: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000).after(Millis::from_mins(minutes))
    }

    fn place(cluster: &str) -> OfferKey {
        let name = |text: &str| text.parse().unwrap();
        OfferKey { cluster: name(cluster), shape: name("v100"), capacity: CapacityType::Spot }
    }

    /// Sights from so many minutes to so many, with so many machines.
    fn seen(sights: &[(u64, u64, u32)], goes_on: bool) -> Spells {
        let sight = |&(from, to, machines): &(u64, u64, u32)| Sight { from: at(from), to: at(to), machines };
        Spells { place: place("east"), seen: sights.iter().map(sight).collect(), goes_on }
    }

    fn prospect(seen: &Spells) -> Prospect<'_> {
        let scored = Scored {
            capacity: CapacityType::Spot,
            rate: Rate::ZERO,
            nodes: 1,
            bill: Bill::default(),
            expected_time: Millis::ZERO,
            launched: 1.0,
        };
        Prospect {
            offer: &seen.place,
            scored,
            is_open: true,
            opens: None,
            is_told: false,
            at_stake: Millis::ZERO,
            seen: Some(seen),
        }
    }

    fn belief(memory: &Memory, seen: &[&Spells], now: u64) -> Belief {
        let places: Vec<Prospect<'_>> = seen.iter().map(|seen| prospect(seen)).collect();
        memory.belief(&places.iter().collect::<Vec<_>>(), 1, at(now))
    }

    /// Hours that capacity is expected to go on, for a job of two days.
    fn life(seen: &Spells, now: u64) -> f64 {
        Lives::new(&library(), 48.0).now(&belief(&Memory::new(&library()), &[seen], now))
    }

    #[test]
    fn where_nobody_looked_the_library_speaks() {
        let memory = Memory::new(&library());
        let none = seen(&[], false);
        let fresh = belief(&memory, &[&none], 0);
        assert_eq!(fresh.weights(), Belief::new(&memory.rhythm).weights());
        assert!((0.2..0.8).contains(&fresh.chance()), "{}", fresh.chance());
    }

    #[test]
    fn the_longer_a_spell_has_lasted_the_longer_it_is_expected_to_go_on() {
        let spell = seen(&[(0, 0, 1)], true);
        let lives: Vec<f64> = [10, 60, 300, 1500, 6000].map(|now| life(&spell, now)).into();
        assert!(lives.windows(2).all(|pair| pair[0] < pair[1]), "{lives:?}");
    }

    #[test]
    fn a_run_that_left_by_itself_says_only_that_the_spell_lasted_at_least_so_long() {
        let left: Vec<(u64, u64, u32)> = (0..6).map(|number| (number * 600, number * 600 + 120, 1)).collect();
        let taken: Vec<(u64, u64, u32)> =
            left.iter().flat_map(|&(from, to, machines)| [(from, to, machines), (to + 10, to + 10, 0)]).collect();
        let (mut left, mut taken) = (seen(&left, false), seen(&taken, false));
        for spells in [&mut left, &mut taken] {
            spells.seen.push(Sight { from: at(3600), to: at(3600), machines: 1 });
            spells.goes_on = true;
        }
        let (left, taken) = (life(&left, 3620), life(&taken, 3620));
        assert!(left > 1.5 * taken, "{left} {taken}");
    }

    #[test]
    fn what_was_seen_fades() {
        let gone = seen(&[(0, 600, 0)], false);
        let memory = Memory::new(&library());
        let chance = |now: u64| belief(&memory, &[&gone], now).chance();
        let prior = Belief::new(&memory.rhythm).chance();
        let chances = [600, 900, 3_000, 40_000].map(chance);
        assert!(chances.windows(2).all(|pair| pair[0] < pair[1]), "{chances:?}");
        assert!(chances[0] < 0.01 && (chances[3] - prior).abs() < 0.1, "{chances:?} {prior}");
    }

    #[test]
    fn a_gang_sees_no_capacity_where_there_is_less_than_it_needs() {
        let some = seen(&[(0, 0, 4)], true);
        let chance = |machines: u32| Memory::new(&library()).belief(&[&prospect(&some)], machines, at(600)).chance();
        assert!(chance(4) > 0.99 && chance(5) > 0.99 && chance(8) < 0.01, "sizes count by powers of two");
    }

    #[test]
    fn several_places_have_capacity_while_any_has() {
        let (up, mut down) = (seen(&[(0, 0, 1)], true), seen(&[(0, 0, 0)], true));
        down.place = place("west");
        let memory = Memory::new(&library());
        assert!(belief(&memory, &[&up, &down], 300).chance() > 0.99);
        assert!(belief(&memory, &[&down], 300).chance() < 0.01);
    }

    #[test]
    fn another_history_of_the_same_place_is_another_belief() {
        let memory = Memory::new(&library());
        let (up, down) = (seen(&[(0, 300, 1), (300, 400, 0)], true), seen(&[(0, 90, 1), (90, 400, 0)], true));
        let _ = belief(&memory, &[&up], 500);
        let (known, anew) = (belief(&memory, &[&down], 520), belief(&Memory::new(&library()), &[&down], 520));
        assert_eq!(known.weights(), anew.weights());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

        /// What is kept for the next time changes nothing.
        #[test]
        fn a_belief_is_the_same_whenever_it_was_asked_for_before(
            news in prop::collection::vec((1..400_u64, 0..3_u32, any::<bool>(), any::<bool>(), any::<bool>()), 1..40),
        ) {
            let (memory, mut spells, mut now) = (Memory::new(&library()), seen(&[], false), 0);
            for (later, machines, goes_on, forgets, asks) in news {
                now += later;
                if let Some(last) = spells.seen.last_mut().filter(|_| spells.goes_on) {
                    last.to = at(now);
                }
                spells.seen.push(Sight { from: at(now), to: at(now), machines });
                spells.goes_on = goes_on;
                if forgets && spells.seen.len() > 4 {
                    spells.seen.remove(0);
                }
                if asks {
                    let known = belief(&memory, &[&spells], now);
                    let anew = belief(&Memory::new(&library()), &[&spells], now);
                    prop_assert_eq!(known.weights(), anew.weights());
                    prop_assert_eq!(known.phases(), anew.phases());
                }
            }
        }
    }
}
