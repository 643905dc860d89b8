//! The job table of Alibaba's spot GPU trace of 2026: high-priority jobs and spot jobs of many organisations. A request
//! is that of one worker; a worker is a node.

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::record::{JobRecord, Status};
use super::table::{Layout, Row};
use super::value::COUNT_MAX;
use leeway_model::Bytes;

pub const ENTRY: Entry = Entry {
    name: "alibaba2026-spot-jobs",
    what: "Alibaba cluster-trace-v2026-spot-gpu: the job table",
    sign: Sign::Columns(Jobs::COLUMNS),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Jobs>("alibaba2026-spot-jobs", input, file),
};

#[derive(Default)]
struct Jobs;

impl Layout for Jobs {
    const COLUMNS: &'static [&'static str] = &[
        "job_name",
        "organization",
        "gpu_model",
        "cpu_request",
        "gpu_request",
        "worker_num",
        "submit_time",
        "duration",
        "job_type",
    ];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let kind = row.at(8);
        if !["hp", "spot"].contains(&kind.text.to_ascii_lowercase().as_str()) {
            return Err(kind.fault("must be HP or Spot"));
        }
        let cpus = row.at(3).round_up(1.0)?;
        let gpus = row.at(4).round_up(1.0)?;
        let model = row.at(2).text()?;
        let record = JobRecord {
            name: row.at(0).name()?.to_owned(),
            submitted: row.at(6).secs()?,
            runtime: notes.some_runtime(row.at(7).secs()?),
            nodes: row.at(5).count(1, COUNT_MAX)?,
            gpus: gpus.count,
            accelerator: (!model.is_empty()).then(|| model.to_owned()),
            cpus: cpus.count,
            memory: Bytes::ZERO,
            team: row.at(1).text()?.to_owned(),
            user: String::new(),
            status: Status::Unknown,
        };
        notes.add_if(gpus.was_fraction, "jobs with a part of a GPU have a whole one");
        notes.add_if(kind.text.eq_ignore_ascii_case("spot"), "jobs were spot jobs in the source");
        Ok(Some(record))
    }
}
