//! What the tests of the repository share: places, trees, stores in memory and in folders.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part, and a failed helper is a failed test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use leeway_data::faulty::FaultyStore;
use leeway_data::{JobAt, Patience, PublishError, Published, Repository, ShardAt, open_store};
use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::{Bytes, InstallationId, JobId, Millis};
use object_store::ObjectStoreExt;

pub type Tree = BTreeMap<String, Vec<u8>>;

pub fn job() -> JobAt {
    JobAt { installation: InstallationId("lab".parse().unwrap()), job: JobId(7) }
}

pub const fn id(epoch: u64, seq: u64) -> CheckpointId {
    CheckpointId { epoch, seq }
}

pub fn shard(epoch: u64, seq: u64) -> ShardAt {
    job().shard(id(epoch, seq), 0)
}

pub fn tree(files: &[(&str, &[u8])]) -> Tree {
    files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
}

pub fn write_tree(dir: &Path, tree: &Tree) {
    fs::create_dir_all(dir).unwrap();
    for (path, bytes) in tree {
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
}

pub fn read_tree(dir: &Path) -> Tree {
    let mut tree = Tree::new();
    for entry in walkdir::WalkDir::new(dir).min_depth(1) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            tree.insert(path, fs::read(entry.path()).unwrap());
        }
    }
    tree
}

/// Tries again, but within milliseconds.
pub const QUICK: Patience =
    Patience { total: Millis::new(50), first_delay: Millis::new(1), longest_delay: Millis::new(2) };

/// A repository in memory that can be told to misbehave, and a folder for local files.
pub struct Fixture {
    pub repository: Repository,
    pub faults: FaultyStore,
    pub local: tempfile::TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        Self::over(open_store("memory:").unwrap())
    }

    pub fn over(repository: Repository) -> Self {
        let mut faults = None;
        let repository = repository.with_patience(QUICK).wrapped(|inner| {
            let store = FaultyStore::new(inner);
            faults = Some(store.clone());
            store
        });
        Self { repository, faults: faults.unwrap(), local: tempfile::tempdir().unwrap() }
    }

    /// Publishes a tree from a fresh directory.
    pub async fn publish(&self, at: &ShardAt, tree: &Tree) -> Result<Published, PublishError> {
        let dir = tempfile::tempdir_in(self.local.path()).unwrap();
        write_tree(dir.path(), tree);
        self.repository.publish(at, at.seq * 100, 1, dir.path(), |_| {}).await
    }

    /// Publishes as the only rank and names it as the scheduler would have committed it.
    pub async fn committed(&self, at: &ShardAt, tree: &Tree) -> CheckpointRef {
        let published = self.publish(at, tree).await.unwrap();
        reference(at.id(), &[published])
    }

    pub async fn restore(&self, reference: &CheckpointRef) -> Result<Tree, leeway_data::RestoreError> {
        let dest = tempfile::tempdir_in(self.local.path()).unwrap();
        let restored = self.repository.restore(&job(), reference, 0, dest.path()).await;
        assert_eq!(leftovers(self.local.path()), Vec::<String>::new());
        if restored.is_err() {
            assert_eq!(fs::read_dir(dest.path()).unwrap().count(), 0, "a failed restore must write nothing");
        }
        restored.map(|_| read_tree(dest.path()))
    }

    pub async fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut listing = self.repository.store().list(None);
        while let Some(object) = futures::StreamExt::next(&mut listing).await {
            found.push(object.unwrap().location.to_string());
        }
        found.sort();
        found
    }

    /// Changes an object behind the repository's back.
    pub async fn change(&self, object: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = object_store::path::Path::parse(object).unwrap();
        let store = self.repository.store();
        let mut bytes = store.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        change(&mut bytes);
        store.put(&path, bytes.into()).await.unwrap();
    }
}

pub fn leftovers(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".leeway-restore-")).collect()
}

pub fn reference(id: CheckpointId, ranks: &[Published]) -> CheckpointRef {
    CheckpointRef {
        id,
        step: id.seq * 100,
        size: Bytes::new(ranks.iter().map(|rank| rank.size.get()).sum()),
        manifests: ranks.iter().map(|rank| rank.manifest).collect(),
        base: "memory:".into(),
        region: "onprem/berlin".parse().unwrap(),
    }
}

pub async fn read_object(fixture: &Fixture, object: &str) -> Vec<u8> {
    let path = object_store::path::Path::parse(object).unwrap();
    fixture.repository.store().get(&path).await.unwrap().bytes().await.unwrap().to_vec()
}
