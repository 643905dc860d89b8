//! Clusters of a scenario and the markets that they follow.

use std::path::PathBuf;

use serde::Deserialize;

use crate::generate::params;

use super::values::{Price, maybe_text, text};
use leeway_model::cluster::Region;
use leeway_model::{Bytes, Millis};

/// One kind of machine in one place.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    pub name: String,
    #[serde(deserialize_with = "text")]
    pub region: Region,
    pub zone: Option<String>,
    /// Machines at once, over spot and the rest; without it there is no end of them.
    pub count: Option<u32>,
    #[serde(default = "machine")]
    pub instance_type: String,
    /// `MODEL:COUNT`.
    pub accelerators: Option<String>,
    #[serde(default = "cpus")]
    pub cpus: u32,
    #[serde(default = "memory", deserialize_with = "text")]
    pub memory: Bytes,
    /// Dollars an hour; a market states its own where this is not given.
    pub on_demand: Option<Price>,
    pub spot: Option<Price>,
    pub reserved: Option<Price>,
    pub market: Option<Market>,
    /// Grams of CO2 for a kilowatt-hour, and watts of a machine at work.
    pub carbon: Option<f64>,
    pub watts: Option<f64>,
}

/// Where spot prices and spot capacity come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Market {
    /// A recording in the `spot-trace-v1` format.
    pub trace: Option<PathBuf>,
    /// A market made up from a few numbers, another one for each seed.
    pub generate: Option<params::Market>,
    /// A parameter file that `leeway simulate fit` made.
    pub fitted: Option<PathBuf>,
    /// So many machines for each node of the recording.
    #[serde(default = "one")]
    pub times: u32,
    /// Begin so far into it.
    #[serde(default, deserialize_with = "maybe_text")]
    pub from: Option<Millis>,
}

fn machine() -> String {
    "machine".into()
}

const fn cpus() -> u32 {
    8
}

const fn memory() -> Bytes {
    Bytes::from_gb(64)
}

const fn one() -> u32 {
    1
}
