//! The processes of the job: one program at a time, in a group of its own, whose members are found and killed wherever
//! they went.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leeway_drivers::process::{MARK, Tree};
use leeway_drivers::run_dir::{Claim, RankDir};
use rustix::process::Signal;
use tokio::process::{Child, Command};

/// See the module. Shared with the watchdog of the lease, hence without anything asynchronous.
#[derive(Debug)]
pub struct Program {
    dir: RankDir,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tree: Tree,
    /// Nothing is started any more.
    closed: bool,
}

impl Program {
    /// For the agent that holds the claim.
    pub fn new(dir: RankDir, claim: &Claim) -> io::Result<Self> {
        let Claim::Agent { process, session, mark } = claim else {
            return Err(io::Error::other("only an agent that holds its rank may start a program"));
        };
        let boot_id = process.boot_id.clone();
        let tree = Tree { pgid: None, session: *session, mark: mark.clone(), boot_id };
        Ok(Self { dir, state: Mutex::new(State { tree, closed: false }) })
    }

    /// Starts a command in a group of its own and writes down which that is.
    pub fn start(&self, command: &mut Command) -> io::Result<Child> {
        let mut state = self.state();
        if state.closed {
            return Err(io::Error::other("the run is over"));
        }
        // The mark was written down with the claim: should this process die right after the start, it is found by it.
        let child = command.env(MARK, &*state.tree.mark).process_group(0).kill_on_drop(false).spawn()?;
        state.tree.pgid = child.id();
        self.dir.record_job(&state.tree)?;
        Ok(child)
    }

    /// From now on nothing is started.
    pub fn close(&self) {
        self.state().closed = true;
    }

    /// SIGTERM to all its processes.
    pub fn terminate(&self) {
        self.each("terminate", |tree| tree.signal(Signal::TERM));
    }

    /// Sends a signal to those of its processes that catch it. Returns how many did.
    pub fn nudge(&self, signal: Signal) -> usize {
        self.each("signal", |tree| tree.signal_catchers(signal))
    }

    /// Kills all its processes. Blocks for a few milliseconds.
    pub fn kill(&self) {
        self.each("kill", |tree| tree.kill().map(usize::from));
    }

    pub fn lives(&self) -> bool {
        self.each("look for", |tree| tree.members().map(|members| members.len())) > 0
    }

    fn each(&self, what: &str, act: impl Fn(&Tree) -> io::Result<usize>) -> usize {
        let tree = self.state().tree.clone();
        act(&tree).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot {what} the program's processes");
            0
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
