//! What each job's program does, and what really became of its work: the truth that checkers compare with.

use std::collections::BTreeMap;

use leeway_model::checkpoint::{CheckpointId, Digest};
use leeway_model::{Bytes, JobId, Millis, RunId, Timestamp};

/// A program's nature.
#[derive(Clone, Debug)]
pub struct Nature {
    pub steps: u64,
    pub step_time: Millis,
    pub setup_time: Millis,
    pub restore_time: Millis,
    pub save_time: Millis,
    pub upload_time: Millis,
    pub size: Bytes,
    /// Exit codes of its next starts, `None` for a start that goes well; after the last all go well.
    pub fails: Vec<Option<i32>>,
}

impl Default for Nature {
    fn default() -> Self {
        Self {
            steps: 60,
            step_time: Millis::from_secs(10),
            setup_time: Millis::from_secs(20),
            restore_time: Millis::from_secs(15),
            save_time: Millis::from_secs(5),
            upload_time: Millis::from_secs(10),
            size: Bytes::from_gb(1),
            fails: Vec::new(),
        }
    }
}

/// A shard in the object store.
#[derive(Clone, Debug)]
pub struct Stored {
    pub step: u64,
    pub digest: Digest,
    pub damaged: bool,
}

/// A commit that an agent was told of.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledged {
    pub checkpoint: CheckpointId,
    pub step: u64,
}

/// A program that executes now.
#[derive(Clone, Copy, Debug)]
pub struct Executing {
    pub run: RunId,
    pub since: Timestamp,
}

#[derive(Debug, Default)]
pub struct Programs {
    /// By the name in the job's spec.
    pub natures: BTreeMap<String, Nature>,
    pub stored: BTreeMap<(JobId, CheckpointId, u32), Stored>,
    pub acknowledged: BTreeMap<JobId, Vec<Acknowledged>>,
    /// By instance.
    pub executing: BTreeMap<u64, Executing>,
    /// The furthest step that any rank of a run really reached.
    pub reached: BTreeMap<RunId, u64>,
    /// Starts of rank 0's program, by job.
    pub starts: BTreeMap<JobId, Vec<Start>>,
    /// Runs whose agent was frozen while its program went on, so that it could not obey its lease.
    pub lease_broken: std::collections::BTreeSet<RunId>,
    /// Jobs that a restored checkpoint let down: damaged, or the program failed right after it.
    pub doubtful: std::collections::BTreeSet<JobId>,
}

/// One start of a program.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    pub run: RunId,
    pub at: Timestamp,
    pub restored: Option<CheckpointId>,
    pub step: u64,
}

impl Programs {
    pub fn nature(&self, name: &str) -> Nature {
        self.natures.get(name).cloned().unwrap_or_default()
    }

    pub fn newest_acknowledged(&self, job: JobId) -> Option<Acknowledged> {
        self.acknowledged.get(&job)?.last().copied()
    }

    /// Whether any shard of a checkpoint is damaged.
    pub fn is_damaged(&self, job: JobId, id: CheckpointId) -> bool {
        self.stored.range((job, id, 0)..=(job, id, u32::MAX)).any(|(_, shard)| shard.damaged)
    }
}
