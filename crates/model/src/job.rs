//! A job: what a user wants done, and how far it has come.
//!
//! ```text
//! Waiting ──> Pending ──> Starting ──> Running ──> Succeeded
//!  (for others)  ^            │           │  └────> Failed
//!                └────────────┴───────────┘  any ─> Cancelled (through Cancelling while a run still exists)
//!                   the run ended before the job did
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{CheckpointPolicy, CheckpointRef};
use crate::cluster::Region;
use crate::resources::ResourceRequest;
use crate::{Bill, Bytes, Epoch, JobId, Micros, Millis, Name, Rate, RunId, Text, Timestamp};

/// What to run, where it may run, and what it may cost. Validated before it enters the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub name: Text,
    /// Who pays and who may see it.
    pub owner: Name,
    /// Machines in the gang, all or nothing; at least 1.
    pub nodes: u32,
    /// Acceptable machines; at least one, tried in order when `ordered`, else by the bill.
    pub resources: Vec<ResourceRequest>,
    pub ordered: bool,
    pub priority: i32,
    pub program: Program,
    pub money: MoneyTerms,
    pub time: TimeTerms,
    pub data: Vec<DataInput>,
    /// Expected size of what comes back to `home` of the outputs.
    pub outputs: Option<DataOutput>,
    pub checkpoint: Option<CheckpointPolicy>,
    pub retry: RetryPolicy,
    /// Jobs that must succeed first.
    pub depends_on: Vec<JobId>,
    /// A policy by name, or the installation's default.
    pub policy: Option<Name>,
    pub labels: BTreeMap<String, String>,
}

/// The commands and their surroundings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Shell text run once on each node before `run`; a failure ends the run.
    pub setup: Option<Box<str>>,
    /// Shell text run on each node.
    pub run: Box<str>,
    pub env: BTreeMap<String, String>,
    /// Sealed at the border; only the agent that runs the job ever sees the values.
    pub secrets: BTreeMap<String, Sealed>,
    /// The unpacked working directory, if one was uploaded.
    pub workdir: Option<Upload>,
    /// Uploaded files by the path at which the program finds them.
    pub mounts: BTreeMap<String, Upload>,
}

/// An encrypted value. Its plaintext never enters the core, the journal, a log or a message to a client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed(pub Box<[u8]>);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<sealed>")
    }
}

/// A tar archive held by the server, named by the SHA-256 of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    pub sha256: [u8; 32],
    pub size: Bytes,
}

/// What the job may cost and what its time is worth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoneyTerms {
    /// The budget that pays; the installation's default when empty.
    pub budget: Option<Name>,
    /// Cap of this one job over all its runs.
    pub max_cost: Option<Micros>,
    /// What an hour of delay costs its owner, used to price waiting.
    pub value_per_hour: Option<Rate>,
}

/// How long it takes and by when it must be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeTerms {
    pub deadline: Option<Timestamp>,
    /// Expected running time on a machine of relative speed 1; unknown stays unknown.
    pub estimate: Option<Millis>,
    /// Wall time in `Running` after which the job is stopped and fails.
    pub max_duration: Option<Millis>,
}

/// An input: how much lies where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataInput {
    pub url: Box<str>,
    /// Where it lives; unknown when the URL does not tell and the file does not say.
    pub region: Option<Region>,
    /// Unknown stays unknown; the installation's upper bound is used and flagged.
    pub size: Option<Bytes>,
}

/// What the job leaves behind and where it must go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DataOutput {
    pub url: Box<str>,
    pub region: Option<Region>,
    pub size: Option<Bytes>,
}

/// Three separate allowances: an interruption never uses up the retries of a program that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Restarts after the program failed. Default 0.
    pub user_failures: u32,
    /// Restarts after a launch or a machine failed. Default 10.
    pub infrastructure_failures: u32,
    /// Restarts after interruptions and losses; `None` is without limit.
    pub interruptions: Option<u32>,
    /// No restart later than this after the submission.
    pub within: Option<Millis>,
    /// Exit codes of the program that are worth a restart without using `user_failures`.
    pub exit_codes: Vec<i32>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            user_failures: 0,
            infrastructure_failures: 10,
            interruptions: None,
            within: None,
            exit_codes: Vec::new(),
        }
    }
}

/// How much of each allowance is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetriesUsed {
    pub user_failures: u32,
    pub infrastructure_failures: u32,
    pub interruptions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum JobState {
    /// For the jobs it depends on.
    Waiting,
    /// For a place.
    Pending,
    /// Placed; its machines, inputs or checkpoint are being made ready.
    Starting,
    Running,
    /// Cancelled by its owner; a run is still being stopped.
    Cancelling,
    Succeeded,
    Failed,
    Cancelled,
}

impl JobState {
    pub const ALL: [Self; 8] = [
        Self::Waiting,
        Self::Pending,
        Self::Starting,
        Self::Running,
        Self::Cancelling,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Pending => "pending",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Steps done of steps planned, as the program reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub step: u64,
    /// `None` while the program has not said how many there will be.
    pub total: Option<u64>,
}

/// Why a job stands where it stands, in a stable code and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Upper-case, stable, for programs: `NO_CAPACITY`, `BUDGET_EXCEEDED`.
    pub code: Box<str>,
    pub message: Box<str>,
}

impl Reason {
    pub fn new(code: &str, message: impl Into<Box<str>>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: JobId,
    pub spec: Arc<JobSpec>,
    pub state: JobState,
    pub submitted: Timestamp,
    /// When the present state began.
    pub since: Timestamp,
    pub ended: Option<Timestamp>,
    /// Epoch of the newest run; 0 before the first.
    pub epoch: Epoch,
    /// Newest checkpoint that may be restored.
    pub checkpoint: Option<CheckpointRef>,
    pub progress: Progress,
    /// Cost of all its runs so far, as posted to the ledger.
    pub posted: Bill,
    pub retries: RetriesUsed,
    /// Not before this instant may the next run start.
    pub not_before: Timestamp,
    pub reason: Option<Reason>,
    /// Why the next run starts: what its program is told in `LEEWAY_START_REASON`.
    pub start_reason: StartReason,
    /// Installation-wide number of the last change of any job when this one changed; resume token of watches.
    pub version: u64,
    /// Exits with "saved, please continue me" in a row without a newer checkpoint.
    pub saves_without_progress: u32,
    /// Pause of the last save, as its agent measured it.
    pub save_time: Option<Millis>,
}

impl Job {
    /// A job as it begins: pending since now, nothing run, nothing spent.
    pub fn new(id: JobId, spec: JobSpec, now: Timestamp) -> Self {
        Self {
            id,
            spec: Arc::new(spec),
            state: JobState::Pending,
            submitted: now,
            since: now,
            ended: None,
            epoch: 0,
            checkpoint: None,
            progress: Progress::default(),
            posted: Bill::default(),
            retries: RetriesUsed::default(),
            not_before: now,
            reason: None,
            start_reason: StartReason::First,
            version: 0,
            saves_without_progress: 0,
            save_time: None,
        }
    }

    /// The last instant of the year 9999: a job that may not start before it waits for a person.
    pub const HELD: Timestamp = Timestamp::from_millis(253_402_300_799_000);

    /// Whether it waits until somebody retries or cancels it.
    pub fn is_held(&self) -> bool {
        self.state == JobState::Pending && self.not_before >= Self::HELD
    }

    /// The newest run, if any was placed.
    pub fn newest_run(&self) -> Option<RunId> {
        (self.epoch > 0).then_some(RunId { job: self.id, epoch: self.epoch })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartReason {
    #[default]
    First,
    Interrupted,
    Preempted,
    Failed,
    Moved,
}

impl StartReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Interrupted => "interrupted",
            Self::Preempted => "preempted",
            Self::Failed => "failed",
            Self::Moved => "moved",
        }
    }
}
