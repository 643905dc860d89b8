//! `MANIFEST.json`: what one rank saved. It is written once, after all data, and its SHA-256 is what gets committed.

use std::collections::BTreeMap;

use leeway_model::checkpoint::{CheckpointId, Digest};
use leeway_model::{Bytes, Epoch, Timestamp};
use serde::{Deserialize, Serialize};

use crate::digest::{self, CHUNK, FileDigest, Hex};
use crate::layout::ShardAt;
use crate::path::{self, Unsafe};

pub const FORMAT: &str = "leeway.ckpt.v1";
/// Most files in one manifest.
pub const FILES_MAX: usize = 100_000;
/// Most bytes of one manifest, and of one upload record.
pub const SIZE_MAX: u64 = 32 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: String,
    #[serde(with = "text")]
    pub installation: leeway_model::Name,
    #[serde(with = "text")]
    pub job: leeway_model::JobId,
    pub epoch: Epoch,
    pub seq: u64,
    pub rank: u32,
    pub world_size: u32,
    /// The program's own count of its progress.
    pub step: u64,
    #[serde(with = "text")]
    pub created: Timestamp,
    /// Reserved for incremental checkpoints; this version knows none.
    pub parent: Option<String>,
    /// Ordered by path.
    pub files: Vec<FileEntry>,
    pub total_size: u64,
    #[serde(default)]
    pub meta: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    pub path: String,
    pub size: u64,
    pub sha256: Hex,
    /// Bytes a chunk; the last may be shorter.
    pub chunk: u64,
    pub chunks: Vec<Hex>,
    /// Anything but a regular file is refused; the field exists so that the refusal can say why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

/// The bytes are not a manifest that this version may act on.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error(transparent)]
    UnsafePath(#[from] Unsafe),
    #[error("the manifest is malformed: {0}")]
    Malformed(String),
    #[error("the manifest needs {0}, which this version does not know; restore it with a newer one")]
    Unsupported(String),
    #[error("{count} files; a checkpoint of one rank may have 100000, pack small files together")]
    TooManyFiles { count: usize },
    #[error("the manifest would have {size} bytes; 33554432 (32 MiB) are allowed, use fewer or shorter names")]
    TooLarge { size: u64 },
}

impl ManifestError {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnsafePath(_) => Unsafe::CODE,
            Self::Malformed(_) => "MANIFEST_MALFORMED",
            Self::Unsupported(_) => "MANIFEST_UNSUPPORTED",
            Self::TooManyFiles { .. } | Self::TooLarge { .. } => "MANIFEST_TOO_LARGE",
        }
    }
}

/// What the publisher knows before the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header<'a> {
    pub at: &'a ShardAt,
    pub step: u64,
    pub world_size: u32,
    pub created: Timestamp,
}

impl FileEntry {
    pub fn new(path: String, digest: FileDigest) -> Self {
        let chunks = digest.chunks.into_iter().map(Hex).collect();
        Self { path, size: digest.size, sha256: Hex(digest.whole), chunk: CHUNK, chunks, kind: None }
    }
}

impl Manifest {
    pub(crate) fn new(header: Header<'_>, mut files: Vec<FileEntry>) -> Result<Self, ManifestError> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let at = header.at;
        let manifest = Self {
            format: FORMAT.into(),
            installation: at.installation.0.clone(),
            job: at.job,
            epoch: at.epoch,
            seq: at.seq,
            rank: at.rank,
            world_size: header.world_size,
            step: header.step,
            created: header.created,
            parent: None,
            total_size: sum(&files)?,
            files,
            meta: BTreeMap::new(),
        };
        manifest.check()?;
        Ok(manifest)
    }

    /// Reads and judges a manifest; nothing of it may be used before this returned `Ok`.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Probe {
            format: String,
        }
        if bytes.len() as u64 > SIZE_MAX {
            return Err(ManifestError::TooLarge { size: bytes.len() as u64 });
        }
        let malformed = |error: serde_json::Error| ManifestError::Malformed(error.to_string());
        let probe: Probe = serde_json::from_slice(bytes).map_err(malformed)?;
        if probe.format != FORMAT {
            let format = leeway_model::name::escape(&probe.format);
            return Err(ManifestError::Unsupported(format!("the format '{format}'")));
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(malformed)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// The bytes that are stored and hashed; equal manifests give equal bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ManifestError> {
        let bytes = serde_json::to_vec(self).map_err(|error| ManifestError::Malformed(error.to_string()))?;
        let size = bytes.len() as u64;
        if size > SIZE_MAX { Err(ManifestError::TooLarge { size }) } else { Ok(bytes) }
    }

    pub const fn id(&self) -> CheckpointId {
        CheckpointId { epoch: self.epoch, seq: self.seq }
    }

    pub const fn size(&self) -> Bytes {
        Bytes::new(self.total_size)
    }

    /// Says itself to belong at this place.
    pub fn belongs_at(&self, at: &ShardAt) -> bool {
        let Self { installation, job, epoch, seq, rank, .. } = self;
        (installation, job, epoch, seq, rank) == (&at.installation.0, &at.job, &at.epoch, &at.seq, &at.rank)
    }

    fn check(&self) -> Result<(), ManifestError> {
        let malformed = |text: String| Err(ManifestError::Malformed(text));
        if self.parent.is_some() {
            return Err(ManifestError::Unsupported("a parent checkpoint".into()));
        }
        if self.files.len() > FILES_MAX {
            return Err(ManifestError::TooManyFiles { count: self.files.len() });
        }
        for file in &self.files {
            match file.kind.as_deref() {
                None | Some("file") => {}
                Some("symlink") => return Err(Unsafe::new(&file.path, path::Why::Symlink).into()),
                Some(_) => return Err(Unsafe::new(&file.path, path::Why::Special).into()),
            }
        }
        path::check_all(self.files.iter().map(|file| &*file.path))?;
        if self.rank >= self.world_size {
            return malformed(format!("rank {} of {}", self.rank, self.world_size));
        }
        if sum(&self.files)? != self.total_size {
            return malformed(format!("total_size is {}, its files have another sum", self.total_size));
        }
        let wrong = |file: &&FileEntry| file.chunk == 0 || file.size.div_ceil(file.chunk) != file.chunks.len() as u64;
        match self.files.iter().find(wrong) {
            Some(file) => {
                malformed(format!("'{}' has a wrong number of chunks", leeway_model::name::escape(&file.path)))
            }
            None => Ok(()),
        }
    }
}

/// Digest of a manifest's bytes, the form in which it is committed.
pub fn digest(bytes: &[u8]) -> Digest {
    digest::of(bytes)
}

fn sum(files: &[FileEntry]) -> Result<u64, ManifestError> {
    let total = files.iter().try_fold(0_u64, |total, file| total.checked_add(file.size));
    total.ok_or_else(|| ManifestError::Malformed("the sizes of its files overflow".into()))
}

/// Values that are spelled as text, by their own `Display` and `FromStr`.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use leeway_model::{InstallationId, JobId};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn sample() -> Value {
        let at =
            ShardAt { installation: InstallationId("lab".parse().unwrap()), job: JobId(7), epoch: 4, seq: 17, rank: 1 };
        let created = "2026-03-14T15:09:26Z".parse().unwrap();
        let mut hasher = digest::FileHasher::new(CHUNK);
        hasher.update(b"abc");
        let entry = FileEntry::new("model.bin".into(), hasher.finish());
        let manifest = Manifest::new(Header { at: &at, step: 182_000, world_size: 16, created }, vec![entry]).unwrap();
        assert!(manifest.belongs_at(&at));
        assert!(!manifest.belongs_at(&ShardAt { epoch: 5, ..at }));
        serde_json::from_slice(&manifest.to_bytes().unwrap()).unwrap()
    }

    #[test]
    fn the_format_is_the_documented_one() {
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = json!({
            "format": "leeway.ckpt.v1", "installation": "lab", "job": "j-7", "epoch": 4, "seq": 17, "rank": 1,
            "world_size": 16, "step": 182_000, "created": "2026-03-14T15:09:26Z", "parent": null,
            "files": [{"path": "model.bin", "size": 3, "sha256": sha, "chunk": 67_108_864, "chunks": [sha]}],
            "total_size": 3, "meta": {}
        });
        assert_eq!(sample(), expected);
    }

    #[test]
    fn k_06_a_manifest_that_names_an_unsafe_path_is_refused_by_code() {
        let check = |change: &dyn Fn(&mut Value), code: &str| {
            let mut value = sample();
            change(&mut value);
            let refused = Manifest::parse(&serde_json::to_vec(&value).unwrap()).unwrap_err();
            assert_eq!(refused.code(), code, "{refused}");
        };
        for path in ["../x", "/etc/passwd", "a/../../b", "a\\b", "a\0b", "", "C:\\x"] {
            check(&|value| value["files"][0]["path"] = json!(path), "MANIFEST_UNSAFE_PATH");
        }
        for kind in ["symlink", "device", "fifo"] {
            check(&|value| value["files"][0]["kind"] = json!(kind), "MANIFEST_UNSAFE_PATH");
        }
        check(&|value| value["files"][0]["link"] = json!("/etc"), "MANIFEST_MALFORMED");
        check(&|value| value["format"] = json!("leeway.ckpt.v2"), "MANIFEST_UNSUPPORTED");
        check(&|value| value["parent"] = json!("4/16"), "MANIFEST_UNSUPPORTED");
        check(&|value| value["total_size"] = json!(4), "MANIFEST_MALFORMED");
        check(&|value| value["rank"] = json!(16), "MANIFEST_MALFORMED");
        check(&|value| value["files"][0]["chunks"] = json!([]), "MANIFEST_MALFORMED");
        check(&|value| value["files"][0]["chunk"] = json!(0), "MANIFEST_MALFORMED");
        check(&|value| value["files"][0]["size"] = json!(-1), "MANIFEST_MALFORMED");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(at in 0_usize..600, with in any::<Vec<u8>>()) {
            let mut bytes = serde_json::to_vec(&sample()).unwrap();
            let at = at.min(bytes.len());
            bytes.splice(at..(at + 3).min(bytes.len()), with.iter().copied());
            let _ = Manifest::parse(&bytes);
            let _ = Manifest::parse(&with);
        }
    }
}
