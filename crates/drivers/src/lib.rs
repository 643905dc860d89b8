//! Drivers: how machines are asked for, listed and ended, one driver a kind of cluster.
//!
//! The scheduler orders and judges; a driver only carries out and reports what it sees. Vendor errors become classes
//! here, and no caller ever decides by a vendor's code. [`local`] runs on this host; a later driver adds a file beside
//! it and passes [`conformance`].

pub mod conformance;
mod contract;
pub mod errors;
pub mod files;
pub mod local;
pub mod process;
pub mod run_dir;
mod runs;
pub mod slurm;

pub use contract::{
    ClusterDriver, DriverError, DriverErrorClass, Instance, InstanceState, Launch, LaunchError, Observation, Token,
    Warning,
};
pub use local::LocalDriver;
pub use slurm::SlurmDriver;
