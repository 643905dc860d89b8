//! The policies of Leeway, one a file. `all()` is the registry of those that place jobs, and of the orders of the queue in
//! `order`; `deadline` has the rules for one job with a deadline.

use std::sync::Arc;

use leeway_core::policy::{Policy, PolicySet};

pub mod deadline;
pub mod order;

mod availability_price;
mod cheapest;
mod failover;
mod horizon;
mod on_demand;
mod uniform_progress;
mod whole_bill;

pub use availability_price::AvailabilityPrice;
pub use cheapest::Cheapest;
pub use failover::Failover;
pub use horizon::Horizon;
pub use on_demand::OnDemand;
pub use uniform_progress::UniformProgress;
pub use whole_bill::WholeBill;

/// Name of the policy for installations that choose none.
pub const DEFAULT: &str = "whole-bill";

/// Name of the policy for jobs with a deadline, unless an installation or a job chooses another.
pub const DEADLINE_DEFAULT: &str = "horizon";

/// Every policy, and every order of the queue. A new policy is one more line here.
pub fn all() -> PolicySet {
    let policies: [Arc<dyn Policy>; 7] = [
        Arc::new(AvailabilityPrice),
        Arc::new(Cheapest),
        Arc::new(Failover),
        Arc::new(Horizon::new()),
        Arc::new(OnDemand),
        Arc::new(UniformProgress),
        Arc::new(WholeBill),
    ];
    PolicySet::new(policies, order::all())
}
