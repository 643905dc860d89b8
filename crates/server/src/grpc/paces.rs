//! How fast one owner may submit: a bucket of tokens each, so that a flood of one leaves room for the others (D-08).
//!
//! `limits.open_jobs_per_owner` bounds what may pile up; this bounds what reaches the scheduler's queue at all.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leeway_model::Name;
use leeway_proto::status::with_reason;
use tonic::{Code, Status};

/// A full bucket holds what flows in within so long.
const BURST: Duration = Duration::from_secs(10);
/// Buckets are looked through for full ones, which say nothing, when there are so many.
const MANY: usize = 4_096;

#[derive(Debug)]
pub struct Paces {
    /// Jobs a second.
    rate: f64,
    begun: Instant,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    by_owner: BTreeMap<Name, Bucket>,
    /// How many there may be before the next look.
    look_at: usize,
}

/// Jobs that may be submitted, as of an instant.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Paces {
    pub fn new(jobs_per_second: usize) -> Self {
        Self { rate: jobs_per_second as f64, begun: Instant::now(), buckets: Mutex::default() }
    }

    /// Lets a request pass whose jobs have these owners, or refuses all of it.
    pub(super) fn admit<'a>(&self, owners: impl IntoIterator<Item = &'a Name>) -> Result<(), Status> {
        self.admit_at(self.begun.elapsed(), owners)
    }

    fn admit_at<'a>(&self, now: Duration, owners: impl IntoIterator<Item = &'a Name>) -> Result<(), Status> {
        let mut wanted: BTreeMap<&Name, f64> = BTreeMap::new();
        owners.into_iter().for_each(|owner| *wanted.entry(owner).or_default() += 1.0);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = Vec::with_capacity(wanted.len());
        for (owner, count) in wanted {
            let tokens = self.tokens(buckets.by_owner.get(owner), now);
            // A request of more than a full bucket passes when the bucket is full, and is paid back.
            let needed = count.min(self.burst());
            if tokens < needed {
                return Err(self.refused(owner, (needed - tokens) / self.rate));
            }
            left.push((owner, tokens - count));
        }
        for (owner, tokens) in left {
            buckets.by_owner.insert(owner.clone(), Bucket { tokens, at: now });
        }
        if buckets.by_owner.len() > buckets.look_at.max(MANY) {
            buckets.by_owner.retain(|_, bucket| self.tokens(Some(bucket), now) < self.burst());
            buckets.look_at = buckets.by_owner.len() * 2;
        }
        Ok(())
    }

    fn burst(&self) -> f64 {
        self.rate * BURST.as_secs_f64()
    }

    fn tokens(&self, bucket: Option<&Bucket>, now: Duration) -> f64 {
        let flowed = |bucket: &Bucket| bucket.tokens + now.saturating_sub(bucket.at).as_secs_f64() * self.rate;
        bucket.map_or(self.burst(), |bucket| flowed(bucket).min(self.burst()))
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
    use leeway_proto::status::{metadata_of, reason_of};

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn admit(paces: &Paces, millis: u64, owner: &str, count: usize) -> Result<(), Status> {
        let owner = name(owner);
        paces.admit_at(Duration::from_millis(millis), std::iter::repeat_n(&owner, count))
    }

    #[test]
    fn d_08_an_owner_may_submit_a_burst_and_then_so_many_a_second_whatever_others_do() {
        let paces = Paces::new(5);
        admit(&paces, 0, "ada", 49).unwrap();
        admit(&paces, 0, "ada", 1).unwrap();
        let refused = admit(&paces, 0, "ada", 1).unwrap_err();
        assert_eq!(
            (refused.code(), reason_of(&refused).as_deref()),
            (Code::ResourceExhausted, Some("SUBMITTED_TOO_FAST"))
        );
        assert_eq!(metadata_of(&refused).get("retry_after_ms").map(String::as_str), Some("200"));
        for part in ["'ada'", "5 jobs a second", "limits.submissions_per_second", "in 1 s"] {
            assert!(refused.message().contains(part), "{part}: {}", refused.message());
        }
        admit(&paces, 0, "bob", 50).unwrap();
        assert!(admit(&paces, 199, "ada", 1).is_err());
        admit(&paces, 200, "ada", 1).unwrap();
        assert!(admit(&paces, 200, "ada", 1).is_err());
        admit(&paces, 1_200, "ada", 5).unwrap();
        assert!(admit(&paces, 1_200, "ada", 1).is_err());
    }

    #[test]
    fn a_batch_beyond_a_full_bucket_passes_once_and_is_paid_back() {
        let paces = Paces::new(1);
        admit(&paces, 0, "ada", 30).unwrap();
        assert!(admit(&paces, 20_000, "ada", 1).is_err(), "twenty jobs were owed");
        admit(&paces, 21_000, "ada", 1).unwrap();
    }

    #[test]
    fn a_request_of_several_owners_is_taken_whole_or_not_at_all() {
        let paces = Paces::new(1);
        admit(&paces, 0, "bob", 10).unwrap();
        let (ada, bob) = (name("ada"), name("bob"));
        assert!(paces.admit_at(Duration::ZERO, [&ada, &bob]).is_err());
        admit(&paces, 0, "ada", 10).unwrap();
    }

    #[test]
    fn buckets_that_are_full_again_are_forgotten() {
        let paces = Paces::new(1);
        for number in 0..3 * MANY as u64 {
            admit(&paces, number * 100, &format!("owner-{number}"), 1).unwrap();
        }
        assert!(paces.buckets.lock().unwrap().by_owner.len() <= MANY + 1);
    }
}
