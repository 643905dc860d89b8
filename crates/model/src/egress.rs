//! What it costs to move bytes from one region to another.
//!
//! - `tariff`: a price per GB or GiB with monthly tiers, and the exact arithmetic on it
//! - `table`: which tariff holds between two places
//! - `spec`: the same table as a person writes it and as it is stored

mod spec;
mod table;
mod tariff;

pub use spec::{EgressSpec, PairSpec, ProviderSpec, RuleSpec, SpecError, SpecProblem, TierSpec};
pub use table::{Destination, EgressTable, PathClass, Priced, Unknown};
pub use tariff::{Tariff, TariffError, Tier, Unit};
