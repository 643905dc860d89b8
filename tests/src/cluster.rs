//! The agents and programs of a server's runs, as the processes that they are. Only what a run's own files name is ever
//! signalled.

use std::path::{Path, PathBuf};

use leeway_drivers::process::ProcessId;
use leeway_drivers::run_dir::{Claim, RankDir};
use rustix::process::Signal;

/// One machine of a run on the local cluster.
#[derive(Debug)]
pub struct Machine {
    dir: RankDir,
}

impl Machine {
    /// The machine of a run and rank below a server's data directory.
    pub fn of(data: &Path, cluster: &str, run: &str, rank: u32) -> Self {
        Self { dir: RankDir::new(data.join("local").join(cluster).join(run).join(rank.to_string())) }
    }

    /// Every machine that was ever started below a data directory.
    pub fn all(data: &Path) -> Vec<Self> {
        let runs = children(&data.join("local")).iter().flat_map(|cluster| children(cluster)).collect::<Vec<_>>();
        let ranks = runs.iter().flat_map(|run| children(run)).filter(|rank| rank.is_dir());
        ranks.map(|dir| Self { dir: RankDir::new(dir) }).collect()
    }

    /// The agent's process.
    pub fn agent(&self) -> ProcessId {
        match self.dir.claimed().unwrap() {
            Some(Claim::Agent { process, .. }) => process,
            other => panic!("no agent is at {}: {other:?}", self.dir.path().display()),
        }
    }

    /// The processes of its program.
    pub fn program(&self) -> Vec<ProcessId> {
        let Some(claim) = self.dir.claimed().unwrap() else { return Vec::new() };
        self.dir.job(&claim).unwrap().map_or_else(Vec::new, |tree| tree.members().unwrap())
    }

    /// Ends the agent alone, without a word.
    pub fn kill_agent(&self) {
        assert!(self.agent().signal(Signal::KILL).unwrap(), "the agent had ended already");
    }

    /// Ends all processes of the program, without a word.
    pub fn kill_program(&self) {
        let program = self.program();
        assert!(!program.is_empty(), "the program had ended already");
        for process in program {
            process.signal(Signal::KILL).unwrap();
        }
    }

    /// Takes the machine away: agent and program at once.
    pub fn lose(&self) {
        self.kill_agent();
        self.kill_program();
    }

    /// Leaves nothing behind, whatever state it is in.
    fn clear(&self) {
        // An agent that has not claimed its rank yet never will.
        let Ok(claim) = self.dir.close() else { return };
        if let Claim::Agent { process, .. } = &claim {
            let _ = process.signal(Signal::KILL);
        }
        if let Ok(Some(tree)) = self.dir.job(&claim) {
            let _ = tree.kill();
        }
    }
}

/// Ends what a server's end leaves alive on purpose.
pub fn clear(data: &Path) {
    for machine in Machine::all(data) {
        machine.clear();
    }
}

fn children(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).map_or_else(|_| Vec::new(), |entries| entries.flatten().map(|entry| entry.path()).collect())
}
