//! The store on disk: the journal is the truth, sled is its index.
//!
//! ```text
//! data directory
//! ├─ IDENTITY             who this store is; written last when it is made
//! ├─ LOCK                 held by the one owner
//! ├─ RESERVE              space given up when the disk is full
//! ├─ journal/<first>.log  the history; journal/head marks how far it is durable
//! ├─ base/<index>.base    all rows as of an entry; history before it may be dropped
//! ├─ blobs/<sha256>       values over 256 KiB
//! ├─ index/               sled: the rows as of some entry, behind the journal by a moment
//! └─ index.damaged-<n>    an index that was set aside
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::blobs::Blobs;
use crate::export::Base;
use crate::files::{Files, RealFiles, Space};
use crate::index::bases::history_rows;
use crate::index::worker::{Group, Worker};
use crate::index::{BuildError, Changes};
use crate::journal::Journal;
use crate::lock::Lock;
use crate::reserve::Reserve;
use crate::{Entry, Error, Flushed, Flushing, Head, Identity, Index, Store, codec};

mod compact;
mod open;

pub use compact::CompactReport;
pub use open::is_vacant;
pub(crate) use open::{behind_index, create, find_base, known_identity, refuse_others, require_empty, scan_as_is};

/// How a disk store behaves. The default is for a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// A segment is sealed when it weighs this much, in bytes, blobs included.
    pub segment_bytes: u64,
    /// The journal grows by at least so much at a time, in bytes.
    pub promise_bytes: u64,
    /// Space kept aside for a full disk, in bytes; 0 for none.
    pub reserve_bytes: u64,
    /// Ordinary appends are refused when less is free, in bytes, or less than 5 % of the disk if that is smaller.
    pub min_free_bytes: u64,
    /// Sealed history to keep, in bytes, once a base covers it; `None` keeps all of it for ever.
    pub history_bytes: Option<u64>,
    /// Memory for sled's cache, in bytes.
    pub cache_bytes: u64,
    /// Memory for rows that wait for the index, in bytes; what finds no room is read from the journal.
    pub queue_bytes: u64,
    /// How long sled may stand still before it is taken for broken.
    pub index_patience: Duration,
    /// The files to write through; tests pass ones that fail.
    pub files: Arc<dyn Files>,
}

impl Default for Options {
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Options {
            segment_bytes: 64 * MIB,
            promise_bytes: MIB,
            reserve_bytes: 64 * MIB,
            min_free_bytes: 256 * MIB,
            history_bytes: None,
            cache_bytes: 64 * MIB,
            queue_bytes: 16 * MIB,
            index_patience: Duration::from_secs(60),
            files: Arc::new(RealFiles),
        }
    }
}

impl Options {
    /// Small sizes, so that a test fits everything into a few megabytes. Free space is not looked at.
    pub fn small() -> Self {
        Options {
            segment_bytes: 64 * 1024,
            promise_bytes: 0,
            reserve_bytes: 0,
            min_free_bytes: 0,
            cache_bytes: 4 * 1024 * 1024,
            queue_bytes: 256 * 1024,
            index_patience: Duration::from_secs(20),
            ..Options::default()
        }
    }
}

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OpenReport {
    pub head: Head,
    /// Bytes of a torn tail that were cut off; nobody had been answered for them.
    pub cut_bytes: u64,
    /// Where the tail was cut: segment and offset.
    pub cut_at: Option<(String, u64)>,
    /// Half-written files of an earlier crash that were removed.
    pub leftovers_removed: u64,
    /// Why the index was set aside and made anew, when it was.
    pub index_rebuilt: Option<String>,
    /// Where the old index went.
    pub index_set_aside: Option<PathBuf>,
    /// Entries that the index had yet to see.
    pub index_behind: u64,
    /// Why the base was written anew, when it was.
    pub base_rebuilt: Option<String>,
    pub blobs_removed: u64,
}

/// Rows and history in a directory. See the module for what is where.
#[derive(Debug)]
pub struct DiskStore {
    dir: PathBuf,
    options: Options,
    identity: Identity,
    journal: Journal,
    blobs: Blobs,
    worker: Worker,
    reserve: Reserve,
    base: Option<Base>,
    /// The next group for the index: rows of staged entries.
    staged: Changes,
    staged_bytes: u64,
    /// The group of the flush that is under way, and its bytes.
    flushing: Option<(Changes, u64)>,
    /// First entry that was not handed to the index yet.
    worker_next: Index,
    space: SpaceWatch,
    compacting: bool,
    /// After a failed compaction, when the next may start.
    compact_after: Option<Instant>,
    report: OpenReport,
    _lock: Lock,
}

/// When free space was last looked at, and what was seen.
#[derive(Debug)]
struct SpaceWatch {
    tight: bool,
    free: u64,
    looked: Instant,
    written_since: u64,
}

/// Free space is looked at after so many written bytes or so much time, and at every append while it is short.
const LOOK_EVERY_BYTES: u64 = 64 * 1024;
const LOOK_EVERY: Duration = Duration::from_millis(500);

impl DiskStore {
    /// What opening found and did.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Why the index does not work at the moment, when it does not. Reads then come from base and journal.
    pub fn index_failure(&self) -> Option<String> {
        self.worker.failure()
    }

    /// True while ordinary appends are refused for lack of space.
    pub fn is_short_of_space(&self) -> bool {
        self.space.tight
    }

    /// Bytes of keys and values of all rows that the index knows, blobs included.
    pub fn live_bytes(&self) -> u64 {
        self.worker.applied().rows.bytes
    }

    /// Closes: what was staged and never flushed is taken back, the index is given a moment to catch up, and the
    /// durable head is marked. Dropping does the same.
    pub fn close(mut self) -> Result<Head, Error> {
        let failed = self.journal.is_failed();
        let head = self.journal.head();
        self.shut();
        if failed { Err(Error::Failed) } else { Ok(head) }
    }

    /// Ends as a crash would: no marks, no flush of the index, staged writes stay where they are. For tests.
    pub fn abandon(mut self) {
        self.worker.stop(true);
        self.journal.crash();
    }

    fn shut(&mut self) {
        self.worker.stop(false);
        self.journal.unstage();
        self.journal.sync_mark();
    }

    fn stage(&mut self, entry: Entry, essential: bool) -> Result<(), Error> {
        if self.journal.is_failed() {
            return Err(Error::Failed);
        }
        codec::check(&entry, self.journal.staged().index + 1)?;
        self.look_at_space()?;
        if self.space.tight && !essential {
            return Err(Error::DiskFull { dir: self.dir.clone(), free: self.space.free });
        }
        let mut result = self.write(&entry);
        if essential && matches!(result, Err(Error::DiskFull { .. })) && self.reserve.release() {
            // The room that this makes is for what must go on: ordinary entries wait until the reserve fits again.
            self.space.tight = true;
            result = self.write(&entry);
        }
        match result {
            Ok(len) => {
                self.space.written_since += len;
                self.keep(entry);
                Ok(())
            }
            Err(Error::DiskFull { .. }) => {
                self.space.tight = true;
                let free = self.options.files.space(&self.dir).map_or(0, |space| space.free);
                self.space.free = free;
                Err(Error::DiskFull { dir: self.dir.clone(), free })
            }
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, entry: &Entry) -> Result<u64, Error> {
        let blobs = &self.blobs;
        let result = self.journal.append(entry, |blob, bytes| blobs.put(blob, bytes));
        if let Err(error) = &result
            && !error.is_refusal()
        {
            // Also when a blob could not be written: a disk with errors is not one to go on with.
            self.journal.fail();
        }
        result
    }

    fn keep(&mut self, entry: Entry) {
        for row in entry.rows {
            self.staged_bytes += 32 + row.key.len() as u64 + row.value.as_ref().map_or(0, |value| value.len() as u64);
            let value = row.value.map(|bytes| {
                if bytes.len() > codec::MAX_INLINE_BYTES {
                    codec::Value::Blob(codec::BlobRef::of(&bytes))
                } else {
                    codec::Value::Inline(bytes)
                }
            });
            self.staged.insert(row.key, value);
        }
    }

    /// Keeps `tight` true to life, and takes the reserve again when space has come back.
    fn look_at_space(&mut self) -> Result<(), Error> {
        let watch = &self.space;
        if !watch.tight && watch.written_since < LOOK_EVERY_BYTES && watch.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        let Ok(space) = self.options.files.space(&self.dir) else { return Ok(()) };
        let limit = self.free_limit(space);
        // A disk that just refused a write needs some room, and the reserve's, before it is tried again.
        let given_up = if self.reserve.is_held() { 0 } else { self.options.reserve_bytes };
        let enough = if self.space.tight { limit.max(RETRY_FREE_BYTES) + given_up } else { limit };
        let tight = space.free < enough;
        if tight != self.space.tight {
            tracing::warn!(free = space.free, limit = enough, tight, "free space of the data directory");
        }
        self.space = SpaceWatch { tight, free: space.free, looked: Instant::now(), written_since: 0 };
        if !tight && !self.reserve.is_held() {
            self.reserve.fill(space.free, limit)?;
        }
        Ok(())
    }

    fn free_limit(&self, space: Space) -> u64 {
        self.options.min_free_bytes.min(space.total / 20)
    }

    /// Rows from base and journal, when there is no index to ask.
    fn rows_from_history(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let (rows, _) = history_rows(self.base.as_ref(), &self.journal.layout())?;
        for (key, value) in rows {
            visit(&key, &self.blobs.resolve(value)?);
        }
        Ok(())
    }

    fn resolve(&self, record: codec::Record) -> Result<Entry, Error> {
        let mut rows = Vec::with_capacity(record.rows.len());
        for change in record.rows {
            let value = change.value.map(|value| self.blobs.resolve(value)).transpose()?;
            rows.push(crate::RowChange { key: change.key, value });
        }
        let codec::Record { index, time_ms, event, .. } = record;
        Ok(Entry { index, time_ms, event, rows })
    }
}

/// Free bytes after which a disk that refused a write is tried again.
const RETRY_FREE_BYTES: u64 = 64 * 1024;

impl Store for DiskStore {
    fn head(&self) -> Head {
        self.journal.head()
    }

    fn append(&mut self, entry: Entry) -> Result<(), Error> {
        self.stage(entry, false)
    }

    fn append_essential(&mut self, entry: Entry) -> Result<(), Error> {
        self.stage(entry, true)
    }

    fn flush(&mut self) -> Result<Head, Error> {
        let flushing = self.begin_flush()?;
        self.end_flush(flushing.wait())
    }

    fn begin_flush(&mut self) -> Result<Flushing, Error> {
        let flushing = self.journal.begin_flush()?;
        self.flushing = Some((std::mem::take(&mut self.staged), std::mem::take(&mut self.staged_bytes)));
        Ok(flushing)
    }

    fn end_flush(&mut self, flushed: Flushed) -> Result<Head, Error> {
        let head = self.journal.end_flush(flushed)?;
        let (changes, bytes) = self.flushing.take().unwrap_or_default();
        let first = self.worker_next;
        if head.index >= first {
            self.worker.submit(Group { first, head, changes, bytes: bytes + 64 });
            self.worker_next = head.index + 1;
        }
        self.tend_history();
        Ok(head)
    }

    fn short_of_space(&mut self) -> Result<bool, Error> {
        if self.journal.is_failed() {
            return Err(Error::Failed);
        }
        self.look_at_space()?;
        Ok(self.space.tight)
    }

    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        if self.journal.is_failed() {
            return Err(Error::Failed);
        }
        let Some(index) = self.worker.caught_up(self.options.index_patience) else {
            tracing::warn!("rows are read from base and journal, for the index does not answer");
            return self.rows_from_history(visit);
        };
        let result = index.rows(|key, value| {
            visit(key, &self.blobs.resolve(value)?);
            Ok(())
        });
        match result {
            Ok(()) => Ok(()),
            Err(BuildError::Truth(error)) => Err(error),
            Err(BuildError::Index(damage)) => {
                self.worker.report(&damage);
                let reason = format!("{}; it is being made anew from the journal, read again", damage.0);
                Err(Error::corrupt("index", 0, reason))
            }
        }
    }

    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        if self.journal.is_failed() {
            return Err(Error::Failed);
        }
        let (from, first) = (from.max(1), self.journal.first());
        if from < first {
            return Err(Error::HistoryTrimmed { asked: from, first });
        }
        let mut reader = self.journal.layout().reader(from);
        while let Some((record, _)) = reader.next()? {
            if !visit(self.resolve(record)?) {
                break;
            }
        }
        Ok(())
    }

    fn first_entry(&self) -> Index {
        self.journal.first()
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.shut();
    }
}
