//! How fast one owner may submit: a bucket of tokens each, so that a flood of one leaves room for the others (D-08).
//!
//! `limits.open_jobs_per_owner` bounds what may pile up; this bounds what reaches the scheduler's queue at all.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use leeway_model::Name;
use leeway_proto::status::with_reason;
use tonic::{Code, Status};

/// A full bucket holds what flows in within so many seconds.
const BURST_SECONDS: u32 = 10;
/// With more buckets than this, full ones are forgotten, which say nothing.
const MANY: usize = 4_096;

#[derive(Debug)]
pub struct Paces<C: Clock = DefaultClock> {
    /// Jobs a second, and in a full bucket.
    rate: NonZeroU32,
    burst: NonZeroU32,
    clock: C,
    buckets: RateLimiter<Name, HashMapStateStore<Name>, C, NoOpMiddleware<C::Instant>>,
}

impl Paces {
    /// Settings allow 1 to 1,000,000 jobs a second.
    pub fn new(jobs_per_second: usize) -> Self {
        let rate = u32::try_from(jobs_per_second).ok().and_then(NonZeroU32::new);
        Self::with_clock(rate.unwrap_or(NonZeroU32::MIN), DefaultClock::default())
    }
}

impl<C: Clock + Clone> Paces<C> {
    fn with_clock(rate: NonZeroU32, clock: C) -> Self {
        let burst = rate.saturating_mul(NonZeroU32::MIN.saturating_add(BURST_SECONDS - 1));
        let quota = Quota::per_second(rate).allow_burst(burst);
        Self { rate, burst, buckets: RateLimiter::new(quota, HashMapStateStore::default(), clock.clone()), clock }
    }

    /// Lets a request pass whose jobs have these owners, or refuses all of it. One of more jobs than a full bucket takes
    /// the whole bucket.
    pub(super) fn admit<'a>(&self, owners: impl IntoIterator<Item = &'a Name>) -> Result<(), Status> {
        let mut wanted: BTreeMap<&Name, u32> = BTreeMap::new();
        owners.into_iter().for_each(|owner| *wanted.entry(owner).or_default() += 1);
        for (owner, count) in wanted {
            let Some(count) = NonZeroU32::new(count.min(self.burst.get())) else { continue };
            // A full bucket is never too small for it.
            if let Ok(Err(until)) = self.buckets.check_key_n(owner, count) {
                return Err(self.refused(owner, until.wait_time_from(self.clock.now()).as_secs_f64()));
            }
        }
        if self.buckets.len() > MANY {
            self.buckets.retain_recent();
        }
        Ok(())
    }

    fn refused(&self, owner: &Name, seconds: f64) -> Status {
        let wait = (seconds * 1_000.0).ceil().max(1.0);
        let message = format!(
            "'{owner}' submits more than {} jobs a second (limits.submissions_per_second); nothing of this request was \
             taken, send it again under the same request id in {} s",
            self.rate,
            (wait / 1_000.0).ceil()
        );
        let facts = [("retry_after_ms", format!("{wait}"))];
        with_reason(Code::ResourceExhausted, "SUBMITTED_TOO_FAST", message, facts)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;
    use leeway_proto::status::{metadata_of, reason_of};

    use super::*;

    fn paces(rate: u32) -> (Paces<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (Paces::with_clock(NonZeroU32::new(rate).unwrap(), clock.clone()), clock)
    }

    fn admit(paces: &Paces<FakeRelativeClock>, owner: &str, count: usize) -> Result<(), Status> {
        paces.admit(std::iter::repeat_n(&owner.parse().unwrap(), count))
    }

    #[test]
    fn d_08_an_owner_may_submit_a_burst_and_then_so_many_a_second_whatever_others_do() {
        let (paces, clock) = paces(5);
        admit(&paces, "ada", 49).unwrap();
        admit(&paces, "ada", 1).unwrap();
        let refused = admit(&paces, "ada", 1).unwrap_err();
        assert_eq!(
            (refused.code(), reason_of(&refused).as_deref()),
            (Code::ResourceExhausted, Some("SUBMITTED_TOO_FAST"))
        );
        assert_eq!(metadata_of(&refused).get("retry_after_ms").map(String::as_str), Some("200"));
        for part in ["'ada'", "5 jobs a second", "limits.submissions_per_second", "in 1 s"] {
            assert!(refused.message().contains(part), "{part}: {}", refused.message());
        }
        admit(&paces, "bob", 50).unwrap();
        clock.advance(Duration::from_millis(199));
        assert!(admit(&paces, "ada", 1).is_err());
        clock.advance(Duration::from_millis(1));
        admit(&paces, "ada", 1).unwrap();
        assert!(admit(&paces, "ada", 1).is_err());
        clock.advance(Duration::from_secs(1));
        admit(&paces, "ada", 5).unwrap();
        assert!(admit(&paces, "ada", 1).is_err());
    }

    #[test]
    fn a_batch_beyond_a_full_bucket_passes_when_it_is_full() {
        let (paces, clock) = paces(1);
        admit(&paces, "ada", 30).unwrap();
        clock.advance(Duration::from_millis(9_999));
        assert!(admit(&paces, "ada", 30).is_err());
        clock.advance(Duration::from_millis(1));
        admit(&paces, "ada", 30).unwrap();
    }

    #[test]
    fn a_request_of_several_owners_is_refused_for_one_of_them() {
        let (paces, _) = paces(1);
        admit(&paces, "bob", 10).unwrap();
        let (ada, bob): (Name, Name) = ("ada".parse().unwrap(), "bob".parse().unwrap());
        assert!(paces.admit([&ada, &bob]).is_err());
    }

    #[test]
    fn buckets_that_are_full_again_are_forgotten() {
        let (paces, clock) = paces(1);
        for number in 0..3 * MANY {
            clock.advance(Duration::from_millis(100));
            admit(&paces, &format!("owner-{number}"), 1).unwrap();
        }
        assert!(paces.buckets.len() <= MANY + 1);
    }
}
