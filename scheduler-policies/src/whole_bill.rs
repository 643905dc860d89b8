//! `whole-bill`: the place where finishing the job is expected to cost least, everything counted. A place that is
//! expected to miss the job's deadline comes after every place that is not. A cheaper place that our own runs fill, or that
//! cools down, is waited for where that is worth it.

use leeway_core::policy::{JobView, Later, Policy, Ranked, Scored, Verdict};
use leeway_model::{Micros, Millis};

#[derive(Clone, Copy, Debug)]
pub struct WholeBill;

/// What missing the deadline counts: more than any bill, and still ordered by the bill.
const LATE: Micros = Micros::from_units(1_000_000_000);

/// How long after its deadline the job is expected to end at a place; `None` when in time.
fn late(job: &JobView<'_>, place: &Scored) -> Option<Millis> {
    let end = job.now.after(place.expected_time);
    job.job.spec.time.deadline.filter(|deadline| end > *deadline).map(|deadline| end.since(deadline))
}

impl Policy for WholeBill {
    fn name(&self) -> &'static str {
        "whole-bill"
    }

    fn about(&self) -> &'static str {
        "lowest expected whole bill: compute, rework, checkpoints, egress, disk and the price of waiting"
    }

    fn rank(&self, job: &JobView<'_>, place: &Scored) -> Micros {
        if late(job, place).is_some() { place.bill.total().saturating_add(LATE) } else { place.bill.total() }
    }

    /// With a stated value of time: where the wait, all of it, costs less than the place saves. Without one: where the place is
    /// far cheaper, and for our own runs to end no longer than the job itself would take.
    fn awaits(&self, job: &JobView<'_>, best: &Scored, later: &Later) -> bool {
        let wait = later.opens.since(job.now).saturating_add(later.waited);
        match job.job.spec.money.value_per_hour {
            Some(value) => {
                let saved = best.bill.total().saturating_sub(later.scored.bill.total());
                value.cost(wait) < saved
            }
            None => later.is_far_cheaper && (!later.is_full || wait <= best.expected_time),
        }
    }

    fn queues(&self) -> bool {
        true
    }

    fn decide(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Verdict {
        let why = match ranked.first().and_then(|best| late(job, &best.scored)) {
            None => "lowest expected bill among the places that can be had now".into(),
            Some(late) => format!(
                "no place that can be had now is expected to meet the deadline; this one is the cheapest, about {late} late"
            )
            .into(),
        };
        Verdict::Place { position: 0, why }
    }
}
