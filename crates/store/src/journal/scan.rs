//! Reading a whole journal and judging what is wrong with it. Nothing is written here.
//!
//! Bad bytes are a *torn tail*, to be cut, only when all of this holds: they are in the last segment; the mark of the
//! durable head is before them; and no whole frame after them says that they were durable. Anything else is damage.

use std::path::{Path, PathBuf};

use super::frame::{self, Frame, HEADER_BYTES, Header};
use super::{PLACE_DISTANCE, Segment, marks::Marks};
use crate::{Error, Head, Index, codec};

/// One entry met by the scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned<'a> {
    pub head: Head,
    pub payload: &'a [u8],
}

/// What a journal holds.
#[derive(Debug)]
pub(crate) struct Scan {
    pub segments: Vec<Segment>,
    pub head: Head,
    /// The durable head as marked when the journal was last written; `None` when no mark can be read, and then entries
    /// may be missing at the end.
    pub mark: Option<Head>,
    /// The entry before the first segment, as its header names it.
    before: Option<Head>,
    pub tear: Option<Tear>,
    /// Where in the last segment the entries after the mark begin.
    pub unmarked_from: u64,
}

/// A tail that no entry was acknowledged from.
#[derive(Clone, Debug)]
pub(crate) struct Tear {
    pub path: PathBuf,
    pub place: String,
    /// Length to which the file is cut back; 0 when the whole file goes, for its header was never finished.
    pub keep_bytes: u64,
    pub lost_bytes: u64,
    pub reason: &'static str,
}

/// The numbers of the segments in a journal directory, in order.
pub(crate) fn segment_files(dir: &Path) -> Result<Vec<(Index, PathBuf)>, Error> {
    let names = crate::files::names(dir).map_err(|error| Error::at(dir, error))?;
    let number = |name: &str| name.strip_suffix(".log").filter(|digits| digits.len() == 20)?.parse().ok();
    Ok(names.iter().filter_map(|name| Some((number(name)?, dir.join(name)))).collect())
}

/// Refuses a journal of another format, having read the headers only.
pub(crate) fn refuse_others(dir: &Path) -> Result<(), Error> {
    for (first, path) in segment_files(dir)? {
        let mut bytes = [0; HEADER_BYTES];
        let file = std::fs::File::open(&path).map_err(|error| Error::at(&path, error))?;
        if std::io::Read::read_exact(&mut &file, &mut bytes).is_ok() {
            format(Header::parse(&bytes), first)?;
        }
    }
    Ok(())
}

fn format(header: Option<Header>, first: Index) -> Result<(), Error> {
    header.map_or(Ok(()), |header| crate::format::check(place(first), header.version))
}

/// Reads everything, calling `visit` for each entry in order.
pub(crate) fn scan(dir: &Path, visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), Error>) -> Result<Scan, Error> {
    scan_after(dir, Marks::read(dir)?, visit)
}

/// As [`scan`], for an operator who takes the journal as it is, whatever was marked as durable.
pub(crate) fn scan_unmarked(dir: &Path) -> Result<Scan, Error> {
    scan_after(dir, None, &mut |_| Ok(()))
}

fn scan_after(
    dir: &Path,
    mark: Option<Head>,
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), Error>,
) -> Result<Scan, Error> {
    let files = segment_files(dir)?;
    let mut scan =
        Scan { segments: Vec::new(), head: Head::default(), mark, before: None, tear: None, unmarked_from: 0 };
    let count = files.len();
    for (number, (first, path)) in files.into_iter().enumerate() {
        scan.segment(first, path, number + 1 == count, visit)?;
    }
    if scan.head.index < scan.marked() {
        let (last, end) = scan.segments.last().map_or((0, 0), |segment| (segment.first, segment.bytes));
        let reason =
            format!("the journal ends at entry {}, but entry {} was acknowledged", scan.head.index, scan.marked());
        return Err(Error::corrupt(place(last), end, reason));
    }
    Ok(scan)
}

impl Scan {
    /// The last entry that is marked as durable.
    pub fn marked(&self) -> Index {
        self.mark.map_or(0, |mark| mark.index)
    }

    /// The entry before the first that is kept; `None` without any segment.
    pub fn before(&self) -> Option<Head> {
        self.before
    }

    fn segment(
        &mut self,
        first: Index,
        path: PathBuf,
        is_last: bool,
        visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bytes = std::fs::read(&path).map_err(|error| Error::at(&path, error))?;
        let header = Header::parse(&bytes);
        format(header, first)?;
        let Some(header) = header else { return self.headless(first, path, is_last, &bytes) };
        if self.segments.is_empty() {
            self.head = Head { index: header.first.saturating_sub(1), chain: header.chain };
            self.before = Some(self.head);
        }
        if header.first != first || first != self.head.index + 1 || header.chain != self.head.chain {
            let reason = format!("the segment does not follow entry {}", self.head.index);
            return Err(Error::corrupt(place(first), 0, reason));
        }
        let mut segment = Segment::new(path, first);
        let mut at = HEADER_BYTES;
        self.unmarked_from = at as u64;
        while at < bytes.len() {
            let frame = match Frame::parse(&bytes[at..]) {
                Ok(frame) => frame,
                Err(reason) => {
                    self.judge(&segment, is_last, &bytes, at, reason)?;
                    break;
                }
            };
            self.entry(first, at as u64, &frame, visit)?;
            segment.note(self.head.index, at as u64, frame.len() as u64);
            codec::blobs_in(frame.payload, |blob| segment.note_blob(blob))
                .ok_or_else(|| Error::corrupt(place(first), at as u64, "the record's content cannot be read"))?;
            at += frame.len();
            if self.head.index <= self.marked() {
                self.unmarked_from = at as u64;
            }
        }
        self.segments.push(segment);
        Ok(())
    }

    /// A frame whose checksum is right must also be the next one: a wrong chain is never a torn write.
    fn entry(
        &mut self,
        segment: Index,
        at: u64,
        frame: &Frame<'_>,
        visit: &mut dyn FnMut(Scanned<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let index = self.head.index + 1;
        let found = frame.payload.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        if found != Some(index) {
            let reason = format!("entry {index} should be here, found {}", found.unwrap_or(0));
            return Err(Error::corrupt(place(segment), at, reason));
        }
        if codec::link(self.head.chain, frame.payload) != frame.chain {
            let reason = format!("the hash chain breaks at entry {index}");
            return Err(Error::corrupt(place(segment), at, reason));
        }
        if self.mark.is_some_and(|mark| mark.index == index && mark.chain != frame.chain) {
            let reason = format!("entry {index} is not the one that was acknowledged");
            return Err(Error::corrupt(place(segment), at, reason));
        }
        self.head = Head { index, chain: frame.chain };
        visit(Scanned { head: self.head, payload: frame.payload })
    }

    fn judge(
        &mut self,
        segment: &Segment,
        is_last: bool,
        bytes: &[u8],
        at: usize,
        reason: &'static str,
    ) -> Result<(), Error> {
        let expected = self.head.index + 1;
        let place = place(segment.first);
        if !is_last {
            let reason = format!("{reason}, and later segments follow");
            return Err(Error::corrupt(place, at as u64, reason));
        }
        if self.marked() >= expected {
            let reason = format!("{reason}; entries up to {} were acknowledged", self.marked());
            return Err(Error::corrupt(place, at as u64, reason));
        }
        if let Some(later) = frame::find_frame(&bytes[at..], |frame| frame.durable >= expected) {
            let reason = format!("{reason}, and the record at offset {} proves that it was durable", at + later);
            return Err(Error::corrupt(place, at as u64, reason));
        }
        self.tear = Some(Tear {
            path: segment.path.clone(),
            place,
            keep_bytes: at as u64,
            lost_bytes: (bytes.len() - at) as u64,
            reason,
        });
        Ok(())
    }

    /// A segment without a whole header: the last one may have been about to be made.
    fn headless(&mut self, first: Index, path: PathBuf, is_last: bool, bytes: &[u8]) -> Result<(), Error> {
        let holds_frames = frame::find_frame(bytes, |_| true).is_some();
        if !is_last || self.segments.is_empty() || holds_frames || self.marked() >= first {
            return Err(Error::corrupt(place(first), 0, "the segment's header cannot be read"));
        }
        let lost_bytes = bytes.len() as u64;
        let reason = "the segment's header was never finished";
        self.unmarked_from = self.segments.last().map_or(0, |segment| segment.bytes);
        self.tear = Some(Tear { path, place: place(first), keep_bytes: 0, lost_bytes, reason });
        Ok(())
    }
}

impl Segment {
    pub fn new(path: PathBuf, first: Index) -> Segment {
        Segment {
            path,
            first,
            last: first - 1,
            bytes: HEADER_BYTES as u64,
            blob_bytes: 0,
            blobs: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Notes an entry of `len` bytes at offset `at`.
    pub fn note(&mut self, index: Index, at: u64, len: u64) {
        if self.places.last().is_none_or(|(_, place)| at - place >= PLACE_DISTANCE) {
            self.places.push((index, at));
        }
        self.last = index;
        self.bytes = at + len;
    }

    pub fn note_blob(&mut self, blob: codec::BlobRef) {
        self.blob_bytes += blob.len;
        self.blobs.push(blob.digest);
    }

    /// Bytes that keeping this segment costs, blobs included.
    pub fn weight(&self) -> u64 {
        self.bytes + self.blob_bytes
    }
}

/// Name of a segment file, relative to the data directory.
pub(crate) fn place(first: Index) -> String {
    format!("journal/{first:020}.log")
}

/// Where the mark of the durable head lies, relative to the data directory.
pub(crate) const MARK_PLACE: &str = "journal/head";

/// True when the journal at `dir` is at most what a creation leaves: a first segment without entries, and a first mark.
pub(crate) fn is_never_used(dir: &Path) -> Result<bool, Error> {
    let names = crate::files::names(dir).map_err(|error| Error::at(dir, error))?;
    let first = place(1);
    let first = first.trim_start_matches("journal/");
    if names.iter().any(|name| name != first && !name.starts_with("head")) {
        return Ok(false);
    }
    let segment = dir.join(first);
    let bytes = match std::fs::metadata(&segment) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(Error::at(&segment, error)),
    };
    Ok(bytes <= HEADER_BYTES as u64 && Marks::read(dir)?.is_none_or(|mark| mark.index == 0))
}

/// True when no entry of the journal at `dir` can be there: no segment file at all.
pub(crate) fn is_missing(dir: &Path) -> Result<bool, Error> {
    Ok(segment_files(dir)?.is_empty())
}
