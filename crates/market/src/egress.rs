//! Where egress prices come from; what they mean is `leeway_model::egress`.
//!
//! - `defaults.rs`: published list prices, with their sources
//! - `matrix.rs`: region-to-region matrices and tier lists in CSV

mod defaults;
mod matrix;

pub use defaults::defaults;
pub use matrix::{Matrix, MatrixError, TierList, read_matrix, read_tiers};
