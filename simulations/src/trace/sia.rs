//! Job samples of Sia's experiments: arrivals, applications and GPUs, no runtimes. The runtime is assumed: the work in
//! GPU-hours is the middle, on a logarithmic scale, of the class in which the authors of Pollux and Sia put the
//! application (small up to 1 GPU-hour, medium to 10, large to 100, extra large to 1000), shared by the job's GPUs.
//!
//! Samples begin together, each one a team, so that one can be picked.

use leeway_model::{Bytes, Millis};

use super::error::Fault;
use super::format::{Entry, Notes, Order, Sign, Zero, table};
use super::philly_vc::UNEVEN;
use super::record::{GPUS_PER_NODE, JobRecord, Status, split};
use super::table::{Layout, Row};
use super::value::COUNT_MAX;

pub const ENTRY: Entry = Entry {
    name: "sia",
    what: "samples of Sia's experiments; runtimes are assumed from the application's class",
    sign: Sign::Columns(Sia::COLUMNS),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open: |input, file| table::<Sia>("sia", input, file),
};

/// Applications and their assumed work in GPU-hours.
const WORK: [(&str, f64); 5] =
    [("cifar10", 0.316), ("deepspeech2", 3.16), ("bert", 3.16), ("yolov3", 31.6), ("imagenet", 316.0)];

#[derive(Default)]
struct Sia;

impl Layout for Sia {
    const COLUMNS: &'static [&'static str] = &["name", "submit_s", "application", "gpus", "batch_size"];
    const OPTIONAL: &'static [&'static str] = &["sample"];

    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let (name, application, sample) = (row.at(0).name()?, row.at(2), row.at(5).text()?);
        let known = WORK.iter().find(|(known, _)| *known == application.text);
        let (_, gpu_hours) = known.ok_or_else(|| {
            application.fault("has no known class of work; known are cifar10, deepspeech2, bert, yolov3 and imagenet")
        })?;
        let gpus = row.at(3).count(1, COUNT_MAX)?;
        let gang = split(gpus, GPUS_PER_NODE);
        notes.add_if(u64::from(gang.nodes) * u64::from(gang.each) > gpus.into(), UNEVEN);
        let submitted = row.at(1).secs()?;
        notes.add("jobs have no runtime in the source; it is assumed from their application");
        Ok(Some(JobRecord {
            name: if sample.is_empty() { name.to_owned() } else { format!("{sample}/{name}") },
            submitted,
            runtime: notes.some_runtime(Millis::from_secs_f64(gpu_hours * 3_600.0 / f64::from(gpus))),
            nodes: gang.nodes,
            gpus: gang.each,
            accelerator: None,
            cpus: 0,
            memory: Bytes::ZERO,
            team: if sample.is_empty() { String::new() } else { format!("sample-{sample}") },
            user: String::new(),
            status: Status::Unknown,
        }))
    }
}
