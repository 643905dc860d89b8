//! `UPLOAD.json`: written before any data of a shard. It names every file that will follow, so that data without a
//! manifest, left by a machine that vanished, can be proven ours and removed.

use leeway_model::{Epoch, JobId, Name, Timestamp};
use serde::{Deserialize, Serialize};

use crate::layout::ShardAt;
use crate::manifest::{FILES_MAX, SIZE_MAX, text};
use crate::path;

const FORMAT: &str = "leeway.upload.v1";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    format: String,
    #[serde(with = "text")]
    installation: Name,
    #[serde(with = "text")]
    job: JobId,
    epoch: Epoch,
    seq: u64,
    rank: u32,
    /// When the upload began, by the publisher's clock; the manifest repeats it, so that a second try of the same
    /// upload ends in the same bytes.
    #[serde(with = "text")]
    pub created: Timestamp,
    /// Paths and sizes, ordered by path.
    pub files: Vec<(String, u64)>,
}

impl Record {
    pub(crate) fn new(at: &ShardAt, created: Timestamp, files: Vec<(String, u64)>) -> Self {
        Self {
            format: FORMAT.into(),
            installation: at.installation.0.clone(),
            job: at.job,
            epoch: at.epoch,
            seq: at.seq,
            rank: at.rank,
            created,
            files,
        }
    }

    /// `None` unless the bytes are a record of ours for exactly this place.
    pub fn parse(bytes: &[u8], at: &ShardAt) -> Option<Self> {
        if bytes.len() as u64 > SIZE_MAX {
            return None;
        }
        let record: Self = serde_json::from_slice(bytes).ok()?;
        let here = Self::new(at, record.created, record.files.clone()) == record;
        let bounded = record.files.len() <= FILES_MAX;
        (here && bounded && path::check_all(record.files.iter().map(|(path, _)| &**path)).is_ok()).then_some(record)
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }
}
