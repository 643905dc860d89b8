//! Everything that can change a decision, in the past tense.

use leeway_model::budget::BudgetSpec;
use leeway_model::checkpoint::{CheckpointId, Digest};
use leeway_model::cluster::ClusterSpec;
use leeway_model::dataset::Dataset;
use leeway_model::job::{JobSpec, Progress};
use leeway_model::market::{CapacityObservation, PriceObservation};
use leeway_model::notify::{DeliveryOutcome, Endpoint};
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, JobId, Millis, Name, OutboxId, RunId, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    // Clients.
    JobsSubmitted {
        request: Option<RequestKey>,
        jobs: Vec<Submission>,
    },
    JobCancelled {
        job: JobId,
        by: Name,
    },
    JobRetried {
        job: JobId,
    },
    BudgetSet {
        spec: BudgetSpec,
        by: Name,
    },
    ClusterRegistered {
        spec: ClusterSpec,
    },
    ClusterDrained {
        cluster: Name,
    },
    ClusterResumed {
        cluster: Name,
    },
    ClusterRemoved {
        cluster: Name,
    },
    DatasetRegistered {
        dataset: Dataset,
    },
    DatasetRemoved {
        dataset: Name,
    },
    EndpointSet {
        endpoint: Endpoint,
    },
    EndpointRemoved {
        endpoint: Name,
    },
    EndpointTested {
        endpoint: Name,
    },

    // Markets.
    PricesObserved {
        prices: Vec<PriceObservation>,
    },
    CapacityObserved {
        capacities: Vec<CapacityObservation>,
    },

    // Drivers.
    RunLaunched {
        run: RunId,
        instances: Vec<Box<str>>,
    },
    LaunchRefused {
        run: RunId,
        class: LaunchErrorClass,
        message: Box<str>,
    },
    /// One machine of a run is proven gone.
    InstanceLost {
        run: RunId,
        rank: u32,
    },
    /// Every machine of a run is proven gone: a complete listing, after the visibility window.
    InstancesGone {
        run: RunId,
    },
    InterruptionNoticed {
        run: RunId,
        deadline: Timestamp,
        source: Box<str>,
    },
    /// The driver can or cannot reach the cluster.
    ClusterReached {
        cluster: Name,
        reached: bool,
    },

    // Agents.
    AgentRegistered {
        run: RunId,
        rank: u32,
        identity: Box<str>,
    },
    LeaseRenewed {
        run: RunId,
        rank: u32,
        progress: Progress,
    },
    PhaseReported {
        run: RunId,
        rank: u32,
        phase: Phase,
    },
    CheckpointPublished {
        run: RunId,
        rank: u32,
        shard: Shard,
    },
    /// A restored checkpoint did not match its digests.
    DamageReported {
        run: RunId,
        rank: u32,
        checkpoint: CheckpointId,
        detail: Box<str>,
    },
    ExitReported {
        run: RunId,
        rank: u32,
        exit_code: i32,
    },

    // Results of our own actions.
    DeliveryFinished {
        delivery: OutboxId,
        outcome: DeliveryOutcome,
    },
    CheckpointDeleted {
        job: JobId,
        checkpoint: CheckpointId,
    },

    /// The store has room for new work again, or has none: then nothing new is placed.
    SpaceChanged {
        short: bool,
    },
    /// Nothing happened but time.
    Woke,

    // Agents, later: new variants stand last, because the journal knows a variant by its position.
    /// A run's agent cannot hear the notices of its provider.
    NoticesUnheard {
        run: RunId,
        rank: u32,
    },
    /// A checkpoint could not be saved because its store is full.
    StoreFull {
        run: RunId,
        rank: u32,
    },
    /// The store was opened in this life of it. To be brought first, at each start.
    Opened {
        incarnation: u128,
    },
}

impl Event {
    /// Whether it must be taken even when the store keeps its last room for what ends work, tells of it or saves it.
    pub const fn is_essential(&self) -> bool {
        !matches!(
            self,
            Self::JobsSubmitted { .. }
                | Self::JobRetried { .. }
                | Self::ClusterRegistered { .. }
                | Self::DatasetRegistered { .. }
                | Self::EndpointSet { .. }
                | Self::EndpointTested { .. }
                | Self::PricesObserved { .. }
                | Self::CapacityObserved { .. }
        )
    }
}

/// A client's request id within its owner, with the digest of the request's body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    pub id: Box<str>,
    pub body: Digest,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    pub spec: JobSpec,
    /// Positions in the same batch of jobs that must succeed first.
    pub after: Vec<u32>,
}

/// How far a rank has come before and into its program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    Setup,
    Restoring,
    /// The program began, from this checkpoint and step when one was restored.
    Running {
        restored: Option<CheckpointId>,
    },
}

/// One rank's part of a checkpoint, uploaded and verified by read-back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    pub seq: u64,
    pub step: u64,
    pub manifest: Digest,
    pub size: Bytes,
    /// Pause that the program felt, as measured by its agent.
    pub save_time: Millis,
}
