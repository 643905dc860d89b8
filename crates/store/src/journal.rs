//! The append-only journal: the truth of a disk store.
//!
//! ```text
//! append: encode -> have the disk promise room -> keep in memory (may be refused cleanly: disk full)
//! flush:  one write and one fdatasync for everything staged -> mark the head
//!         entries may be staged while the disk works            (a failure is final: fsync is never retried)
//! roll:   sync the old segment -> make, sync and list the new   (so only the last segment can have a torn tail)
//! ```

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::codec::{self, BlobRef};
use crate::files::{Files, LogFile};
use crate::{Entry, Error, Flushed, Flushing, Head, Index};

mod frame;
mod marks;
mod reader;
mod scan;

use frame::{FRAME_BYTES, Frame, HEADER_BYTES, Header};
use marks::Marks;
use reader::{Reader, Stretch};
pub(crate) use scan::{MARK_PLACE, Scan, Tear, is_missing, is_never_used, place, refuse_others, scan, scan_unmarked};

/// Staged bytes that are written before the flush that makes them durable.
const WRITE_BYTES: usize = 1024 * 1024;
/// Distance in bytes between the entries whose places a segment remembers.
const PLACE_DISTANCE: u64 = 64 * 1024;

/// What is known of one segment file.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub path: PathBuf,
    pub first: Index,
    /// Last entry in it; `first - 1` when there is none.
    pub last: Index,
    pub bytes: u64,
    /// Bytes of the blobs that its entries name.
    pub blob_bytes: u64,
    pub blobs: Vec<[u8; 32]>,
    /// Some entries and their offsets, in order.
    places: Vec<(Index, u64)>,
}

/// The segments and how far they are durable, shared with the thread that reads them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout(Arc<Mutex<(Vec<Segment>, Index)>>);

impl Layout {
    fn lock(&self) -> MutexGuard<'_, (Vec<Segment>, Index)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader of the durable entries from `from` on.
    pub fn reader(&self, from: Index) -> Reader {
        let layout = self.lock();
        let durable = layout.1;
        let stretches = layout.0.iter().filter(|segment| segment.last >= from && segment.first <= durable);
        let stretches = stretches.map(|segment| {
            let after = segment.places.partition_point(|(index, _)| *index <= from);
            let start = after.checked_sub(1).map_or((segment.first, HEADER_BYTES as u64), |at| segment.places[at]);
            Stretch { path: segment.path.clone(), first: segment.first, last: segment.last.min(durable), from: start }
        });
        Reader::new(stretches.collect(), from)
    }
}

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    files: Arc<dyn Files>,
    segment_bytes: u64,
    /// Room is promised in pieces of at least so many bytes.
    promise_bytes: u64,
    layout: Layout,
    marks: Marks,
    active: Arc<dyn LogFile>,
    active_path: PathBuf,
    /// End of the active segment, staged entries included; its weight counts blobs too.
    end: u64,
    weight: u64,
    /// Up to where the active segment has room for certain.
    promised: u64,
    /// Staged bytes that are not written yet; they end at `end`.
    unwritten: Vec<u8>,
    /// End of what is durable in the active segment.
    durable_end: u64,
    /// What the last flush answered for. Sealing a segment may have synced further; nobody was told of that yet.
    head: Head,
    synced: Head,
    staged: Head,
    /// What the flush that is under way will answer for, and its end in the active segment.
    flushing: Option<(Head, u64)>,
    failed: bool,
    payload: Vec<u8>,
}

impl Journal {
    /// Makes the first segment of a journal whose first entry follows `before`.
    pub fn create(files: &dyn Files, data_dir: &Path, before: Head) -> Result<(), Error> {
        let dir = data_dir.join("journal");
        std::fs::create_dir_all(&dir).map_err(|error| Error::at(&dir, error))?;
        new_segment(files, &dir, before)?;
        Marks::create(files, &dir, before)?;
        files.sync_dir(&dir).map_err(|error| Error::at(&dir, error))?;
        files.sync_dir(data_dir).map_err(|error| Error::at(data_dir, error))
    }

    /// Says that the journal is whole as far as `head`, whatever was marked before.
    pub fn mark_anew(files: &dyn Files, data_dir: &Path, head: Head) -> Result<(), Error> {
        Marks::create(files, &data_dir.join("journal"), head)
    }

    /// Opens what `scan` found, cutting a torn tail.
    pub fn open(
        files: Arc<dyn Files>,
        data_dir: &Path,
        segment_bytes: u64,
        promise_bytes: u64,
        scan: Scan,
    ) -> Result<Journal, Error> {
        let dir = data_dir.join("journal");
        let Scan { mut segments, head, mark, tear, unmarked_from, .. } = scan;
        let mark = mark.unwrap_or_default();
        if let Some(tear) = &tear {
            cut(&*files, &dir, tear)?;
        }
        let Some(last) = segments.last_mut() else {
            return Err(Error::corrupt("journal", 0, "there is no segment"));
        };
        let at = |error| Error::at(&dir, error);
        let active = files.open(&last.path).map_err(at)?;
        if head.index > mark.index {
            // These bytes may be in memory only, left clean by a sync that failed in an earlier process. Writing them
            // again is the only way to be sure.
            let bytes = std::fs::read(&last.path).map_err(at)?;
            let from = unmarked_from.min(last.bytes);
            let tail = bytes.get(from as usize..last.bytes as usize).unwrap_or_default();
            active.write_at(tail, from).map_err(at)?;
        }
        active.sync().map_err(at)?;
        let mut marks = Marks::open(&*files, &dir)?;
        marks.note(head);
        marks.sync();
        files.sync_dir(&dir).map_err(at)?;
        let (end, weight, active_path) = (last.bytes, last.weight(), last.path.clone());
        Ok(Journal {
            dir,
            files,
            segment_bytes,
            promise_bytes,
            layout: Layout(Arc::new(Mutex::new((segments, head.index)))),
            marks,
            active,
            active_path,
            end,
            weight,
            promised: end,
            unwritten: Vec::new(),
            durable_end: end,
            head,
            synced: head,
            staged: head,
            flushing: None,
            failed: false,
            payload: Vec::new(),
        })
    }

    pub fn head(&self) -> Head {
        self.head
    }

    pub fn staged(&self) -> Head {
        self.staged
    }

    pub fn is_failed(&self) -> bool {
        self.failed
    }

    pub fn layout(&self) -> Layout {
        self.layout.clone()
    }

    pub fn mark_file(&self) -> Arc<dyn LogFile> {
        self.marks.file()
    }

    /// First entry that is kept.
    pub fn first(&self) -> Index {
        self.layout.lock().0.first().map_or(self.head.index + 1, |segment| segment.first)
    }

    /// Bytes of sealed segments, blobs included, that hold entries after `index`.
    pub fn sealed_since(&self, index: Index) -> u64 {
        let layout = self.layout.lock();
        layout.0.iter().rev().skip(1).filter(|segment| segment.last > index).map(Segment::weight).sum()
    }

    /// Digests of all blobs that kept entries name.
    pub fn blobs(&self) -> Vec<[u8; 32]> {
        self.layout.lock().0.iter().flat_map(|segment| segment.blobs.iter().copied()).collect()
    }

    /// Stages an entry that was checked. `put_blob` must make a long value durable.
    pub fn append(
        &mut self,
        entry: &Entry,
        mut put_blob: impl FnMut(BlobRef, &[u8]) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        self.payload.clear();
        let mut blobs = Vec::new();
        codec::encode(entry, &mut self.payload, |blob, bytes| {
            put_blob(blob, bytes)?;
            blobs.push(blob);
            Ok::<_, Error>(())
        })?;
        if self.weight >= self.segment_bytes {
            self.roll()?;
        }
        let chain = codec::link(self.staged.chain, &self.payload);
        let len = (FRAME_BYTES + self.payload.len()) as u64;
        let promised = self.promise(len)?;
        if !promised {
            self.write_staged()?;
        }
        Frame { durable: self.synced.index, chain, payload: &self.payload }.put(&mut self.unwritten);
        if !promised && let Err(error) = self.write(self.end + len) {
            return Err(self.undo_write(error));
        }
        let mut layout = self.layout.lock();
        let segment = layout.0.last_mut().expect("an open journal has an active segment");
        segment.note(entry.index, self.end, len);
        blobs.into_iter().for_each(|blob| segment.note_blob(blob));
        self.weight = segment.weight();
        drop(layout);
        self.end += len;
        self.staged = Head { index: entry.index, chain };
        if self.unwritten.len() >= WRITE_BYTES {
            self.write_staged()?;
        }
        Ok(len)
    }

    /// Sees to it that the next `len` bytes have room. `false` where that cannot be known before they are written.
    fn promise(&mut self, len: u64) -> Result<bool, Error> {
        let end = self.end + len;
        if end <= self.promised {
            return Ok(true);
        }
        let from = self.promised.max(self.end);
        // Near the end of the disk there may be room for this entry, if not for more.
        let ahead = len.max(self.promise_bytes);
        let answer = match self.active.promise(from, ahead) {
            Err(_) if ahead > end - from => self.active.promise(from, end - from).map(|sure| (sure, end)),
            answer => answer.map(|sure| (sure, from + ahead)),
        };
        match answer {
            Ok((true, until)) => {
                self.promised = until;
                Ok(true)
            }
            Ok((false, _)) => Ok(false),
            Err(error) => {
                let error = Error::at(&self.active_path, error);
                if !error.is_refusal() {
                    self.failed = true;
                    tracing::error!(%error, "the journal could not grow");
                }
                Err(error)
            }
        }
    }

    /// Writes what is staged, which ends at `end`.
    fn write(&mut self, end: u64) -> std::io::Result<()> {
        self.active.write_at(&self.unwritten, end - self.unwritten.len() as u64)?;
        self.unwritten.clear();
        Ok(())
    }

    /// Writes what had room for certain, so that no failure is a clean refusal.
    fn write_staged(&mut self) -> Result<(), Error> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        self.write(self.end).map_err(|error| self.fatal("write to", error))
    }

    /// Begins to make everything staged durable; [`end_flush`](Self::end_flush) must follow before the next.
    pub fn begin_flush(&mut self) -> Result<Flushing, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        if self.flushing.is_some() {
            return Err(Error::Io(std::io::Error::other("a flush of the journal is under way already")));
        }
        self.flushing = Some((self.staged, self.end));
        if self.synced == self.staged {
            return Ok(Flushing::default());
        }
        self.write_staged()?;
        let active = self.active.clone();
        Ok(Flushing::of(move || active.sync()))
    }

    /// Acknowledges what the flush that began last covers.
    pub fn end_flush(&mut self, flushed: Flushed) -> Result<Head, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        // A failed sync may have thrown the pages away: it is never retried.
        flushed.outcome().map_err(|error| self.fatal("sync of", error))?;
        let Some((head, end)) = self.flushing.take() else { return Ok(self.head) };
        if head.index > self.synced.index {
            (self.synced, self.durable_end) = (head, end);
        }
        if head.index > self.head.index {
            self.head = head;
            self.layout.lock().1 = head.index;
            self.marks.note(head);
        }
        Ok(self.head)
    }

    /// Syncs the mark; called on close and when a segment is sealed.
    pub fn sync_mark(&self) {
        self.marks.sync();
    }

    /// Takes back what was staged and never flushed, so that a clean close leaves nothing unacknowledged.
    pub fn unstage(&mut self) {
        if self.failed {
            return;
        }
        self.unwritten.clear();
        // Also gives back the room that was promised.
        if let Err(error) = self.active.set_len(self.durable_end).and_then(|()| self.active.sync()) {
            tracing::debug!(%error, "staged entries could not be taken back");
        }
        self.failed = true;
    }

    /// Ends as a crash between write and sync would: what was staged is in the file, and nobody knows of it.
    pub fn crash(&mut self) {
        // With the disk gone as well, the crash came before the write.
        let _ = self.write(self.end);
        self.failed = true;
    }

    /// Refuses everything from now on, and leaves the files as they are.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Removes sealed segments whose last entry is not after `covered`, oldest first, until `keep_bytes` of sealed
    /// segments are left. Returns how many segments and bytes went.
    pub fn prune(&mut self, covered: Index, keep_bytes: u64) -> Result<(u64, u64), Error> {
        let (mut count, mut bytes) = (0, 0);
        let mut layout = self.layout.lock();
        let mut sealed: u64 = layout.0.iter().rev().skip(1).map(Segment::weight).sum();
        while layout.0.len() > 1 && sealed > keep_bytes && layout.0[0].last <= covered {
            let segment = &layout.0[0];
            self.files.remove(&segment.path).map_err(|error| Error::at(&segment.path, error))?;
            // One by one, so that a power cut cannot bring an older segment back without its successor.
            self.files.sync_dir(&self.dir).map_err(|error| Error::at(&self.dir, error))?;
            sealed -= segment.weight();
            bytes += segment.bytes;
            count += 1;
            layout.0.remove(0);
        }
        Ok((count, bytes))
    }

    /// Seals the active segment and begins the next.
    pub fn roll(&mut self) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        if self.end == HEADER_BYTES as u64 {
            return Ok(());
        }
        // Staged entries become durable before their segment is sealed; they are acknowledged by the flush to come.
        self.write_staged()?;
        if self.promised > self.end
            && let Err(error) = self.active.set_len(self.end)
        {
            tracing::warn!(%error, "room that a sealed segment does not need could not be given back");
        }
        self.sync_active()?;
        let (path, file) = match new_segment(&*self.files, &self.dir, self.staged) {
            Ok(made) => made,
            Err(error @ (Error::DiskFull { .. } | Error::Failed)) => return Err(error),
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        };
        self.marks.note(self.synced);
        self.marks.sync();
        self.layout.lock().0.push(Segment::new(path.clone(), self.staged.index + 1));
        self.active = file;
        self.active_path = path;
        self.end = HEADER_BYTES as u64;
        self.weight = self.end;
        self.promised = self.end;
        self.durable_end = self.end;
        Ok(())
    }

    /// Makes a segment that is about to be sealed durable, whatever flush is under way. Never retried either.
    fn sync_active(&mut self) -> Result<(), Error> {
        if self.synced == self.staged {
            return Ok(());
        }
        self.write_staged()?;
        self.active.sync().map_err(|error| self.fatal("sync of", error))?;
        self.synced = self.staged;
        self.durable_end = self.end;
        Ok(())
    }

    /// Whatever the kind, even "disk full": this is not a clean refusal.
    fn fatal(&mut self, what: &str, error: std::io::Error) -> Error {
        self.failed = true;
        tracing::error!(%error, segment = %self.active_path.display(), "a {what} the journal failed");
        match Error::at(&self.active_path, error) {
            Error::DiskFull { .. } => {
                Error::Io(std::io::Error::other(format!("a {what} the journal failed: disk full")))
            }
            error => error,
        }
    }

    /// After a failed write: nothing half-written may stay. Only then a full disk is a clean refusal.
    fn undo_write(&mut self, error: std::io::Error) -> Error {
        self.unwritten.clear();
        let undone = self.active.set_len(self.end);
        let error = Error::at(&self.active_path, error);
        if undone.is_err() || !error.is_refusal() {
            self.failed = true;
            tracing::error!(%error, segment = %self.active_path.display(), "a write to the journal failed");
            if error.is_refusal() {
                return Error::Io(std::io::Error::other("the disk is full and the journal could not be cut back"));
            }
        }
        error
    }
}

/// Makes a segment durable, name included, before anything is written to it.
fn new_segment(files: &dyn Files, dir: &Path, before: Head) -> Result<(PathBuf, Arc<dyn LogFile>), Error> {
    let first = before.index + 1;
    let path = dir.join(format!("{first:020}.log"));
    let header = Header { version: crate::format::FORMAT_VERSION, first, chain: before.chain };
    let make = || {
        let file = files.create(&path)?;
        file.write_at(&header.bytes(), 0)?;
        file.sync()?;
        files.sync_dir(dir)?;
        Ok(file)
    };
    match make() {
        Ok(file) => Ok((path, file)),
        Err(error) => {
            let error = Error::at(&path, error);
            // A half-made segment must not stay, or the next attempt finds its name taken.
            match crate::files::remove_if_there(files, &path) {
                Err(left) if error.is_refusal() => Err(Error::at(&path, left)),
                _ => Err(error),
            }
        }
    }
}

fn cut(files: &dyn Files, dir: &Path, tear: &Tear) -> Result<(), Error> {
    tracing::warn!(
        segment = %tear.place, offset = tear.keep_bytes, bytes = tear.lost_bytes, reason = tear.reason,
        "a torn tail that nobody was answered for was cut off the journal"
    );
    let done = if tear.keep_bytes == 0 {
        files.remove(&tear.path)
    } else {
        files.open(&tear.path).and_then(|file| {
            file.set_len(tear.keep_bytes)?;
            file.sync()
        })
    };
    done.and_then(|()| files.sync_dir(dir)).map_err(|error| Error::at(&tear.path, error))
}
