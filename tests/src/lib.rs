//! What the end-to-end tests stand on: the real binary as a process, its files and its sockets.
//!
//! ```text
//! binary   where the binary is, built when it is missing or older than its sources
//! server   `leeway serve` as a process that can be killed, stopped and started again on the same files
//! cluster  the agents and programs of a server's runs as processes
//! cli      one command of the binary and how it ended
//! api      jobs, budgets and logs over gRPC
//! servers  real servers of other projects, such as Slurm
//! wait     conditions with a deadline
//! ```

// Helpers of tests may fail a test as the tests themselves do.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod api;
pub mod binary;
pub mod cli;
pub mod cluster;
pub mod server;
pub mod servers;
pub mod wait;

pub use server::{Config, Server};
