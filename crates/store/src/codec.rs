//! The bytes of an entry. These bytes are hashed into the chain, so every store must produce the same ones.
//!
//! A value over [`MAX_INLINE_BYTES`] is represented by its digest and length, whether or not the store keeps it in a
//! file of its own. All integers are little endian.

use sha2::{Digest, Sha256};

use crate::{Chain, Entry, Error, Index, Key};

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1024;
/// Longest value, in bytes, that is kept inline; longer ones live in content-addressed files.
pub const MAX_INLINE_BYTES: usize = 256 * 1024;
/// Longest encoded entry, in bytes, and longest single value.
pub const MAX_ENTRY_BYTES: usize = 64 * 1024 * 1024;

const REMOVED: u8 = 0;
const INLINE: u8 = 1;
const BLOB: u8 = 2;

/// Names a value that lives in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlobRef {
    pub digest: [u8; 32],
    pub len: u64,
}

impl BlobRef {
    pub fn of(bytes: &[u8]) -> BlobRef {
        BlobRef { digest: Sha256::digest(bytes).into(), len: bytes.len() as u64 }
    }
}

/// A row's value as it is kept: the bytes, or the name of the file that has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Inline(Box<[u8]>),
    Blob(BlobRef),
}

impl Value {
    /// Appends the kept form: a tag, then the bytes or the reference.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::Inline(bytes) => {
                out.push(INLINE);
                out.extend_from_slice(bytes);
            }
            Value::Blob(blob) => {
                out.push(BLOB);
                out.extend_from_slice(&blob.digest);
                out.extend_from_slice(&blob.len.to_le_bytes());
            }
        }
    }

    /// Reads the kept form, which spans all of `bytes`.
    pub fn parse(bytes: &[u8]) -> Option<Value> {
        match bytes.split_first()? {
            (&INLINE, rest) => Some(Value::Inline(rest.into())),
            (&BLOB, rest) => {
                let mut cursor = Cursor(rest);
                let blob = cursor.blob()?;
                cursor.0.is_empty().then_some(Value::Blob(blob))
            }
            _ => None,
        }
    }

    /// [`len`](Self::len) of a kept form, which spans all of `bytes`.
    pub fn len_of(bytes: &[u8]) -> Option<u64> {
        match bytes.split_first()? {
            (&INLINE, rest) => Some(rest.len() as u64),
            _ => Value::parse(bytes).map(|value| value.len()),
        }
    }

    /// Length of the value itself, in bytes, wherever it lives.
    pub fn len(&self) -> u64 {
        match self {
            Value::Inline(bytes) => bytes.len() as u64,
            Value::Blob(blob) => blob.len,
        }
    }
}

/// A changed row as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub key: Key,
    pub value: Option<Value>,
}

/// An entry as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub index: Index,
    pub time_ms: i64,
    pub event: Box<[u8]>,
    pub rows: Vec<Change>,
}

/// Refuses an entry that is out of order or over a limit; all stores check with this.
pub(crate) fn check(entry: &Entry, expected: Index) -> Result<(), Error> {
    let index = entry.index;
    if index != expected {
        return Err(Error::OutOfOrder { expected, found: index });
    }
    let limit = |what, bytes: usize, limit: usize| {
        if bytes > limit {
            return Err(Error::TooLarge { index, what, bytes: bytes as u64, limit: limit as u64 });
        }
        Ok(())
    };
    let mut total = entry.event.len();
    for row in &entry.rows {
        limit("a key", row.key.len(), MAX_KEY_BYTES)?;
        let value = row.value.as_ref().map_or(0, |value| value.len());
        limit("a value", value, MAX_ENTRY_BYTES)?;
        total += 64 + row.key.len() + if value > MAX_INLINE_BYTES { 0 } else { value };
    }
    limit("the entry", total, MAX_ENTRY_BYTES - 1024)
}

/// Writes the canonical bytes of `entry`; `on_blob` is told of each value that is too long to be inline.
pub(crate) fn encode<E>(
    entry: &Entry,
    out: &mut Vec<u8>,
    mut on_blob: impl FnMut(BlobRef, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    out.extend_from_slice(&entry.index.to_le_bytes());
    out.extend_from_slice(&entry.time_ms.to_le_bytes());
    put_bytes(out, &entry.event);
    out.extend_from_slice(&(entry.rows.len() as u32).to_le_bytes());
    for row in &entry.rows {
        out.extend_from_slice(&(row.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&row.key);
        match &row.value {
            None => out.push(REMOVED),
            Some(value) if value.len() > MAX_INLINE_BYTES => {
                let blob = BlobRef::of(value);
                on_blob(blob, value)?;
                Value::Blob(blob).put(out);
            }
            Some(value) => {
                out.push(INLINE);
                put_bytes(out, value);
            }
        }
    }
    Ok(())
}

/// The chain value after an entry with these canonical bytes.
pub(crate) fn link(previous: Chain, payload: &[u8]) -> Chain {
    let mut hasher = Sha256::new();
    hasher.update(previous.0);
    hasher.update(payload);
    Chain(hasher.finalize().into())
}

/// Reads canonical bytes; `None` when they are not exactly one entry.
pub(crate) fn decode(payload: &[u8]) -> Option<Record> {
    let mut cursor = Cursor(payload);
    let index = cursor.u64()?;
    let time_ms = cursor.u64()? as i64;
    let event = cursor.bytes()?.into();
    let count = cursor.u32()?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let (key, value) = cursor.row()?;
        let value = match value {
            Seen::Removed => None,
            Seen::Inline(bytes) => Some(Value::Inline(bytes.into())),
            Seen::Blob(blob) => Some(Value::Blob(blob)),
        };
        rows.push(Change { key: key.into(), value });
    }
    cursor.0.is_empty().then_some(Record { index, time_ms, event, rows })
}

/// Walks canonical bytes without copying, and tells of each value that lives in a file of its own.
pub(crate) fn blobs_in(payload: &[u8], mut visit: impl FnMut(BlobRef)) -> Option<()> {
    let mut cursor = Cursor(payload);
    cursor.take(16)?;
    cursor.bytes()?;
    for _ in 0..cursor.u32()? {
        if let (_, Seen::Blob(blob)) = cursor.row()? {
            visit(blob);
        }
    }
    cursor.0.is_empty().then_some(())
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

enum Seen<'a> {
    Removed,
    Inline(&'a [u8]),
    Blob(BlobRef),
}

/// What is left to read.
#[derive(Debug, Default)]
pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    fn blob(&mut self) -> Option<BlobRef> {
        Some(BlobRef { digest: self.array()?, len: self.u64()? })
    }

    fn row(&mut self) -> Option<(&'a [u8], Seen<'a>)> {
        let key_len = self.u16()?;
        let key = self.take(key_len as usize)?;
        let value = match self.take(1)?[0] {
            REMOVED => Seen::Removed,
            INLINE => Seen::Inline(self.bytes()?),
            BLOB => Seen::Blob(self.blob()?),
            _ => return None,
        };
        Some((key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RowChange;
    use proptest::prelude::*;

    fn bytes(max: usize) -> impl Strategy<Value = Box<[u8]>> {
        prop::collection::vec(any::<u8>(), 0..max).prop_map(Vec::into_boxed_slice)
    }

    proptest! {
        #[test]
        fn every_entry_reads_back_as_it_was_written(
            index in any::<u64>(), time_ms in any::<i64>(), event in bytes(40),
            rows in prop::collection::vec((bytes(20), prop::option::of(bytes(60))), 0..6),
        ) {
            let rows = rows.into_iter().map(|(key, value)| RowChange { key, value }).collect();
            let entry = Entry { index, time_ms, event, rows };
            let mut out = Vec::new();
            encode(&entry, &mut out, |_, _| Ok::<_, ()>(())).unwrap();
            let record = decode(&out).unwrap();
            prop_assert_eq!(record.index, entry.index);
            prop_assert_eq!(record.time_ms, entry.time_ms);
            prop_assert_eq!(&record.event, &entry.event);
            let rows: Vec<RowChange> = record.rows.into_iter().map(|change| RowChange {
                key: change.key,
                value: change.value.map(|value| match value {
                    Value::Inline(bytes) => bytes,
                    Value::Blob(_) => unreachable!("short values are inline"),
                }),
            }).collect();
            prop_assert_eq!(rows, entry.rows);
            prop_assert!(blobs_in(&out, |_| ()).is_some());
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&input);
            let _ = blobs_in(&input, |_| ());
            let _ = Value::parse(&input);
        }
    }

    #[test]
    fn a_long_value_is_represented_by_its_digest() {
        let value: Box<[u8]> = vec![7; MAX_INLINE_BYTES + 1].into();
        let row = RowChange { key: Box::from(*b"k"), value: Some(value.clone()) };
        let entry = Entry { index: 1, time_ms: 0, event: Box::default(), rows: vec![row] };
        let (mut out, mut seen) = (Vec::new(), Vec::new());
        encode(&entry, &mut out, |blob, _| {
            seen.push(blob);
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(seen, [BlobRef::of(&value)]);
        assert!(out.len() < 200);
        let mut found = Vec::new();
        blobs_in(&out, |blob| found.push(blob)).unwrap();
        assert_eq!(found, seen);
    }
}
