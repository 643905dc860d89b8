//! What people are told: the events that leave through webhooks.

use serde::{Deserialize, Serialize};

use crate::budget::ThresholdKind;
use crate::checkpoint::CheckpointId;
use crate::job::JobState;
use crate::market::OfferKey;
use crate::{JobId, Micros, Name, RunId, Timestamp};

/// Budgets last for ever in this version.
const PERIOD: &str = "total";
/// Longest code in a key; codes are short, but they are texts.
const KEY_CODE_CHARS: usize = 64;

/// Something worth telling, with when it happened and its place in the installation's order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// Grows by one per notification of the installation.
    pub sequence: u64,
    pub at: Timestamp,
    pub severity: Severity,
    pub alert: Alert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    Info,
    Warning,
    Critical,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The kinds of event. To add one: a variant here, its type name below, where it fires in `core`, its payload in
/// `webhook::payload`, a golden file there, and a test for when it fires and when not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Alert {
    ThresholdCrossed {
        budget: Name,
        kind: ThresholdKind,
        percent: u32,
        cap: Micros,
        posted: Micros,
        held: Micros,
    },
    CapReached {
        budget: Name,
        cap: Micros,
        posted: Micros,
        held: Micros,
    },
    AdmissionDenied {
        budget: Option<Name>,
        job: JobId,
        code: Box<str>,
        message: Box<str>,
    },
    Overrun {
        budget: Name,
        run: RunId,
        amount: Micros,
    },
    CapChanged {
        budget: Name,
        from: Micros,
        to: Micros,
    },
    JobStateChanged {
        job: JobId,
        name: Box<str>,
        from: JobState,
        to: JobState,
        reason: Option<Box<str>>,
    },
    JobInterrupted {
        run: RunId,
        offer: OfferKey,
        warned: bool,
        deadline: Option<Timestamp>,
    },
    JobRecovered {
        run: RunId,
        offer: OfferKey,
        step: u64,
    },
    /// It starts no more until somebody retries it.
    JobHeld {
        job: JobId,
        code: Box<str>,
        message: Box<str>,
    },
    CheckpointQuarantined {
        job: JobId,
        checkpoint: CheckpointId,
        detail: Box<str>,
    },
    /// The job runs on, but saves nothing: what it does is lost with its machines.
    CheckpointsMissed {
        run: RunId,
        message: Box<str>,
    },
    TerminationStuck {
        run: RunId,
        minutes: u64,
    },
    EndpointDisabled {
        endpoint: Name,
        reason: Box<str>,
    },
    EndpointTest {
        endpoint: Name,
    },
}

impl Alert {
    /// Every type there is, for those who choose among them.
    pub const TYPES: [&'static str; 14] = [
        "leeway.budget.threshold_crossed",
        "leeway.budget.cap_reached",
        "leeway.budget.admission_denied",
        "leeway.budget.overrun",
        "leeway.budget.cap_changed",
        "leeway.job.state_changed",
        "leeway.job.interrupted",
        "leeway.job.recovered",
        "leeway.job.held",
        "leeway.checkpoint.quarantined",
        "leeway.checkpoint.missed",
        "leeway.instance.termination_stuck",
        "leeway.endpoint.disabled",
        "leeway.endpoint.test",
    ];

    /// The event's type name on the wire. A breaking change of a payload gets a new name.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::ThresholdCrossed { .. } => "leeway.budget.threshold_crossed",
            Self::CapReached { .. } => "leeway.budget.cap_reached",
            Self::AdmissionDenied { .. } => "leeway.budget.admission_denied",
            Self::Overrun { .. } => "leeway.budget.overrun",
            Self::CapChanged { .. } => "leeway.budget.cap_changed",
            Self::JobStateChanged { .. } => "leeway.job.state_changed",
            Self::JobInterrupted { .. } => "leeway.job.interrupted",
            Self::JobRecovered { .. } => "leeway.job.recovered",
            Self::JobHeld { .. } => "leeway.job.held",
            Self::CheckpointQuarantined { .. } => "leeway.checkpoint.quarantined",
            Self::CheckpointsMissed { .. } => "leeway.checkpoint.missed",
            Self::TerminationStuck { .. } => "leeway.instance.termination_stuck",
            Self::EndpointDisabled { .. } => "leeway.endpoint.disabled",
            Self::EndpointTest { .. } => "leeway.endpoint.test",
        }
    }

    /// What alerts about the same trouble have in common: node, period, kind and threshold. Only budgets have one.
    pub fn key(&self) -> Option<String> {
        match self {
            Self::ThresholdCrossed { budget, kind, percent, .. } => {
                Some(format!("{budget}/{PERIOD}/{}/{percent}", kind.as_str()))
            }
            Self::CapReached { budget, .. } => Some(format!("{budget}/{PERIOD}/cap_reached")),
            Self::AdmissionDenied { budget: Some(budget), code, .. } => {
                let code: String = code.chars().take(KEY_CODE_CHARS).collect();
                Some(format!("{budget}/{PERIOD}/denied/{code}"))
            }
            Self::Overrun { budget, .. } => Some(format!("{budget}/{PERIOD}/overrun")),
            Self::CapChanged { budget, .. } => Some(format!("{budget}/{PERIOD}/cap_changed")),
            Self::AdmissionDenied { budget: None, .. }
            | Self::JobStateChanged { .. }
            | Self::JobInterrupted { .. }
            | Self::JobRecovered { .. }
            | Self::JobHeld { .. }
            | Self::CheckpointQuarantined { .. }
            | Self::CheckpointsMissed { .. }
            | Self::TerminationStuck { .. }
            | Self::EndpointDisabled { .. }
            | Self::EndpointTest { .. } => None,
        }
    }

    /// What the event is about, as a path.
    pub fn subject(&self) -> String {
        match self {
            Self::ThresholdCrossed { budget, .. }
            | Self::CapReached { budget, .. }
            | Self::Overrun { budget, .. }
            | Self::CapChanged { budget, .. } => format!("budgets/{budget}"),
            Self::AdmissionDenied { job, .. }
            | Self::JobStateChanged { job, .. }
            | Self::JobHeld { job, .. }
            | Self::CheckpointQuarantined { job, .. } => format!("jobs/{job}"),
            Self::JobInterrupted { run, .. }
            | Self::JobRecovered { run, .. }
            | Self::CheckpointsMissed { run, .. }
            | Self::TerminationStuck { run, .. } => format!("jobs/{}/runs/{run}", run.job),
            Self::EndpointDisabled { endpoint, .. } | Self::EndpointTest { endpoint } => {
                format!("endpoints/{endpoint}")
            }
        }
    }
}

/// A receiver of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub name: Name,
    pub url: Box<str>,
    /// Signing secret, sealed at the border like a job's secrets.
    pub secret: crate::job::Sealed,
    /// Event types to send; empty means all. `leeway.budget.*` matches a family.
    pub types: Vec<Box<str>>,
    /// `None` while it is enabled.
    pub disabled: Option<Box<str>>,
    pub last_success: Option<Timestamp>,
    /// First failure since the last success.
    pub failing_since: Option<Timestamp>,
    pub failures: u32,
}

impl Endpoint {
    pub fn wants(&self, type_name: &str) -> bool {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => type_name.starts_with(prefix),
            None => pattern == type_name,
        };
        self.disabled.is_none() && (self.types.is_empty() || self.types.iter().any(|pattern| matches(pattern)))
    }
}

/// How one attempt to deliver went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryOutcome {
    /// A 2xx answer.
    Delivered,
    /// Worth another attempt, not before `retry_after` when the receiver asked for that.
    Failed { detail: Box<str>, retry_after: Option<crate::Millis> },
    /// 410: the receiver wants no more.
    Gone,
}
