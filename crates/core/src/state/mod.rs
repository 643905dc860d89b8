//! All durable state of the core, and the few values that are derived from it or need not survive.

use std::collections::BTreeMap;

use leeway_model::budget::{Budget, Hold, LedgerEntry};
use leeway_model::checkpoint::{Checkpoint, CheckpointId, Digest};
use leeway_model::cluster::{ClusterSpec, ClusterState};
use leeway_model::dataset::Dataset;
use leeway_model::decision::Decision;
use leeway_model::job::{Job, Progress};
use leeway_model::market::OfferKey;
use leeway_model::notify::{Endpoint, Notification};
use leeway_model::run::Run;
use leeway_model::{HoldId, JobId, Name, OutboxId, RunId, Timestamp};
use serde::{Deserialize, Serialize};

mod outbox;
pub mod rows;
pub mod table;

use crate::locality::{Moved, PathKey};
use crate::spells::Spells;
use crate::usage::Usage;
pub use outbox::Outbox;
use table::{RowSink, Table, TableId};

/// Counters that name the next thing of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub jobs: u64,
    pub deliveries: u64,
    pub notifications: u64,
    pub ledger_entries: u64,
    /// Changes of any job so far: the last `Job::version`.
    pub job_changes: u64,
    /// Runs whose rows were forgotten with their finished jobs.
    pub forgotten_runs: u64,
    /// Which life of the store this is; 0 before anybody said so. A restored store begins another one.
    pub incarnation: u128,
    /// Runs get no smaller epoch than this. It rises when a store is restored, above every run that may have been
    /// started after the backup was taken.
    pub epoch_floor: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    pub spec: ClusterSpec,
    pub state: ClusterState,
    /// Whether the operator drained it; survives the driver losing and finding the cluster.
    pub drained: bool,
}

/// A client's request and what it made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub body: Digest,
    pub jobs: Vec<Result<JobId, Denial>>,
    pub at: Timestamp,
}

/// Why a job of a request was refused, kept for whoever asks again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    pub code: Box<str>,
    pub message: Box<str>,
}

/// A notification on its way to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub endpoint: Name,
    pub notification: Notification,
    /// Attempts that were finished.
    pub attempts: u32,
    pub next_attempt: Timestamp,
    pub last_error: Option<Box<str>>,
    /// No further attempt; kept for inspection and replay.
    pub failed: bool,
}

/// The tables. Every change goes through a table, so that the step's changed rows are known.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub meta: Meta,
    saved_meta: Meta,
    pub jobs: Table<JobId, Job>,
    pub runs: Table<RunId, Run>,
    pub decisions: Table<RunId, Decision>,
    pub clusters: Table<Name, Cluster>,
    pub checkpoints: Table<(JobId, CheckpointId), Checkpoint>,
    pub budgets: Table<Name, Budget>,
    pub holds: Table<HoldId, Hold>,
    pub deliveries: Table<OutboxId, Delivery>,
    pub endpoints: Table<Name, Endpoint>,
    pub datasets: Table<Name, Dataset>,
    pub requests: Table<Box<str>, Request>,
    /// Bytes moved this month, for the tiers of egress prices.
    pub moved: Table<PathKey, Moved>,
    /// What owners used, where the queue's order ranks them.
    pub usage: Table<Name, Usage>,
    /// What was seen of spot places.
    pub spells: Table<OfferKey, Spells>,
    /// Entries of this step only: the ledger is written, never read back by the core.
    pub ledger: Vec<LedgerEntry>,
}

impl Tables {
    pub fn has_changes(&self) -> bool {
        self.meta != self.saved_meta
            || !self.ledger.is_empty()
            || self.jobs.has_changes()
            || self.runs.has_changes()
            || self.decisions.has_changes()
            || self.clusters.has_changes()
            || self.checkpoints.has_changes()
            || self.budgets.has_changes()
            || self.holds.has_changes()
            || self.deliveries.has_changes()
            || self.endpoints.has_changes()
            || self.datasets.has_changes()
            || self.requests.has_changes()
            || self.moved.has_changes()
            || self.usage.has_changes()
            || self.spells.has_changes()
    }

    /// Hands every changed row to `sink`, table by table, and forgets that it changed.
    pub fn drain(&mut self, sink: &mut impl RowSink) {
        if self.meta != self.saved_meta {
            sink.put(TableId::Meta, &[], &self.meta);
            self.saved_meta = self.meta;
        }
        self.jobs.drain(TableId::Job, sink);
        self.runs.drain(TableId::Run, sink);
        self.decisions.drain(TableId::Decision, sink);
        self.clusters.drain(TableId::Cluster, sink);
        self.checkpoints.drain(TableId::Checkpoint, sink);
        self.budgets.drain(TableId::Budget, sink);
        self.holds.drain(TableId::Hold, sink);
        for entry in self.ledger.drain(..) {
            sink.put(TableId::Ledger, &entry.number.to_be_bytes(), &entry);
        }
        self.deliveries.drain(TableId::Delivery, sink);
        self.endpoints.drain(TableId::Endpoint, sink);
        self.datasets.drain(TableId::Dataset, sink);
        self.requests.drain(TableId::Request, sink);
        self.moved.drain(TableId::Moved, sink);
        self.usage.drain(TableId::Usage, sink);
        self.spells.drain(TableId::Spells, sink);
    }

    /// Takes every changed row as durable, for a store that keeps none.
    pub fn forget_changes(&mut self) {
        self.saved_meta = self.meta;
        self.ledger.clear();
        self.jobs.forget_changes();
        self.runs.forget_changes();
        self.decisions.forget_changes();
        self.clusters.forget_changes();
        self.checkpoints.forget_changes();
        self.budgets.forget_changes();
        self.holds.forget_changes();
        self.deliveries.forget_changes();
        self.endpoints.forget_changes();
        self.datasets.forget_changes();
        self.requests.forget_changes();
        self.moved.forget_changes();
        self.usage.forget_changes();
        self.spells.forget_changes();
    }

    pub fn load_meta(&mut self, meta: Meta) {
        self.meta = meta;
        self.saved_meta = meta;
    }
}

/// What a restart may forget.
#[derive(Clone, Debug, Default)]
pub struct Volatile {
    /// Last renewal of each rank's lease since this process started.
    pub renewals: BTreeMap<(RunId, u32), Timestamp>,
    /// When this process took over; no lease is judged before twice the TTL from here.
    pub started: Timestamp,
    /// Last progress each run under way reported.
    pub progress: BTreeMap<RunId, Progress>,
    /// Shards of checkpoints whose other ranks are still awaited, by run and sequence number.
    pub shards: BTreeMap<(RunId, u64), BTreeMap<u32, crate::event::Shard>>,
    /// Losses of late at offers without a market, with whose they were.
    pub losses: BTreeMap<OfferKey, Vec<(Timestamp, JobId)>>,
    /// The store keeps its last room: nothing new is placed.
    pub short_of_space: bool,
    pub outbox: Outbox,
}
