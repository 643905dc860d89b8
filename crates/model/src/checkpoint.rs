//! Checkpoints as the scheduler sees them: named, sized, verified; their bytes are the business of `data`.

use serde::{Deserialize, Serialize};

use crate::cluster::Region;
use crate::{Bytes, Epoch, JobId, Millis, Timestamp};

/// SHA-256 of a manifest's bytes.
pub type Digest = [u8; 32];

/// How a job wants its state kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointPolicy {
    /// Where the program writes, relative to its working directory; `LEEWAY_CKPT_DIR` when empty.
    pub path: Option<Box<str>>,
    pub interval: Interval,
    /// Expected size, until one was seen.
    pub size: Option<Bytes>,
    /// Pause the program feels at each checkpoint, until one was seen.
    pub save_time: Option<Millis>,
    pub restore_time: Option<Millis>,
    /// Newest committed checkpoints to keep; at least 1.
    pub keep: u32,
    /// Start from nothing when no valid checkpoint is left, instead of failing.
    pub restart_without: bool,
}

/// How often to save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Interval {
    /// From the interruption rate and the save time (Young/Daly).
    #[default]
    Auto,
    Every(Millis),
}

/// Order of checkpoints of a job: never file times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId {
    pub epoch: Epoch,
    pub seq: u64,
}

/// Enough of a checkpoint to restore it and to price moving it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointRef {
    pub id: CheckpointId,
    pub step: u64,
    pub size: Bytes,
    /// One manifest a rank, in rank order; a gang's checkpoint is whole only with all of them.
    pub manifests: Vec<Digest>,
    /// Base URL of the store that holds it.
    pub base: Box<str>,
    pub region: Region,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub job: JobId,
    pub reference: CheckpointRef,
    pub committed: Timestamp,
    pub state: CheckpointState,
    /// Early failures of runs restored from it; two make it suspect.
    pub early_failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CheckpointState {
    Good,
    /// Its bytes did not match their digests.
    Quarantined,
    /// Programs restored from it failed early, twice.
    Suspect,
    /// Being removed by retention.
    Expired,
}

impl CheckpointState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Quarantined => "quarantined",
            Self::Suspect => "suspect",
            Self::Expired => "expired",
        }
    }
}
