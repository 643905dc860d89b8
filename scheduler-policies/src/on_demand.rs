//! `on-demand`: the cheapest whole bill among places that no market takes back.

use leeway_core::policy::{JobView, Policy, Ranked, Scored, Verdict};
use leeway_model::Micros;
use leeway_model::resources::CapacityType;

#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

impl Policy for OnDemand {
    fn name(&self) -> &'static str {
        "on-demand"
    }

    fn about(&self) -> &'static str {
        "never spot; lowest whole bill among on-demand and reserved places"
    }

    fn admits(&self, _job: &JobView<'_>, capacity: CapacityType) -> bool {
        capacity != CapacityType::Spot
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        place.bill.total()
    }

    fn decide(&self, _job: &JobView<'_>, _ranked: &[Ranked]) -> Verdict {
        Verdict::Place { position: 0, why: "lowest expected bill without spot".into() }
    }
}
