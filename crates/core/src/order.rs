//! The queue's order: which of the jobs that wait for a place is looked at next. Priority comes first whatever the
//! order, and age decides where it sees no difference. Implementations live in `scheduler-policies`.
//!
//! An order never sees the whole queue. It gives each job one number when that comes into line, or each owner one when
//! what the owner uses has changed, and the queue keeps both sorted: a million jobs that wait are not sorted anew.

use std::fmt::Debug;

use leeway_model::Timestamp;
use leeway_model::job::Job;

use crate::config::Config;
use crate::round::score;

/// Puts waiting jobs of equal priority in order. Pure: same arguments, same answer.
pub trait Order: Send + Sync + Debug {
    /// Lower case, as configurations spell it.
    fn name(&self) -> &'static str;

    /// One sentence for people.
    fn about(&self) -> &'static str;

    /// Why one job waits behind another, to be read after "goes first:"; `None` where it is age alone.
    fn because(&self) -> Option<&'static str> {
        None
    }

    /// Whether [`place`](Self::place) is asked.
    fn places_jobs(&self) -> bool {
        false
    }

    /// Where a job stands: the smaller goes first. Asked once, when it comes into line.
    fn place(&self, _job: &Waiting<'_>) -> i64 {
        0
    }

    /// Whether owners take turns: [`rank`](Self::rank) is asked then, what owners use is metered, and `place` counts
    /// among the jobs of one owner.
    fn ranks_owners(&self) -> bool {
        false
    }

    /// Where an owner stands: the smaller goes first, and nothing counts less than zero. Asked when what it uses has
    /// changed, and about once a minute.
    fn rank(&self, _used: &Used<'_>) -> f64 {
        0.0
    }
}

/// A job as it comes into line.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    pub job: &'a Job,
    config: &'a Config,
}

impl<'a> Waiting<'a> {
    pub fn new(config: &'a Config, job: &'a Job) -> Self {
        Self { job, config }
    }

    /// The last instant at which it could start on a machine of relative speed 1 and still meet its deadline: the
    /// deadline, less the work that is left and what a launch takes. `None` without a deadline.
    pub fn latest_start(&self) -> Option<Timestamp> {
        let needs = score::remaining(self.config, self.job).saturating_add(score::changeover(self.config, self.job));
        self.job.spec.time.deadline.map(|deadline| deadline.before(needs))
    }
}

/// What an owner uses: what its runs hold now, and the mean of what they held before, in which a moment counts half as
/// much for every half-life that it lies back.
#[derive(Clone, Copy, Debug)]
pub struct Used<'a> {
    /// As parts of all that the registered clusters have, resource by resource; `None` where a cluster does not say how
    /// many machines it has.
    pub shares: Option<&'a [f64]>,
    /// The price of it, in units an hour.
    pub rate: f64,
    /// Above zero; 1 unless the settings say otherwise.
    pub weight: f64,
}

/// Where an owner stands among the owners; see [`Order::rank`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank(u64);

impl Rank {
    /// What is no number counts as nothing.
    pub fn of(value: f64) -> Self {
        // The bits of floats from zero on sort as the floats do.
        Self(if value > 0.0 { value.to_bits() } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_sort_as_their_numbers_do(a in 0.0..1e300_f64, b in 0.0..1e-300_f64, c in any::<f64>()) {
            for (one, other) in [(a, b), (a, c.abs()), (b, c.abs())] {
                if let Some(order) = one.partial_cmp(&other) {
                    prop_assert_eq!(Rank::of(one).cmp(&Rank::of(other)), order);
                }
            }
        }
    }

    #[test]
    fn what_is_no_amount_counts_as_nothing() {
        for value in [f64::NAN, -0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!(Rank::of(value), Rank::default(), "{value}");
        }
        assert!(Rank::of(f64::INFINITY) > Rank::of(f64::MAX));
    }
}
