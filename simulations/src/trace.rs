//! Job traces: what was submitted to a cluster and when, in whatever format it was recorded.
//!
//! `record` is the one shape in which the simulator sees a job.

pub mod record;

pub use record::{JobRecord, Status};
