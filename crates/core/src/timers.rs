//! When something must be looked at again. A timer is derived from rows, so a restart sets it anew.

use std::collections::{BTreeMap, BTreeSet};

use leeway_model::market::OfferKey;
use leeway_model::{JobId, OutboxId, RunId, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A run's next deadline of any kind.
    Run(RunId),
    /// A parked job may be tried again.
    Job(JobId),
    Delivery(OutboxId),
    /// An offer's cool-down is over.
    Offer(OfferKey),
    /// Old rows may be forgotten.
    Sweep,
}

/// At most one instant for each timer.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    due: BTreeSet<(Timestamp, Timer)>,
    at: BTreeMap<Timer, Timestamp>,
}

impl Timers {
    /// Sets or moves a timer.
    pub fn set(&mut self, timer: Timer, at: Timestamp) {
        if let Some(old) = self.at.insert(timer.clone(), at) {
            if old == at {
                return;
            }
            self.due.remove(&(old, timer.clone()));
        }
        self.due.insert((at, timer));
    }

    pub fn clear(&mut self, timer: &Timer) {
        if let Some(old) = self.at.remove(timer) {
            self.due.remove(&(old, timer.clone()));
        }
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes the first timer that is due.
    pub fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        let (_, timer) = self.due.pop_first()?;
        self.at.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_timer_fires_once_and_at_its_new_time() {
        let mut timers = Timers::default();
        let at = Timestamp::from_millis;
        timers.set(Timer::Job(JobId(1)), at(10));
        timers.set(Timer::Job(JobId(1)), at(20));
        timers.set(Timer::Sweep, at(15));
        assert_eq!(timers.pop(at(10)), None);
        assert_eq!(timers.pop(at(30)), Some(Timer::Sweep));
        assert_eq!(timers.pop(at(30)), Some(Timer::Job(JobId(1))));
        assert_eq!(timers.next(), None);
    }
}
