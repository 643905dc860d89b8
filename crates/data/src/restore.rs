//! Bringing one rank's part of a committed checkpoint back to a local directory: whole and verified, or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, stream};
use leeway_model::Bytes;
use leeway_model::checkpoint::CheckpointRef;
use object_store::path::Path;

use crate::check::{CheckError, Damage, FILES_AT_ONCE, compare};
use crate::digest::{FileHasher, hex};
use crate::durable::{self, blocking};
use crate::error::StoreError;
use crate::layout::{JobAt, ShardAt};
use crate::manifest::{self, FileEntry, Manifest, ManifestError, SIZE_MAX};
use crate::path::Unsafe;
use crate::repository::{Fetched, Repository};

/// A checkpoint stands in the directory that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    pub step: u64,
    pub size: Bytes,
}

/// Why a checkpoint was not restored; the target directory is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Proof that the checkpoint cannot be used: quarantine it and take the one before.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The committed manifest itself asks for something that must not or cannot be done.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The store did not answer, which says nothing about the checkpoint; try again.
    #[error("the checkpoint store is unavailable")]
    Unavailable(#[source] StoreError),
    /// The store refuses, which says nothing about the checkpoint; somebody has to repair the access.
    #[error("the checkpoint store refuses")]
    Refused(#[source] StoreError),
    #[error("the checkpoint has {ranks} ranks, rank {rank} is none of them")]
    NoSuchRank { rank: u32, ranks: u32 },
    #[error("cannot restore into '{path}': it exists and is not an empty directory")]
    Occupied { path: PathBuf },
    #[error("cannot write '{path}' while restoring")]
    Local {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl RestoreError {
    /// Stable code for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Damaged(_) => Damage::CODE,
            Self::Manifest(error) => error.code(),
            Self::Unavailable(error) | Self::Refused(error) => error.code(),
            Self::NoSuchRank { .. } => "NO_SUCH_RANK",
            Self::Occupied { .. } => "RESTORE_OCCUPIED",
            Self::Local { .. } => "RESTORE_LOCAL_DISK",
        }
    }

    /// The same call may succeed later.
    pub const fn retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The fault lies in the checkpoint, so that it must be quarantined.
    pub const fn condemns(&self) -> bool {
        matches!(
            self,
            Self::Damaged(_) | Self::Manifest(ManifestError::UnsafePath(Unsafe { .. }) | ManifestError::Malformed(_))
        )
    }
}

impl From<StoreError> for RestoreError {
    fn from(error: StoreError) -> Self {
        if error.retryable() { Self::Unavailable(error) } else { Self::Refused(error) }
    }
}

impl From<CheckError> for RestoreError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Damage(damage) => Self::Damaged(damage),
            CheckError::Store(error) => error.into(),
        }
    }
}

impl Repository {
    /// Restores one rank into `dest`, which must not exist or be empty. Everything is downloaded beside it, compared
    /// with the committed digest and made durable before `dest` appears, at once. Cancelling leaves nothing once the piece under way
    /// is written.
    pub async fn restore(
        &self,
        job: &JobAt,
        reference: &CheckpointRef,
        rank: u32,
        dest: &FilePath,
    ) -> Result<Restored, RestoreError> {
        let manifest = self.committed_manifest(job, reference, rank).await?;
        let at = job.shard(reference.id, rank);
        let local = |source| RestoreError::Local { path: dest.to_path_buf(), source };
        let (target, directories) = (dest.to_path_buf(), directories(&manifest));
        let staging = Arc::new(blocking(move || Staging::new(target, &directories)).await.map_err(local)??);

        let restored = Restored { step: manifest.step, size: manifest.size() };
        let mut failure = None;
        {
            let downloads = stream::iter(manifest.files).map(|file| self.download(&at, file, &staging));
            let mut downloads = downloads.buffer_unordered(FILES_AT_ONCE);
            // After a failure those under way stop at their next piece. They are waited for, lest one of them writes
            // into a directory that is being removed.
            while let Some(outcome) = downloads.next().await {
                if let Err(error) = outcome {
                    staging.failed.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
            }
        }
        let end = move || match failure {
            Some(error) => {
                drop(staging);
                Err(error)
            }
            None => staging.publish(),
        };
        blocking(end).await.map_err(local)??;
        Ok(restored)
    }

    async fn download(&self, at: &ShardAt, file: FileEntry, staging: &Arc<Staging>) -> Result<(), RestoreError> {
        let (object, to) = (at.data(&file.path), staging.tree.join(&file.path));
        let local = |source| RestoreError::Local { path: to.clone(), source };
        let (create, held) = (to.clone(), staging.clone());
        let open = move || held.goes_on().and_then(|()| OpenOptions::new().write(true).create_new(true).open(create));
        let out = blocking(open).await.and_then(|opened| opened).map_err(local)?;
        let write = |(mut out, mut hasher): (File, FileHasher), piece: bytes::Bytes| {
            let held = staging.clone();
            let written = blocking(move || {
                held.goes_on()?;
                hasher.update(&piece);
                out.write_all(&piece)?;
                io::Result::Ok((out, hasher))
            });
            async move { written.await.and_then(|written| written).map_err(local) }
        };
        let (out, hasher) = self.read(&object, file.size, (out, FileHasher::new(file.chunk)), write).await?;
        compare(&object, &file, hasher)?;
        blocking(move || out.sync_all()).await.and_then(|synced| synced).map_err(local)
    }

    /// The manifest that the scheduler committed for a rank. Any other one is damage.
    pub(crate) async fn committed_manifest(
        &self,
        job: &JobAt,
        reference: &CheckpointRef,
        rank: u32,
    ) -> Result<Manifest, RestoreError> {
        let ranks = u32::try_from(reference.manifests.len()).unwrap_or(u32::MAX);
        let committed = usize::try_from(rank).ok().and_then(|rank| reference.manifests.get(rank));
        let committed = committed.ok_or(RestoreError::NoSuchRank { rank, ranks })?;
        let at = job.shard(reference.id, rank);
        let object = at.manifest();
        let expected = format!("sha256 {}", hex(committed));
        let bytes = match self.fetch(&object, SIZE_MAX).await? {
            Fetched::Whole(bytes) => bytes,
            Fetched::TooLarge(size) => return Err(Damage::new(&object, expected, format!("{size} bytes")).into()),
            Fetched::Missing if self.looks_empty().await? => return Err(RestoreError::Unavailable(absent(&object))),
            Fetched::Missing => return Err(Damage::new(&object, expected, "nothing").into()),
        };
        let found = manifest::digest(&bytes);
        if found != *committed {
            return Err(Damage::digest(&object, committed, &found).into());
        }
        let manifest = Manifest::parse(&bytes)?;
        if !same_place(&manifest, &at) || manifest.world_size != ranks {
            let said = |epoch, seq, rank, of| format!("checkpoint {epoch}/{seq} rank {rank} of {of}");
            let found = said(manifest.epoch, manifest.seq, manifest.rank, manifest.world_size);
            return Err(Damage::new(&object, said(at.epoch, at.seq, rank, ranks), found).into());
        }
        Ok(manifest)
    }

    /// A store without a single object is more likely a disk that is not mounted than a damaged checkpoint, and
    /// condemning every checkpoint of a job for it could not be undone.
    async fn looks_empty(&self) -> Result<bool, StoreError> {
        let top = Path::default();
        let attempt = || async {
            let first = self.store.list(None).next().await.transpose();
            first.map(|first| first.is_none()).map_err(|error| StoreError::new("list", &top, error))
        };
        self.patience.run(StoreError::retryable, attempt).await
    }
}

/// Installation and job are not compared: a tree may have been imported, and the digest is what proves it.
fn same_place(manifest: &Manifest, at: &ShardAt) -> bool {
    (manifest.id(), manifest.rank) == (at.id(), at.rank)
}

fn absent(object: &Path) -> StoreError {
    let source = "the store holds nothing at all; is it mounted?".into();
    StoreError::new("find", object, object_store::Error::Generic { store: "checkpoints", source })
}

/// Directories that the files need, each after the one that holds it.
fn directories(manifest: &Manifest) -> Vec<String> {
    let of = |path: &str| path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect::<Vec<_>>();
    let mut all: Vec<String> = manifest.files.iter().flat_map(|file| of(&file.path)).collect();
    all.sort();
    all.dedup();
    all
}

/// A directory beside the target that vanishes unless it is published. Whatever writes into it holds it, so that a
/// restore that is cancelled leaves nothing either.
struct Staging {
    target: PathBuf,
    tree: PathBuf,
    /// One of the files could not be had.
    failed: AtomicBool,
    _held: tempfile::TempDir,
}

impl Staging {
    fn new(target: PathBuf, directories: &[String]) -> Result<Self, RestoreError> {
        let local = |source| RestoreError::Local { path: target.clone(), source };
        match std::fs::symlink_metadata(&target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(local(error)),
            Ok(there) if there.is_dir() && std::fs::read_dir(&target).map_err(local)?.next().is_none() => {}
            Ok(_) => return Err(RestoreError::Occupied { path: target }),
        }
        let parent = durable::parent(&target);
        durable::create_dir_all(parent).map_err(local)?;
        let held = tempfile::Builder::new().prefix(".leeway-restore-").tempdir_in(parent).map_err(local)?;
        // A folder inside, since the temporary one is closed to other users and the program may be one.
        let tree = held.path().join("tree");
        std::fs::create_dir(&tree).map_err(local)?;
        for directory in directories {
            std::fs::create_dir(tree.join(directory)).map_err(local)?;
        }
        Ok(Self { target, tree, failed: AtomicBool::new(false), _held: held })
    }

    fn goes_on(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "another file of the checkpoint could not be had"));
        }
        Ok(())
    }

    fn publish(&self) -> Result<(), RestoreError> {
        let moved = durable::sync_tree(&self.tree, false)
            .and_then(|()| std::fs::rename(&self.tree, &self.target))
            .and_then(|()| durable::sync_dir(durable::parent(&self.target)));
        moved.map_err(|source| RestoreError::Local { path: self.target.clone(), source })
    }
}
