//! A bench for real agents: a server that answers as it is told, and agents as processes of their own.

#![allow(clippy::unwrap_used, dead_code, reason = "a failed helper is a failed test; not every test needs all of it")]

pub mod metadata;
pub mod server;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use leeway_drivers::Token;
use leeway_drivers::process::{ProcessId, Tree};
use leeway_drivers::run_dir::{Assignment, Claim, NoticeSource, RankDir};
use leeway_model::{InstallationId, RunId};
use leeway_proto::pb;
use rustix::process::Signal;
pub use server::Server;

pub const TOKEN: &[u8; 24] = b"token-that-nobody-prints";

pub fn agent_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/agent_main")
}

pub fn installation() -> InstallationId {
    InstallationId("lab".parse().unwrap())
}

/// What most tests run: one rank, a lease that no test outlasts by accident.
pub fn assignment(run: &str) -> pb::Assignment {
    pb::Assignment {
        job_name: "test".into(),
        run: run.into(),
        world_size: 1,
        node_addresses: vec!["127.0.0.1".into()],
        installation: "lab".into(),
        next_seq: 1,
        lease_ttl_ms: 60_000,
        renew_every_ms: 100,
        kill_grace_ms: 500,
        start_reason: pb::StartReason::First.into(),
        ..Default::default()
    }
}

/// A place for checkpoints, as a URL.
pub fn store_url(dir: &Path) -> String {
    url::Url::from_file_path(dir).unwrap().into()
}

/// An agent process; killed with its program when dropped.
#[derive(Debug)]
pub struct Agent {
    pub dir: RankDir,
    child: Child,
    _home: Option<tempfile::TempDir>,
}

impl Agent {
    pub fn start(server: &Server) -> Self {
        Self::start_as(server, "j-7-r3")
    }

    pub fn start_as(server: &Server, run: &str) -> Self {
        Self::start_with(server, run, Vec::new())
    }

    /// One that may hear its provider's notices.
    pub fn start_with(server: &Server, run: &str, notices: Vec<NoticeSource>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let dir = RankDir::new(home.path().join("run/0"));
        let run: RunId = run.parse().unwrap();
        let assigned = Assignment { server: server.url(), run, rank: 0, installation: installation(), notices };
        dir.prepare(&assigned, &Token::new(*TOKEN), &[]).unwrap();
        Self { child: spawn(&dir), dir, _home: Some(home) }
    }

    /// Another process over the same directory.
    pub fn second(&self) -> Self {
        Self { child: spawn(&self.dir), dir: self.dir.clone(), _home: None }
    }

    pub fn process(&self) -> Option<ProcessId> {
        ProcessId::of(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        assert!(self.process().expect("the agent runs").signal(signal).unwrap());
    }

    /// The program's processes, once the agent holds its rank.
    pub fn program(&self) -> Option<Tree> {
        self.dir.claimed().unwrap().and_then(|claim| self.dir.job(&claim).unwrap())
    }

    pub fn program_lives(&self) -> bool {
        self.program().is_some_and(|tree| !tree.members().unwrap().is_empty())
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// Waits for its end and returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let mut status: Option<ExitStatus> = None;
        let what = format!("the agent ends; it said: {}", self.dir.path().display());
        eventually(&what, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.and_then(|status| status.code())
    }

    pub async fn program_runs(&self) {
        eventually("the program runs", || self.program_lives()).await;
    }

    pub async fn said(&self, text: &str) {
        eventually(&format!("the program says {text}"), || self.file("log").contains(text)).await;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("agent's stderr:\n{}\nlog:\n{}", self.file("agent.err"), self.file("log"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Ok(Some(claim @ Claim::Agent { .. })) = self.dir.claimed()
            && let Ok(Some(tree)) = self.dir.job(&claim)
        {
            let _ = tree.kill();
        }
    }
}

fn spawn(dir: &RankDir) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.path().join("agent.err")).unwrap();
    Command::new(agent_program())
        .args(["agent", "--run-dir"])
        .arg(dir.path())
        .env("LEEWAY_SERVER_SECRET", "must-not-be-passed-on")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("the example agent_main is built with the tests")
}

/// Waits until something holds; fails after a time that only a defect needs.
pub async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(40);
    while !done() {
        assert!(tokio::time::Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
