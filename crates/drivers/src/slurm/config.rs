//! How a Slurm cluster is reached and what its partitions stand for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use leeway_model::resources::CapacityType;
use leeway_model::{Millis, Name};

/// One Slurm cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmConfig {
    /// A folder that the server and the nodes share; what agents are told lies there, readable by its owner alone.
    pub work_dir: PathBuf,
    /// The program `leeway` as the nodes see it, started as `PROGRAM agent --run-dir DIR`.
    pub agent: PathBuf,
    /// Folder of `sbatch` and the other commands; looked up in `PATH` when not given.
    pub commands: Option<PathBuf>,
    /// Slurm's configuration file (`SLURM_CONF`).
    pub conf: Option<PathBuf>,
    /// Account that pays in Slurm's own books.
    pub account: Option<Box<str>>,
    /// Longest time of one run (`--time`); the partition's own when not given.
    pub time_limit: Option<Millis>,
    /// Warning that is asked for before the time limit, and how long a preempted job is taken to last where its
    /// partition does not tell.
    pub notice: Millis,
    /// Between two looks at the cluster.
    pub poll: Millis,
    /// By name of the machine shape.
    pub machines: BTreeMap<Name, SlurmMachines>,
}

/// What stands for one machine shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmMachines {
    /// By capacity type; an offer of a type without one cannot be had.
    pub queues: BTreeMap<CapacityType, Queue>,
    /// Generic resources of one node (`gpu:a100:4`); none for a shape without accelerators.
    pub gres: Option<Box<str>>,
    /// Features that a node must have (`--constraint`).
    pub constraint: Option<Box<str>>,
}

/// Where a job is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub partition: Box<str>,
    pub qos: Option<Box<str>>,
}
