//! What the driver asks of Slurm. Behind a trait, so that tests put faults between an effect and its answer.

use std::fmt;

use async_trait::async_trait;
use leeway_model::Millis;

/// A call to Slurm failed; it may have had its effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Slurm answered, in these words: nothing was done.
    #[error("{0}")]
    Refused(String),
    /// No answer that could be understood: what was asked may be done.
    #[error("{0}")]
    Lost(String),
}

/// One job as a listing shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub id: u32,
    pub name: String,
    pub comment: String,
    /// Number of the user whose it is.
    pub user: u32,
    pub partition: String,
    /// Nodes that it has, or asks for.
    pub nodes: u32,
    /// In Slurm's spelling, such as `RUNNING`.
    pub state: String,
    /// Why it waits, such as `Resources`.
    pub reason: String,
    /// Seconds since 1970; 0 while nothing preempts it.
    pub preempted: i64,
    /// Seconds since 1970: when it ended, or will be ended.
    pub end: i64,
}

/// One node as a listing shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// In lower case, with its flags: `idle`, `mixed drain`.
    pub state: String,
    pub partitions: Vec<String>,
    pub features: Vec<String>,
    pub cpus: u32,
    pub cpus_used: u32,
    /// MiB.
    pub memory: u64,
    pub memory_used: u64,
    /// Such as `gpu:a100:4`.
    pub gres: String,
    pub gres_used: String,
}

/// What is known of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// Time between the word that a job is preempted and its end.
    pub grace: Option<Millis>,
}

/// The calls. None of them judges what it may touch: the driver does, before it calls.
#[async_trait]
pub trait Calls: Send + Sync + fmt::Debug {
    /// Submits a batch script and returns the job's id.
    async fn submit(&self, script: &str) -> Result<u32, CallError>;
    /// Every job that Slurm still knows, ended ones included, of all users.
    async fn jobs(&self) -> Result<Vec<Job>, CallError>;
    /// States of jobs in Slurm's accounting, as far as it has one; `None` where there is none.
    async fn accounted(&self, ids: &[u32]) -> Result<Option<Vec<(u32, String)>>, CallError>;
    async fn nodes(&self) -> Result<Vec<Node>, CallError>;
    async fn partition(&self, name: &str) -> Result<Partition, CallError>;
    /// Ends a job of exactly this name and of the user who asks.
    async fn cancel(&self, id: u32, name: &str) -> Result<(), CallError>;
    /// SIGTERM to the agents of a job of exactly this name and of the user who asks.
    async fn terminate(&self, id: u32, name: &str) -> Result<(), CallError>;
}
