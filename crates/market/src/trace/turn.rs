//! A trace as a loop: what it says at any instant of it, and the same loop begun at another one.

use leeway_model::{Millis, Rate};

use super::{Notice, PriceChange, SpotTrace};

impl SpotTrace {
    /// Nodes and spot price so long after the first tick; after the last one the trace begins again.
    pub fn at(&self, time: Millis) -> (u32, Rate) {
        let tick = time.as_millis() / self.gap.as_millis().max(1) % self.data.len().max(1) as u64;
        let nodes = usize::try_from(tick).ok().and_then(|tick| self.data.get(tick)).copied().unwrap_or(0);
        let before = self.price_changes.partition_point(|change| u64::from(change.tick) <= tick);
        let price = before.checked_sub(1).map_or(self.spot, |last| self.price_changes[last].rate);
        (nodes, price)
    }

    /// The same loop, begun so many ticks into it; what was before follows at its end.
    #[must_use]
    pub fn rotated(&self, by: u64) -> Self {
        let ticks = self.data.len() as u64;
        let by = by.checked_rem(ticks).unwrap_or(0);
        let moved = |tick: u32| ((u64::from(tick) + ticks - by) % ticks.max(1)) as u32;
        let mut data = self.data.clone();
        data.rotate_left(by as usize);
        let mut price_changes: Vec<PriceChange> = self
            .price_changes
            .iter()
            .map(|change| PriceChange { tick: moved(change.tick), rate: change.rate })
            .collect();
        // Where the loop begins again, its first price holds until it changes.
        if by > 0 && self.price_changes.first().is_none_or(|change| change.tick > 0) {
            price_changes.push(PriceChange { tick: moved(0), rate: self.spot });
        }
        price_changes.sort_by_key(|change| change.tick);
        let mut notices: Vec<Notice> =
            self.notices.iter().map(|notice| Notice { tick: moved(notice.tick), length: notice.length }).collect();
        // The first tick of a recording has nothing before it, so nothing is lost there.
        notices.retain(|notice| notice.tick > 0);
        notices.sort_by_key(|notice| notice.tick);
        let mut missing_ticks: Vec<u32> =
            self.missing_ticks.iter().map(|tick| moved(*tick)).filter(|tick| *tick > 0).collect();
        missing_ticks.sort_unstable();
        let start = self.start.map(|start| start.after(self.gap.saturating_mul(by)));
        Self {
            spot: self.at(self.gap.saturating_mul(by)).1,
            price_changes,
            notices,
            missing_ticks,
            start,
            data,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trace;

    proptest! {
        #[test]
        fn a_rotated_loop_says_the_same_of_every_moment(
            by in 0_u64..500,
            changes in proptest::collection::btree_map(0_u32..240, 1_u64..9, 0..6),
        ) {
            let mut trace = crate::demo::demo_markets()[0].clone();
            let change = |(tick, rate): (&u32, &u64)| {
                PriceChange { tick: *tick, rate: Rate::from_nanos(rate * 1_000_000_000) }
            };
            trace.price_changes = changes.iter().map(change).collect();
            let moved = trace.rotated(by);
            for tick in 0..trace.data.len() as u64 {
                let time = |tick: u64| trace.gap.saturating_mul(tick);
                prop_assert_eq!(moved.at(time(tick)), trace.at(time(tick + by)), "tick {}", tick);
            }
            let read = trace::parse("rotated", trace::write(&moved).as_bytes());
            prop_assert!(read.is_ok(), "{:?}", read);
        }
    }
}
