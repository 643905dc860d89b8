//! A decision that explains itself: who was considered, what each would cost, who was rejected by which rule.

use serde::{Deserialize, Serialize};

use crate::market::{OfferKey, Price};
use crate::{Bill, Micros, Millis, Name, RunId, Timestamp};

/// A place that could take the job, with the whole bill of finishing it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub offer: OfferKey,
    /// Per machine.
    pub price: Price,
    pub bill: Bill,
    /// Expected wall time to the end, interruptions included.
    pub expected_time: Millis,
    /// What had to be assumed, in stable words: `ESTIMATE_ASSUMED`, `EGRESS_UPPER_BOUND`.
    pub assumed: Vec<Assumption>,
}

/// A value that was unknown and had to be bounded; never silently zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Assumption {
    /// The job states no running time; the installation's default was used.
    Estimate,
    /// No egress price is known for a pair of regions; the upper bound was used.
    EgressPrice,
    /// An input's size is unknown; the upper bound was used.
    InputSize,
    /// An input's region is unknown; taken as outside every region.
    InputRegion,
}

impl Assumption {
    pub const fn code(self) -> &'static str {
        match self {
            Self::Estimate => "ESTIMATE_ASSUMED",
            Self::EgressPrice => "EGRESS_UPPER_BOUND",
            Self::InputSize => "INPUT_SIZE_UPPER_BOUND",
            Self::InputRegion => "INPUT_REGION_UNKNOWN",
        }
    }
}

/// A rule that an offer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Rule {
    Accelerator,
    Cpus,
    Memory,
    Disk,
    InstanceType,
    Place,
    CapacityType,
    MaxHourlyCost,
    NoPrice,
    StalePrice,
    CurrencyUnknown,
    ClusterNotReady,
    NoCapacity,
    CoolingDown,
    MaxCost,
    DataUnreachable,
    Policy,
}

impl Rule {
    pub const ALL: [Self; 17] = [
        Self::Accelerator,
        Self::Cpus,
        Self::Memory,
        Self::Disk,
        Self::InstanceType,
        Self::Place,
        Self::CapacityType,
        Self::MaxHourlyCost,
        Self::NoPrice,
        Self::StalePrice,
        Self::CurrencyUnknown,
        Self::ClusterNotReady,
        Self::NoCapacity,
        Self::CoolingDown,
        Self::MaxCost,
        Self::DataUnreachable,
        Self::Policy,
    ];

    /// Its code as words within a sentence, such as `instance type`.
    pub fn words(self) -> String {
        self.code().to_lowercase().replace('_', " ")
    }

    pub const fn code(self) -> &'static str {
        match self {
            Self::Accelerator => "ACCELERATOR",
            Self::Cpus => "CPUS",
            Self::Memory => "MEMORY",
            Self::Disk => "DISK",
            Self::InstanceType => "INSTANCE_TYPE",
            Self::Place => "PLACE",
            Self::CapacityType => "CAPACITY_TYPE",
            Self::MaxHourlyCost => "MAX_HOURLY_COST",
            Self::NoPrice => "NO_PRICE",
            Self::StalePrice => "STALE_PRICE",
            Self::CurrencyUnknown => "UNKNOWN_CURRENCY",
            Self::ClusterNotReady => "CLUSTER_NOT_READY",
            Self::NoCapacity => "NO_CAPACITY",
            Self::CoolingDown => "COOLING_DOWN",
            Self::MaxCost => "MAX_COST",
            Self::DataUnreachable => "DATA_UNREACHABLE",
            Self::Policy => "POLICY",
        }
    }

    /// Whether time or other jobs can change the outcome, as opposed to the request itself.
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            Self::NoPrice
                | Self::StalePrice
                | Self::ClusterNotReady
                | Self::NoCapacity
                | Self::CoolingDown
                | Self::MaxCost
                | Self::Policy
        )
    }
}

/// An offer that cannot take the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    pub offer: OfferKey,
    pub rule: Rule,
    /// What was asked and what is there.
    pub detail: Box<str>,
}

/// How many offers one rule rejected, with one of them as an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectionCount {
    pub rule: Rule,
    pub count: u32,
    pub example: Rejection,
}

/// A placement and why. Kept with its run; `explain`, tests and reports read this one value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub run: RunId,
    pub at: Timestamp,
    pub policy: Name,
    pub chosen: Candidate,
    /// The next best, in the policy's order.
    pub others: Vec<Candidate>,
    pub rejected: Vec<RejectionCount>,
    /// The policy's own words.
    pub why: Box<str>,
    pub held: Micros,
}
