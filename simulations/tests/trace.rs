//! Job traces: what each format says of a job, what is refused, and what comes through unchanged.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

#[path = "trace/faults.rs"]
mod faults;
#[path = "trace/formats.rs"]
mod formats;
#[path = "trace/order.rs"]
mod order;
#[path = "trace/recorded.rs"]
mod recorded;
#[path = "trace/round.rs"]
mod round;
mod shared;

use leeway_simulations::trace::{Error, JobRecord, Jobs, Options};

/// The jobs of a text whose format is told from it.
fn read(text: &str) -> Result<Vec<JobRecord>, Error> {
    open(text.as_bytes().to_vec(), false)?.collect()
}

fn open(bytes: Vec<u8>, lenient: bool) -> Result<Jobs, Error> {
    Jobs::read(std::io::Cursor::new(bytes), "jobs", Options { format: None, lenient })
}

/// The jobs of a text and what was counted, bad lines skipped.
fn skim(text: &str) -> (Vec<JobRecord>, leeway_simulations::trace::Counts) {
    let mut jobs = open(text.as_bytes().to_vec(), true).unwrap();
    let read = jobs.by_ref().collect::<Result<_, _>>().unwrap();
    (read, jobs.counts().clone())
}
