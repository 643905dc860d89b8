//! Jobs of a scenario: streams of them, and single ones.

use std::path::PathBuf;

use leeway_model::cluster::Region;
use leeway_model::{Bytes, Millis};
use serde::Deserialize;

use super::values::{Money, Price, maybe_text, text};
use crate::generate::params;

/// Jobs that arrive by a law or out of a recording.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// A recording of jobs, in any format that `leeway simulate import` reads.
    pub trace: Option<PathBuf>,
    /// A parameter file that `leeway simulate fit` made.
    pub fitted: Option<PathBuf>,
    /// A law written out here.
    pub generate: Option<params::Workload>,
    /// No more than so many.
    pub most: Option<u64>,
    /// A recording runs this many times as fast.
    #[serde(default = "one")]
    pub faster: f64,
    #[serde(default)]
    pub ask: Ask,
}

/// One job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    pub name: String,
    #[serde(default, deserialize_with = "maybe_text")]
    pub at: Option<Millis>,
    #[serde(deserialize_with = "text")]
    pub runtime: Millis,
    #[serde(default = "machines")]
    pub nodes: u32,
    #[serde(default)]
    pub gpus: u32,
    pub accelerator: Option<String>,
    #[serde(default)]
    pub team: String,
    /// Its owner.
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub ask: Ask,
}

/// What jobs ask for beside machines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ask {
    /// Budget that pays; the one named as the job's team when not given, or else the only one without a parent.
    pub budget: Option<String>,
    /// Model of accelerator, instead of what a recording says; several that would do have `|` between them.
    pub accelerator: Option<String>,
    /// Accelerators of one machine here, over which the GPUs of a job are spread; as the job says when not given.
    pub gpus_per_machine: Option<u32>,
    /// Which capacity they may use.
    pub capacity: Option<Capacity>,
    pub checkpoint: Option<Checkpoint>,
    /// The deadline lies this many times the runtime after the submission.
    pub deadline: Option<f64>,
    /// What submitters state as the running time, as a share of the true one; they state nothing when it is 0.
    pub estimate: Option<f64>,
    pub value_per_hour: Option<Price>,
    pub max_cost: Option<Money>,
    pub priority: Option<i32>,
    pub input: Option<Input>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capacity {
    Spot,
    OnDemand,
    Auto,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    #[serde(deserialize_with = "text")]
    pub size: Bytes,
    #[serde(deserialize_with = "text")]
    pub save: Millis,
    #[serde(deserialize_with = "text")]
    pub restore: Millis,
    /// Chosen by the scheduler when not given.
    #[serde(default, deserialize_with = "maybe_text")]
    pub every: Option<Millis>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    #[serde(deserialize_with = "text")]
    pub region: Region,
    #[serde(deserialize_with = "text")]
    pub size: Bytes,
}

const fn one() -> f64 {
    1.0
}

const fn machines() -> u32 {
    1
}
