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

/// At most one instant for each timer. What is due at one instant fires in the order of [`Timer`].
///
/// Offers are named by text, which is dear to compare; there are few of them, so that they stand apart from the timers
/// that every run sets again and again.
#[derive(Clone, Debug, Default)]
pub struct Timers {
    numbered: Schedule<Numbered>,
    offers: Schedule<OfferKey>,
}

/// Timers that are named by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Numbered {
    Run(RunId),
    Job(JobId),
    Delivery(OutboxId),
    Sweep,
}

impl Timers {
    /// Sets or moves a timer.
    pub fn set(&mut self, timer: Timer, at: Timestamp) {
        match numbered(timer) {
            Ok(timer) => self.numbered.set(timer, at),
            Err(offer) => self.offers.set(offer, at),
        }
    }

    pub fn clear(&mut self, timer: &Timer) {
        match numbered(timer.clone()) {
            Ok(timer) => self.numbered.clear(&timer),
            Err(offer) => self.offers.clear(&offer),
        }
    }

    pub fn next(&self) -> Option<Timestamp> {
        let heads = self.numbered.next().into_iter().chain(self.offers.next());
        heads.min()
    }

    /// Takes the first timer that is due.
    pub fn pop(&mut self, now: Timestamp) -> Option<Timer> {
        let due = self.next().filter(|due| *due <= now)?;
        // At one instant offers come after everything but the sweep.
        let numbered_first =
            self.numbered.due.first().is_some_and(|(at, timer)| {
                *at == due && (*timer != Numbered::Sweep || self.offers.next() != Some(due))
            });
        if !numbered_first {
            return self.offers.pop().map(Timer::Offer);
        }
        self.numbered.pop().map(|timer| match timer {
            Numbered::Run(run) => Timer::Run(run),
            Numbered::Job(job) => Timer::Job(job),
            Numbered::Delivery(delivery) => Timer::Delivery(delivery),
            Numbered::Sweep => Timer::Sweep,
        })
    }
}

/// The timer by its number, or the offer that has none.
fn numbered(timer: Timer) -> Result<Numbered, OfferKey> {
    match timer {
        Timer::Run(run) => Ok(Numbered::Run(run)),
        Timer::Job(job) => Ok(Numbered::Job(job)),
        Timer::Delivery(delivery) => Ok(Numbered::Delivery(delivery)),
        Timer::Sweep => Ok(Numbered::Sweep),
        Timer::Offer(offer) => Err(offer),
    }
}

#[derive(Clone, Debug)]
struct Schedule<T> {
    due: BTreeSet<(Timestamp, T)>,
    at: BTreeMap<T, Timestamp>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        Self { due: BTreeSet::new(), at: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> Schedule<T> {
    fn set(&mut self, timer: T, at: Timestamp) {
        if let Some(old) = self.at.insert(timer.clone(), at) {
            if old == at {
                return;
            }
            self.due.remove(&(old, timer.clone()));
        }
        self.due.insert((at, timer));
    }

    fn clear(&mut self, timer: &T) {
        if let Some(old) = self.at.remove(timer) {
            self.due.remove(&(old, timer.clone()));
        }
    }

    fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    fn pop(&mut self) -> Option<T> {
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

    #[test]
    fn what_is_due_at_one_instant_fires_in_the_order_of_the_kinds() {
        let key = |cluster: &str| OfferKey {
            cluster: cluster.parse().unwrap(),
            shape: "v100".parse().unwrap(),
            capacity: leeway_model::resources::CapacityType::Spot,
        };
        let run = RunId { job: JobId(9), epoch: 1 };
        let order = [
            Timer::Run(run),
            Timer::Job(JobId(1)),
            Timer::Delivery(OutboxId(1)),
            Timer::Offer(key("a")),
            Timer::Offer(key("b")),
            Timer::Sweep,
        ];
        let mut timers = Timers::default();
        order.iter().rev().for_each(|timer| timers.set(timer.clone(), Timestamp::from_millis(5)));
        timers.set(Timer::Offer(key("c")), Timestamp::from_millis(4));
        timers.set(Timer::Offer(key("d")), Timestamp::from_millis(6));
        timers.clear(&Timer::Offer(key("d")));
        let fired: Vec<Timer> = std::iter::from_fn(|| timers.pop(Timestamp::from_millis(5))).collect();
        assert_eq!(fired[0], Timer::Offer(key("c")));
        assert_eq!(fired[1..], order);
        assert!(order.is_sorted());
        assert_eq!(timers.next(), None);
    }
}
