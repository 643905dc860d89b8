//! The directories of a cluster's runs below one root: what was launched, whom it was given to, and whether it is to end.
//! Two drivers keep such a root: the one on this host, and those whose machines share a file system with the server.

use std::io;
use std::path::{Path, PathBuf};

use leeway_model::{Name, RunId};
use serde::{Deserialize, Serialize};

use crate::contract::Launch;
use crate::files;
use crate::run_dir::{Assignment, NoticeSource, RankDir, create_private_dir};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    root: PathBuf,
}

/// What was launched, written before any agent is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launched {
    pub shape: Name,
    pub nodes: u32,
}

impl Runs {
    /// Makes the root if need be.
    pub fn new(root: &Path) -> io::Result<Self> {
        create_private_dir(root)?;
        Ok(Self { root: root.canonicalize()? })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    fn cluster_dir(&self, cluster: &Name) -> PathBuf {
        self.root.join(cluster.as_str())
    }

    pub fn run_dir(&self, cluster: &Name, run: RunId) -> PathBuf {
        self.cluster_dir(cluster).join(run.to_string())
    }

    pub fn rank_dir(&self, cluster: &Name, run: RunId, rank: u32) -> RankDir {
        RankDir::new(self.run_dir(cluster, run).join(rank.to_string()))
    }

    pub fn launched(&self, cluster: &Name, run: RunId) -> io::Result<Option<Launched>> {
        files::read_json(&self.run_dir(cluster, run).join("launch.json"))
    }

    pub fn is_stopped(&self, cluster: &Name, run: RunId) -> bool {
        self.run_dir(cluster, run).join("stop.json").exists()
    }

    /// The ranks of a run; none when nothing of it was ever started.
    pub fn ranks(&self, cluster: &Name, run: RunId) -> io::Result<Vec<RankDir>> {
        let nodes = self.launched(cluster, run)?.map_or(0, |launched| launched.nodes);
        Ok((0..nodes).map(|rank| self.rank_dir(cluster, run, rank)).collect())
    }

    /// The runs that have a directory in a cluster, in order. Entries that are not named by a run's id are not ours.
    pub fn list(&self, cluster: &Name) -> io::Result<Vec<RunId>> {
        let mut runs = Vec::new();
        // The root must be there: without it an empty listing would prove the absence of everything.
        std::fs::metadata(&self.root)?;
        let entries = match std::fs::read_dir(self.cluster_dir(cluster)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(runs),
            entries => entries?,
        };
        for entry in entries {
            runs.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()));
        }
        runs.sort_unstable();
        Ok(runs)
    }

    /// Makes the directories of a launch, or completes those that an earlier try left: first what each agent is told,
    /// last the record of the launch.
    pub fn prepare(&self, launch: &Launch, notices: &[NoticeSource]) -> io::Result<()> {
        let (cluster, run) = (&launch.cluster.name, launch.run);
        create_private_dir(&self.run_dir(cluster, run))?;
        for (rank, token) in (0..).zip(&launch.tokens) {
            let dir = self.rank_dir(cluster, run, rank);
            if dir.claimed()?.is_none() {
                let assignment = Assignment {
                    server: launch.server.clone(),
                    run,
                    rank,
                    installation: launch.installation.clone(),
                    notices: notices.to_vec(),
                };
                dir.prepare(&assignment, token, &launch.stores)?;
            }
        }
        let launched = Launched { shape: launch.shape.name.clone(), nodes: launch.nodes };
        files::replace_json(&self.run_dir(cluster, run).join("launch.json"), &launched)
    }

    /// Writes another server into what the agents of a cluster are told.
    pub fn readdress(&self, cluster: &Name, server: &str) -> io::Result<()> {
        for run in self.list(cluster)? {
            for rank in self.ranks(cluster, run)? {
                let assignment = if rank.is_gone() { None } else { rank.assignment()? };
                if let Some(mut assignment) = assignment
                    && assignment.server != server
                {
                    server.clone_into(&mut assignment.server);
                    rank.assign(&assignment)?;
                }
            }
        }
        Ok(())
    }

    /// Removes the directory of a run.
    pub fn remove(&self, cluster: &Name, run: RunId) -> io::Result<()> {
        match std::fs::remove_dir_all(self.run_dir(cluster, run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}
