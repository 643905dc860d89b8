//! The EC2 driver over an EC2 of this host, which fails at every call. Built with the feature `aws`.
#![cfg(feature = "aws")]
// Helpers of tests may fail a test as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod conformance;
mod faults;
mod place;
mod prices;
