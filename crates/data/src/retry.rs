//! How long a call to the store is tried again before the caller hears of the trouble.

use std::time::Duration;

use leeway_model::Millis;

/// Bounds of trying again: exponential, by doubling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Sum of the waits between tries; zero means a single try. How long a try itself takes does not count, since
    /// writing a large file may take minutes.
    pub total: Millis,
    pub first_delay: Millis,
    pub longest_delay: Millis,
}

impl Default for Patience {
    /// A minute: rides out throttling, and leaves longer outages to the caller, who knows the deadline.
    fn default() -> Self {
        Self { total: Millis::from_mins(1), first_delay: Millis::new(200), longest_delay: Millis::from_secs(10) }
    }
}

impl Patience {
    /// One try and no more.
    pub const NONE: Self = Self { total: Millis::ZERO, first_delay: Millis::ZERO, longest_delay: Millis::ZERO };

    pub(crate) async fn run<T, E, F>(
        &self,
        retryable: impl Fn(&E) -> bool,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
        E: std::fmt::Display,
    {
        let (mut waited, mut delay) = (Millis::ZERO, self.first_delay);
        loop {
            match attempt().await {
                Err(error) if retryable(&error) && waited.saturating_add(delay) < self.total => {
                    tracing::debug!(%error, %delay, "store call failed, trying again");
                    tokio::time::sleep(Duration::from_millis(delay.as_millis())).await;
                    waited = waited.saturating_add(delay);
                    delay = delay.saturating_mul(2).clamp(Millis::new(1), self.longest_delay.max(Millis::new(1)));
                }
                outcome => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn k_09_tries_are_bounded_and_end_at_success() {
        let check = async |patience: Patience, good_at: u32, tries: u32| {
            let count = Cell::new(0);
            let attempt = || async {
                count.set(count.get() + 1);
                if count.get() == good_at { Ok(()) } else { Err("down") }
            };
            let outcome = patience.run(|_: &&str| true, attempt).await;
            assert_eq!((outcome.is_ok(), count.get()), (good_at <= tries, tries));
        };
        let some =
            |total| Patience { total: Millis::new(total), first_delay: Millis::new(1), longest_delay: Millis::new(2) };
        check(some(8), 3, 3).await;
        // Waits of 1, 2, 2 and 2 ms fit below 8 ms.
        check(some(8), 99, 5).await;
        check(Patience::NONE, 99, 1).await;
        let no_delay = Patience { first_delay: Millis::ZERO, longest_delay: Millis::ZERO, total: Millis::new(5) };
        check(no_delay, 99, 6).await;
    }
}
