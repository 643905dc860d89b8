//! The bytes of a segment file: one header, then frames.
//!
//! ```text
//! header: magic 8 | version 4 | first index 8 | chain before it 32 | crc 4
//! frame:  magic 4 | payload length 4 | crc 4 | durable index 8 | chain 32 | payload
//! ```
//!
//! A frame's CRC covers length, durable index, chain and payload. `durable index` is the last entry that was known to
//! be durable when the frame was written. It tells a torn write from damage: bad bytes before a frame that says "all
//! of that was durable" are damage, however much of the file's end the disk has lost. The first 20 bytes of the header
//! and its length and CRC stay the same in every later version, so that an old program can name a newer one.

use crate::codec::{Cursor, MAX_ENTRY_BYTES};
use crate::{Chain, Index};

pub(crate) const HEADER_BYTES: usize = 56;
pub(crate) const FRAME_BYTES: usize = 52;
const HEADER_MAGIC: &[u8; 8] = b"LEEWAYJ\n";
const FRAME_MAGIC: &[u8; 4] = b"\xf5LJe";

/// What a segment says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub version: u32,
    pub first: Index,
    /// Chain value of entry `first - 1`.
    pub chain: Chain,
}

impl Header {
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(HEADER_MAGIC);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.chain.0);
        let crc = crc32fast::hash(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` when the bytes do not begin with a whole header.
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let mut cursor = Cursor(bytes.get(..HEADER_BYTES)?);
        if cursor.take(8)? != HEADER_MAGIC {
            return None;
        }
        let (version, first, chain) = (cursor.u32()?, cursor.u64()?, Chain(cursor.array()?));
        (cursor.u32()? == crc32fast::hash(&bytes[..HEADER_BYTES - 4])).then_some(Header { version, first, chain })
    }
}

/// One entry as it stands in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub durable: Index,
    pub chain: Chain,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Appends the frame's bytes to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(FRAME_MAGIC);
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.durable.to_le_bytes());
        out.extend_from_slice(&self.chain.0);
        out.extend_from_slice(self.payload);
        let crc = crc(&out[start..]);
        out[start + 8..start + 12].copy_from_slice(&crc.to_le_bytes());
    }

    /// Payload length that a frame head claims; `None` when it is no frame head.
    pub fn claimed_len(head: &[u8]) -> Option<usize> {
        let mut cursor = Cursor(head);
        if cursor.take(4)? != FRAME_MAGIC {
            return None;
        }
        let len = cursor.u32()? as usize;
        (len <= MAX_ENTRY_BYTES).then_some(len)
    }

    /// Reads the frame at the start of `bytes`, or says why there is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, &'static str> {
        if bytes.len() < FRAME_BYTES {
            return Err("the record's head is cut short");
        }
        let len = Frame::claimed_len(bytes).ok_or("no record begins here")?;
        let whole = bytes.get(..FRAME_BYTES + len).ok_or("the record is cut short")?;
        let mut cursor = Cursor(&whole[8..]);
        let stored = cursor.u32().ok_or("the record's head is cut short")?;
        if stored != crc(whole) {
            return Err("the record's checksum does not match");
        }
        let durable = cursor.u64().ok_or("the record's head is cut short")?;
        let chain = cursor.array().ok_or("the record's head is cut short")?;
        Ok(Frame { durable, chain: Chain(chain), payload: cursor.0 })
    }

    /// Bytes of the whole frame.
    pub fn len(&self) -> usize {
        FRAME_BYTES + self.payload.len()
    }
}

/// The first whole frame in `bytes` of which `accept` approves, wherever it begins.
pub(crate) fn find_frame(bytes: &[u8], accept: impl Fn(&Frame<'_>) -> bool) -> Option<usize> {
    let mut at = 0;
    while at + FRAME_BYTES <= bytes.len() {
        match Frame::parse(&bytes[at..]) {
            Ok(frame) if accept(&frame) => return Some(at),
            Ok(frame) => at += frame.len(),
            Err(_) => at += 1,
        }
    }
    None
}

fn crc(whole: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&whole[4..8]);
    hasher.update(&whole[12..]);
    hasher.finalize()
}
