//! A run: one attempt of a job on one offer.
//!
//! ```text
//! Launching -> Setup -> Restoring -> Running -> Draining -> Stopping -> Released
//!      any -> Lost (lease over, or the provider says gone) -> Released
//! ```
//! `Released` needs proof that every instance is gone; cost counts until then.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checkpoint::CheckpointRef;
use crate::job::{Progress, StartReason};
use crate::market::{OfferKey, Price};
use crate::{Bill, Meter, Millis, Rate, RunId, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RunState {
    /// The launch is ordered; its outcome is not known.
    Launching,
    /// Machines exist; inputs and `setup` are being made ready.
    Setup,
    /// The newest checkpoint is being fetched and verified.
    Restoring,
    Running,
    /// Asked to save and end: a notice, a budget or a cancel.
    Draining,
    /// A stop is ordered; the proof is awaited.
    Stopping,
    /// Silent beyond its lease; nothing else is known.
    Lost,
    /// Every instance is proven gone and the cost is settled.
    Released,
}

impl RunState {
    pub const ALL: [Self; 8] = [
        Self::Launching,
        Self::Setup,
        Self::Restoring,
        Self::Running,
        Self::Draining,
        Self::Stopping,
        Self::Lost,
        Self::Released,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Launching => "launching",
            Self::Setup => "setup",
            Self::Restoring => "restoring",
            Self::Running => "running",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Lost => "lost",
            Self::Released => "released",
        }
    }

    pub const fn is_over(self) -> bool {
        matches!(self, Self::Released)
    }

    /// Whether the program may be executing.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Setup | Self::Restoring | Self::Running | Self::Draining)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a run ended, or is being ended. Decided once; the first reason stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    Succeeded,
    /// The program ended with this code.
    Failed {
        exit_code: i32,
    },
    /// The program said: do not retry (exit 78).
    FailedForGood,
    /// The program said: saved, please continue me (exit 75).
    Saved,
    /// The provider warned and took the machine.
    Interrupted,
    /// The machine went without a word.
    Lost,
    /// Our own choice: the job is better off elsewhere.
    Moved,
    /// The budget or the job's own cap could not pay for more.
    OutOfBudget,
    OverMaxDuration,
    Cancelled,
    LaunchFailed {
        class: LaunchErrorClass,
    },
    /// No committed checkpoint could be verified.
    NoValidCheckpoint,
    /// The restored checkpoint was damaged; an older one is taken.
    CheckpointDamaged,
}

impl EndReason {
    /// Stable word for tables and programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed { .. } => "failed",
            Self::FailedForGood => "failed-for-good",
            Self::Saved => "saved",
            Self::Interrupted => "interrupted",
            Self::Lost => "lost",
            Self::Moved => "moved",
            Self::OutOfBudget => "out-of-budget",
            Self::OverMaxDuration => "over-max-duration",
            Self::Cancelled => "cancelled",
            Self::LaunchFailed { .. } => "launch-failed",
            Self::NoValidCheckpoint => "no-valid-checkpoint",
            Self::CheckpointDamaged => "checkpoint-damaged",
        }
    }
}

/// What kind of trouble a provider reported; the core decides by class, never by a provider's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LaunchErrorClass {
    /// No machine of this kind now.
    Capacity,
    /// The account may not have more.
    Quota,
    Throttled,
    /// Credentials are missing, expired or not allowed.
    Denied,
    /// The request itself is wrong for this provider.
    Invalid,
    /// Worth trying again soon.
    Transient,
    /// Not worth trying again here.
    Permanent,
}

impl LaunchErrorClass {
    pub const ALL: [Self; 7] =
        [Self::Capacity, Self::Quota, Self::Throttled, Self::Denied, Self::Invalid, Self::Transient, Self::Permanent];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Quota => "quota",
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Transient => "transient",
            Self::Permanent => "permanent",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub offer: OfferKey,
    pub nodes: u32,
    pub state: RunState,
    pub end: Option<EndReason>,
    pub start_reason: StartReason,
    pub placed: Timestamp,
    /// First instant at which the provider showed its instances; cost counts from here.
    pub launched: Option<Timestamp>,
    /// When the program itself began.
    pub started: Option<Timestamp>,
    /// When the program ended or the machine was taken.
    pub stopped: Option<Timestamp>,
    pub released: Option<Timestamp>,
    /// The price it was placed at, per machine, with its source: frozen into its charges.
    pub price: Price,
    pub meter: Option<Meter>,
    /// Price of the disks of all its machines, when it asked for any.
    pub disk: Option<Meter>,
    /// Posted so far, by term.
    pub posted: Bill,
    /// Usage is posted up to here.
    pub posted_until: Timestamp,
    /// Most that one machine may come to cost an hour: what the hold is reckoned with.
    pub rate_max: Rate,
    pub restored_from: Option<CheckpointRef>,
    pub progress: Progress,
    /// Highest sequence number of its committed checkpoints.
    pub checkpoint_seq: u64,
    pub notice: Option<Notice>,
    /// The instances behind it, by the provider's names, in rank order.
    pub instances: Vec<Box<str>>,
    /// Steps that a later run had to do again; known once the next run restored.
    pub steps_redone: u64,
    /// Each rank's exit code as far as reported.
    pub exits: Vec<Option<i32>>,
    /// Each rank's agent: the first to register is the only one ever accepted.
    pub agents: Vec<Option<Box<str>>>,
    /// Asked to save and end by this instant; after it the machines are stopped.
    pub drain_by: Option<Timestamp>,
    /// Whether a last checkpoint is worth trying while it drains.
    pub save_on_drain: bool,
    /// When the stop was first ordered.
    pub stop_ordered: Option<Timestamp>,
    /// Whether people were told that stopping it takes too long.
    pub stuck_told: bool,
    /// When the program was restored or started, for judging early failures.
    pub restored_at: Option<Timestamp>,
    /// Interval advised to the program.
    pub interval: Option<Millis>,
}

/// A provider's warning that it will take a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub received: Timestamp,
    pub deadline: Timestamp,
    pub source: Box<str>,
    /// Whether a checkpoint was committed after it.
    pub saved: bool,
}
