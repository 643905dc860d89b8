//! `leeway-jobs-v1`: the record itself, a row a job, in the order of submission. What is written reads back as it was.

use std::io::{self, Write};

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::record::{JobRecord, Status};
use super::table::{Layout, Row};
use super::value::COUNT_MAX;

pub const ENTRY: Entry = Entry {
    name: "leeway-jobs-v1",
    what: "what 'leeway simulate import' writes",
    sign: Sign::Columns(Leeway::COLUMNS),
    order: Order::Submitted,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Leeway>("leeway-jobs-v1", input, file),
};

#[derive(Default)]
struct Leeway;

const NAME: usize = 0;
const SUBMITTED: usize = 1;
const RUNTIME: usize = 2;
const NODES: usize = 3;
const GPUS: usize = 4;
const ACCELERATOR: usize = 5;
const CPUS: usize = 6;
const MEMORY: usize = 7;
const TEAM: usize = 8;
const USER: usize = 9;
const STATUS: usize = 10;

impl Layout for Leeway {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "submitted_ms",
        "runtime_ms",
        "nodes",
        "gpus_per_node",
        "accelerator",
        "cpus_per_node",
        "memory_bytes_per_node",
        "team",
        "user",
        "status",
    ];

    fn job(&mut self, row: &Row<'_>, _: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let runtime = row.at(RUNTIME);
        let length = runtime.millis()?;
        if length.is_zero() {
            return Err(runtime.fault("must be at least 1"));
        }
        let status = row.at(STATUS);
        let known = Status::ALL.into_iter().find(|one| one.as_str() == status.text);
        let accelerator = row.exact(ACCELERATOR).text()?;
        Ok(Some(JobRecord {
            name: row.exact(NAME).name()?.to_owned(),
            submitted: row.at(SUBMITTED).millis()?,
            runtime: length,
            nodes: row.at(NODES).count(1, COUNT_MAX)?,
            gpus: row.at(GPUS).count(0, COUNT_MAX)?,
            accelerator: (!accelerator.is_empty()).then(|| accelerator.to_owned()),
            cpus: row.at(CPUS).count(0, COUNT_MAX)?,
            memory: row.at(MEMORY).bytes()?,
            team: row.exact(TEAM).text()?.to_owned(),
            user: row.exact(USER).text()?.to_owned(),
            status: known.ok_or_else(|| status.fault("must be done, failed, cancelled or unknown"))?,
        }))
    }
}

/// Writes jobs as `leeway-jobs-v1`.
#[derive(Debug)]
pub struct Writer<W: Write>(csv::Writer<W>);

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// As the output says.
    pub fn new(output: W) -> io::Result<Self> {
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(Leeway::COLUMNS).map_err(into_io)?;
        Ok(Self(writer))
    }

    /// Writes a job.
    ///
    /// # Errors
    /// As the output says.
    pub fn write(&mut self, job: &JobRecord) -> io::Result<()> {
        self.0
            .write_record([
                job.name.as_str(),
                &job.submitted.as_millis().to_string(),
                &job.runtime.as_millis().to_string(),
                &job.nodes.to_string(),
                &job.gpus.to_string(),
                job.accelerator.as_deref().unwrap_or_default(),
                &job.cpus.to_string(),
                &job.memory.get().to_string(),
                &job.team,
                &job.user,
                job.status.as_str(),
            ])
            .map_err(into_io)
    }

    /// Hands everything to the output and gives it back.
    ///
    /// # Errors
    /// As the output says.
    pub fn finish(self) -> io::Result<W> {
        self.0.into_inner().map_err(|error| error.into_error())
    }
}

fn into_io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}
