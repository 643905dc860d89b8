//! `failover`: after an interruption first where it was, then the next best elsewhere, as SkyPilot's managed jobs do
//! by default.

use leeway_core::policy::{JobView, Policy, Ranked, Scored, Verdict};
use leeway_model::{Micros, Millis};

#[derive(Clone, Copy, Debug)]
pub struct Failover;

/// How long a job waits for its old place to be had again before it goes elsewhere.
const PATIENCE: Millis = Millis::from_mins(5);
/// How often it looks in that time.
const LOOK_AGAIN: Millis = Millis::from_mins(1);

impl Policy for Failover {
    fn name(&self) -> &'static str {
        "failover"
    }

    fn about(&self) -> &'static str {
        "the old place again for five minutes after an interruption, then the lowest compute and egress bill"
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        use leeway_model::Term;
        let terms = [Term::Compute, Term::InputEgress, Term::CheckpointMove, Term::OutputEgress];
        terms.into_iter().fold(Micros::ZERO, |sum, term| sum.saturating_add(place.bill.get(term)))
    }

    fn decide(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Verdict {
        let Some((last, ended)) = job.last_offer else {
            return Verdict::Place { position: 0, why: "lowest compute and egress bill".into() };
        };
        if let Some(position) = ranked.iter().position(|place| place.offer == *last) {
            return Verdict::Place { position, why: "back at its old place".into() };
        }
        if job.now < ended.after(PATIENCE) {
            let at = job.now.after(LOOK_AGAIN).min(ended.after(PATIENCE));
            return Verdict::WaitUntil { at, why: format!("its old place {last} may come back").into() };
        }
        Verdict::Place { position: 0, why: "its old place did not come back; lowest compute and egress bill".into() }
    }
}
