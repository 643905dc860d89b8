//! Answers to whoever brought an event.

use std::sync::Arc;

use leeway_model::checkpoint::CheckpointRef;
use leeway_model::job::{Job, JobSpec, JobState, Reason, StartReason};
use leeway_model::market::PriceFault;
use leeway_model::{InstallationId, JobId, Millis, RunId};

use crate::action::{CommitVerdict, Directive};

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Done,
    Submitted(Vec<Result<Submitted, Refused>>),
    /// The job as it stands after a cancel or a retry.
    Job(Box<Job>),
    Observed {
        accepted: u32,
        rejected: Vec<(u32, PriceFault)>,
    },
    Assigned(Box<Assignment>),
    Renewed {
        directive: Directive,
    },
    Committed(CommitVerdict),
    /// The checkpoint to try instead of a damaged one.
    TryInstead(Option<CheckpointRef>),
    Refused(Refused),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    pub job: JobId,
    pub state: JobState,
    pub reason: Option<Reason>,
    /// What is to be said of its deadline.
    pub warnings: Vec<Reason>,
    /// The request id was seen before; this is the job it made.
    pub replayed: bool,
}

/// What an agent needs to run its rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub installation: InstallationId,
    pub run: RunId,
    pub rank: u32,
    pub spec: Arc<JobSpec>,
    pub start_reason: StartReason,
    pub restore: Option<CheckpointRef>,
    /// Base URL for this run's checkpoints.
    pub checkpoints: Box<str>,
    pub next_seq: u64,
    pub interval: Option<Millis>,
}

/// A refusal: what kind, a stable code, and a sentence that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub kind: RefusedKind,
    pub code: &'static str,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedKind {
    Invalid,
    NotFound,
    /// Right in itself, but not in the present state.
    Precondition,
    AlreadyExists,
    Denied,
    Exhausted,
}

impl Refused {
    pub fn new(kind: RefusedKind, code: &'static str, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into() }
    }

    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Self::new(RefusedKind::NotFound, "NOT_FOUND", format!("{what} '{id}' does not exist"))
    }

    /// For messages of an epoch that is over.
    pub fn stale(run: RunId) -> Self {
        Self::new(RefusedKind::Precondition, "STALE_EPOCH", format!("run {run} is over; stop its program"))
    }
}
