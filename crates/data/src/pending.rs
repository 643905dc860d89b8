//! Notes left in the store while the scheduler cannot be reached: "this shard is whole, its manifest is this one". The
//! scheduler reads them before it opens the next epoch and adopts the newest checkpoint of which every rank left one.
//!
//! Each rank writes its own note, since no agent knows the digests of the others.

use std::collections::BTreeMap;

use leeway_model::checkpoint::{CheckpointId, Digest};
use leeway_model::{Bytes, Epoch, Timestamp};
use serde::{Deserialize, Serialize};

use crate::digest::Hex;
use crate::error::StoreError;
use crate::layout::{JobAt, ShardAt};
use crate::manifest::{ManifestError, text};
use crate::publish::{PublishError, Published, now};
use crate::remove::Left;
use crate::repository::{Fetched, Repository};

const FORMAT: &str = "leeway.pending.v1";
const SIZE_MAX: u64 = 64 << 10;

/// One rank's note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    format: String,
    pub epoch: Epoch,
    pub seq: u64,
    pub rank: u32,
    pub world_size: u32,
    pub step: u64,
    pub size: u64,
    manifest: Hex,
    #[serde(with = "text")]
    pub created: Timestamp,
}

/// A checkpoint of which every rank left a note; still to be verified and committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    pub id: CheckpointId,
    pub step: u64,
    /// Data of all ranks.
    pub size: Bytes,
    /// In rank order.
    pub manifests: Vec<Digest>,
}

impl Pending {
    pub const fn id(&self) -> CheckpointId {
        CheckpointId { epoch: self.epoch, seq: self.seq }
    }

    pub const fn manifest(&self) -> Digest {
        self.manifest.0
    }

    fn parse(bytes: &[u8], job: &JobAt, object: &object_store::path::Path) -> Option<Self> {
        let note: Self = serde_json::from_slice(bytes).ok()?;
        let here = job.shard(note.id(), note.rank).pending() == *object;
        (here && note.format == FORMAT && note.rank < note.world_size).then_some(note)
    }
}

/// The checkpoints that notes prove complete, oldest first by (epoch, seq). Ranks that disagree about step or size of
/// the gang prove nothing.
pub fn whole(notes: &[Pending]) -> Vec<Whole> {
    let mut by_id: BTreeMap<CheckpointId, BTreeMap<u32, &Pending>> = BTreeMap::new();
    for note in notes {
        by_id.entry(note.id()).or_default().insert(note.rank, note);
    }
    let complete = |(id, ranks): (CheckpointId, BTreeMap<u32, &Pending>)| {
        let first = ranks.values().next()?;
        let agree = ranks.values().all(|note| (note.world_size, note.step) == (first.world_size, first.step));
        let all = ranks.keys().copied().eq(0..first.world_size);
        let size = ranks.values().try_fold(0_u64, |sum, note| sum.checked_add(note.size))?;
        let manifests = ranks.values().map(|note| note.manifest()).collect();
        (agree && all).then_some(Whole { id, step: first.step, size: Bytes::new(size), manifests })
    };
    by_id.into_iter().filter_map(complete).collect()
}

impl Repository {
    /// Leaves the note of one rank. Leaving the same note twice is success, another one at the same place is refused.
    pub async fn write_pending(
        &self,
        at: &ShardAt,
        world_size: u32,
        step: u64,
        published: &Published,
    ) -> Result<(), PublishError> {
        if at.rank >= world_size {
            return Err(PublishError::Rank { rank: at.rank, world_size });
        }
        let object = at.pending();
        let mut note = Pending {
            format: FORMAT.into(),
            epoch: at.epoch,
            seq: at.seq,
            rank: at.rank,
            world_size,
            step,
            size: published.size.get(),
            manifest: Hex(published.manifest),
            created: now(),
        };
        if let Fetched::Whole(bytes) = self.fetch(&object, SIZE_MAX).await?
            && let Some(earlier) = Pending::parse(&bytes, &at.home(), &object)
        {
            note.created = earlier.created;
        }
        let bytes = serde_json::to_vec(&note).map_err(|error| ManifestError::Malformed(error.to_string()))?;
        self.create_once(&object, &bytes.into()).await
    }

    /// All notes of a job, ordered by (epoch, seq, rank), and what else lies in their folder.
    pub async fn list_pending(&self, job: &JobAt) -> Result<(Vec<Pending>, Vec<Left>), StoreError> {
        let (mut notes, mut left) = (Vec::new(), Vec::new());
        for found in self.list(&job.pending_dir()).await? {
            let object = found.location;
            let note = match self.fetch(&object, SIZE_MAX).await? {
                Fetched::Whole(bytes) => Pending::parse(&bytes, job, &object),
                Fetched::TooLarge(_) => None,
                Fetched::Missing => continue,
            };
            match note {
                Some(note) => notes.push(note),
                None => left.push(Left::new(&object, "it is no note of this job")),
            }
        }
        notes.sort_by_key(|note| (note.id(), note.rank));
        Ok((notes, left))
    }

    /// Removes the notes of one checkpoint, once it is committed or void. Returns the removed objects.
    pub async fn remove_pending(&self, job: &JobAt, id: CheckpointId) -> Result<Vec<String>, StoreError> {
        let (notes, _) = self.list_pending(job).await?;
        let of_it = notes.iter().filter(|note| note.id() == id);
        self.remove(of_it.map(|note| job.shard(id, note.rank).pending()).collect()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(epoch: Epoch, seq: u64, rank: u32, world_size: u32) -> Pending {
        let (format, created) = (FORMAT.into(), Timestamp::ZERO);
        Pending { format, epoch, seq, rank, world_size, step: 9, size: 5, manifest: Hex([rank as u8; 32]), created }
    }

    #[test]
    fn k_13_a_gang_without_one_rank_is_not_whole() {
        let all = [note(2, 1, 1, 3), note(2, 1, 0, 3), note(2, 1, 2, 3)];
        let manifests = vec![[0; 32], [1; 32], [2; 32]];
        let id = CheckpointId { epoch: 2, seq: 1 };
        assert_eq!(whole(&all), [Whole { id, step: 9, size: Bytes::new(15), manifests }]);
        for missing in 0..3 {
            let rest: Vec<_> = all.iter().filter(|note| note.rank != missing).cloned().collect();
            assert_eq!(whole(&rest), []);
        }
        let mut other_step = all.clone();
        other_step[1].step = 10;
        assert_eq!(whole(&other_step), []);
        let mut other_world = all;
        other_world[1].world_size = 2;
        assert_eq!(whole(&other_world), []);
    }

    #[test]
    fn k_19_notes_are_ordered_by_epoch_and_sequence() {
        let mut notes = [note(10, 1, 0, 1), note(9, 30, 0, 1), note(9, 4, 0, 1)];
        notes[0].created = "2001-01-01T00:00:00Z".parse().unwrap();
        let order: Vec<_> = whole(&notes).iter().map(|whole| (whole.id.epoch, whole.id.seq)).collect();
        assert_eq!(order, [(9, 4), (9, 30), (10, 1)]);
    }
}
