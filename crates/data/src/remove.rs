//! Removing checkpoints. An object goes only when it lies where a checkpoint of a known job lies *and* the manifest or
//! upload record of that very place names it. Everything else is reported and stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;
use std::sync::Mutex;

use futures::{StreamExt, stream};
use leeway_model::checkpoint::CheckpointId;
use leeway_model::{Epoch, Timestamp};
use object_store::path::Path;

use crate::durable::blocking;
use crate::error::{Class, StoreError};
use crate::layout::{self, JobAt, ShardAt};
use crate::manifest::{Manifest, SIZE_MAX};
use crate::record::Record;
use crate::repository::{Fetched, Repository};

/// What a removal did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    pub removed: Vec<String>,
    /// What was not touched, with the reason; for people.
    pub left: Vec<Left>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    pub object: String,
    pub reason: &'static str,
}

/// Which leftovers of a job may be collected.
#[derive(Clone, Copy, Debug)]
pub struct Uncommitted<'a> {
    /// These and what belongs to them stay, whatever their age.
    pub committed: &'a BTreeSet<CheckpointId>,
    /// Epochs from this one on may still be running.
    pub epochs_below: Epoch,
    /// Uploads begun at or after this instant stay.
    pub begun_before: Timestamp,
}

/// What a manifest and an upload record together prove about one shard.
struct Proof {
    owned: BTreeSet<Path>,
    begun: Timestamp,
}

impl Left {
    pub(crate) fn new(object: &Path, reason: &'static str) -> Self {
        Self { object: object.to_string(), reason }
    }
}

impl Repository {
    /// Removes one checkpoint, committed or not. The caller has made that decision durable before. Repeatable: data
    /// goes first and the proof of ownership last, so a removal that was cut short can be finished.
    pub async fn delete(&self, job: &JobAt, id: CheckpointId) -> Result<Removal, StoreError> {
        let place = job.checkpoint(id);
        let mut removal = Removal::default();
        if self.is_linked(&place).await {
            removal.left.push(Left::new(&place, "a symbolic link leads to it"));
            return Ok(removal);
        }
        let mut shards: BTreeMap<u32, Vec<Path>> = BTreeMap::new();
        for found in self.list(&place).await? {
            let folder = found.location.prefix_match(&place).and_then(|mut parts| parts.next());
            match folder.and_then(|folder| layout::rank(folder.as_ref())) {
                Some(rank) => shards.entry(rank).or_default().push(found.location),
                None => removal.left.push(Left::new(&found.location, "it is no part of a checkpoint")),
            }
        }
        for (rank, objects) in shards {
            self.delete_shard(&job.shard(id, rank), objects, &mut removal).await?;
        }
        tracing::debug!(checkpoint = %place, removed = removal.removed.len(), left = removal.left.len(), "deleted");
        Ok(removal)
    }

    /// Removes uploads that were never committed, of epochs that are over, and their notes.
    pub async fn collect_uncommitted(&self, job: &JobAt, which: Uncommitted<'_>) -> Result<Removal, StoreError> {
        let mut removal = Removal::default();
        let child = |parent: &Path, path: &Path| {
            let name = path.prefix_match(parent).and_then(|mut parts| parts.next());
            name.and_then(|name| layout::number(name.as_ref()))
        };
        let top = job.path();
        let (folders, objects) = self.list_level(&top).await?;
        let strange = |path: &Path| Left::new(path, "it is no part of a checkpoint");
        removal.left.extend(objects.iter().map(|found| strange(&found.location)));
        for folder in folders.into_iter().filter(|folder| *folder != job.pending_dir()) {
            let Some(epoch) = child(&top, &folder) else {
                removal.left.push(strange(&folder));
                continue;
            };
            if epoch >= which.epochs_below {
                continue;
            }
            let (checkpoints, objects) = self.list_level(&folder).await?;
            removal.left.extend(objects.iter().map(|found| strange(&found.location)));
            for checkpoint in checkpoints {
                let Some(seq) = child(&folder, &checkpoint) else {
                    removal.left.push(strange(&checkpoint));
                    continue;
                };
                let id = CheckpointId { epoch, seq };
                if !which.committed.contains(&id) && self.begun_before(job, id, which.begun_before).await? {
                    let deleted = self.delete(job, id).await?;
                    removal.removed.extend(deleted.removed);
                    removal.left.extend(deleted.left);
                }
            }
        }
        let (notes, left) = self.list_pending(job).await?;
        removal.left.extend(left);
        let void = notes.iter().filter(|note| {
            note.epoch < which.epochs_below
                && note.created < which.begun_before
                && !which.committed.contains(&note.id())
        });
        let notes = void.map(|note| job.shard(note.id(), note.rank).pending()).collect();
        removal.removed.extend(self.remove(notes).await?);
        Ok(removal)
    }

    /// No rank's upload is younger. Without any proof the answer is yes, and deleting will then touch nothing.
    async fn begun_before(&self, job: &JobAt, id: CheckpointId, instant: Timestamp) -> Result<bool, StoreError> {
        let place = job.checkpoint(id);
        for folder in self.list_level(&place).await?.0 {
            let name = folder.prefix_match(&place).and_then(|mut parts| parts.next());
            let Some(rank) = name.and_then(|name| layout::rank(name.as_ref())) else { continue };
            if self.proof(&job.shard(id, rank)).await?.is_some_and(|proof| proof.begun >= instant) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn delete_shard(&self, at: &ShardAt, objects: Vec<Path>, removal: &mut Removal) -> Result<(), StoreError> {
        let Some(proof) = self.proof(at).await? else {
            let unproven = |object| Left::new(object, "no manifest or upload record of ours names it");
            removal.left.extend(objects.iter().map(unproven));
            return Ok(());
        };
        let (manifest, record) = (at.manifest(), at.upload());
        let (mut data, mut last) = (Vec::new(), Vec::new());
        for object in objects {
            if !proof.owned.contains(&object) {
                removal.left.push(Left::new(&object, "no manifest or upload record of ours names it"));
            } else if self.is_linked(&object).await {
                removal.left.push(Left::new(&object, "a symbolic link leads to it"));
            } else if object == manifest || object == record {
                last.push(object);
            } else {
                data.push(object);
            }
        }
        removal.removed.extend(self.remove(data).await?);
        self.remove_staged(&proof.owned).await;
        // MANIFEST.json sorts before UPLOAD.json, the wider proof.
        last.sort();
        for object in last {
            removal.removed.extend(self.remove(vec![object]).await?);
        }
        Ok(())
    }

    async fn proof(&self, at: &ShardAt) -> Result<Option<Proof>, StoreError> {
        let whole = |fetched| match fetched {
            Fetched::Whole(bytes) => Some(bytes),
            Fetched::Missing | Fetched::TooLarge(_) => None,
        };
        let manifest = whole(self.fetch(&at.manifest(), SIZE_MAX).await?);
        let manifest = manifest.and_then(|bytes| Manifest::parse(&bytes).ok()).filter(|read| read.belongs_at(at));
        let record = whole(self.fetch(&at.upload(), SIZE_MAX).await?).and_then(|bytes| Record::parse(&bytes, at));
        let Some(begun) = manifest.iter().map(|read| read.created).chain(record.iter().map(|read| read.created)).max()
        else {
            return Ok(None);
        };
        let named = manifest.iter().flat_map(|read| read.files.iter().map(|file| at.data(&file.path)));
        let recorded = record.iter().flat_map(|read| read.files.iter().map(|(path, _)| at.data(path)));
        let owned = named.chain(recorded).chain([at.manifest(), at.upload()]).collect();
        Ok(Some(Proof { owned, begun }))
    }

    /// Removes objects; those already gone count as done but are not returned.
    pub(crate) async fn remove(&self, objects: Vec<Path>) -> Result<Vec<String>, StoreError> {
        // Kept across tries: what an earlier one removed is missing for the next.
        let removed = Mutex::new(BTreeSet::new());
        let attempt = || async {
            let mut outcomes = self.store.delete_stream(stream::iter(objects.clone()).map(Ok).boxed());
            let mut failed = None;
            while let Some(outcome) = outcomes.next().await {
                match outcome {
                    Ok(object) => drop(removed.lock().map(|mut removed| removed.insert(object.to_string()))),
                    Err(error) if Class::of(&error) == Class::Missing => {}
                    Err(error) => failed = Some(error),
                }
            }
            match failed {
                None => Ok(()),
                Some(error) => Err(StoreError::new("delete", &objects.first().cloned().unwrap_or_default(), error)),
            }
        };
        self.patience.run(StoreError::retryable, attempt).await?;
        Ok(removed.into_inner().unwrap_or_default().into_iter().collect())
    }

    /// In a folder, a symbolic link on the way to the object could make us delete what lies elsewhere.
    async fn is_linked(&self, object: &Path) -> bool {
        let Some(root) = self.root.clone() else { return false };
        let object = object.clone();
        let look = blocking(move || {
            let mut place = root;
            object.parts().any(|part| {
                place.push(part.as_ref());
                std::fs::symlink_metadata(&place).is_ok_and(|found| found.is_symlink())
            })
        });
        look.await.unwrap_or(true)
    }

    /// A folder keeps half-written files beside their target as `<name>#<number>`, which listings do not show. They
    /// would fill the disk after a crash. Our names never hold a plain `#`.
    async fn remove_staged(&self, owned: &BTreeSet<Path>) {
        let Some(root) = self.root.clone() else { return };
        let owned = owned.clone();
        let sweep = blocking(move || {
            let folders: BTreeSet<Path> = owned.iter().filter_map(Path::parent).collect();
            // Deepest first, so that folders which this empties go too.
            for folder in folders.into_iter().rev() {
                let place = root.join(folder.as_ref());
                let linked = place.ancestors().take_while(|part| **part != *root).any(FilePath::is_symlink);
                let Some(entries) = (!linked).then(|| std::fs::read_dir(&place).ok()).flatten() else { continue };
                for entry in entries.flatten() {
                    let name = entry.file_name();
                    let staged = name.to_str().and_then(|name| name.split_once('#'));
                    let ours = staged.is_some_and(|(stem, number)| {
                        let target = Path::parse(format!("{folder}/{stem}"));
                        layout::number(number).is_some() && target.is_ok_and(|target| owned.contains(&target))
                    });
                    if ours && let Err(error) = std::fs::remove_file(entry.path()) {
                        tracing::warn!(file = %entry.path().display(), %error, "cannot remove a half-written file");
                    }
                }
                // Only ever succeeds on an empty one.
                let _ = std::fs::remove_dir(&place);
            }
        });
        if let Err(error) = sweep.await {
            tracing::warn!(%error, "cannot look for half-written files");
        }
    }
}
