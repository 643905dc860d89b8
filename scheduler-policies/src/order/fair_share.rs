//! `fair-share`: the job of the owner whose dominant share for its weight is the smallest (Ghodsi et al., "Dominant
//! Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011). The share counts what is held now and the
//! fading mean of what was held before, so that who used much last week goes last this week.

use leeway_core::order::{Order, Used};

#[derive(Clone, Copy, Debug)]
pub struct FairShare;

impl Order for FairShare {
    fn name(&self) -> &'static str {
        "fair-share"
    }

    fn about(&self) -> &'static str {
        "the job of the owner with the smallest dominant share for its weight, now and in the fading past"
    }

    fn because(&self) -> Option<&'static str> {
        Some("its owner used less for its weight")
    }

    fn ranks_owners(&self) -> bool {
        true
    }

    /// Without a known capacity there are no shares, and the price of what is held takes their place for everybody.
    fn rank(&self, used: &Used<'_>) -> f64 {
        let dominant = used.shares.map(|shares| shares.iter().copied().fold(0.0, f64::max));
        dominant.unwrap_or(used.rate) / used.weight
    }
}
