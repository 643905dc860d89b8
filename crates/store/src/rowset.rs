//! A fingerprint of a set of rows that can be kept up to date change by change.
//!
//! sled can lose rows, or bring back older ones, without an error. Counting rows finds the first and not the second,
//! so the index carries this sum over all its rows, and a scan must arrive at the same one.

use sha2::{Digest, Sha256};

use crate::codec::Cursor;

/// Count, bytes and hash of a set of rows; independent of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowSet {
    pub count: u64,
    /// Bytes of keys and values, wherever the values live.
    pub bytes: u64,
    pub hash: u128,
}

impl RowSet {
    /// Adds a row in its kept form; `len` is the length of the value itself.
    pub fn add(&mut self, key: &[u8], kept: &[u8], len: u64) {
        self.count = self.count.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(key.len() as u64 + len);
        self.hash = self.hash.wrapping_add(row_hash(key, kept));
    }

    /// Takes away a row that was added.
    pub fn remove(&mut self, key: &[u8], kept: &[u8], len: u64) {
        self.count = self.count.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(key.len() as u64 + len);
        self.hash = self.hash.wrapping_sub(row_hash(key, kept));
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.hash.to_le_bytes());
    }

    pub fn parse(cursor: &mut Cursor<'_>) -> Option<RowSet> {
        Some(RowSet { count: cursor.u64()?, bytes: cursor.u64()?, hash: u128::from_le_bytes(cursor.array()?) })
    }
}

fn row_hash(key: &[u8], kept: &[u8]) -> u128 {
    let mut hasher = Sha256::new();
    hasher.update((key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(kept);
    let digest: [u8; 32] = hasher.finalize().into();
    let (half, _) = digest.split_first_chunk::<16>().expect("a SHA-256 digest has 32 bytes");
    u128::from_le_bytes(*half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_removal_undoes() {
        let (mut one, mut other) = (RowSet::default(), RowSet::default());
        one.add(b"a", b"1", 1);
        one.add(b"b", b"2", 1);
        other.add(b"c", b"3", 1);
        other.add(b"b", b"2", 1);
        other.add(b"a", b"1", 1);
        assert_ne!(one, other);
        other.remove(b"c", b"3", 1);
        assert_eq!(one, other);
    }

    #[test]
    fn key_and_value_cannot_be_shifted_into_each_other() {
        let (mut one, mut other) = (RowSet::default(), RowSet::default());
        one.add(b"ab", b"c", 1);
        other.add(b"a", b"bc", 1);
        assert_ne!(one.hash, other.hash);
    }
}
