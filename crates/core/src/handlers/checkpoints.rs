//! Commits, damage and retention of checkpoints. Only the current epoch commits, in rising order, with all ranks.

use std::collections::BTreeMap;

use leeway_model::checkpoint::{Checkpoint, CheckpointId, CheckpointRef, CheckpointState};
use leeway_model::job::{JobState, StartReason};
use leeway_model::notify::{Alert, Severity};
use leeway_model::run::{EndReason, Run, RunState};
use leeway_model::{Bytes, JobId, Millis, RunId};

use crate::action::{Action, CommitVerdict};
use crate::event::Shard;
use crate::reply::{Refused, RefusedKind, Reply};
use crate::scheduler::Scheduler;

/// A program that fails this soon after a restore makes its checkpoint doubtful.
const EARLY: Millis = Millis::from_secs(120);
/// Early failures that make a checkpoint suspect.
const SUSPECT_AFTER: u32 = 2;
/// Of older checkpoints every tenth is kept.
const KEEP_EVERY: u64 = 10;

impl Scheduler {
    pub(crate) fn on_checkpoint_published(&mut self, id: RunId, rank: u32, shard: Shard) -> Reply {
        let run = match self.heard(id, rank) {
            Ok(run) => run.clone(),
            Err(refused) => return Reply::Refused(refused),
        };
        let checkpoint = CheckpointId { epoch: id.epoch, seq: shard.seq };
        if let Some(known) = self.tables.checkpoints.get(&(id.job, checkpoint)) {
            let same = known.reference.manifests.get(rank as usize) == Some(&shard.manifest);
            return if same { committed(checkpoint, true) } else { conflict(checkpoint) };
        }
        if shard.seq <= run.checkpoint_seq {
            return conflict(checkpoint);
        }
        if run.state == RunState::Stopping && !run.exits.iter().any(Option::is_none) {
            return Reply::Refused(Refused::stale(id));
        }
        let shards = self.volatile.shards.entry((id, shard.seq)).or_default();
        if let Some(known) = shards.get(&rank)
            && known.manifest != shard.manifest
        {
            return conflict(checkpoint);
        }
        shards.insert(rank, shard);
        if shards.len() < run.nodes as usize {
            self.forget_old_shards(id);
            return committed(checkpoint, false);
        }
        let shards = self.volatile.shards.remove(&(id, checkpoint.seq)).unwrap_or_default();
        self.volatile.shards.retain(|(run, seq), _| *run != id || *seq > checkpoint.seq);
        self.commit(&run, checkpoint, &shards)
    }

    /// A gang whose ranks drift apart keeps a few unfinished checkpoints, not all of them.
    fn forget_old_shards(&mut self, run: RunId) {
        const UNFINISHED: usize = 8;
        let of_run = self.volatile.shards.range((run, 0)..=(run, u64::MAX));
        let seqs: Vec<u64> = of_run.map(|((_, seq), _)| *seq).collect();
        for seq in seqs.iter().take(seqs.len().saturating_sub(UNFINISHED)) {
            self.volatile.shards.remove(&(run, *seq));
        }
    }

    fn commit(&mut self, run: &Run, id: CheckpointId, shards: &BTreeMap<u32, Shard>) -> Reply {
        let Some(cluster) = self.tables.clusters.get(&run.offer.cluster) else {
            return Reply::Refused(Refused::not_found("cluster", &run.offer.cluster));
        };
        let size = shards.values().fold(Bytes::ZERO, |sum, shard| sum.saturating_add(shard.size));
        let step = shards.values().map(|shard| shard.step).min().unwrap_or_default();
        let pause = shards.values().map(|shard| shard.save_time).max().unwrap_or_default();
        let reference = CheckpointRef {
            id,
            step,
            size,
            manifests: shards.values().map(|shard| shard.manifest).collect(),
            base: cluster.spec.checkpoints.clone(),
            region: cluster.spec.region.clone(),
        };
        let job = run.id.job;
        let row = Checkpoint {
            job,
            reference: reference.clone(),
            committed: self.now,
            state: CheckpointState::Good,
            early_failures: 0,
        };
        self.tables.checkpoints.insert((job, id), row);
        self.tables.meta.job_changes += 1;
        let version = self.tables.meta.job_changes;
        if let Some(row) = self.tables.jobs.change(&job) {
            row.checkpoint = Some(reference);
            row.save_time = Some(pause);
            row.version = version;
            row.progress.step = row.progress.step.max(step);
        }
        if let Some(progress) = self.volatile.progress.get_mut(&run.id) {
            progress.step = progress.step.max(step);
        }
        let now = self.now;
        if let Some(row) = self.tables.runs.change(&run.id) {
            row.checkpoint_seq = id.seq;
            row.progress.step = row.progress.step.max(step);
            if let Some(notice) = row.notice.as_mut() {
                notice.saved = notice.saved || now >= notice.received;
            }
        }
        self.saves_again(run.id);
        self.retain(job);
        committed(id, true)
    }

    /// Marks what retention no longer keeps; the newest and the one being restored always stay.
    fn retain(&mut self, job: JobId) {
        let Some(row) = self.job(job) else { return };
        let keep = row.spec.checkpoint.as_ref().map_or(3, |policy| policy.keep.max(1)) as usize;
        let pinned = row.newest_run().and_then(|run| self.run(run)).and_then(|run| run.restored_from.clone());
        let pinned = pinned.map(|reference| reference.id);
        let good: Vec<CheckpointRef> = self.good_checkpoints(job).cloned().collect();
        for reference in good.iter().skip(keep) {
            if Some(reference.id) == pinned || reference.id.seq.is_multiple_of(KEEP_EVERY) {
                continue;
            }
            if let Some(row) = self.tables.checkpoints.change(&(job, reference.id)) {
                row.state = CheckpointState::Expired;
            }
            self.actions.push(Action::DeleteCheckpoint { job, checkpoint: reference.clone() });
        }
    }

    pub(crate) fn on_checkpoint_deleted(&mut self, job: JobId, checkpoint: CheckpointId) -> Reply {
        let expired = |row: &Checkpoint| row.state == CheckpointState::Expired;
        if self.tables.checkpoints.get(&(job, checkpoint)).is_some_and(expired) {
            self.tables.checkpoints.remove(&(job, checkpoint));
        }
        Reply::Done
    }

    /// Checkpoints that may be restored, newest first.
    pub(crate) fn good_checkpoints(&self, job: JobId) -> impl Iterator<Item = &CheckpointRef> {
        let first = (job, CheckpointId { epoch: 0, seq: 0 });
        let last = (job, CheckpointId { epoch: u64::MAX, seq: u64::MAX });
        let rows = self.tables.checkpoints.range(first..=last).rev().map(|(_, row)| row);
        rows.filter(|row| row.state == CheckpointState::Good).map(|row| &row.reference)
    }

    pub(crate) fn on_damage_reported(&mut self, id: RunId, rank: u32, damaged: CheckpointId, detail: &str) -> Reply {
        let nodes = match self.heard(id, rank) {
            Ok(run) => run.nodes,
            Err(refused) => return Reply::Refused(refused),
        };
        let job = id.job;
        let known = self.tables.checkpoints.get(&(job, damaged)).map(|row| row.state);
        match known {
            None => {
                return Reply::Refused(Refused::not_found("checkpoint", format!("{}-{}", damaged.epoch, damaged.seq)));
            }
            Some(CheckpointState::Good) => {
                if let Some(row) = self.tables.checkpoints.change(&(job, damaged)) {
                    row.state = CheckpointState::Quarantined;
                }
                let detail = detail.chars().take(512).collect::<String>().into();
                self.notify(Severity::Warning, Alert::CheckpointQuarantined { job, checkpoint: damaged, detail });
            }
            Some(_) => {}
        }
        let next = self.choose_checkpoint(job);
        if let Some(row) = self.tables.runs.change(&id) {
            row.restored_from = next.clone();
        }
        let restart =
            self.job(job).and_then(|job| job.spec.checkpoint.as_ref()).is_some_and(|policy| policy.restart_without);
        if next.is_none() && !restart {
            self.order_stop(id, EndReason::NoValidCheckpoint);
            return Reply::Refused(Refused::new(
                RefusedKind::Precondition,
                "NO_VALID_CHECKPOINT",
                "no committed checkpoint is left that could be verified",
            ));
        }
        if nodes > 1 && known == Some(CheckpointState::Good) {
            // Other ranks may have restored it already; the whole gang begins anew from the next one.
            self.order_stop(id, EndReason::CheckpointDamaged);
        }
        Reply::TryInstead(next)
    }

    /// Points the job at its newest good checkpoint and returns it.
    fn choose_checkpoint(&mut self, job: JobId) -> Option<CheckpointRef> {
        let next = self.good_checkpoints(job).next().cloned();
        if let Some(row) = self.tables.jobs.change(&job) {
            row.checkpoint = next.clone();
        }
        next
    }

    /// A failure soon after a restore, before anything newer was saved, makes the checkpoint doubtful; twice, suspect.
    pub(crate) fn suspect_checkpoint(&mut self, run: &Run) {
        let (Some(restored), Some(from)) = (run.restored_at, &run.restored_from) else { return };
        let stopped = run.stopped.unwrap_or(self.now);
        if stopped.since(restored) > EARLY || run.checkpoint_seq > 0 {
            return;
        }
        let key = (run.id.job, from.id);
        let Some(row) = self.tables.checkpoints.change(&key) else { return };
        row.early_failures += 1;
        if row.early_failures >= SUSPECT_AFTER && row.state == CheckpointState::Good {
            row.state = CheckpointState::Suspect;
            self.choose_checkpoint(run.id.job);
        }
    }

    /// Whether a job could start from a checkpoint but none is left, and it may not start afresh.
    pub(crate) fn lacks_checkpoint(&self, job: JobId) -> bool {
        let Some(row) = self.job(job) else { return false };
        let had = self.tables.checkpoints.range((job, CheckpointId { epoch: 0, seq: 0 })..).next();
        let had = had.is_some_and(|((owner, _), _)| *owner == job);
        let may_restart = row.spec.checkpoint.as_ref().is_none_or(|policy| policy.restart_without);
        let afresh = row.start_reason == StartReason::First;
        row.state != JobState::Waiting && row.checkpoint.is_none() && had && !may_restart && !afresh
    }
}

fn committed(checkpoint: CheckpointId, committed: bool) -> Reply {
    Reply::Committed(CommitVerdict { checkpoint, committed })
}

fn conflict(checkpoint: CheckpointId) -> Reply {
    Reply::Refused(Refused::new(
        RefusedKind::Precondition,
        "CHECKPOINT_CONFLICT",
        format!(
            "checkpoint {}-{} is not newer than what is committed, or has other content",
            checkpoint.epoch, checkpoint.seq
        ),
    ))
}
