//! Rows that lie side by side, kept as one value of sled.
//!
//! ```text
//! "b" + fence -> crc 4 | row | row | ...          row = key length 2 | kept length 4 | key | kept value
//! ```
//!
//! What sled does costs by the value more than by the byte, and jobs that come one after the other are rows one after
//! the other. A block holds the rows from its fence up to the fence of the next block, of one table only (the first byte
//! of a key); the first block of a table begins at its first possible key. A block that grows too long is cut.

use super::{Damage, crc};
use crate::codec::{Cursor, Value};
use crate::rowset::RowSet;
use crate::{Key, blobs};

/// First byte of a block's key in sled.
pub(super) const BLOCK: u8 = b'b';
const CRC_BYTES: usize = 4;
const ROW_HEAD_BYTES: usize = 6;
/// A block over so many bytes is cut. Changing one row writes the whole block, so it must not be long either.
const MAX_BYTES: usize = 8 * 1024;

/// A row as a block has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub key: &'a [u8],
    /// The kept form of the value.
    pub kept: &'a [u8],
}

impl Row<'_> {
    fn bytes(self) -> usize {
        ROW_HEAD_BYTES + self.key.len() + self.kept.len()
    }
}

/// The key in sled of the block that begins at `fence`.
pub(super) fn stored_key(fence: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + fence.len());
    key.push(BLOCK);
    key.extend_from_slice(fence);
    key
}

/// Where the first block of the table of `key` begins.
pub(super) fn first_fence(key: &[u8]) -> &[u8] {
    key.get(..1).unwrap_or_default()
}

/// The rows of a block, proved by its checksum.
pub(super) fn open<'a>(stored_key: &[u8], stored: &'a [u8]) -> Result<Rows<'a>, Damage> {
    let whole = stored.split_first_chunk::<CRC_BYTES>().filter(|(sum, rows)| **sum == crc(stored_key, rows));
    let (_, rows) = whole.ok_or_else(|| damaged(stored_key))?;
    Ok(Rows { stored_key: stored_key.into(), cursor: Cursor(rows) })
}

pub(super) fn damaged(stored_key: &[u8]) -> Damage {
    Damage(format!("the block {} is damaged", blobs::hex(stored_key)))
}

/// Rows of one block, in order; none by default.
#[derive(Debug, Default)]
pub(super) struct Rows<'a> {
    stored_key: Box<[u8]>,
    cursor: Cursor<'a>,
}

impl<'a> Rows<'a> {
    fn read(&mut self) -> Option<Row<'a>> {
        let (key, kept) = (self.cursor.u16()?, self.cursor.u32()?);
        Some(Row { key: self.cursor.take(key.into())?, kept: self.cursor.take(kept as usize)? })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.0.is_empty() {
            return None;
        }
        let row = self.read();
        if row.is_none() {
            self.cursor.0 = &[];
        }
        Some(row.ok_or_else(|| damaged(&self.stored_key)))
    }
}

/// A block to be written: its key in sled and its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub key: Vec<u8>,
    pub bytes: Vec<u8>,
}

/// Puts rows that come in order into blocks.
#[derive(Debug)]
pub(super) struct Packer {
    block: Option<Block>,
    /// Where the next block begins, when it is not at its first row.
    fence: Option<Vec<u8>>,
    table: Option<u8>,
    limit: usize,
}

impl Packer {
    /// Blocks of at most `limit` bytes, or of one row; the first one begins at `fence`.
    fn new(fence: &[u8], limit: usize) -> Packer {
        Packer { block: None, fence: Some(fence.to_vec()), table: fence.first().copied(), limit }
    }

    /// For all rows of an index.
    pub fn of_all() -> Packer {
        Packer::new(&[], MAX_BYTES)
    }

    /// Takes a row; gives back the block before it when that is complete.
    pub fn push(&mut self, row: Row<'_>) -> Option<Block> {
        let table = row.key.first().copied();
        let full = self.block.as_ref().is_some_and(|block| block.bytes.len() + row.bytes() > CRC_BYTES + self.limit);
        let mut done = None;
        if table != self.table {
            done = self.finish();
            self.table = table;
            self.fence = Some(first_fence(row.key).to_vec());
        } else if full {
            done = self.finish();
        }
        let fence = &mut self.fence;
        let block = self.block.get_or_insert_with(|| {
            let fence = fence.take().unwrap_or_else(|| row.key.to_vec());
            Block { key: stored_key(&fence), bytes: vec![0; CRC_BYTES] }
        });
        let out = &mut block.bytes;
        out.extend_from_slice(&(row.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(row.kept.len() as u32).to_le_bytes());
        out.extend_from_slice(row.key);
        out.extend_from_slice(row.kept);
        done
    }

    /// The last block, if there is one.
    pub fn finish(&mut self) -> Option<Block> {
        let mut block = self.block.take()?;
        let (sum, rows) = block.bytes.split_at_mut(CRC_BYTES);
        sum.copy_from_slice(&crc(&block.key, rows));
        Some(block)
    }
}

/// The rows of the block that begins at `fence` after `changes`, which all lie in it, as blocks; none when no row is
/// left. Keeps `set` up to date.
pub(super) fn merge<'c>(
    fence: &[u8],
    old: Rows<'_>,
    changes: impl Iterator<Item = (&'c Key, Option<&'c Value>)>,
    set: &mut RowSet,
) -> Result<Vec<Block>, Damage> {
    let old: Vec<Row<'_>> = old.collect::<Result<_, _>>()?;
    let mut new = Vec::new();
    for (key, value) in changes {
        let kept = value.map(|value| {
            let mut kept = Vec::with_capacity(1 + value.len().min(MAX_BYTES as u64) as usize);
            value.put(&mut kept);
            kept
        });
        new.push((key, kept));
    }
    // Jobs come in the order of their ids: what is only added at the end leaves full blocks behind it.
    let grows_at_end = old.last().zip(new.first()).is_none_or(|(last, (key, _))| last.key < key);
    let rows = merged(&old, &new, set)?;
    let total: usize = rows.iter().map(|row| row.bytes()).sum();
    let parts = if grows_at_end { 1 } else { total.div_ceil(MAX_BYTES) };
    let mut packer = Packer::new(fence, if parts == 1 { MAX_BYTES } else { MAX_BYTES * 5 / 4 });
    let (mut blocks, mut part, mut before) = (Vec::new(), 0, 0);
    for row in rows {
        if before * parts / total != part {
            part = before * parts / total;
            blocks.extend(packer.finish());
        }
        before += row.bytes();
        blocks.extend(packer.push(row));
    }
    blocks.extend(packer.finish());
    Ok(blocks)
}

type Changed<'a> = (&'a Key, Option<Vec<u8>>);

fn merged<'a>(old: &[Row<'a>], new: &'a [Changed<'_>], set: &mut RowSet) -> Result<Vec<Row<'a>>, Damage> {
    let mut rows = Vec::with_capacity(old.len() + new.len());
    let mut old = old.iter().copied().peekable();
    for (key, kept) in new {
        while let Some(row) = old.next_if(|row| *row.key < ***key) {
            rows.push(row);
        }
        if let Some(before) = old.next_if(|row| *row.key == ***key) {
            set.remove(key, before.kept, len(before.kept)?);
        }
        if let Some(kept) = kept {
            set.add(key, kept, len(kept)?);
            rows.push(Row { key, kept });
        }
    }
    rows.extend(old);
    Ok(rows)
}

/// Length of the value itself of a kept form.
pub(super) fn len(kept: &[u8]) -> Result<u64, Damage> {
    Value::len_of(kept).ok_or_else(|| Damage::new("a row of the index is of no known kind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(len: usize) -> Value {
        Value::Inline(vec![7; len].into())
    }

    fn written(fence: &[u8], old: &[u8], rows: &[(Key, Option<Value>)]) -> Vec<Block> {
        let old = Rows { stored_key: stored_key(fence).into(), cursor: Cursor(old) };
        merge(fence, old, rows.iter().map(|(key, value)| (key, value.as_ref())), &mut RowSet::default()).unwrap()
    }

    fn job(number: u16) -> Key {
        [&b"j"[..], &number.to_be_bytes()].concat().into()
    }

    #[test]
    fn rows_that_only_come_at_the_end_leave_full_blocks_behind() {
        let mut last = written(b"j", &[], &[(job(0), Some(value(500)))]).pop().unwrap();
        let mut full = 0;
        for number in 1..100 {
            let mut blocks = written(&last.key[1..], &last.bytes[CRC_BYTES..], &[(job(number), Some(value(500)))]);
            last = blocks.pop().unwrap();
            full += blocks.len();
            assert!(blocks.iter().all(|block| block.bytes.len() > MAX_BYTES * 9 / 10));
        }
        assert_eq!(full, 6);
    }

    #[test]
    fn a_block_that_grows_in_its_middle_is_cut_in_equal_parts() {
        let even: Vec<_> = (0..15).map(|number| (job(2 * number), Some(value(500)))).collect();
        let block = written(b"j", &[], &even).pop().unwrap();
        let blocks = written(b"j", &block.bytes[CRC_BYTES..], &[(job(7), Some(value(900)))]);
        assert_eq!(blocks.len(), 2);
        assert!(blocks.iter().all(|block| block.bytes.len() > 3_500), "{:?}", blocks.iter().map(|b| b.bytes.len()));
    }

    #[test]
    fn a_row_longer_than_a_block_has_one_of_its_own_and_a_block_without_rows_is_none() {
        let rows = [(job(1), Some(value(10))), (job(2), Some(value(100_000))), (job(3), Some(value(10)))];
        let blocks = written(b"j", &[], &rows);
        assert_eq!(blocks.len(), 3);
        assert_eq!(blocks[0].key, b"bj", "the first block of a table begins where the table does");
        assert_eq!(written(b"j", &blocks[0].bytes[CRC_BYTES..], &[(job(1), None)]), []);
    }

    #[test]
    fn a_changed_byte_anywhere_is_found() {
        let block = written(b"j", &[], &[(job(1), Some(value(30))), (job(2), Some(value(0)))]).pop().unwrap();
        assert_eq!(open(&block.key, &block.bytes).unwrap().count(), 2);
        for at in 0..block.bytes.len() {
            let mut bytes = block.bytes.clone();
            bytes[at] ^= 1;
            assert!(open(&block.key, &bytes).is_err(), "byte {at}");
        }
        assert!(open(b"bk", &block.bytes).is_err(), "a block of another place");
    }
}
