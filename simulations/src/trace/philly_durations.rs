//! Durations and GPUs of Philly's jobs of one hour and more, without arrivals: a backlog, all of it there at time zero.
//! `fit` takes runtimes and sizes from it and leaves the rate of arrival to another trace.

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::philly_vc::UNEVEN;
use super::record::{GPUS_PER_NODE, JobRecord, Status, split};
use super::table::{Layout, Row};
use super::value::COUNT_MAX;
use leeway_model::{Bytes, Millis};

pub const ENTRY: Entry = Entry {
    name: "philly-duration-gpus",
    what: "durations and GPUs of Philly's jobs, no arrivals: all are submitted at time zero",
    sign: Sign::Columns(Durations::COLUMNS),
    order: Order::Submitted,
    zero: Zero::Start,
    has_arrivals: false,
    open: |input, file| table::<Durations>("philly-duration-gpus", input, file),
};

#[derive(Default)]
struct Durations;

impl Layout for Durations {
    const COLUMNS: &'static [&'static str] = &["duration_s", "gpus"];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let gpus = row.at(1).count(0, COUNT_MAX)?;
        let gang = split(gpus, GPUS_PER_NODE);
        notes.add_if(u64::from(gang.nodes) * u64::from(gang.each) > gpus.into(), UNEVEN);
        let runtime = notes.some_runtime(row.at(0).secs()?);
        notes.add("jobs have no arrival in the source and are submitted at time zero");
        Ok(Some(JobRecord {
            name: format!("job-{}", row.number),
            submitted: Millis::ZERO,
            runtime,
            nodes: gang.nodes,
            gpus: gang.each,
            accelerator: None,
            cpus: 0,
            memory: Bytes::ZERO,
            team: String::new(),
            user: String::new(),
            status: Status::Unknown,
        }))
    }
}
