//! What is true of the jobs under way, beside what the scheduler knows of them.

use std::collections::{BTreeMap, VecDeque};

use leeway_model::cluster::Region;
use leeway_model::job::{Job, JobSpec};
use leeway_model::{Bytes, JobId, Millis, Timestamp};

use super::super::setup::{Arrival, ProgramFailure, Recorded};

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
    /// Failures of its program that are still to come, in order.
    pub failures: VecDeque<ProgramFailure>,
    /// Its number in the history that it comes from.
    pub source: Option<JobId>,
}

impl Known {
    /// What is true of a job with this specification, unless its history says otherwise.
    pub fn of(spec: &JobSpec, work: Millis, team: Box<str>, recorded: Option<&Recorded>) -> Self {
        let policy = spec.checkpoint.as_ref();
        let size = recorded.and_then(|of| of.checkpoint).or(policy.and_then(|policy| policy.size));
        let save = recorded.and_then(|of| of.save).or(policy.and_then(|policy| policy.save_time));
        let restore = recorded.and_then(|of| of.restore).or(policy.and_then(|policy| policy.restore_time));
        Self {
            work,
            team,
            inputs: Vec::new(),
            is_timed: spec.time.deadline.is_some(),
            saves: policy.is_some(),
            checkpoint_size: size.unwrap_or(Bytes::ZERO),
            save: save.unwrap_or(Millis::ZERO),
            restore: restore.unwrap_or(Millis::ZERO),
            first_start: None,
            lost: Millis::ZERO,
            failures: recorded.map(|of| of.failures.iter().copied().collect()).unwrap_or_default(),
            source: recorded.map(|of| of.id),
        }
    }
}

#[derive(Debug, Default)]
pub struct Jobs {
    known: BTreeMap<JobId, Known>,
    expected: Option<Known>,
    arrived: u64,
    /// The numbers that jobs of a history have in this run.
    numbers: BTreeMap<JobId, JobId>,
}

impl Jobs {
    /// The next job that the scheduler takes is this one.
    pub fn expect(&mut self, arrival: &mut Arrival) {
        let team = std::mem::take(&mut arrival.team);
        let mut known = Known::of(&arrival.spec, arrival.work, team, arrival.recorded.as_deref());
        known.inputs = std::mem::take(&mut arrival.inputs);
        self.expected = Some(known);
        self.arrived += 1;
    }

    pub fn refused(&mut self) {
        self.expected = None;
    }

    /// The scheduler's row of a job changed.
    pub fn know(&mut self, job: &Job) {
        if let Some(expected) = self.expected.take_if(|_| !self.known.contains_key(&job.id)) {
            if let Some(source) = expected.source {
                self.numbers.insert(source, job.id);
            }
            self.known.insert(job.id, expected);
        }
    }

    pub fn get(&self, id: JobId) -> Option<&Known> {
        self.known.get(&id)
    }

    /// The number in this run of a job of the history.
    pub fn number(&self, source: JobId) -> Option<JobId> {
        self.numbers.get(&source).copied()
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
