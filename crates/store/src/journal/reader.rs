//! Reading durable entries again, from an index on. Also used by the index thread while the journal grows.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::frame::{FRAME_BYTES, Frame, HEADER_BYTES};
use super::scan;
use crate::codec::{self, Record};
use crate::{Chain, Error, Index};

/// One segment to read: where, and up to which entry.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub path: PathBuf,
    pub first: Index,
    /// Last entry to read in this segment.
    pub last: Index,
    /// An entry and its offset, not after the wanted one.
    pub from: (Index, u64),
}

/// Entries `from..` in order, each checked by its CRC.
#[derive(Debug)]
pub(crate) struct Reader {
    stretches: std::vec::IntoIter<Stretch>,
    open: Option<Open>,
    wanted: Index,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Open {
    stretch: Stretch,
    input: BufReader<File>,
    next: Index,
    at: u64,
}

impl Reader {
    pub fn new(stretches: Vec<Stretch>, wanted: Index) -> Reader {
        Reader { stretches: stretches.into_iter(), open: None, wanted, buffer: Vec::new() }
    }

    /// The next entry and the chain after it, or `None` after the last durable one.
    pub fn next(&mut self) -> Result<Option<(Record, Chain)>, Error> {
        loop {
            if self.open.as_ref().is_none_or(|open| open.next > open.stretch.last) {
                let Some(stretch) = self.stretches.next() else { return Ok(None) };
                self.open = Some(open(stretch)?);
                continue;
            }
            let Some(open) = &mut self.open else { continue };
            let record = open.read(&mut self.buffer, self.wanted)?;
            if record.is_some() {
                return Ok(record);
            }
        }
    }
}

fn open(stretch: Stretch) -> Result<Open, Error> {
    let at = |error| Error::at(&stretch.path, error);
    let mut file = File::open(&stretch.path).map_err(at)?;
    let (next, offset) = stretch.from;
    debug_assert!(offset >= HEADER_BYTES as u64);
    file.seek(SeekFrom::Start(offset)).map_err(at)?;
    Ok(Open { input: BufReader::with_capacity(128 * 1024, file), next, at: offset, stretch })
}

impl Open {
    /// Reads one frame; entries before the wanted one are skipped and give `None`.
    fn read(&mut self, buffer: &mut Vec<u8>, wanted: Index) -> Result<Option<(Record, Chain)>, Error> {
        let damaged = |reason: &str| Error::corrupt(scan::place(self.stretch.first), self.at, reason);
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("the record is cut short"),
            _ => Error::at(&self.stretch.path, error),
        };
        buffer.resize(FRAME_BYTES, 0);
        self.input.read_exact(buffer).map_err(failed)?;
        let len = Frame::claimed_len(buffer).ok_or_else(|| damaged("no record begins here"))?;
        buffer.resize(FRAME_BYTES + len, 0);
        self.input.read_exact(&mut buffer[FRAME_BYTES..]).map_err(failed)?;
        let frame = Frame::parse(buffer).map_err(damaged)?;
        let index = self.next;
        let record = if index < wanted {
            None
        } else {
            let record = codec::decode(frame.payload).filter(|record| record.index == index);
            Some((record.ok_or_else(|| damaged("the record's content cannot be read"))?, frame.chain))
        };
        self.at += frame.len() as u64;
        self.next += 1;
        Ok(record)
    }
}
