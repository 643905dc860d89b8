//! `availability-price`: the least money for an hour of work, over the share of launches that came to machines. A place
//! that is cheap and seldom there is as dear as one that is always there for as much more: each launch that comes to
//! nothing costs a wait and a cool-down, after which the job asks again or elsewhere.

use leeway_core::policy::{JobView, Policy, Ranked, Scored, Verdict};
use leeway_model::{Micros, Term};

#[derive(Clone, Copy, Debug)]
pub struct AvailabilityPrice;

/// Money for all the work that is left, which is as many hours at every place: compute, the saves, and what
/// interruptions make a machine do again by what was seen of them there.
const PAID: [Term; 3] = [Term::Compute, Term::Checkpoints, Term::Rework];

impl Policy for AvailabilityPrice {
    fn name(&self) -> &'static str {
        "availability-price"
    }

    fn about(&self) -> &'static str {
        "lowest price of an hour of work, rework included, over the share of recent launches that succeeded"
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        let price = PAID.into_iter().fold(Micros::ZERO, |sum, term| sum.saturating_add(place.bill.get(term)));
        Micros::from_units_f64(price.as_units_f64() / place.launched)
    }

    fn decide(&self, _job: &JobView<'_>, ranked: &[Ranked]) -> Verdict {
        let percent = ranked.first().map_or(100.0, |best| best.scored.launched * 100.0);
        let why = format!("lowest price of an hour of work over how often a launch succeeds, here {percent:.0} %");
        Verdict::Place { position: 0, why: why.into() }
    }
}
