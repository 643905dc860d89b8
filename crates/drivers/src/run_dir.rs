//! The directory through which a driver and an agent know of each other. It outlives both, so that a server that starts
//! again finds its runs, and a machine that boots again finds none.
//!
//! ```text
//! <root>/<cluster>/<run>/launch.json      what was launched; there before any agent is
//!                       /stop.json        the run is to end; from then on nothing of it starts
//!                       /nodes            addresses of the ranks, one a line, where the cluster chose them
//!                       /<rank>/assignment.json, token, stores.json   what the agent is told; it removes the last two
//!                       /<rank>/agent.json               who holds the rank, for ever: one agent, or nobody
//!                       /<rank>/job.json                 the program's processes
//!                       /<rank>/gone                     proven: neither agent nor program lives
//! ```
//!
//! `agent.json` is the heart of it: it is created once and never replaced. Whoever creates it decides: an agent that
//! comes second leaves, and a driver that creates it for nobody knows that no agent will ever run there.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leeway_model::access::StoreAccess;
use leeway_model::{InstallationId, Millis, RunId};
use serde::{Deserialize, Serialize};

use crate::contract::Token;
use crate::files;
use crate::process::{self, ProcessId, Tree};

/// What an agent is told when it is started; all else comes from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// gRPC URL; may be rewritten while the agent lives.
    pub server: String,
    pub run: RunId,
    pub rank: u32,
    pub installation: InstallationId,
    /// Where the agent hears that its machine will be taken.
    #[serde(default)]
    pub notices: Vec<NoticeSource>,
}

/// A way in which a provider warns the machine itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoticeSource {
    /// SIGURG to the agent, which programs ignore by default: the machine goes so long after it.
    Signal { left: Millis, source: Box<str> },
    /// EC2's instance metadata at this address: an interruption two minutes ahead, a recommendation before that.
    Ec2 { metadata: String },
}

/// Who holds a rank, for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    Agent {
        process: ProcessId,
        session: u32,
        /// Every process of the program bears it, see [`process::MARK`].
        mark: Box<str>,
    },
    /// No agent will ever run here.
    Nobody,
}

/// The run is to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrder {
    /// Time since boot after which the program is killed.
    kill_at: Duration,
    boot_id: Box<str>,
}

impl StopOrder {
    /// Time left until the kill; none when it was ordered before this boot, or on another machine.
    pub fn left(&self) -> io::Result<Duration> {
        if *process::boot_id()? != *self.boot_id {
            return Ok(Duration::ZERO);
        }
        Ok(self.kill_at.saturating_sub(process::since_boot()))
    }

    /// Time that has passed since the kill was due.
    pub fn overdue(&self) -> io::Result<Duration> {
        if *process::boot_id()? != *self.boot_id {
            return Ok(Duration::MAX);
        }
        Ok(process::since_boot().saturating_sub(self.kill_at))
    }
}

/// The directory of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankDir(PathBuf);

impl RankDir {
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the directory and what an agent needs to start in it. Everything in it is the owner's alone.
    pub fn prepare(&self, assignment: &Assignment, token: &Token, stores: &[StoreAccess]) -> io::Result<()> {
        create_private_dir(&self.0)?;
        files::replace(&self.0.join("token"), token.as_bytes())?;
        files::replace_json(&self.0.join("stores.json"), &stores)?;
        self.assign(assignment)
    }

    pub fn assign(&self, assignment: &Assignment) -> io::Result<()> {
        files::replace_json(&self.0.join("assignment.json"), assignment)
    }

    /// `None` when the directory was never prepared.
    pub fn assignment(&self) -> io::Result<Option<Assignment>> {
        files::read_json(&self.0.join("assignment.json"))
    }

    /// Reads the token and removes it, so that the program, which may read this directory, cannot.
    pub fn take_token(&self) -> io::Result<Token> {
        let path = self.0.join("token");
        let token = Token::new(std::fs::read(&path)?);
        std::fs::remove_file(&path)?;
        Ok(token)
    }

    /// Reads how stores are reached and removes it, since keys may be in it. None where nothing was said.
    pub fn take_stores(&self) -> io::Result<Vec<StoreAccess>> {
        let path = self.0.join("stores.json");
        let stores: Option<Vec<StoreAccess>> = files::read_json(&path)?;
        if stores.is_some() {
            std::fs::remove_file(&path)?;
        }
        Ok(stores.unwrap_or_default())
    }

    /// Takes the rank for this process; `None` when somebody has it already.
    pub fn claim(&self) -> io::Result<Option<Claim>> {
        let (process, session) = (ProcessId::current()?, process::session()?);
        let claim = Claim::Agent { process, session, mark: process::random_word()?.into() };
        let first = files::create_once(&self.claim_file(), &serde_json::to_vec(&claim)?)?;
        Ok(first.then_some(claim))
    }

    /// Sees to it that no agent starts here any more, unless one did. Returns whose it is.
    pub fn close(&self) -> io::Result<Claim> {
        files::create_once(&self.claim_file(), &serde_json::to_vec(&Claim::Nobody)?)?;
        self.claimed()?.ok_or_else(|| io::Error::other("a claim vanished"))
    }

    pub fn claimed(&self) -> io::Result<Option<Claim>> {
        files::read_json(&self.claim_file())
    }

    fn claim_file(&self) -> PathBuf {
        self.0.join("agent.json")
    }

    /// Writes down which processes are the program's, before or as soon as there are any.
    pub fn record_job(&self, tree: &Tree) -> io::Result<()> {
        files::replace_json(&self.0.join("job.json"), tree)
    }

    /// The processes of the program that the holder of the claim started.
    pub fn job(&self, claim: &Claim) -> io::Result<Option<Tree>> {
        let Claim::Agent { process, session, mark } = claim else { return Ok(None) };
        let recorded = files::read_json(&self.0.join("job.json"))?;
        // Without a record the mark alone finds what was started just before the agent died.
        Ok(Some(recorded.unwrap_or_else(|| Tree {
            pgid: None,
            session: *session,
            mark: mark.clone(),
            boot_id: process.boot_id.clone(),
        })))
    }

    pub fn is_gone(&self) -> bool {
        self.0.join("gone").exists()
    }

    pub fn mark_gone(&self) -> io::Result<()> {
        files::create_once(&self.0.join("gone"), b"").map(drop)
    }

    /// Addresses of the run's machines in rank order; empty where the cluster left none.
    pub fn nodes(&self) -> io::Result<Vec<String>> {
        let Some(path) = self.0.parent().map(|run| run.join("nodes")) else { return Ok(Vec::new()) };
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            text => Ok(text?.lines().map(str::to_owned).collect()),
        }
    }

    /// The order to end that stands for the whole run.
    pub fn stop_order(&self) -> io::Result<Option<StopOrder>> {
        self.0.parent().map_or(Ok(None), |run| files::read_json(&run.join("stop.json")))
    }
}

/// Leaves an order to end a run in its directory; of several the earliest stands. Returns the one that stands.
pub(crate) fn order_stop(run_dir: &Path, grace: Duration) -> io::Result<StopOrder> {
    let path = run_dir.join("stop.json");
    let new = StopOrder { kill_at: process::since_boot().saturating_add(grace), boot_id: process::boot_id()? };
    let known: Option<StopOrder> = files::read_json(&path)?;
    match known {
        Some(known) if known.boot_id != new.boot_id || known.kill_at <= new.kill_at => Ok(known),
        _ => files::replace_json(&path, &new).map(|()| new),
    }
}

/// Makes a directory that only the owner may enter; that it exists is success.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_08_a_rank_is_claimed_once_by_an_agent_or_by_nobody() {
        let top = tempfile::tempdir().unwrap();
        let (first, second) = (RankDir::new(top.path().join("0")), RankDir::new(top.path().join("1")));
        for dir in [&first, &second] {
            create_private_dir(dir.path()).unwrap();
            assert_eq!(dir.claimed().unwrap(), None);
        }
        let claim = first.claim().unwrap().unwrap();
        assert_eq!(first.claim().unwrap(), None);
        assert_eq!(first.close().unwrap(), claim);
        assert_eq!(second.close().unwrap(), Claim::Nobody);
        assert_eq!(second.claim().unwrap(), None);
    }

    #[test]
    fn z_06_the_token_can_be_taken_once_and_lies_in_no_other_file() {
        let top = tempfile::tempdir().unwrap();
        let dir = RankDir::new(top.path().join("0"));
        let installation = InstallationId("lab".parse().unwrap());
        let assignment = Assignment {
            server: "http://127.0.0.1:1".into(),
            run: "j-1-r1".parse().unwrap(),
            rank: 0,
            installation,
            notices: Vec::new(),
        };
        let token = Token::new(*b"sixteen bytes ok");
        let keys = [("aws_secret_access_key".to_owned(), "sixteen bytes too".to_owned())].into();
        let stores = [StoreAccess { url: "s3://a".into(), options: Default::default(), keys }];
        dir.prepare(&assignment, &token, &stores).unwrap();
        assert_eq!(dir.assignment().unwrap(), Some(assignment));
        assert_eq!(dir.take_token().unwrap(), token);
        assert!(dir.take_token().is_err());
        assert_eq!(dir.take_stores().unwrap(), stores);
        assert_eq!(dir.take_stores().unwrap(), []);
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            assert!(!text.contains("sixteen bytes"), "{text}");
        }
    }

    #[test]
    fn of_several_stop_orders_the_earliest_stands() {
        let top = tempfile::tempdir().unwrap();
        let first = order_stop(top.path(), Duration::from_secs(30)).unwrap();
        assert_eq!(order_stop(top.path(), Duration::from_secs(300)).unwrap(), first);
        assert!(order_stop(top.path(), Duration::ZERO).unwrap().left().unwrap().is_zero());
        assert!(first.left().unwrap() > Duration::from_secs(20));
    }
}
