//! The virtual clock and the queue of what is still to happen, in order of time and then of arrival.

use std::collections::BTreeMap;

use leeway_model::{Millis, Timestamp};

/// Two things at one instant happen in the order in which they were planned, so a run has exactly one history.
#[derive(Debug)]
pub struct Kernel<E> {
    now: Timestamp,
    sequence: u64,
    queue: BTreeMap<(Timestamp, u64), E>,
}

impl<E> Kernel<E> {
    pub fn new(now: Timestamp) -> Self {
        Self { now, sequence: 0, queue: BTreeMap::new() }
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Plans something; what lies in the past happens next.
    pub fn at(&mut self, at: Timestamp, event: E) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), event);
    }

    pub fn after(&mut self, length: Millis, event: E) {
        self.at(self.now.after(length), event);
    }

    /// Instant of the next event.
    pub fn next(&self) -> Option<Timestamp> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Moves the clock to the next event and takes it.
    pub fn pop(&mut self) -> Option<E> {
        let ((at, _), event) = self.queue.pop_first()?;
        self.now = at;
        Some(event)
    }

    /// Moves the clock on while nothing happens.
    pub fn idle_until(&mut self, at: Timestamp) {
        debug_assert!(self.next().is_none_or(|next| next >= at), "nothing planned is skipped");
        self.now = self.now.max(at);
    }
}

#[cfg(test)]
mod tests {
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
}
