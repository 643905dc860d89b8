//! Alibaba's cluster trace of 2023 (`openb`): pods of a production cluster, many of which share a GPU.

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::record::{JobRecord, Status};
use super::table::{Layout, Row};
use super::value::{COUNT_MAX, between};

pub const ENTRY: Entry = Entry {
    name: "openb-pods",
    what: "Alibaba cluster-trace-gpu-v2023: pods, with parts of GPUs",
    sign: Sign::Columns(Pods::COLUMNS),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Pods>("openb-pods", input, file),
};

#[derive(Default)]
struct Pods;

impl Layout for Pods {
    const COLUMNS: &'static [&'static str] = &[
        "name",
        "cpu_milli",
        "memory_mib",
        "num_gpu",
        "gpu_milli",
        "gpu_spec",
        "pod_phase",
        "creation_time",
        "deletion_time",
        "scheduled_time",
    ];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let name = row.at(0).name()?;
        let cpus = row.at(1).round_up(1_000.0)?;
        let memory = row.at(2).size(1 << 20)?;
        let gpus = row.at(3).count(0, COUNT_MAX)?;
        let share = row.at(4).round_up(1_000.0)?;
        let spec = row.at(5).text()?;
        let submitted = row.at(7).secs()?;
        let (ended, started) = (row.at(8), row.at(9));
        if started.is_empty() || ended.is_empty() {
            notes.add("pods that were never placed, or that had no end, are left out");
            return Ok(None);
        }
        between(submitted, started, started.secs()?)?;
        let runtime = between(started.secs()?, ended, ended.secs()?)?;
        notes.add_if(share.was_fraction && gpus > 0, "jobs with a part of a GPU have a whole one");
        Ok(Some(JobRecord {
            name: name.to_owned(),
            submitted,
            runtime: notes.some_runtime(runtime),
            nodes: 1,
            gpus,
            accelerator: (!spec.is_empty()).then(|| spec.to_owned()),
            cpus: cpus.count,
            memory,
            team: String::new(),
            user: String::new(),
            // The other phases are those of pods that the end of the trace cut off.
            status: match row.at(6).text {
                "Succeeded" => Status::Done,
                "Failed" => Status::Failed,
                _ => Status::Unknown,
            },
        }))
    }
}
