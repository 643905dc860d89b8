//! Every effect, in the imperative. Nothing here happens before the step that ordered it is durable.

use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::market::OfferKey;
use leeway_model::notify::Notification;
use leeway_model::{JobId, Millis, Name, OutboxId, RunId, Timestamp};

use crate::reply::Reply;

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answers whoever brought the event.
    Reply(Reply),
    /// Asks for machines under the run's id; asking again must not make more.
    Launch(LaunchOrder),
    /// Ends a run's machines and keeps asking until they are proven gone.
    Stop {
        run: RunId,
        cluster: Name,
        grace: Millis,
    },
    /// Tells a run's agents to look at their directives again; what those are follows from the run's row.
    Signal {
        run: RunId,
    },
    Deliver {
        delivery: OutboxId,
        endpoint: Name,
        notification: Notification,
        attempt: u32,
    },
    DeleteCheckpoint {
        job: JobId,
        checkpoint: CheckpointRef,
    },
}

/// All that a driver needs to launch a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchOrder {
    pub run: RunId,
    pub offer: OfferKey,
    pub nodes: u32,
    /// The launch is all or nothing by this instant.
    pub deadline: Timestamp,
}

/// What a run's agent should be doing, derived from the run's row so that it survives restarts and lost messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directive {
    Run {
        interval: Option<Millis>,
    },
    /// Save if told to, then end, by the deadline.
    Drain {
        deadline: Timestamp,
        save: bool,
        notice: bool,
    },
    /// Kill now.
    Stop,
}

/// A checkpoint that was refused or accepted, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitVerdict {
    pub checkpoint: CheckpointId,
    /// Whether all ranks are in and the whole is durable.
    pub committed: bool,
}
