//! Conditions with a deadline: no test sleeps and hopes.

use std::time::{Duration, Instant};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longer than any loaded machine needs; a test that waits so long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks until there is something to find, and returns it.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl FnMut() -> F) -> T {
    within(PATIENCE, what, look).await
}

/// Looks until there is something to find, but no longer than so.
pub async fn within<T, F: Future<Output = Option<T>>>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(begun.elapsed() < patience, "waited {patience:?} in vain: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
