//! A cluster that Slurm runs. A run is one batch job with an agent on each of its nodes; a partition (or QOS) that may be
//! preempted is spot capacity, with the price that the operator gives it.
//!
//! The server and the nodes share a folder. What agents are told lies there, as on this host ([`crate::run_dir`]); Slurm
//! holds everything else. A job is ours when name, comment and user all say so, and whatever ends a job asks for exactly
//! that name and user again.

mod calls;
mod capacity;
mod cli;
mod config;
mod errors;
mod jobs;
mod json;
mod launch;
mod observe;
mod script;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use leeway_model::cluster::ClusterSpec;
use leeway_model::market::CapacityObservation;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{InstallationId, Millis, Name, RunId};

pub use self::calls::{CallError, Calls, Job, Node, Partition};
pub use self::cli::Commands;
pub use self::config::{Queue, SlurmConfig, SlurmMachines};
use self::jobs::Listings;
pub use self::json::jobs as read_jobs;
use self::observe::Seen;
use crate::contract::{ClusterDriver, DriverError, DriverErrorClass, Launch, LaunchError, Observation};
use crate::errors::{classify, other_call};
use crate::run_dir::{create_private_dir, order_stop};
use crate::runs::Runs;

/// Time that agents have after their program's kill for their last reports.
const LAST_REPORTS: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone)]
pub struct SlurmDriver {
    clusters: BTreeMap<Name, Arc<Cluster>>,
}

impl fmt::Debug for SlurmDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlurmDriver").field("clusters", &self.clusters.keys()).finish()
    }
}

/// One cluster and what this process remembers of it, all of which it could read again.
struct Cluster {
    name: Name,
    installation: InstallationId,
    config: SlurmConfig,
    runs: Runs,
    calls: Arc<dyn Calls>,
    listings: Listings,
    seen: Mutex<Seen>,
    /// One launch or stop of a run at a time.
    turns: Mutex<BTreeMap<RunId, std::sync::Weak<tokio::sync::Mutex<()>>>>,
}

impl SlurmDriver {
    /// Over Slurm's commands. Makes the shared folders.
    ///
    /// # Errors
    /// A shared folder that cannot be made or named in a batch script.
    pub fn new(installation: &InstallationId, clusters: BTreeMap<Name, SlurmConfig>) -> io::Result<Self> {
        let commands = |config: &SlurmConfig| -> Arc<dyn Calls> {
            Arc::new(Commands { folder: config.commands.clone(), conf: config.conf.clone() })
        };
        Self::over(installation, clusters, commands)
    }

    /// Over other calls than Slurm's commands.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over(
        installation: &InstallationId,
        clusters: BTreeMap<Name, SlurmConfig>,
        calls: impl Fn(&SlurmConfig) -> Arc<dyn Calls>,
    ) -> io::Result<Self> {
        let cluster = |(name, config): (Name, SlurmConfig)| {
            let unusable = |path: &std::path::Path| {
                let message = format!(
                    "slurm cluster {name}: '{}' cannot stand in a batch script; use an absolute path without quotes, backslashes and line breaks",
                    path.display()
                );
                io::Error::new(io::ErrorKind::InvalidInput, message)
            };
            if !script::is_plain(&config.agent) {
                return Err(unusable(&config.agent));
            }
            let runs = Runs::new(&config.work_dir).map_err(|error| {
                let message = format!("slurm cluster {name}: work_dir '{}': {error}", config.work_dir.display());
                io::Error::new(error.kind(), message)
            })?;
            if !script::is_plain(runs.root()) {
                return Err(unusable(runs.root()));
            }
            let calls = calls(&config);
            let cluster = Cluster {
                name: name.clone(),
                installation: installation.clone(),
                runs,
                listings: Listings::new(calls.clone()),
                calls,
                config,
                seen: Mutex::default(),
                turns: Mutex::default(),
            };
            Ok((name, Arc::new(cluster)))
        };
        Ok(Self { clusters: clusters.into_iter().map(cluster).collect::<io::Result<_>>()? })
    }

    fn cluster(&self, name: &Name) -> Result<&Arc<Cluster>, String> {
        self.clusters.get(name).ok_or_else(|| {
            format!("cluster {name} has no [clusters.slurm] in the configuration; say there how it is reached")
        })
    }

    fn known(&self, name: &Name) -> Result<&Arc<Cluster>, DriverError> {
        self.cluster(name).map_err(|message| DriverError::new(DriverErrorClass::Invalid, message))
    }
}

impl Cluster {
    fn turn(&self, run: RunId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(&run).and_then(std::sync::Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(run, Arc::downgrade(&turn));
            turn
        })
    }

    /// Ends the jobs of a run: their agents are asked when there is grace, and killed when not. Looks first what is there.
    async fn end(&self, run: RunId, ask: bool) -> Result<(), CallError> {
        for job in self.listings.fresh().await?.iter().filter(|job| self.owner(job) == Some(run)) {
            let is_up = !job.waits();
            if !job.has_ended() {
                let ending = match ask && is_up {
                    true => self.calls.terminate(job.id, &job.name).await,
                    false => self.calls.cancel(job.id, &job.name).await,
                };
                match ending {
                    // It ended in between, or is about to be requeued or placed: the next look decides.
                    Err(CallError::Refused(said)) => {
                        tracing::debug!(%run, job = job.id, said, "slurm did not end a job")
                    }
                    done => done?,
                }
            }
        }
        Ok(())
    }
}

/// What a failed call means to whoever asked for something else than a launch.
fn driver_error(error: &CallError) -> DriverError {
    let class = match error {
        CallError::Refused(said) => other_call(classify("slurm", errors::CALLS, said)),
        CallError::Lost(_) => DriverErrorClass::Unreachable,
    };
    DriverError::new(class, error.to_string())
}

fn disk(error: &io::Error) -> DriverError {
    let class = match error.kind() {
        io::ErrorKind::PermissionDenied => DriverErrorClass::Denied,
        io::ErrorKind::InvalidData => DriverErrorClass::Invalid,
        _ => DriverErrorClass::Unreachable,
    };
    DriverError::new(class, error.to_string())
}

#[async_trait]
impl ClusterDriver for SlurmDriver {
    async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        let invalid = |message: String| LaunchError::new(LaunchErrorClass::Invalid, message);
        let cluster = self.cluster(&launch.cluster.name).map_err(invalid)?.clone();
        let turn = cluster.turn(launch.run).lock_owned().await;
        let launch = launch.clone();
        // A task of its own, so that a caller that goes away leaves no half-made gang.
        let launching = tokio::spawn(async move {
            let _turn = turn;
            cluster.launch(&launch).await
        });
        let failed = |error: tokio::task::JoinError| LaunchError::new(LaunchErrorClass::Transient, error.to_string());
        launching.await.map_err(failed)?
    }

    async fn observe(&self, cluster: &Name) -> Result<Observation, DriverError> {
        self.known(cluster)?.observe().await
    }

    async fn stop(&self, cluster: &Name, run: RunId, grace: Millis) -> Result<(), DriverError> {
        let cluster = self.known(cluster)?.clone();
        // Also for a run that was never launched: its launch may be on the way. A launch under way sees the order.
        let dir = cluster.runs.run_dir(&cluster.name, run);
        let grace = Duration::from_millis(grace.as_millis());
        let ordered = create_private_dir(&dir).and_then(|()| order_stop(&dir, grace)?.left());
        let left = ordered.map_err(|error| disk(&error))?;
        cluster.end(run, !left.is_zero()).await.map_err(|error| driver_error(&error))?;
        if !left.is_zero() {
            tokio::spawn(async move {
                tokio::time::sleep(left.saturating_add(LAST_REPORTS)).await;
                if let Err(error) = cluster.end(run, false).await {
                    tracing::warn!(%run, %error, "cannot end a run; the next observation tries again");
                }
            });
        }
        Ok(())
    }

    fn check(&self, spec: &ClusterSpec) -> Result<(), String> {
        let cluster = self.cluster(&spec.name)?;
        let unknown = spec.machines.iter().find(|machines| !cluster.config.machines.contains_key(&machines.shape.name));
        match unknown {
            None => Ok(()),
            Some(machines) => {
                let shape = &machines.shape.name;
                Err(format!(
                    "cluster {} has no [clusters.machines.slurm] for machines '{shape}' in the configuration",
                    spec.name
                ))
            }
        }
    }

    fn poll_every(&self, cluster: &Name) -> Option<Millis> {
        self.clusters.get(cluster).map(|cluster| cluster.config.poll)
    }

    async fn capacity(&self, cluster: &ClusterSpec) -> Result<Vec<CapacityObservation>, DriverError> {
        self.known(&cluster.name)?.capacity(cluster).await.map_err(|error| driver_error(&error))
    }

    async fn forget(&self, cluster: &Name, run: RunId) -> Result<(), DriverError> {
        let cluster = self.known(cluster)?;
        if !cluster.was_seen_gone(run) && !cluster.observe().await?.proves_gone(run) {
            let message = format!("run {run} may still live; stop it and wait until it is gone");
            return Err(DriverError::new(DriverErrorClass::Invalid, message));
        }
        cluster.runs.remove(&cluster.name, run).map_err(|error| disk(&error))
    }

    async fn readdress(&self, cluster: &Name, server: &str) -> Result<(), DriverError> {
        let cluster = self.known(cluster)?;
        cluster.runs.readdress(&cluster.name, server).map_err(|error| disk(&error))
    }
}
