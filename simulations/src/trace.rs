//! Job traces: what was submitted to a cluster and when, in whatever format it was recorded.
//!
//! `record` is the one shape in which the simulator sees a job and `jobs` the stream of them in the order of submission;
//! `leeway` is that record as a file, which `output` puts in its place, and `summary` adds it up.
//! `format` lists the formats, each in a file of its own: most are a `table` with a header, others are read by `lines` or
//! as the `items` of a JSON array. `value` checks what stands in them. The README of the folder has the steps for
//! another format.

pub mod error;
pub mod format;
pub mod helios;
pub mod jobs;
pub mod record;

mod alibaba2025;
mod alibaba2026;
mod items;
mod leeway;
mod lines;
mod openb;
mod output;
mod philly;
mod philly_durations;
mod philly_vc;
mod sia;
mod summary;
mod swf;
mod swf_table;
mod table;
mod value;

pub use error::{BadLine, Error};
pub use format::{Format, Notes, TraceReader};
pub use jobs::{Counts, Jobs, NAMES_MAX, Options, SORTED_MAX, open};
pub use leeway::Writer;
pub use output::Output;
pub use record::{JobRecord, Status};
pub use summary::Summary;
