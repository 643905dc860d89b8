//! Publishing one rank's directory.
//!
//! ```text
//! UPLOAD.json (create-only) -> data, hashed on the way, size checked -> MANIFEST.json (create-only) -> read back
//! ```
//!
//! Stopping anywhere before the manifest leaves data that nobody will restore and that its record proves ours. The
//! same directory may be published again under the same id, which ends in the same manifest; another directory may not:
//! it takes the next sequence number. One publisher at a time may work on one shard.

use std::io::Read;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use futures::{StreamExt, TryStreamExt, stream};
use leeway_model::checkpoint::Digest;
use leeway_model::{Bytes, Timestamp};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;

use crate::check::{CheckError, Damage, FILES_AT_ONCE, PART};
use crate::digest::{CHUNK, FileHasher};
use crate::durable::blocking;
use crate::error::{Class, StoreError};
use crate::layout::ShardAt;
use crate::manifest::{self, FileEntry, Header, Manifest, ManifestError, SIZE_MAX};
use crate::record::Record;
use crate::repository::{Fetched, Repository};
use crate::walk::{Found, walk};

/// Parts of one file in flight, besides the one being read.
const PARTS_AT_ONCE: usize = 2;
/// Object stores take at most 10,000 parts a file.
const PARTS_MAX: u64 = 9_000;

/// A shard that is wholly in the store. It counts only once its digest is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    pub manifest: Digest,
    /// Data, without manifest.
    pub size: Bytes,
    pub files: usize,
}

/// Why a directory was not published. No digest is known then, so nothing can be committed.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error("rank {rank} does not exist in a run of {world_size}")]
    Rank { rank: u32, world_size: u32 },
    #[error("cannot read '{path}' to publish it")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("'{path}' changed while it was being published; a checkpoint must not be touched after its READY marker")]
    Changed { path: String },
    #[error("'{object}' already exists with other contents; publish under the next sequence number")]
    Conflict { object: String },
    /// The store does not hold what it acknowledged. Publish again under the next sequence number.
    #[error(transparent)]
    Damaged(#[from] Damage),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PublishError {
    /// Stable code for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Manifest(error) => error.code(),
            Self::Rank { .. } => "NO_SUCH_RANK",
            Self::Read { .. } => "CHECKPOINT_UNREADABLE",
            Self::Changed { .. } => "CHECKPOINT_CHANGED",
            Self::Conflict { .. } => "CHECKPOINT_CONFLICT",
            Self::Damaged(_) => Damage::CODE,
            Self::Store(error) => error.code(),
        }
    }

    /// The same call may succeed later.
    pub const fn retryable(&self) -> bool {
        matches!(self, Self::Store(error) if error.retryable())
    }

    /// The store is full, or will take no more from us.
    pub const fn found_no_room(&self) -> bool {
        matches!(self, Self::Store(StoreError { class: Class::Full, .. }))
    }
}

impl From<CheckError> for PublishError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Damage(damage) => Self::Damaged(damage),
            CheckError::Store(error) => Self::Store(error),
        }
    }
}

impl Repository {
    /// Publishes the regular files below `dir` as the shard `at`. `progress` gets the bytes stored since its last call.
    ///
    /// Idempotent for an unchanged directory. Cancelling leaves at most uncommitted data. Store faults are tried again
    /// within the repository's patience; see [`PublishError::retryable`] for what is left.
    pub async fn publish(
        &self,
        at: &ShardAt,
        step: u64,
        world_size: u32,
        dir: &FilePath,
        progress: impl FnMut(Bytes) + Send,
    ) -> Result<Published, PublishError> {
        if at.rank >= world_size {
            return Err(PublishError::Rank { rank: at.rank, world_size });
        }
        let top = dir.to_path_buf();
        let found = blocking(move || walk(&top)).await.map_err(|source| read_error(dir, source))??;
        let progress = Progress(Mutex::new(progress));
        let header = |created| Header { at, step, world_size, created };

        let (manifest, bytes) = match self.fetch(&at.manifest(), SIZE_MAX).await? {
            Fetched::Missing => {
                let header = header(self.claim(at, &found).await?);
                let manifest = Manifest::new(header, self.upload_all(at, &found, &progress).await?)?;
                let bytes = bytes::Bytes::from(manifest.to_bytes()?);
                self.create_once(&at.manifest(), &bytes).await?;
                (manifest, bytes)
            }
            // A finished upload is never written over: what is in the store may already be committed.
            Fetched::Whole(stored) => {
                let conflict = || PublishError::Conflict { object: at.manifest().to_string() };
                let header = header(Manifest::parse(&stored).map_err(|_| conflict())?.created);
                let manifest = Manifest::new(header, hash_all(&found).await?)?;
                if manifest.to_bytes()? != stored {
                    return Err(conflict());
                }
                (manifest, stored)
            }
            Fetched::TooLarge(_) => return Err(PublishError::Conflict { object: at.manifest().to_string() }),
        };
        self.read_back(at, &manifest, &bytes).await?;
        let digest = manifest::digest(&bytes);
        tracing::debug!(shard = %at.path(), size = manifest.total_size, files = manifest.files.len(), "published");
        Ok(Published { manifest: digest, size: manifest.size(), files: manifest.files.len() })
    }

    /// Writes the upload record, or finds the one that an earlier try of the same upload left. Returns its time.
    async fn claim(&self, at: &ShardAt, found: &[Found]) -> Result<Timestamp, PublishError> {
        let files = found.iter().map(|file| (file.path.clone(), file.size)).collect();
        let record = Record::new(at, now(), files);
        let malformed = |error: serde_json::Error| ManifestError::Malformed(error.to_string());
        let bytes = bytes::Bytes::from(record.to_bytes().map_err(malformed)?);
        if bytes.len() as u64 > SIZE_MAX {
            return Err(ManifestError::TooLarge { size: bytes.len() as u64 }.into());
        }
        match self.create(&at.upload(), &bytes).await {
            Ok(()) => return Ok(record.created),
            Err(error) if error.class == Class::Exists => {}
            Err(error) => return Err(error.into()),
        }
        let earlier = match self.fetch(&at.upload(), SIZE_MAX).await? {
            Fetched::Whole(bytes) => Record::parse(&bytes, at),
            Fetched::Missing | Fetched::TooLarge(_) => None,
        };
        match earlier {
            Some(earlier) if earlier.files == record.files => Ok(earlier.created),
            _ => Err(PublishError::Conflict { object: at.upload().to_string() }),
        }
    }

    async fn upload_all<F: FnMut(Bytes) + Send>(
        &self,
        at: &ShardAt,
        found: &[Found],
        progress: &Progress<F>,
    ) -> Result<Vec<FileEntry>, PublishError> {
        let upload = |file: Found| self.upload(at.data(&file.path), file, progress);
        // Owned items: with borrowed ones the future could not be handed to another thread.
        let uploads = stream::iter(found.to_vec()).map(upload);
        uploads.buffer_unordered(FILES_AT_ONCE).try_collect().await
    }

    async fn upload<F: FnMut(Bytes) + Send>(
        &self,
        object: Path,
        file: Found,
        progress: &Progress<F>,
    ) -> Result<FileEntry, PublishError> {
        // The furthest byte already reported: a second try does not report it again.
        let reported = AtomicU64::new(0);
        let stored = |upto: u64| {
            let before = reported.fetch_max(upto, Ordering::Relaxed);
            progress.report(upto.saturating_sub(before));
        };
        let attempt = || async {
            let reader = Reader::open(&file).await?;
            if file.size <= PART {
                self.put_whole(&object, reader, &stored).await
            } else {
                self.put_parts(&object, reader, &stored).await
            }
        };
        let hasher = self.patience.run(PublishError::retryable, attempt).await?;
        let size = self.size_of(&object).await?;
        if size != Some(file.size) {
            return Err(Damage::size(&object, file.size, size).into());
        }
        Ok(FileEntry::new(file.path, hasher.finish()))
    }

    async fn put_whole(
        &self,
        object: &Path,
        reader: Reader,
        stored: &(impl Fn(u64) + Sync),
    ) -> Result<FileHasher, PublishError> {
        let (reader, piece) = reader.next().await?;
        let hasher = reader.finish()?;
        let put = self.store.put(object, PutPayload::from_bytes(piece)).await;
        put.map_err(|error| StoreError::new("write", object, error))?;
        stored(hasher.size());
        Ok(hasher)
    }

    async fn put_parts(
        &self,
        object: &Path,
        reader: Reader,
        stored: &(impl Fn(u64) + Sync),
    ) -> Result<FileHasher, PublishError> {
        let started = self.store.put_multipart(object).await;
        let mut upload = started.map_err(|error| StoreError::new("write", object, error))?;
        match send_parts(object, upload.as_mut(), reader, stored).await {
            Ok(hasher) => Ok(hasher),
            Err(error) => {
                // What cannot be aborted is left to the store's own rules for unfinished uploads.
                if let Err(error) = upload.abort().await {
                    tracing::debug!(%object, %error, "cannot abort an upload");
                }
                Err(error)
            }
        }
    }

    /// Creates an object; that it already exists with the same bytes is success.
    pub(crate) async fn create_once(&self, object: &Path, bytes: &bytes::Bytes) -> Result<(), PublishError> {
        match self.create(object, bytes).await {
            Err(error) if error.class == Class::Exists => match self.fetch(object, SIZE_MAX).await? {
                Fetched::Whole(stored) if stored == *bytes => Ok(()),
                _ => Err(PublishError::Conflict { object: object.to_string() }),
            },
            outcome => outcome.map_err(PublishError::from),
        }
    }

    /// Reads back the manifest and the sizes of all objects: only what the store really holds may be committed.
    async fn read_back(&self, at: &ShardAt, manifest: &Manifest, bytes: &bytes::Bytes) -> Result<(), PublishError> {
        let object = at.manifest();
        match self.fetch(&object, SIZE_MAX).await? {
            Fetched::Whole(stored) if stored == *bytes => {}
            Fetched::Whole(stored) => {
                return Err(Damage::digest(&object, &manifest::digest(bytes), &manifest::digest(&stored)).into());
            }
            Fetched::Missing => return Err(Damage::size(&object, bytes.len() as u64, None).into()),
            Fetched::TooLarge(size) => return Err(Damage::size(&object, bytes.len() as u64, Some(size)).into()),
        }
        Ok(self.check_sizes(at, manifest).await?)
    }
}

async fn send_parts(
    object: &Path,
    upload: &mut dyn MultipartUpload,
    mut reader: Reader,
    stored: &(impl Fn(u64) + Sync),
) -> Result<FileHasher, PublishError> {
    let failed = |error| StoreError::new("write", object, error);
    let mut flying: JoinSet<object_store::Result<u64>> = JoinSet::new();
    let mut done = 0;
    loop {
        let piece;
        (reader, piece) = reader.next().await?;
        let last = piece.is_empty();
        while flying.len() >= PARTS_AT_ONCE || (last && !flying.is_empty()) {
            let Some(joined) = flying.join_next().await else { break };
            done += joined.map_err(|error| failed(error.into()))?.map_err(failed)?;
            stored(done);
        }
        if last {
            break;
        }
        let (size, part) = (piece.len() as u64, upload.put_part(PutPayload::from_bytes(piece)));
        flying.spawn(async move { part.await.map(|()| size) });
    }
    // A file that changed must not become an object, not even one without a manifest.
    let hasher = reader.finish()?;
    upload.complete().await.map_err(failed)?;
    Ok(hasher)
}

/// Reads a file in parts and hashes it on the way, off the async threads.
struct Reader {
    file: std::fs::File,
    found: Found,
    part: u64,
    hasher: FileHasher,
}

impl Reader {
    async fn open(found: &Found) -> Result<Self, PublishError> {
        let wanted = found.clone();
        let file = blocking(move || wanted.open()).await.map_err(|source| read_error(&found.file, source))??;
        // All parts but the last have one size, as some stores demand, and there are few enough of them.
        let part = PART.max(found.size.div_ceil(PARTS_MAX).next_multiple_of(1 << 20));
        Ok(Self { file, found: found.clone(), part, hasher: FileHasher::new(CHUNK) })
    }

    /// The next part; empty at the end of the file.
    async fn next(mut self) -> Result<(Self, bytes::Bytes), PublishError> {
        let path = self.found.file.clone();
        let read = blocking(move || {
            let mut piece = Vec::with_capacity(usize::try_from(self.part.min(self.found.size)).unwrap_or(0));
            (&mut self.file).take(self.part).read_to_end(&mut piece)?;
            self.hasher.update(&piece);
            std::io::Result::Ok((self, piece.into()))
        });
        read.await.and_then(|read| read).map_err(|source| read_error(&path, source))
    }

    fn finish(self) -> Result<FileHasher, PublishError> {
        let changed = || PublishError::Changed { path: self.found.path.clone() };
        let length = self.file.metadata().map_err(|source| read_error(&self.found.file, source))?.len();
        if self.hasher.size() == self.found.size && length == self.found.size {
            Ok(self.hasher)
        } else {
            Err(changed())
        }
    }
}

async fn hash_all(found: &[Found]) -> Result<Vec<FileEntry>, PublishError> {
    let hash = |file: &Found| {
        let file = file.clone();
        async move {
            let mut reader = Reader::open(&file).await?;
            loop {
                let piece;
                (reader, piece) = reader.next().await?;
                if piece.is_empty() {
                    return Ok(FileEntry::new(file.path, reader.finish()?.finish()));
                }
            }
        }
    };
    stream::iter(found.iter().map(hash)).buffer_unordered(FILES_AT_ONCE).try_collect().await
}

struct Progress<F>(Mutex<F>);

impl<F: FnMut(Bytes)> Progress<F> {
    fn report(&self, more: u64) {
        if more > 0
            && let Ok(mut report) = self.0.lock()
        {
            report(Bytes::new(more));
        }
    }
}

fn read_error(path: &FilePath, source: std::io::Error) -> PublishError {
    PublishError::Read { path: path.to_path_buf(), source }
}

/// Now, to the second: the clock of the publisher, kept for people and for collecting leftovers, never for order.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_secs()).unwrap_or(0).saturating_mul(1_000))
}
