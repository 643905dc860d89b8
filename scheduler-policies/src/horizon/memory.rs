//! What is believed of places, from what was seen of them.
//!
//! Sights are read off at even ticks: in each, whether there was capacity, by what was seen last in it, or that nobody
//! looked. The belief of the one-job rule takes them in one by one. It is the same however often it is asked for: what
//! was computed for a moment is gone on from only while the rows that it came from still begin with the same sight.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use leeway_core::policy::Prospect;
use leeway_core::spells::{Sight, Spells};
use leeway_model::market::OfferKey;
use leeway_model::{Millis, Timestamp};

use crate::deadline::horizon::belief::{Belief, Rhythm};
use crate::deadline::horizon::market::Market;

/// Distance between two ticks.
pub(super) const TICK: Millis = Millis::from_mins(10);

/// Ticks of one kind in a row that are taken in. After a week of it, there is nothing more to learn from another.
const IN_A_ROW: u32 = 1008;

/// Beliefs that are kept for the next time.
const TRACKS: usize = 256;

#[derive(Debug)]
pub(super) struct Memory {
    rhythm: Rhythm,
    tracks: Mutex<Tracks>,
}

#[derive(Debug, Default)]
struct Tracks {
    /// With the number of their last use.
    of: BTreeMap<(u32, Vec<OfferKey>), (u64, Track)>,
    uses: u64,
}

/// A belief on its way through the ticks.
#[derive(Clone, Debug)]
struct Track {
    /// When the first sight of each place began.
    begins: Vec<Option<Timestamp>>,
    /// The tick that comes next.
    next: i64,
    /// What was seen last, and for how many ticks.
    last: (Option<bool>, u32),
    belief: Belief,
}

impl Track {
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
        Self { rhythm: Rhythm::new(library, TICK.as_hours_f64()), tracks: Mutex::default() }
    }

    /// What is believed now of some places as one market, which has capacity for so many machines at once while any of
    /// them has.
    pub(super) fn belief(&self, places: &[&Prospect<'_>], machines: u32, now: Timestamp) -> Belief {
        let rows: Vec<&[Sight]> = places.iter().map(|place| place.seen.map_or(&[][..], |seen| &seen.seen)).collect();
        let begins: Vec<Option<Timestamp>> = rows.iter().map(|row| row.first().map(|sight| sight.from)).collect();
        let Some(first) = begins.iter().flatten().min().map(|begin| tick(*begin)) else {
            return Belief::new(&self.rhythm);
        };
        let machines = Spells::level(machines.max(1));
        let seen = |tick: i64| any_up(places, machines, tick);
        let key = (machines, places.iter().map(|place| place.offer.clone()).collect());
        let present = tick(now);
        let mut tracks = self.tracks.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tracks.of.remove(&key).map(|(_, track)| track);
        let mut track = known
            .filter(|track| track.begins == begins && track.next <= present)
            .unwrap_or_else(|| Track { begins, next: first, last: (None, 0), belief: Belief::new(&self.rhythm) });
        while track.next < present {
            track.take(&self.rhythm, seen(track.next));
            track.next += 1;
        }
        // More may be seen within the present tick, so that it is taken in anew each time.
        let mut by_now = track.clone();
        by_now.take(&self.rhythm, seen(present));
        tracks.keep(key, track);
        by_now.belief
    }
}

impl Tracks {
    fn keep(&mut self, key: (u32, Vec<OfferKey>), track: Track) {
        if self.of.len() >= TRACKS {
            let oldest = self.of.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.of.remove(&oldest));
        }
        self.uses += 1;
        self.of.insert(key, (self.uses, track));
    }
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
