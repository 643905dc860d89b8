//! Orders of the queue, one a file: which of the jobs that wait goes first among those of equal priority.

use std::sync::Arc;

use leeway_core::Order;

mod earliest_deadline;
mod fair_share;
mod first_come;

pub use earliest_deadline::EarliestDeadline;
pub use fair_share::FairShare;
pub use first_come::FirstCome;

/// Name of the order for installations that choose none.
pub const DEFAULT: &str = "first-come";

/// Every order. A new one is one more line here.
pub(crate) fn all() -> [Arc<dyn Order>; 3] {
    [Arc::new(EarliestDeadline), Arc::new(FairShare), Arc::new(FirstCome)]
}
