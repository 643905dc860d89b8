//! SHA-256 of files, whole and in chunks, and its spelling as 64 hexadecimal digits.

use std::fmt::Write as _;

use leeway_model::checkpoint::Digest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Bytes that one entry of a manifest's `chunks` covers: 64 MiB.
pub const CHUNK: u64 = 64 << 20;

/// A digest as manifests spell it: lower-case hexadecimal, one spelling only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex(pub Digest);

pub fn of(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

pub fn hex(digest: &Digest) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn parse_hex(text: &str) -> Option<Digest> {
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut digest = Digest::default();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (out, [high, low]) in digest.iter_mut().zip(pairs) {
        *out = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(digest)
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refused = || serde::de::Error::custom("a digest is 64 lower-case hexadecimal digits");
        parse_hex(&text).map(Self).ok_or_else(refused)
    }
}

/// Hashes a file that arrives in pieces of any size.
#[derive(Clone, Debug)]
pub struct FileHasher {
    chunk_size: u64,
    whole: Sha256,
    /// The chunk in work. Unused during the first one, whose digest is a snapshot of `whole`: most files are no longer
    /// than one chunk and need not be hashed twice.
    chunk: Sha256,
    in_chunk: u64,
    size: u64,
    chunks: Vec<Digest>,
}

/// What a manifest says about the bytes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    pub size: u64,
    pub whole: Digest,
    pub chunks: Vec<Digest>,
}

impl FileHasher {
    pub fn new(chunk_size: u64) -> Self {
        Self {
            chunk_size: chunk_size.max(1),
            whole: Sha256::new(),
            chunk: Sha256::new(),
            in_chunk: 0,
            size: 0,
            chunks: Vec::new(),
        }
    }

    pub fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let room = usize::try_from(self.chunk_size - self.in_chunk).unwrap_or(usize::MAX);
            let (now, later) = data.split_at(room.min(data.len()));
            self.whole.update(now);
            if !self.chunks.is_empty() {
                self.chunk.update(now);
            }
            self.in_chunk += now.len() as u64;
            self.size += now.len() as u64;
            if self.in_chunk == self.chunk_size {
                self.close_chunk();
            }
            data = later;
        }
    }

    pub const fn size(&self) -> u64 {
        self.size
    }

    pub fn finish(mut self) -> FileDigest {
        if self.in_chunk > 0 {
            self.close_chunk();
        }
        FileDigest { size: self.size, whole: self.whole.finalize().into(), chunks: self.chunks }
    }

    fn close_chunk(&mut self) {
        let done = if self.chunks.is_empty() { self.whole.clone() } else { std::mem::take(&mut self.chunk) };
        self.chunks.push(done.finalize().into());
        self.in_chunk = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&of(b"abc")), text);
        assert_eq!(parse_hex(text), Some(of(b"abc")));
        for bad in ["", "ba78", &text.to_uppercase(), &format!("{text}00"), &text.replace('b', "g"), &text[1..]] {
            assert_eq!(parse_hex(bad), None, "{bad}");
        }
    }

    #[test]
    fn chunks_do_not_depend_on_how_the_bytes_arrive() {
        let data: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for size in [0, 1, 99, 100, 101, 200, 999, 1_000] {
            let expected: Vec<Digest> = data[..size].chunks(100).map(of).collect();
            for step in [1, 7, 100, 1_000] {
                let mut hasher = FileHasher::new(100);
                data[..size].chunks(step).for_each(|piece| hasher.update(piece));
                let whole = of(&data[..size]);
                assert_eq!(hasher.finish(), FileDigest { size: size as u64, whole, chunks: expected.clone() });
            }
        }
    }
}
