//! The virtual clock and the queue of what is still to happen, in order of time and then of planning.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use leeway_model::{Millis, Timestamp};

/// Two things at one instant happen in the order in which they were planned, so a run has exactly one history.
///
/// A binary heap over time and a number of planning: both are compared as one integer, and nothing is ever taken out of
/// the middle, so that planning and taking cost the logarithm of what is planned.
#[derive(Debug)]
pub struct Kernel<E> {
    now: Timestamp,
    sequence: u64,
    queue: BinaryHeap<Planned<E>>,
}

#[derive(Debug)]
struct Planned<E> {
    /// Time from the epoch in the upper half, the number of planning in the lower; the heap takes the largest first, so
    /// all bits are turned.
    key: u128,
    event: E,
}

impl<E> Planned<E> {
    fn new(at: Timestamp, sequence: u64, event: E) -> Self {
        // Flipping the sign bit keeps the order of signed times.
        let time = (at.as_millis() as u64) ^ (1 << 63);
        Self { key: !(u128::from(time) << 64 | u128::from(sequence)), event }
    }

    fn at(&self) -> Timestamp {
        let time = (!self.key >> 64) as u64;
        Timestamp::from_millis((time ^ (1 << 63)) as i64)
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Planned<E> {}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Planned<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> Kernel<E> {
    pub fn new(now: Timestamp) -> Self {
        Self { now, sequence: 0, queue: BinaryHeap::new() }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Plans something; what lies in the past happens next.
    pub fn at(&mut self, at: Timestamp, event: E) {
        self.sequence += 1;
        self.queue.push(Planned::new(at.max(self.now), self.sequence, event));
    }

    pub fn after(&mut self, length: Millis, event: E) {
        self.at(self.now.after(length), event);
    }

    /// Instant of the next event.
    pub fn next(&self) -> Option<Timestamp> {
        self.queue.peek().map(Planned::at)
    }

    /// Moves the clock to the next event and takes it.
    pub fn pop(&mut self) -> Option<E> {
        let planned = self.queue.pop()?;
        self.now = planned.at();
        Some(planned.event)
    }

    /// Events that are planned.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Moves the clock on while nothing happens.
    pub fn idle_until(&mut self, at: Timestamp) {
        debug_assert!(self.next().is_none_or(|next| next >= at), "nothing planned is skipped");
        self.now = self.now.max(at);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_instants_keep_the_order_of_planning() {
        let mut kernel = Kernel::new(Timestamp::ZERO);
        kernel.after(Millis::new(5), 'b');
        kernel.after(Millis::new(1), 'a');
        kernel.after(Millis::new(5), 'c');
        let order: String = std::iter::from_fn(|| kernel.pop()).collect();
        assert_eq!(order, "abc");
        assert_eq!(kernel.now(), Timestamp::from_millis(5));
    }

    proptest! {
        #[test]
        fn what_was_planned_comes_in_order_of_time_and_then_of_planning(
            times in prop::collection::vec(prop_oneof![-3_i64..3, any::<i64>()], 0..200),
        ) {
            let mut kernel = Kernel::new(Timestamp::from_millis(i64::MIN));
            for (number, time) in times.iter().enumerate() {
                kernel.at(Timestamp::from_millis(*time), number);
            }
            let mut expected: Vec<(i64, usize)> = times.into_iter().enumerate().map(|(n, time)| (time, n)).collect();
            expected.sort_unstable();
            let mut found = Vec::new();
            while let Some(at) = kernel.next() {
                let number = kernel.pop().unwrap();
                prop_assert_eq!(kernel.now(), at);
                found.push((at.as_millis(), number));
            }
            prop_assert_eq!(found, expected);
        }
    }
}
