//! The id of an event: the same on every attempt, after a crash and after a failover, because it is derived and never
//! drawn. Receivers de-duplicate by it.

use std::fmt;
use std::str::FromStr;

use leeway_model::InstallationId;
use leeway_model::notify::Notification;
use sha2::{Digest, Sha256};

const PREFIX: &str = "evt_";
const DIGITS: usize = 26;
/// Crockford's alphabet: no letter that could be read as another.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// `evt_` and 26 base32 digits (130 bits). Never contains a `.`, which separates the parts of the signed content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(Box<str>);

/// The text is not an event id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an event id; it looks like evt_01j9z3k5r8w2q4t6v8x0y2a4c6")]
pub struct EventIdError(String);

impl EventId {
    /// The id of the notification with this sequence number in this installation.
    pub fn derive(installation: &InstallationId, sequence: u64) -> Self {
        let digest = Sha256::new()
            .chain_update(b"leeway event id 1\0")
            .chain_update(installation.to_string())
            .chain_update(b"\0")
            .chain_update(sequence.to_be_bytes())
            .finalize();
        let digit = |position: usize| {
            let bit = position * 5;
            let pair = u16::from_be_bytes([digest[bit / 8], digest[bit / 8 + 1]]);
            char::from(ALPHABET[usize::from((pair >> (11 - bit % 8)) & 31)])
        };
        Self(PREFIX.chars().chain((0..DIGITS).map(digit)).collect::<String>().into())
    }

    pub fn of(notification: &Notification, installation: &InstallationId) -> Self {
        Self::derive(installation, notification.sequence)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventId {
    type Err = EventIdError;

    fn from_str(text: &str) -> Result<Self, EventIdError> {
        let digits = text.strip_prefix(PREFIX).unwrap_or_default();
        if digits.len() == DIGITS && digits.bytes().all(|digit| ALPHABET.contains(&digit)) {
            Ok(Self(text.into()))
        } else {
            Err(EventIdError(leeway_model::name::escape(text)))
        }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn installation(name: &str) -> InstallationId {
        InstallationId(name.parse().unwrap())
    }

    #[test]
    fn w_01_an_event_has_the_same_id_on_every_attempt_and_no_other_event_has_it() {
        let ids: BTreeSet<EventId> = (0..500)
            .flat_map(|sequence| ["demo", "demo1"].map(|name| EventId::derive(&installation(name), sequence)))
            .collect();
        assert_eq!(ids.len(), 1_000);
        assert_eq!(EventId::derive(&installation("demo"), 42), EventId::derive(&installation("demo"), 42));
        // Pinned: another derivation would make every event in an outbox look new after an upgrade.
        assert_eq!(EventId::derive(&installation("demo"), 42).as_str(), "evt_jaz923zbn8dtnhbzgegk0rgjwv");
    }

    #[test]
    fn an_id_is_its_own_spelling() {
        let id = EventId::derive(&installation("demo"), u64::MAX);
        assert_eq!(id.as_str().parse::<EventId>().unwrap(), id);
        assert!("evt_01j9z3k5r8w2q4t6v8x0y2a4c6".parse::<EventId>().is_ok());
        for text in [
            "",
            "evt_",
            "evt_01j9z3k5r8w2q4t6v8x0y2a4c",
            "evt_01J9Z3K5R8W2Q4T6V8X0Y2A4C6",
            "evt_01j9z3k5r8w2q4t6v8x0y2a4c.",
        ] {
            assert!(text.parse::<EventId>().is_err(), "{text}");
        }
    }
}
