//! `cheapest`: the lowest price an hour, nothing else counted. A yardstick, and what many tools do.

use leeway_core::policy::{JobView, Policy, Ranked, Scored, Verdict};
use leeway_model::{Micros, Millis};

#[derive(Clone, Copy, Debug)]
pub struct Cheapest;

const HOUR: Millis = Millis::from_hours(1);

impl Policy for Cheapest {
    fn name(&self) -> &'static str {
        "cheapest"
    }

    fn about(&self) -> &'static str {
        "lowest price an hour; speed, egress and interruptions are not counted"
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        place.rate.cost(HOUR)
    }

    fn decide(&self, _job: &JobView<'_>, _ranked: &[Ranked]) -> Verdict {
        Verdict::Place { position: 0, why: "lowest price an hour among the places that can be had now".into() }
    }
}
