//! Whether what lies in the store is what a manifest says.

use std::collections::HashMap;
use std::ops::Range;

use futures::{StreamExt, TryStreamExt, stream};
use leeway_model::Bytes;
use leeway_model::checkpoint::CheckpointRef;
use object_store::ObjectStoreExt;
use object_store::path::Path;

use crate::digest::{FileHasher, hex};
use crate::durable::blocking;
use crate::error::StoreError;
use crate::layout::{JobAt, ShardAt};
use crate::manifest::{FileEntry, Manifest};
use crate::repository::Repository;
use crate::restore::RestoreError;

/// Bytes asked for at once, and held per read: memory stays bounded whatever the file.
pub(crate) const PART: u64 = 8 << 20;
/// Files in work at once.
pub(crate) const FILES_AT_ONCE: usize = 4;
/// Reads in flight per file.
const READS_AHEAD: usize = 2;
/// Look-ups in flight.
const LOOKUPS_AT_ONCE: usize = 16;

/// An object is not what was promised. This is proof about bytes, never the result of a store that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{object}' is damaged: expected {expected}, found {found}")]
pub struct Damage {
    pub object: String,
    pub expected: String,
    pub found: String,
}

impl Damage {
    pub const CODE: &'static str = "CHECKPOINT_DAMAGED";

    pub(crate) fn new(object: &Path, expected: impl ToString, found: impl ToString) -> Self {
        Self { object: object.to_string(), expected: expected.to_string(), found: found.to_string() }
    }

    pub(crate) fn digest(object: &Path, expected: &[u8; 32], found: &[u8; 32]) -> Self {
        Self::new(object, format!("sha256 {}", hex(expected)), format!("sha256 {}", hex(found)))
    }

    pub(crate) fn size(object: &Path, expected: u64, found: Option<u64>) -> Self {
        let found = found.map_or_else(|| "nothing".to_owned(), |size| format!("{size} bytes"));
        Self::new(object, format!("{expected} bytes"), found)
    }
}

/// What a check found to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Data of all ranks, without manifests.
    pub size: Bytes,
    pub files: usize,
}

#[derive(Debug)]
pub(crate) enum CheckError {
    Damage(Damage),
    Store(StoreError),
}

impl Repository {
    /// Checks every rank of a committed checkpoint: manifests against the committed digests and sizes of all objects;
    /// with `deep` also every byte.
    pub async fn verify(&self, job: &JobAt, reference: &CheckpointRef, deep: bool) -> Result<Verified, RestoreError> {
        let mut verified = Verified { size: Bytes::ZERO, files: 0 };
        let ranks = u32::try_from(reference.manifests.len()).unwrap_or(u32::MAX);
        if ranks == 0 {
            return Err(RestoreError::NoSuchRank { rank: 0, ranks });
        }
        for rank in 0..ranks {
            let at = job.shard(reference.id, rank);
            let manifest = self.committed_manifest(job, reference, rank).await?;
            self.check_sizes(&at, &manifest).await?;
            verified.size = verified.size.saturating_add(manifest.size());
            verified.files += manifest.files.len();
            if deep {
                let hash = |file: FileEntry| self.check_bytes(at.data(&file.path), file);
                let hashes = stream::iter(manifest.files).map(hash);
                hashes.buffer_unordered(FILES_AT_ONCE).try_collect::<()>().await?;
            }
        }
        Ok(verified)
    }

    /// Compares the size of every object. One listing answers for most; what it does not show is asked for by name,
    /// since a listing may lag behind.
    pub(crate) async fn check_sizes(&self, at: &ShardAt, manifest: &Manifest) -> Result<(), CheckError> {
        let listed: HashMap<Path, u64> =
            self.list(&at.data_dir()).await?.into_iter().map(|found| (found.location, found.size)).collect();
        let listed = &listed;
        let look = |file: &FileEntry| {
            let (object, expected) = (at.data(&file.path), file.size);
            async move {
                let size = match listed.get(&object) {
                    Some(&size) if size == expected => Some(size),
                    _ => self.size_of(&object).await?,
                };
                if size == Some(expected) { Ok(()) } else { Err(Damage::size(&object, expected, size).into()) }
            }
        };
        let lookups = stream::iter(manifest.files.iter().map(look));
        lookups.buffer_unordered(LOOKUPS_AT_ONCE).try_collect().await
    }

    async fn check_bytes(&self, object: Path, file: FileEntry) -> Result<(), RestoreError> {
        let (hasher, name) = (FileHasher::new(file.chunk), object.as_ref());
        let update = |mut hasher: FileHasher, piece: bytes::Bytes| async move {
            let hashed = blocking(move || {
                hasher.update(&piece);
                hasher
            });
            hashed.await.map_err(|source| RestoreError::Local { path: name.into(), source })
        };
        let hasher = self.read(&object, file.size, hasher, update).await?;
        compare(&object, &file, hasher).map_err(RestoreError::from)
    }

    /// Hands the bytes of an object, in order and in bounded pieces, to `each`. An object of another size is damage.
    pub(crate) async fn read<S, E, F>(
        &self,
        object: &Path,
        size: u64,
        mut state: S,
        mut each: impl FnMut(S, bytes::Bytes) -> F,
    ) -> Result<S, E>
    where
        F: Future<Output = Result<S, E>>,
        E: From<CheckError>,
    {
        let found = self.size_of(object).await.map_err(CheckError::from)?;
        if found != Some(size) {
            return Err(CheckError::from(Damage::size(object, size, found)).into());
        }
        let ranges = (0..size.div_ceil(PART)).map(|part| part * PART..((part + 1) * PART).min(size));
        let mut pieces = stream::iter(ranges).map(|range| self.read_range(object, range)).buffered(READS_AHEAD);
        while let Some(piece) = pieces.next().await {
            state = each(state, piece?).await?;
        }
        Ok(state)
    }

    async fn read_range(&self, object: &Path, range: Range<u64>) -> Result<bytes::Bytes, CheckError> {
        let length = range.end - range.start;
        let attempt = || async {
            let piece = self.store.get_range(object, range.clone()).await;
            piece.map_err(|error| StoreError::new("read", object, error))
        };
        match self.patience.run(StoreError::retryable, attempt).await {
            Ok(piece) if piece.len() as u64 == length => Ok(piece),
            Ok(piece) => Err(Damage::size(object, range.end, Some(range.start + piece.len() as u64)).into()),
            // It was there a moment ago, when its size was asked for.
            Err(error) if error.class == crate::error::Class::Missing => {
                Err(Damage::size(object, range.end, None).into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) fn compare(object: &Path, file: &FileEntry, hasher: FileHasher) -> Result<(), Damage> {
    let found = hasher.finish();
    if found.size != file.size {
        return Err(Damage::size(object, file.size, Some(found.size)));
    }
    if found.whole == file.sha256.0 { Ok(()) } else { Err(Damage::digest(object, &file.sha256.0, &found.whole)) }
}

impl From<StoreError> for CheckError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Damage> for CheckError {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}
