//! Machines on this host: a cluster is a declared set of shapes with counts, a machine is an agent process.
//!
//! Agents are detached from the server and outlive it. What they are is written in their run directories (see
//! [`crate::run_dir`]), so that a server that starts again needs nothing but those. Nothing here limits what a program
//! takes of the host: the declared counts are what is kept.

mod observe;
mod spawn;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Millis, Name, RunId};
use rustix::process::Signal;

use crate::contract::{ClusterDriver, DriverError, DriverErrorClass, Launch, LaunchError, Observation};
use crate::run_dir::{self, Claim, RankDir};
use crate::runs::Runs;

/// Time that an agent has after its program's kill for its last reports.
const LAST_REPORTS: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone)]
pub struct LocalDriver {
    shared: Arc<Shared>,
}

struct Shared {
    runs: Runs,
    program: PathBuf,
    /// One launch, stop or observation at a time in a cluster.
    turns: Mutex<BTreeMap<Name, Arc<tokio::sync::Mutex<()>>>>,
}

impl fmt::Debug for LocalDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalDriver")
            .field("root", &self.shared.runs.root())
            .field("program", &self.shared.program)
            .finish()
    }
}

impl LocalDriver {
    /// Over a directory of its own, which is made if need be. An agent is started as `<program> agent --run-dir DIR`.
    pub fn new(root: PathBuf, program: PathBuf) -> io::Result<Self> {
        let shared = Shared { runs: Runs::new(&root)?, program, turns: Mutex::default() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The directory of a rank of a run, whether it exists or not.
    pub fn rank_dir(&self, cluster: &Name, run: RunId, rank: u32) -> RankDir {
        self.shared.runs.rank_dir(cluster, run, rank)
    }

    /// The machines of a run vanish now, as when a provider takes them: no signal that could be caught, no grace.
    /// Losing what does not exist is success.
    pub async fn lose(&self, cluster: &Name, run: RunId) -> Result<(), DriverError> {
        self.in_turn(cluster, move |shared, cluster| shared.lose(cluster, run)).await
    }

    fn turn(&self, cluster: &Name) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.shared.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(cluster.clone()).or_default().clone()
    }

    /// Does blocking work, one at a time in a cluster, off the async threads. It is finished even when nobody waits.
    async fn in_turn<T: Send + 'static>(
        &self,
        cluster: &Name,
        work: impl FnOnce(&Shared, &Name) -> io::Result<T> + Send + 'static,
    ) -> Result<T, DriverError> {
        let turn = self.turn(cluster).lock_owned().await;
        let (shared, cluster) = (self.shared.clone(), cluster.clone());
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&shared, &cluster)
        });
        match done.await {
            Ok(done) => done.map_err(|error| driver_error(&error)),
            Err(error) => Err(DriverError::new(DriverErrorClass::Unreachable, error.to_string())),
        }
    }
}

#[async_trait]
impl ClusterDriver for LocalDriver {
    async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        spawn::check(launch)?;
        let turn = self.turn(&launch.cluster.name).lock_owned().await;
        let (driver, launch) = (self.clone(), launch.clone());
        // A task of its own, so that a caller that goes away leaves no half-made gang.
        let launching = tokio::spawn(async move {
            let _turn = turn;
            spawn::launch(&driver.shared, &launch).await
        });
        let failed = |error: tokio::task::JoinError| LaunchError::new(LaunchErrorClass::Transient, error.to_string());
        launching.await.map_err(failed)?
    }

    async fn observe(&self, cluster: &Name) -> Result<Observation, DriverError> {
        self.in_turn(cluster, |shared, cluster| shared.observe(cluster)).await
    }

    async fn stop(&self, cluster: &Name, run: RunId, grace: Millis) -> Result<(), DriverError> {
        let grace = Duration::from_millis(grace.as_millis());
        let left = self.in_turn(cluster, move |shared, cluster| shared.order_stop(cluster, run, grace)).await?;
        let (driver, cluster) = (self.clone(), cluster.clone());
        tokio::spawn(async move {
            tokio::time::sleep(left.saturating_add(LAST_REPORTS)).await;
            if let Err(error) = driver.in_turn(&cluster, move |shared, cluster| shared.enforce_stop(cluster, run)).await
            {
                tracing::warn!(%run, %error, "cannot end a run; the next observation tries again");
            }
        });
        Ok(())
    }

    /// Machines are processes of this host.
    async fn addresses(&self, _: &Name, _: RunId, nodes: u32) -> Result<Vec<String>, DriverError> {
        Ok(vec!["127.0.0.1".to_owned(); nodes as usize])
    }

    async fn forget(&self, cluster: &Name, run: RunId) -> Result<(), DriverError> {
        let forget = move |shared: &Shared, cluster: &Name| {
            if shared.living(cluster, run)? > 0 {
                return Ok(false);
            }
            shared.runs.remove(cluster, run).map(|()| true)
        };
        if self.in_turn(cluster, forget).await? {
            return Ok(());
        }
        let message = format!("run {run} may still live; stop it and wait until it is gone");
        Err(DriverError::new(DriverErrorClass::Invalid, message))
    }

    async fn readdress(&self, cluster: &Name, server: &str) -> Result<(), DriverError> {
        let server = server.to_owned();
        self.in_turn(cluster, move |shared, cluster| shared.runs.readdress(cluster, &server)).await
    }
}

impl Shared {
    fn order_stop(&self, cluster: &Name, run: RunId, grace: Duration) -> io::Result<Duration> {
        let dir = self.runs.run_dir(cluster, run);
        // Also for a run that was never launched: its launch may be on the way.
        run_dir::create_private_dir(&dir)?;
        let left = run_dir::order_stop(&dir, grace)?.left()?;
        if grace.is_zero() {
            // Whoever gives no grace has given the run up; an agent that hangs would not hear a signal.
            self.lose(cluster, run)?;
            return Ok(left);
        }
        for rank in self.runs.ranks(cluster, run)? {
            run_dir::create_private_dir(rank.path())?;
            if let Claim::Agent { process, .. } = rank.close()? {
                process.signal(Signal::TERM)?;
            }
        }
        self.enforce_stop(cluster, run)?;
        Ok(left)
    }

    /// Kills what outlived its stop, and what is left of agents that died.
    fn enforce_stop(&self, cluster: &Name, run: RunId) -> io::Result<()> {
        for rank in self.runs.ranks(cluster, run)? {
            observe::look(&rank)?;
        }
        Ok(())
    }

    fn lose(&self, cluster: &Name, run: RunId) -> io::Result<()> {
        for rank in self.runs.ranks(cluster, run)? {
            run_dir::create_private_dir(rank.path())?;
            observe::kill(&rank, &rank.close()?)?;
        }
        Ok(())
    }
}

fn driver_error(error: &io::Error) -> DriverError {
    let class = match error.kind() {
        io::ErrorKind::PermissionDenied => DriverErrorClass::Denied,
        io::ErrorKind::InvalidData => DriverErrorClass::Invalid,
        _ => DriverErrorClass::Unreachable,
    };
    DriverError::new(class, error.to_string())
}

/// The name of a machine.
fn instance_id(run: RunId, rank: u32) -> Box<str> {
    format!("{run}.{rank}").into()
}
