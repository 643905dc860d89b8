//! Where things lie in the store. Keys are derived from ids only, so they are the same for everyone and are relative to
//! the store's base: a tree copied to another store keeps its meaning.
//!
//! ```text
//! <installation>/<job>/<epoch>/<seq>/rank<k>/UPLOAD.json     proves the rest ours, written first
//! <installation>/<job>/<epoch>/<seq>/rank<k>/data/...        files
//! <installation>/<job>/<epoch>/<seq>/rank<k>/MANIFEST.json   written last, once
//! <installation>/<job>/pending/<epoch>-<seq>.rank<k>.json    only while the scheduler cannot be reached
//! ```

use leeway_model::checkpoint::CheckpointId;
use leeway_model::{Epoch, InstallationId, JobId};
use object_store::path::Path;

pub const MANIFEST: &str = "MANIFEST.json";
pub const UPLOAD: &str = "UPLOAD.json";
pub const DATA: &str = "data";
pub const PENDING: &str = "pending";

/// A job's place in every store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobAt {
    pub installation: InstallationId,
    pub job: JobId,
}

/// The place of one rank's part of one checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardAt {
    pub installation: InstallationId,
    pub job: JobId,
    pub epoch: Epoch,
    pub seq: u64,
    /// From 0.
    pub rank: u32,
}

impl JobAt {
    pub fn shard(&self, id: CheckpointId, rank: u32) -> ShardAt {
        let Self { installation, job } = self.clone();
        ShardAt { installation, job, epoch: id.epoch, seq: id.seq, rank }
    }

    pub fn path(&self) -> Path {
        Path::from_iter([self.installation.to_string(), self.job.to_string()])
    }

    pub fn epoch(&self, epoch: Epoch) -> Path {
        self.path().join(epoch.to_string())
    }

    pub fn checkpoint(&self, id: CheckpointId) -> Path {
        self.epoch(id.epoch).join(id.seq.to_string())
    }

    pub fn pending_dir(&self) -> Path {
        self.path().join(PENDING)
    }
}

impl ShardAt {
    pub const fn id(&self) -> CheckpointId {
        CheckpointId { epoch: self.epoch, seq: self.seq }
    }

    pub fn home(&self) -> JobAt {
        JobAt { installation: self.installation.clone(), job: self.job }
    }

    pub fn path(&self) -> Path {
        self.home().checkpoint(self.id()).join(format!("rank{}", self.rank))
    }

    pub fn manifest(&self) -> Path {
        self.path().join(MANIFEST)
    }

    pub fn upload(&self) -> Path {
        self.path().join(UPLOAD)
    }

    pub fn data_dir(&self) -> Path {
        self.path().join(DATA)
    }

    /// Key of a file; `file` has passed [`crate::path::check`].
    pub fn data(&self, file: &str) -> Path {
        file.split('/').fold(self.data_dir(), |path, part| path.join(part))
    }

    pub fn pending(&self) -> Path {
        self.home().pending_dir().join(format!("{}-{}.rank{}.json", self.epoch, self.seq, self.rank))
    }
}

/// A number as our keys spell it: no sign, no leading zero.
pub(crate) fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// The rank that a folder name such as `rank3` stands for.
pub(crate) fn rank(text: &str) -> Option<u32> {
    number(text.strip_prefix("rank")?).and_then(|rank| u32::try_from(rank).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_07_places_of_two_epochs_never_meet() {
        let job = JobAt { installation: InstallationId("lab".parse().unwrap()), job: JobId(7) };
        let shard = |epoch, seq, rank| job.shard(CheckpointId { epoch, seq }, rank);
        assert_eq!(shard(4, 17, 0).data("opt/état#1").as_ref(), "lab/j-7/4/17/rank0/data/opt/%C3%A9tat%231");
        assert_eq!(shard(4, 17, 2).manifest().as_ref(), "lab/j-7/4/17/rank2/MANIFEST.json");
        assert_eq!(shard(4, 17, 2).pending().as_ref(), "lab/j-7/pending/4-17.rank2.json");
        let places = [shard(1, 11, 0), shard(11, 1, 0), shard(2, 11, 0), shard(1, 11, 1)].map(|at| at.path());
        for (n, a) in places.iter().enumerate() {
            assert!(places.iter().skip(n + 1).all(|b| !a.prefix_matches(b) && !b.prefix_matches(a)), "{a}");
        }
    }

    #[test]
    fn folder_names_have_one_spelling() {
        assert_eq!(rank("rank0"), Some(0));
        assert_eq!(number("18446744073709551615"), Some(u64::MAX));
        for bad in ["rank", "rank00", "rank+1", "rank-1", "Rank1", "rank1 ", "rank99999999999"] {
            assert_eq!(rank(bad), None, "{bad}");
        }
    }
}
