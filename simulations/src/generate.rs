//! Synthetic markets and workloads: what the simulator meets where no recording may be shipped or none is long enough.
//!
//! Everything is a pure function of `params` and a seed, each kind of luck in a stream of its own. `spread` are the
//! distributions, `arrivals` and `jobs` make a workload one job at a time, `market` makes a spot market, `fit` finds the
//! parameters that a recording shows.

pub mod arrivals;
pub mod fit;
pub mod jobs;
pub mod market;
pub mod params;
pub mod spread;

pub use jobs::{Generated, Limit};
pub use market::Place;
pub use params::{Market, Params, Workload};
