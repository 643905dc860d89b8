//! What a job asks of a machine, and what a machine has.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Bytes, Name, Rate};

/// Accelerators of one machine, by canonical model name (`A100-80GB`) and whole count of at least 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Accelerators {
    pub model: Box<str>,
    pub count: u32,
}

/// An amount asked for: exactly, or at least (`4+`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Quantity<T> {
    pub amount: T,
    pub or_more: bool,
}

impl<T: PartialOrd> Quantity<T> {
    pub fn accepts(&self, have: T) -> bool {
        if self.or_more { have >= self.amount } else { have == self.amount }
    }
}

/// CPUs in thousandths, so that 0.5 is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MilliCpus(pub u32);

/// Which kinds of capacity a job may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SpotPolicy {
    /// Only spot: wait when there is none.
    Spot,
    /// Never spot.
    OnDemand,
    /// Whatever the scheduling policy finds best.
    #[default]
    Auto,
}

/// How a machine is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CapacityType {
    Spot,
    OnDemand,
    Reserved,
}

impl CapacityType {
    pub const ALL: [Self; 3] = [Self::Spot, Self::OnDemand, Self::Reserved];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
            Self::Reserved => "reserved",
        }
    }

    pub const fn allowed_by(self, policy: SpotPolicy) -> bool {
        match policy {
            SpotPolicy::Auto => true,
            SpotPolicy::Spot => matches!(self, Self::Spot),
            SpotPolicy::OnDemand => !matches!(self, Self::Spot),
        }
    }
}

impl fmt::Display for CapacityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a job may run: each part empty means anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Infra {
    /// A cluster's name, or a provider's (`aws`).
    pub cluster_or_provider: Option<Box<str>>,
    pub region: Option<Box<str>>,
    pub zone: Option<Box<str>>,
}

/// One acceptable machine. A job lists alternatives; any of them will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceRequest {
    pub accelerators: Option<Accelerators>,
    pub cpus: Option<Quantity<MilliCpus>>,
    pub memory: Option<Quantity<Bytes>>,
    pub disk: Option<Bytes>,
    pub instance_type: Option<Box<str>>,
    pub infra: Infra,
    pub spot: SpotPolicy,
    /// Most to pay for one machine an hour.
    pub max_hourly_cost: Option<Rate>,
}

/// A kind of machine as a provider sells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineShape {
    /// Unique within its cluster, for example `p3-2xlarge`.
    pub name: Name,
    /// The provider's own spelling (`p3.2xlarge`).
    pub instance_type: Box<str>,
    pub cpus: MilliCpus,
    pub memory: Bytes,
    pub accelerators: Option<Accelerators>,
    pub disk: Bytes,
}

impl fmt::Display for Accelerators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}:{}", self.model, self.count))
    }
}

impl fmt::Display for MilliCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1_000) {
            f.pad(&format!("{}", self.0 / 1_000))
        } else {
            f.pad(&format!("{:.3}", f64::from(self.0) / 1_000.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_is_exact_unless_it_says_or_more() {
        let exactly = Quantity { amount: MilliCpus(4_000), or_more: false };
        let at_least = Quantity { amount: MilliCpus(4_000), or_more: true };
        assert!(exactly.accepts(MilliCpus(4_000)) && !exactly.accepts(MilliCpus(8_000)));
        assert!(at_least.accepts(MilliCpus(8_000)) && !at_least.accepts(MilliCpus(2_000)));
    }

    #[test]
    fn a_job_that_forbids_spot_may_use_what_is_reserved() {
        assert!(CapacityType::Reserved.allowed_by(SpotPolicy::OnDemand));
        assert!(!CapacityType::Spot.allowed_by(SpotPolicy::OnDemand));
        assert!(!CapacityType::OnDemand.allowed_by(SpotPolicy::Spot));
    }
}
