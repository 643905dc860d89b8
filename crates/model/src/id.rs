//! Identities. A job is numbered by the installation; a run is a job's attempt, and its id is both the idempotency
//! token of its launch and the fencing epoch of everything it sends.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of a run of one job, from 1; never reused.
pub type Epoch = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId {
    pub job: JobId,
    pub epoch: Epoch,
}

/// A hold belongs to one run; a later top-up extends the same hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HoldId(pub RunId);

/// Position of an action in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OutboxId(pub u64);

/// Names one installation for ever; part of every mark that Leeway leaves at a provider or in an object store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstallationId(pub crate::Name);

/// The text is not an id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a {kind} id; it looks like {example}")]
pub struct IdError {
    text: String,
    kind: &'static str,
    example: &'static str,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("j-{}", self.0))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("j-{}-r{}", self.job.0, self.epoch))
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("h-{}", self.0))
    }
}

impl fmt::Display for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("o-{}", self.0))
    }
}

impl fmt::Display for InstallationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Digits without sign or leading zero, so that each id has one spelling.
fn number(text: &str) -> Option<u64> {
    let canonical =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().ok()).flatten()
}

impl FromStr for JobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let id = text.strip_prefix("j-").and_then(number).map(JobId);
        id.ok_or_else(|| IdError { text: crate::name::escape(text), kind: "job", example: "j-42" })
    }
}

impl FromStr for RunId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (job, epoch) = text.strip_prefix("j-")?.split_once("-r")?;
            Some(RunId { job: JobId(number(job)?), epoch: number(epoch)? })
        };
        parse().ok_or_else(|| IdError { text: crate::name::escape(text), kind: "run", example: "j-42-r3" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_exactly_one_spelling() {
        let run = RunId { job: JobId(42), epoch: 3 };
        assert_eq!(run.to_string(), "j-42-r3");
        assert_eq!("j-42-r3".parse::<RunId>().unwrap(), run);
        for text in ["", "42", "j-", "j-042", "j-+4", "J-4", "j-4-r", "j-4/../x", "j-99999999999999999999"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
