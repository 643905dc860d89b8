//! Enums. Each has a variant `Unspecified` on the wire, which no model enum has: a missing choice is never a choice.

use leeway_model::Term;
use leeway_model::budget::{Overrun, Period, ThresholdKind};
use leeway_model::cluster::ClusterState;
use leeway_model::decision::{Assumption, Rule};
use leeway_model::job::{JobState, StartReason};
use leeway_model::market::{PriceFault, Source};
use leeway_model::resources::{CapacityType, SpotPolicy};
use leeway_model::run::RunState;

use crate::{Invalid, pb};

/// A wire enum with a counterpart in the model.
pub(crate) trait WireEnum: TryFrom<i32> + Copy {
    type Model;
    /// The choices by their names on the wire.
    fn choices() -> String;
    /// `None` for the unspecified value.
    fn model(self) -> Option<Self::Model>;
}

/// The model's value for a wire number that must be set.
pub(crate) fn one_of<W: WireEnum>(field: &str, number: i32) -> Result<W::Model, Invalid> {
    match W::try_from(number).ok().map(W::model) {
        Some(Some(value)) => Ok(value),
        Some(None) => Err(Invalid::new(field, format!("is not set; use one of {}", W::choices()))),
        None => Err(Invalid::new(field, format!("{number} is unknown to this version; use one of {}", W::choices()))),
    }
}

macro_rules! enums {
    ($($name:ident { $($variant:ident),+ $(,)? })+) => { $(
        impl From<$name> for pb::$name {
            fn from(value: $name) -> Self {
                match value { $($name::$variant => Self::$variant),+ }
            }
        }

        impl WireEnum for pb::$name {
            type Model = $name;

            fn choices() -> String {
                [$(Self::$variant.as_str_name()),+].join(", ")
            }

            fn model(self) -> Option<$name> {
                match self { Self::Unspecified => None, $(Self::$variant => Some($name::$variant)),+ }
            }
        }

        impl TryFrom<pb::$name> for $name {
            type Error = Invalid;

            fn try_from(wire: pb::$name) -> Result<Self, Invalid> {
                one_of::<pb::$name>("", wire.into())
            }
        }
    )+ };
}

enums! {
    SpotPolicy { Spot, OnDemand, Auto }
    CapacityType { Spot, OnDemand, Reserved }
    Source { Declared, Catalog, Feed, Trace }
    Term { Compute, Checkpoints, Rework, InputEgress, CheckpointMove, OutputEgress, Disk, Waiting }
    Assumption { Estimate, EgressPrice, InputSize, InputRegion }
    Rule {
        Accelerator, Cpus, Memory, Disk, InstanceType, Place, CapacityType, MaxHourlyCost, NoPrice, StalePrice,
        CurrencyUnknown, ClusterNotReady, NoCapacity, CoolingDown, MaxCost, DataUnreachable, Policy,
    }
    JobState { Waiting, Pending, Starting, Running, Cancelling, Succeeded, Failed, Cancelled }
    StartReason { First, Interrupted, Preempted, Failed, Moved }
    RunState { Launching, Setup, Restoring, Running, Draining, Stopping, Lost, Released }
    ClusterState { Ready, Draining, Unreachable }
    PriceFault { Zero, OutOfRange, UnknownCurrency, UnknownOffer, OlderThanKnown }
    Period { Total }
    ThresholdKind { Actual, Committed }
    Overrun { SlowStop, LateUsage }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<W: WireEnum + From<W::Model> + Into<i32>>(values: &[W::Model])
    where
        W::Model: Copy + PartialEq + std::fmt::Debug,
    {
        for &value in values {
            let number: i32 = W::from(value).into();
            assert_ne!(number, 0, "{value:?}");
            assert_eq!(one_of::<W>("x", number).unwrap(), value);
        }
        assert!(one_of::<W>("x", 0).unwrap_err().message.starts_with("is not set; use one of "));
        for unknown in [-1, 99, i32::MAX, i32::MIN] {
            assert!(one_of::<W>("x", unknown).unwrap_err().message.contains("is unknown to this version"));
        }
    }

    #[test]
    fn every_choice_comes_back_and_no_other_is_taken() {
        round_trip::<pb::JobState>(&JobState::ALL);
        round_trip::<pb::RunState>(&RunState::ALL);
        round_trip::<pb::Rule>(&Rule::ALL);
        round_trip::<pb::Term>(&Term::ALL);
        round_trip::<pb::CapacityType>(&CapacityType::ALL);
        round_trip::<pb::SpotPolicy>(&[SpotPolicy::Spot, SpotPolicy::OnDemand, SpotPolicy::Auto]);
    }
}
