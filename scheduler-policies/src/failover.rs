//! `failover`: after an interruption first where it was, then the next best elsewhere, as SkyPilot's managed jobs do
//! by default.

use leeway_core::policy::{JobView, Policy, Ranked, Scored, Verdict};
use leeway_model::market::OfferKey;
use leeway_model::{Micros, Millis};

#[derive(Clone, Copy, Debug)]
pub struct Failover;

/// How long after the end of its run a job waits for its old place to be had again before it goes elsewhere. Longer
/// than the first cool-down of a place that took a run, shorter than the second: where the market bites twice within
/// the hour, there is nothing to wait for.
const PATIENCE: Millis = Millis::from_mins(8);
/// How often it looks once the place takes runs again.
const LOOK_AGAIN: Millis = Millis::from_mins(1);

impl Policy for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn about(&self) -> &'static str {
        "the old place again within eight minutes of an interruption, else the lowest compute and egress bill"
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        use leeway_model::Term;
        let terms = [Term::Compute, Term::InputEgress, Term::CheckpointMove, Term::OutputEgress];
        terms.into_iter().fold(Micros::ZERO, |sum, term| sum.saturating_add(place.bill.get(term)))
    }

    fn also<'a>(&self, job: &JobView<'a>) -> Option<&'a OfferKey> {
        job.last.map(|last| last.offer)
    }

    fn decide(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Verdict {
        let Some(last) = job.last else {
            return Verdict::Place { position: 0, why: "lowest compute and egress bill".into() };
        };
        if let Some(position) = ranked.iter().position(|place| place.offer == *last.offer) {
            return Verdict::Place { position, why: "back at its old place".into() };
        }
        let patient_until = last.ended.after(PATIENCE);
        // A place that cools down for longer than that will not be waited for.
        if job.now < patient_until && last.closed_until < patient_until {
            let at = job.now.after(LOOK_AGAIN).max(last.closed_until).min(patient_until);
            return Verdict::WaitUntil { at, why: format!("its old place {} may come back", last.offer).into() };
        }
        Verdict::Place { position: 0, why: "its old place did not come back; lowest compute and egress bill".into() }
    }
}
