//! What is true of the jobs under way, beside what the scheduler knows of them.

use std::collections::BTreeMap;

use leeway_model::cluster::Region;
use leeway_model::job::{Job, JobSpec};
use leeway_model::{Bytes, JobId, Millis, Timestamp};

/// A job from its arrival until it is told of.
#[derive(Clone, Debug)]
pub struct Known {
    /// Useful work at relative speed 1.
    pub work: Millis,
    pub team: Box<str>,
    pub inputs: Vec<(Region, Bytes)>,
    /// Whether it has a deadline, so that each checkpoint may change what is decided.
    pub is_timed: bool,
    /// Whether its program writes checkpoints.
    pub saves: bool,
    pub checkpoint_size: Bytes,
    pub save: Millis,
    pub restore: Millis,
    /// When a program of it first began.
    pub first_start: Option<Timestamp>,
    /// Work that was done and lost, over all runs.
    pub lost: Millis,
}

#[derive(Debug, Default)]
pub struct Jobs {
    known: BTreeMap<JobId, Known>,
    expected: Option<Known>,
    arrived: u64,
}

impl Jobs {
    /// The next job that the scheduler takes is this one.
    pub fn expect(&mut self, spec: &JobSpec, work: Millis, team: Box<str>, inputs: Vec<(Region, Bytes)>) {
        let policy = spec.checkpoint.as_ref();
        self.expected = Some(Known {
            work,
            team,
            inputs,
            is_timed: spec.time.deadline.is_some(),
            saves: policy.is_some(),
            checkpoint_size: policy.and_then(|policy| policy.size).unwrap_or(Bytes::ZERO),
            save: policy.and_then(|policy| policy.save_time).unwrap_or(Millis::ZERO),
            restore: policy.and_then(|policy| policy.restore_time).unwrap_or(Millis::ZERO),
            first_start: None,
            lost: Millis::ZERO,
        });
        self.arrived += 1;
    }

    pub fn refused(&mut self) {
        self.expected = None;
    }

    /// The scheduler's row of a job changed.
    pub fn know(&mut self, job: &Job) {
        if let Some(expected) = self.expected.take_if(|_| !self.known.contains_key(&job.id)) {
            self.known.insert(job.id, expected);
        }
    }

    pub fn get(&self, id: JobId) -> Option<&Known> {
        self.known.get(&id)
    }

    pub fn change(&mut self, id: JobId) -> Option<&mut Known> {
        self.known.get_mut(&id)
    }

    pub fn take(&mut self, id: JobId) -> Option<Known> {
        self.known.remove(&id)
    }

    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Jobs that were not told of yet.
    pub fn open(&self) -> u64 {
        self.known.len() as u64
    }
}
