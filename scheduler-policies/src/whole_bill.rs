//! `whole-bill`: the place where finishing the job is expected to cost least, everything counted. A place that is
//! expected to miss the job's deadline comes after every place that is not.

use leeway_core::policy::{JobView, Policy, Scored};
use leeway_model::Micros;

#[derive(Clone, Copy, Debug)]
pub struct WholeBill;

/// What missing the deadline counts: more than any bill, and still ordered by the bill.
const LATE: Micros = Micros::from_units(1_000_000_000);

impl Policy for WholeBill {
    fn name(&self) -> &'static str {
        "whole-bill"
    }

    fn about(&self) -> &'static str {
        "lowest expected whole bill: compute, rework, checkpoints, egress, disk and the price of waiting"
    }

    fn rank(&self, job: &JobView<'_>, place: &Scored) -> Micros {
        let late = job.job.spec.time.deadline.is_some_and(|deadline| job.now.after(place.expected_time) > deadline);
        if late { place.bill.total().saturating_add(LATE) } else { place.bill.total() }
    }
}
