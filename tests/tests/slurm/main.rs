//! Jobs on a real Slurm: the driver's conformance suite, and the real binary from end to end.

// Helpers of tests may fail a test as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod conformance;
mod jobs;
#[cfg(feature = "aws")]
mod proof;
