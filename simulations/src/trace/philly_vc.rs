//! Microsoft Philly 2017, reduced to arrivals, GPUs and durations of jobs by virtual cluster. Each virtual cluster counts
//! its time from its own first job; they are taken to have begun together, each one a team.

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::record::{GPUS_PER_NODE, JobRecord, Status, split};
use super::table::{Layout, Row};
use super::value::COUNT_MAX;
use leeway_model::Bytes;

pub const ENTRY: Entry = Entry {
    name: "philly-vc-jobs",
    what: "Microsoft Philly 2017 by virtual cluster: vc, job, submit_s, gpus, duration_s",
    sign: Sign::Columns(Philly::COLUMNS),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Philly>("philly-vc-jobs", input, file),
};

#[derive(Default)]
struct Philly;

impl Layout for Philly {
    const COLUMNS: &'static [&'static str] = &["vc", "job", "submit_s", "gpus", "duration_s"];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let team = row.at(0).name()?;
        let gpus = row.at(3).count(0, COUNT_MAX)?;
        let gang = split(gpus, GPUS_PER_NODE);
        notes.add_if(u64::from(gang.nodes) * u64::from(gang.each) > gpus.into(), UNEVEN);
        Ok(Some(JobRecord {
            name: format!("{team}/{}", row.at(1).name()?),
            submitted: row.at(2).secs()?,
            runtime: notes.some_runtime(row.at(4).secs()?),
            nodes: gang.nodes,
            gpus: gang.each,
            accelerator: None,
            cpus: 0,
            memory: Bytes::ZERO,
            team: team.to_owned(),
            user: String::new(),
            status: Status::Unknown,
        }))
    }
}

/// A note on gangs that do not divide into equal nodes.
pub const UNEVEN: &str = "jobs whose GPUs do not divide evenly over nodes have them rounded up";
