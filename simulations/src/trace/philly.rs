//! Microsoft Philly's own archive, `cluster_job_log`: a JSON array of jobs with their attempts and the machines of each.
//!
//! Runtime is that of all attempts together, machines are those of the first one. Times are wall clock without a zone;
//! the first submission is time zero.

use std::io;
use std::sync::Arc;

use jiff::civil::DateTime;
use leeway_model::{Bytes, Millis, name};
use serde::Deserialize;

use super::error::{Error, Fault};
use super::format::{Entry, Input, Line, Notes, Order, Sign, TraceReader, Zero};
use super::items::Items;
use super::philly_vc::UNEVEN;
use super::record::{JobRecord, Status};
use super::value::{COUNT_MAX, SPAN_MAX_MS, Value, between};

pub const ENTRY: Entry = Entry {
    name: "philly",
    what: "Microsoft Philly's cluster_job_log in JSON",
    sign: Sign::Text(is_philly),
    order: Order::Any,
    zero: Zero::Elsewhere,
    has_arrivals: true,
    open,
};

fn is_philly(head: &str) -> bool {
    head.trim_start().starts_with('[') && ["\"jobid\"", "\"attempts\"", "\"vc\""].iter().all(|key| head.contains(key))
}

fn open(input: Input, file: Arc<str>) -> Result<Box<dyn TraceReader>, Error> {
    Ok(Box::new(Philly { items: Items::new(input), file, item: Vec::new() }))
}

struct Philly {
    items: Items<Input>,
    file: Arc<str>,
    item: Vec<u8>,
}

#[derive(Deserialize)]
struct Job {
    jobid: String,
    status: String,
    vc: String,
    user: String,
    submitted_time: Option<String>,
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    start_time: Option<String>,
    end_time: Option<String>,
    detail: Vec<Machine>,
}

#[derive(Deserialize)]
struct Machine {
    gpus: Vec<serde::de::IgnoredAny>,
}

impl TraceReader for Philly {
    fn next(&mut self, notes: &mut Notes) -> io::Result<Option<Line>> {
        while let Some(read) = self.items.read(&mut self.item)? {
            let (line, told) = match read {
                Ok(line) => (line, self.job(notes)),
                Err((line, fault)) => (line, Err(fault)),
            };
            match told {
                Ok(None) => {}
                Ok(Some(job)) => return Ok(Some(Ok((line, job)))),
                Err(fault) => return Ok(Some(Err(fault.at(&self.file, line)))),
            }
        }
        Ok(None)
    }
}

impl Philly {
    fn job(&self, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        let job: Job = serde_json::from_slice(&self.item).map_err(|error| Fault::new("(job)", error.to_string()))?;
        let text = |column, text| Value { column, text };
        let submitted = moment("submitted_time", job.submitted_time.as_deref())?;
        let machines = job.attempts.first().map_or(&[][..], |attempt| &attempt.detail);
        let gpus: Vec<usize> = machines.iter().map(|machine| machine.gpus.len()).collect();
        let most = gpus.iter().max().copied().unwrap_or_default();
        let mut runtime = Millis::ZERO;
        let mut has_run = false;
        for attempt in &job.attempts {
            let start = moment("attempts.start_time", attempt.start_time.as_deref())?;
            let end = moment("attempts.end_time", attempt.end_time.as_deref())?;
            if let (Some(start), Some(end)) = (start, end) {
                let shown = attempt.end_time.as_deref().unwrap_or_default();
                runtime = runtime.saturating_add(between(start, text("attempts.end_time", shown), end)?);
                has_run = true;
            }
        }
        let Some(submitted) = submitted.filter(|_| has_run && most > 0) else {
            notes.add("jobs that were never submitted or never ran to an end on GPUs are left out");
            return Ok(None);
        };
        if runtime.as_millis() > SPAN_MAX_MS || most > COUNT_MAX as usize || gpus.len() > COUNT_MAX as usize {
            return Err(Fault::new("attempts", "have more time or more GPUs than any job has"));
        }
        notes.add_if(gpus.iter().any(|gpus| *gpus != most), UNEVEN);
        Ok(Some(JobRecord {
            name: text("jobid", &job.jobid).name()?.to_owned(),
            submitted,
            runtime: notes.some_runtime(runtime),
            nodes: gpus.len() as u32,
            gpus: most as u32,
            accelerator: None,
            cpus: 0,
            memory: Bytes::ZERO,
            team: text("vc", &job.vc).text()?.to_owned(),
            user: text("user", &job.user).text()?.to_owned(),
            status: match job.status.as_str() {
                "Pass" => Status::Done,
                "Failed" => Status::Failed,
                "Killed" => Status::Cancelled,
                _ => Status::Unknown,
            },
        }))
    }
}

/// Milliseconds since 1970 by a clock without a zone; `None` for what the source leaves open.
fn moment(column: &str, text: Option<&str>) -> Result<Option<Millis>, Fault> {
    let Some(text) = text.filter(|text| !text.is_empty() && *text != "None") else { return Ok(None) };
    let millis = || {
        let at: DateTime = text.parse().ok()?;
        let at = jiff::tz::Offset::UTC.to_timestamp(at).ok()?;
        u64::try_from(at.as_millisecond()).ok().filter(|millis| *millis <= SPAN_MAX_MS)
    };
    match millis() {
        Some(millis) => Ok(Some(Millis::new(millis))),
        None => {
            let shown = name::escape(text);
            Err(Fault::new(column, format!("'{shown}' must be a time from 1970 to 2069 such as 2017-10-09 07:01:48")))
        }
    }
}
