//! What it costs to move bytes from one region to another.
//!
//! - `tariff.rs`: a price per GB or GiB with monthly tiers, and the exact arithmetic on it.
//! - `table.rs`: which tariff holds between two places.
//! - `spec.rs`: the same table as a person writes it (TOML) and as it is stored.
//! - `defaults.rs`: published list prices, with their sources.
//! - `matrix.rs`: region-to-region matrices and tier lists in CSV.
//!
//! The first four are pure and need nothing but `leeway-model`, serde and thiserror.

mod defaults;
mod matrix;
mod spec;
mod table;
mod tariff;

pub use defaults::defaults;
pub use matrix::{Matrix, MatrixError, TierList, read_matrix, read_tiers};
pub use spec::{EgressSpec, PairSpec, ProviderSpec, RuleSpec, SpecError, TierSpec};
pub use table::{Destination, EgressTable, PathClass, Priced, Unknown};
pub use tariff::{Tariff, TariffError, Tier, Unit};
