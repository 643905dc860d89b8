//! Bringing up a run as one job: Slurm gives all its nodes or none.

use std::time::Duration;

use leeway_model::RunId;
use leeway_model::run::LaunchErrorClass;
use serde::{Deserialize, Serialize};

use super::calls::{CallError, Job};
use super::config::{Queue, SlurmMachines};
use super::script::{self, Request};
use super::{Cluster, errors};
use crate::contract::{Launch, LaunchError};
use crate::errors::{classify, refused};
use crate::files;
use crate::run_dir::{NoticeSource, order_stop};

/// How often a job that waits is looked at. One look serves all that wait.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a call without an answer is repeated before the launch is given up.
const PATIENCE: u32 = 5;

/// That a job was submitted, with its number: an absent job of this number has ended.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Submitted {
    pub job: u32,
}

impl Cluster {
    pub(super) fn submitted(&self, run: RunId) -> std::io::Result<Option<Submitted>> {
        files::read_json(&self.runs.run_dir(&self.name, run).join("slurm.json"))
    }

    pub(super) async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        let (machines, queue) = self.queue(launch)?;
        let give_up_at = tokio::time::Instant::now() + Duration::from_millis(launch.deadline.as_millis());
        let up = async {
            let job = match self.find(launch.run).await? {
                Some(job) => job,
                None => self.submit(launch, machines, queue).await?,
            };
            self.wait_until_up(launch, job, give_up_at).await?;
            Ok(job)
        };
        match up.await {
            Ok(job) => Ok((0..launch.nodes).map(|rank| instance_id(job, rank)).collect()),
            Err(refused) => Err(self.undo(launch.run, refused).await),
        }
    }

    fn queue(&self, launch: &Launch) -> Result<(&SlurmMachines, &Queue), LaunchError> {
        let invalid = |message: String| LaunchError::new(LaunchErrorClass::Invalid, message);
        if launch.nodes == 0 || launch.tokens.len() != launch.nodes as usize {
            let given = launch.tokens.len();
            return Err(invalid(format!("{} nodes were given {given} tokens; give one a node", launch.nodes)));
        }
        if launch.installation != self.installation {
            return Err(invalid(format!("this driver is of installation {}", self.installation.0)));
        }
        let (shape, capacity) = (&launch.shape.name, launch.offer.capacity);
        let machines = self.config.machines.get(shape);
        let found = machines.and_then(|machines| Some((machines, machines.queues.get(&capacity)?)));
        found.ok_or_else(|| {
            invalid(format!("cluster {} has no slurm partition for {capacity} machines '{shape}'", self.name))
        })
    }

    /// The job of an earlier launch of this run.
    async fn find(&self, run: RunId) -> Result<Option<u32>, LaunchError> {
        let transient = |message: String| Err(LaunchError::new(LaunchErrorClass::Transient, message));
        if self.runs.is_stopped(&self.name, run) {
            return transient(format!("run {run} was stopped; place the job again"));
        }
        let jobs = self.list().await?;
        let ours: Vec<&Job> = jobs.iter().filter(|job| self.owner(job) == Some(run)).collect();
        if self.runs.launched(&self.name, run).map_err(|error| disk(&error))?.is_none() {
            // No launch of this run ever began: what bears its name is of an earlier life of this installation, whose
            // agents nobody would believe.
            for job in ours.iter().filter(|job| !job.has_ended()) {
                tracing::warn!(%run, job = job.id, "a job of an earlier installation bears this run's name; it is ended");
                self.calls
                    .cancel(job.id, &job.name)
                    .await
                    .map_err(|error| refused("slurm", errors::CALLS, &error.to_string()))?;
            }
            return Ok(None);
        }
        let submitted = self.submitted(run).map_err(|error| disk(&error))?;
        if ours.is_empty() && submitted.is_none() {
            return Ok(None);
        }
        // Of several the first is the one that may run; the others wait for it behind their common name.
        match ours.iter().filter(|job| !job.has_ended()).map(|job| job.id).min() {
            Some(job) => Ok(Some(job)),
            None => transient(format!("the job of run {run} has ended; place the job again")),
        }
    }

    async fn submit(&self, launch: &Launch, machines: &SlurmMachines, queue: &Queue) -> Result<u32, LaunchError> {
        let run = launch.run;
        let notices = [NoticeSource::Signal { left: self.grace(queue).await, source: "slurm".into() }];
        self.runs.prepare(launch, &notices).map_err(|error| disk(&error))?;
        let dir = self.runs.run_dir(&self.name, run);
        let script = script::batch(&Request {
            config: &self.config,
            machines,
            queue,
            shape: &launch.shape,
            installation: &self.installation,
            run,
            nodes: launch.nodes,
            dir: &dir,
        });
        let job = match self.calls.submit(&script).await {
            Ok(job) => job,
            Err(CallError::Refused(said)) => return Err(refused("slurm", errors::CALLS, &said)),
            Err(CallError::Lost(said)) => match self.find(run).await? {
                Some(job) => job,
                // Should it come all the same, it finds the order to stop and ends.
                None => return Err(LaunchError::new(LaunchErrorClass::Transient, format!("slurm: {said}"))),
            },
        };
        files::replace_json(&dir.join("slurm.json"), &Submitted { job }).map_err(|error| disk(&error))?;
        Ok(job)
    }

    /// How long a job of a queue lasts from the word that it is preempted.
    async fn grace(&self, queue: &Queue) -> leeway_model::Millis {
        let partition = self.calls.partition(&queue.partition).await;
        let told = partition.inspect_err(|error| tracing::debug!(%error, "the grace of a partition is not known"));
        // The same signal also warns of the time limit, which leaves as long as was asked for.
        told.ok()
            .and_then(|partition| partition.grace)
            .map_or(self.config.notice, |grace| grace.min(self.config.notice))
    }

    async fn wait_until_up(
        &self,
        launch: &Launch,
        id: u32,
        give_up_at: tokio::time::Instant,
    ) -> Result<(), LaunchError> {
        let run = launch.run;
        let transient = |message: String| LaunchError::new(LaunchErrorClass::Transient, message);
        loop {
            if self.runs.is_stopped(&self.name, run) {
                return Err(transient(format!("run {run} was stopped while it was launched")));
            }
            let jobs = self.list().await?;
            let job = jobs.iter().find(|job| job.id == id && self.owner(job) == Some(run));
            let Some(job) = job.filter(|job| !job.has_ended()) else {
                let state = job.map_or("gone", |job| &job.state);
                let said = files::tail(&self.runs.run_dir(&self.name, run).join("slurm.out"));
                return Err(transient(format!("slurm job {id} ended at once ({state}): {said}")));
            };
            let up = if job.runs() { self.agents_up(launch)? } else { 0 };
            if up == launch.nodes {
                return Ok(());
            }
            let (class, may_help) = errors::waiting(&job.reason);
            if job.waits() && !may_help {
                return Err(LaunchError::new(class, waits(job)));
            }
            if tokio::time::Instant::now() >= give_up_at {
                return Err(if job.waits() {
                    LaunchError::new(class, waits(job))
                } else {
                    transient(format!("{up} of {} agents were up by the deadline", launch.nodes))
                });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn agents_up(&self, launch: &Launch) -> Result<u32, LaunchError> {
        let mut up = 0;
        for rank in 0..launch.nodes {
            let claimed = self.runs.rank_dir(&self.name, launch.run, rank).claimed().map_err(|error| disk(&error))?;
            up += u32::from(claimed.is_some());
        }
        Ok(up)
    }

    /// A listing, asked for again while nobody answers.
    async fn list(&self) -> Result<std::sync::Arc<[Job]>, LaunchError> {
        let mut tries = 0;
        loop {
            match self.listings.fresh().await {
                Ok(jobs) => return Ok(jobs),
                Err(CallError::Refused(said))
                    if classify("slurm", errors::CALLS, &said) != LaunchErrorClass::Transient =>
                {
                    return Err(refused("slurm", errors::CALLS, &said));
                }
                Err(error) if tries == PATIENCE => {
                    return Err(LaunchError::new(LaunchErrorClass::Transient, error.to_string()));
                }
                Err(error) => tracing::debug!(%error, "no listing; trying again"),
            }
            tries += 1;
            tokio::time::sleep(LOOK_EVERY.saturating_mul(tries)).await;
        }
    }

    /// Ends whatever a failed launch made and closes its ranks for good.
    async fn undo(&self, run: RunId, refused: LaunchError) -> LaunchError {
        let dir = self.runs.run_dir(&self.name, run);
        let closed = crate::run_dir::create_private_dir(&dir).and_then(|()| order_stop(&dir, Duration::ZERO));
        if let Err(error) = closed {
            tracing::warn!(%run, %error, "cannot close a run; the next observation tries again");
        }
        if let Err(error) = self.end(run, false).await {
            tracing::warn!(%run, %error, "cannot undo a launch; the next observation tries again");
        }
        refused
    }
}

/// The name of a machine.
pub(super) fn instance_id(job: u32, rank: u32) -> Box<str> {
    format!("{job}.{rank}").into()
}

fn waits(job: &Job) -> String {
    format!("slurm job {} waits: {}", job.id, if job.reason.is_empty() { "no reason given" } else { &job.reason })
}

fn disk(error: &std::io::Error) -> LaunchError {
    let class = match error.kind() {
        std::io::ErrorKind::PermissionDenied => LaunchErrorClass::Denied,
        _ => LaunchErrorClass::Transient,
    };
    LaunchError::new(class, format!("the shared folder: {error}"))
}
