//! Alibaba's cluster trace of 2025: instances of recommendation models that serve requests, on nodes with GPUs (HN) and
//! without (CN). They are services: many were there before the 31 days of the trace and many outlive them.

use leeway_model::Millis;

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::record::{JobRecord, Status};
use super::table::{Layout, Row};
use super::value::{COUNT_MAX, between};

pub const ENTRY: Entry = Entry {
    name: "alibaba2025-instances",
    what: "Alibaba cluster-trace-gpu-v2025: instances of services",
    sign: Sign::Columns(Instances::COLUMNS),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Instances>("alibaba2025-instances", input, file),
};

/// Length of the trace.
const LENGTH: Millis = Millis::from_hours(31 * 24);

#[derive(Default)]
struct Instances;

impl Layout for Instances {
    const COLUMNS: &'static [&'static str] = &[
        "instance_sn",
        "app_name",
        "cpu_request",
        "gpu_request",
        "memory_request",
        "creation_time",
        "scheduled_time",
        "deletion_time",
    ];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let (created, placed, deleted) = (row.at(5), row.at(6), row.at(7));
        let submitted = if created.is_empty() { Millis::ZERO } else { created.secs()? };
        let started = if placed.is_empty() {
            submitted
        } else {
            between(submitted, placed, placed.secs()?).and(placed.secs())?
        };
        let ended = if deleted.is_empty() { LENGTH } else { deleted.secs()? };
        let runtime = between(started, deleted, ended)?;
        let cpus = row.at(2).round_up(1.0)?;
        let gpus = row.at(3).round_up(1.0)?;
        let record = JobRecord {
            name: row.at(0).name()?.to_owned(),
            submitted,
            runtime: notes.some_runtime(runtime),
            nodes: 1,
            gpus: gpus.count.min(COUNT_MAX),
            accelerator: None,
            cpus: cpus.count,
            memory: row.at(4).size(1 << 30)?,
            team: row.at(1).text()?.to_owned(),
            user: String::new(),
            status: Status::Unknown,
        };
        notes.add_if(created.is_empty(), "jobs that were there before the trace began are submitted at its start");
        notes.add_if(deleted.is_empty(), "jobs that outlive the trace run until its end");
        notes.add_if(gpus.was_fraction, "jobs with a part of a GPU have a whole one");
        Ok(Some(record))
    }
}
