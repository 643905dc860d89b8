//! The body of an event: one JSON text that serves two standards, CloudEvents 1.0 and Standard Webhooks.
//!
//! The order of the keys is fixed by the order of the fields below, because receivers' golden tests and our own
//! compare bytes. A body carries facts about money and jobs, never secrets, environments or command lines; texts that
//! people wrote are clipped so that a body stays under [`BODY_BYTES_MAX`].

pub(crate) mod escape;

use leeway_model::market::OfferKey;
use leeway_model::notify::{Alert, Notification};
use leeway_model::{Currency, InstallationId, JobId, Micros, RunId, Timestamp};
use serde::Serialize;

use crate::EventId;

/// No body is larger than this, whatever the texts in it.
pub const BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest sentence kept, in bytes. Escaping makes a byte six at most, and no event has more than two sentences.
const SENTENCE_BYTES_MAX: usize = 1_024;
/// Longest display name kept, in bytes.
const TITLE_BYTES_MAX: usize = 256;
const CODE_BYTES_MAX: usize = 64;
/// Budgets last for ever in this version: one amount, no rollover.
const PERIOD: &str = "total";

/// Where events come from: the same for all events of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub installation: InstallationId,
    /// The ledger's currency, in which every amount is stated.
    pub currency: Currency,
}

/// The body of this notification. Equal arguments give equal bytes, so every attempt sends the same ones.
/// `log_index` is the place of the notification in the journal, when the caller knows it.
pub fn body(notification: &Notification, origin: &Origin, log_index: Option<u64>) -> Vec<u8> {
    let id = EventId::of(notification, &origin.installation);
    let time = time(notification.at);
    let alert = &notification.alert;
    let facts = Facts::from(alert);
    let envelope = Envelope {
        specversion: "1.0",
        id: id.as_str(),
        source: format!("/leeway/clusters/{}", origin.installation),
        kind: alert.type_name(),
        time: &time,
        timestamp: &time,
        subject: alert.subject(),
        datacontenttype: "application/json",
        sequence: format!("{:020}", notification.sequence),
        data: Data {
            currency: facts.has_amounts().then(|| origin.currency.to_string()),
            facts,
            severity: notification.severity.as_str(),
            alert_key: alert.key(),
            log_index,
        },
    };
    let body = escape::to_json(&envelope);
    debug_assert!(body.len() <= BODY_BYTES_MAX, "every text in a body is clipped");
    body
}

#[derive(Serialize)]
struct Envelope<'a> {
    specversion: &'static str,
    id: &'a str,
    source: String,
    #[serde(rename = "type")]
    kind: &'static str,
    time: &'a str,
    timestamp: &'a str,
    subject: String,
    datacontenttype: &'static str,
    sequence: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    #[serde(flatten)]
    facts: Facts<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    alert_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_index: Option<u64>,
}

/// What each kind of event tells. Amounts are micro-units; fields that do not apply are left out.
#[derive(Serialize)]
#[serde(untagged)]
enum Facts<'a> {
    ThresholdCrossed {
        budget: &'a str,
        period: &'static str,
        kind: &'static str,
        threshold_percent: u32,
        cap_micros: i64,
        posted_micros: i64,
        held_micros: i64,
    },
    CapReached {
        budget: &'a str,
        period: &'static str,
        cap_micros: i64,
        posted_micros: i64,
        held_micros: i64,
    },
    AdmissionDenied {
        #[serde(skip_serializing_if = "Option::is_none")]
        budget: Option<&'a str>,
        job: String,
        code: String,
        message: String,
    },
    Overrun {
        budget: &'a str,
        period: &'static str,
        job: String,
        run: String,
        amount_micros: i64,
    },
    CapChanged {
        budget: &'a str,
        period: &'static str,
        from_micros: i64,
        to_micros: i64,
    },
    JobStateChanged {
        job: String,
        name: String,
        from: &'static str,
        to: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    JobInterrupted {
        job: String,
        run: String,
        #[serde(flatten)]
        offer: Offer<'a>,
        warned: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        deadline: Option<String>,
    },
    JobRecovered {
        job: String,
        run: String,
        #[serde(flatten)]
        offer: Offer<'a>,
        step: u64,
    },
    JobHeld {
        job: String,
        code: String,
        message: String,
    },
    CheckpointQuarantined {
        job: String,
        epoch: u64,
        checkpoint_seq: u64,
        detail: String,
    },
    CheckpointsMissed {
        job: String,
        run: String,
        message: String,
    },
    TerminationStuck {
        job: String,
        run: String,
        minutes: u64,
    },
    EndpointDisabled {
        endpoint: &'a str,
        reason: String,
    },
    EndpointTest {
        endpoint: &'a str,
    },
}

#[derive(Serialize)]
struct Offer<'a> {
    cluster: &'a str,
    shape: &'a str,
    capacity: &'static str,
}

impl<'a> From<&'a OfferKey> for Offer<'a> {
    fn from(key: &'a OfferKey) -> Self {
        Self { cluster: key.cluster.as_str(), shape: key.shape.as_str(), capacity: key.capacity.as_str() }
    }
}

impl Facts<'_> {
    fn has_amounts(&self) -> bool {
        matches!(
            self,
            Self::ThresholdCrossed { .. } | Self::CapReached { .. } | Self::Overrun { .. } | Self::CapChanged { .. }
        )
    }
}

impl<'a> From<&'a Alert> for Facts<'a> {
    fn from(alert: &'a Alert) -> Self {
        let micros = |amount: &Micros| amount.get();
        let job = |id: &JobId| id.to_string();
        let of_run = |id: &RunId| (id.job.to_string(), id.to_string());
        match alert {
            Alert::ThresholdCrossed { budget, kind, percent, cap, posted, held } => Self::ThresholdCrossed {
                budget: budget.as_str(),
                period: PERIOD,
                kind: kind.as_str(),
                threshold_percent: *percent,
                cap_micros: micros(cap),
                posted_micros: micros(posted),
                held_micros: micros(held),
            },
            Alert::CapReached { budget, cap, posted, held } => Self::CapReached {
                budget: budget.as_str(),
                period: PERIOD,
                cap_micros: micros(cap),
                posted_micros: micros(posted),
                held_micros: micros(held),
            },
            Alert::AdmissionDenied { budget, job: id, code, message } => Self::AdmissionDenied {
                budget: budget.as_ref().map(|name| name.as_str()),
                job: job(id),
                code: clip(code, CODE_BYTES_MAX),
                message: clip(message, SENTENCE_BYTES_MAX),
            },
            Alert::Overrun { budget, run, amount } => {
                let (job, run) = of_run(run);
                Self::Overrun { budget: budget.as_str(), period: PERIOD, job, run, amount_micros: micros(amount) }
            }
            Alert::CapChanged { budget, from, to } => Self::CapChanged {
                budget: budget.as_str(),
                period: PERIOD,
                from_micros: micros(from),
                to_micros: micros(to),
            },
            Alert::JobStateChanged { job: id, name, from, to, reason } => Self::JobStateChanged {
                job: job(id),
                name: clip(name, TITLE_BYTES_MAX),
                from: from.as_str(),
                to: to.as_str(),
                reason: reason.as_ref().map(|reason| clip(reason, SENTENCE_BYTES_MAX)),
            },
            Alert::JobInterrupted { run, offer, warned, deadline } => {
                let (job, run) = of_run(run);
                Self::JobInterrupted { job, run, offer: offer.into(), warned: *warned, deadline: deadline.map(time) }
            }
            Alert::JobRecovered { run, offer, step } => {
                let (job, run) = of_run(run);
                Self::JobRecovered { job, run, offer: offer.into(), step: *step }
            }
            Alert::JobHeld { job: id, code, message } => Self::JobHeld {
                job: job(id),
                code: clip(code, CODE_BYTES_MAX),
                message: clip(message, SENTENCE_BYTES_MAX),
            },
            Alert::CheckpointQuarantined { job: id, checkpoint, detail } => Self::CheckpointQuarantined {
                job: job(id),
                epoch: checkpoint.epoch,
                checkpoint_seq: checkpoint.seq,
                detail: clip(detail, SENTENCE_BYTES_MAX),
            },
            Alert::CheckpointsMissed { run, message } => {
                let (job, run) = of_run(run);
                Self::CheckpointsMissed { job, run, message: clip(message, SENTENCE_BYTES_MAX) }
            }
            Alert::TerminationStuck { run, minutes } => {
                let (job, run) = of_run(run);
                Self::TerminationStuck { job, run, minutes: *minutes }
            }
            Alert::EndpointDisabled { endpoint, reason } => {
                Self::EndpointDisabled { endpoint: endpoint.as_str(), reason: clip(reason, SENTENCE_BYTES_MAX) }
            }
            Alert::EndpointTest { endpoint } => Self::EndpointTest { endpoint: endpoint.as_str() },
        }
    }
}

/// RFC 3339, within the years that it can write.
fn time(at: Timestamp) -> String {
    const YEAR_9999: i64 = 253_402_207_200_000;
    Timestamp::from_millis(at.as_millis().clamp(0, YEAR_9999)).to_string()
}

/// At most `bytes_max` bytes, cut between characters, with an ellipsis where something is missing.
fn clip(text: &str, bytes_max: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}{ELLIPSIS}", &text[..text.floor_char_boundary(bytes_max - ELLIPSIS.len())])
}

#[cfg(test)]
mod tests;
