//! The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, comments behind `;`, -1 for what is
//! not known. Jobs ask for processors; they are laid on the fewest equal nodes of at most 64.

use std::io;
use std::sync::Arc;

use leeway_model::Bytes;

use super::error::{Error, Fault};
use super::format::{Entry, Input, Line, Notes, Order, Sign, TraceReader, Zero};
use super::lines::Lines;
use super::record::{CPUS_PER_NODE, JobRecord, Status, split};
use super::value::{COUNT_MAX, Value};

pub const ENTRY: Entry = Entry {
    name: "swf",
    what: "the Standard Workload Format, 18 fields a line",
    sign: Sign::Text(is_swf),
    order: Order::Any,
    zero: Zero::Start,
    has_arrivals: true,
    open,
};

const FIELDS: [&str; 18] = [
    "field 1 (job number)",
    "field 2 (submit time)",
    "field 3 (wait time)",
    "field 4 (run time)",
    "field 5 (allocated processors)",
    "field 6 (average CPU time)",
    "field 7 (used memory)",
    "field 8 (requested processors)",
    "field 9 (requested time)",
    "field 10 (requested memory)",
    "field 11 (status)",
    "field 12 (user)",
    "field 13 (group)",
    "field 14 (executable)",
    "field 15 (queue)",
    "field 16 (partition)",
    "field 17 (preceding job)",
    "field 18 (think time)",
];

/// Comments first, or a line of eighteen numbers.
fn is_swf(head: &str) -> bool {
    let Some(first) = head.lines().find(|line| !line.trim().is_empty()) else { return false };
    let is_row = |line: &str| {
        let mut fields = 0;
        line.split_whitespace().all(|field| {
            fields += 1;
            field.parse::<f64>().is_ok()
        }) && fields == FIELDS.len()
    };
    first.trim_start().starts_with(';') || is_row(first)
}

fn open(input: Input, file: Arc<str>) -> Result<Box<dyn TraceReader>, Error> {
    Ok(Box::new(Swf { lines: Lines::new(input), file, line: Vec::new() }))
}

struct Swf {
    lines: Lines<Input>,
    file: Arc<str>,
    line: Vec<u8>,
}

impl TraceReader for Swf {
    fn next(&mut self, notes: &mut Notes) -> io::Result<Option<Line>> {
        while let Some(read) = self.lines.read(&mut self.line)? {
            let number = self.lines.number;
            match read.and_then(|()| row(&self.line, notes)) {
                Ok(None) => {}
                Ok(Some(job)) => return Ok(Some(Ok((number, job)))),
                Err(fault) => return Ok(Some(Err(fault.at(&self.file, number)))),
            }
        }
        Ok(None)
    }
}

fn row(line: &[u8], notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
    let text = std::str::from_utf8(line).map_err(|_| Fault::new("(line)", "is not UTF-8 text"))?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.starts_with(';') {
        return Ok(None);
    }
    let mut fields = [""; 18];
    let mut count = 0;
    for field in text.split_whitespace() {
        if let Some(place) = fields.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    if count != fields.len() {
        return Err(Fault::new("(line)", format!("has {count} fields; the format has {}", fields.len())));
    }
    let at = |index: usize| Value { column: FIELDS[index - 1], text: fields[index - 1] };
    let number = at(1).count(0, u32::MAX)?;
    let fields = Fields {
        submitted: at(2),
        runtime: at(4),
        processors: at(5),
        requested: at(8),
        memory_kib: Some(if is_unknown(at(10)) { at(7) } else { at(10) }),
        status: at(11),
        user: at(12),
        group: at(13),
    };
    job(number.to_string(), &fields, notes)
}

/// The fields of either form of the format that say what a job is.
pub struct Fields<'a> {
    pub submitted: Value<'a>,
    pub runtime: Value<'a>,
    pub processors: Value<'a>,
    pub requested: Value<'a>,
    /// For each processor.
    pub memory_kib: Option<Value<'a>>,
    pub status: Value<'a>,
    pub user: Value<'a>,
    pub group: Value<'a>,
}

fn is_unknown(value: Value<'_>) -> bool {
    value.text == "-1"
}

/// The job of these fields; none where it did not run or its processors are not known.
pub fn job(name: String, fields: &Fields<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
    let submitted = fields.submitted.secs()?;
    let processors = if is_unknown(fields.processors) { fields.requested } else { fields.processors };
    if is_unknown(fields.runtime) || is_unknown(processors) {
        notes.add("jobs without a runtime or without processors are left out");
        return Ok(None);
    }
    let runtime = fields.runtime.secs()?;
    let gang = split(processors.count(1, COUNT_MAX)?, CPUS_PER_NODE);
    let memory = match fields.memory_kib {
        Some(each) if !is_unknown(each) => Bytes::new(each.size(1 << 10)?.get().saturating_mul(gang.each.into())),
        _ => Bytes::ZERO,
    };
    let status = match fields.status.text {
        "1" => Status::Done,
        "0" => Status::Failed,
        "5" => Status::Cancelled,
        // Parts of a job that was stopped in between, and what is not known.
        "2" | "3" | "4" | "-1" => Status::Unknown,
        _ => return Err(fields.status.fault("must be -1 or from 0 to 5")),
    };
    Ok(Some(JobRecord {
        name,
        submitted,
        runtime: notes.some_runtime(runtime),
        nodes: gang.nodes,
        gpus: 0,
        accelerator: None,
        cpus: gang.each,
        memory,
        team: owner("group", fields.group)?,
        user: owner("user", fields.user)?,
        status,
    }))
}

fn owner(kind: &str, id: Value<'_>) -> Result<String, Fault> {
    if is_unknown(id) { Ok(String::new()) } else { Ok(format!("{kind}-{}", id.count(0, u32::MAX)?)) }
}
