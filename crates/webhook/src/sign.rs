//! Signatures as Standard Webhooks defines them: HMAC-SHA256 over `id.timestamp.body`, base64, prefix `v1,`.
//!
//! While a secret is being rotated a request carries one signature per secret, separated by spaces; a receiver accepts
//! the request when any of them matches any secret it knows.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use leeway_model::{Millis, Timestamp};
use sha2::Sha256;

pub const ID_HEADER: &str = "webhook-id";
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub const SIGNATURE_HEADER: &str = "webhook-signature";
/// How far a request's time may lie from the receiver's clock.
pub const TOLERANCE: Millis = Millis::from_mins(5);

pub(crate) const SECRET_PREFIX: &str = "whsec_";
const SIGNATURE_PREFIX: &str = "v1,";
/// A receiver looks at no more signatures than this, so that a request cannot buy much work.
const SIGNATURES_MAX: usize = 16;

/// A signing secret. Only [`Secret::reveal`] shows it; it has no `Display`, and `Debug` hides it.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

/// Why a text is not a signing secret. Never says what the text was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("a signing secret starts with whsec_")]
    Prefix,
    #[error("a signing secret is base64 after whsec_")]
    Base64,
    #[error("a signing secret has 24 to 64 bytes, not {0}")]
    Length(usize),
}

impl Secret {
    /// A new secret from bytes that the caller drew from a cryptographic source.
    pub fn generate(random: [u8; 32]) -> Self {
        Self(Box::new(random))
    }

    /// The secret as it is handed to the owner of the endpoint, once.
    pub fn reveal(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// `v1,<base64>` for this content.
    fn sign(&self, id: &str, unix_seconds: i64, body: &[u8]) -> String {
        let mac = self.mac(id, unix_seconds, body).finalize().into_bytes();
        format!("{SIGNATURE_PREFIX}{}", STANDARD.encode(mac))
    }

    fn mac(&self, id: &str, unix_seconds: i64, body: &[u8]) -> Hmac<Sha256> {
        Hmac::<Sha256>::new_from_slice(&self.0)
            .expect("HMAC takes keys of any length")
            .chain_update(format!("{id}.{unix_seconds}."))
            .chain_update(body)
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let encoded = text.trim().strip_prefix(SECRET_PREFIX).ok_or(SecretError::Prefix)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?;
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes.into())) } else { Err(SecretError::Length(bytes.len())) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<signing secret>")
    }
}

/// Whole seconds since 1970, as the timestamp header writes them.
pub fn unix_seconds(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(1_000)
}

/// The value of the signature header: one signature per secret. `at` is the time of the attempt.
pub fn signature_header(secrets: &[Secret], id: &str, at: Timestamp, body: &[u8]) -> String {
    let signatures: Vec<String> = secrets.iter().map(|secret| secret.sign(id, unix_seconds(at), body)).collect();
    signatures.join(" ")
}

/// The three headers of a request, as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    pub id: &'a str,
    pub timestamp: &'a str,
    pub signature: &'a str,
}

/// Why a request must not be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("webhook-id is empty or contains a '.'")]
    Id,
    #[error("webhook-timestamp is not a whole number of seconds")]
    Timestamp,
    #[error("webhook-timestamp is too far in the past")]
    TooOld,
    #[error("webhook-timestamp is too far in the future")]
    TooNew,
    #[error("no signature in webhook-signature matches")]
    Signature,
}

/// Checks a request on its raw bytes. Signatures are compared in constant time.
pub fn verify(
    headers: Headers<'_>,
    body: &[u8],
    secrets: &[Secret],
    now: Timestamp,
    tolerance: Millis,
) -> Result<(), VerifyError> {
    // With a '.' in the id, two different requests could have the same signed content.
    if headers.id.is_empty() || headers.id.contains('.') {
        return Err(VerifyError::Id);
    }
    let seconds: i64 = headers.timestamp.parse().map_err(|_| VerifyError::Timestamp)?;
    // The signature covers the number, so the number must have one spelling.
    if seconds.to_string() != headers.timestamp {
        return Err(VerifyError::Timestamp);
    }
    let sent = Timestamp::from_millis(seconds.saturating_mul(1_000));
    if now.since(sent) > tolerance {
        return Err(VerifyError::TooOld);
    }
    if sent.since(now) > tolerance {
        return Err(VerifyError::TooNew);
    }
    let matches =
        |given: &[u8]| secrets.iter().any(|secret| secret.mac(headers.id, seconds, body).verify_slice(given).is_ok());
    let given = headers.signature.split(' ').take(SIGNATURES_MAX);
    let mut given = given.filter_map(|text| STANDARD.decode(text.strip_prefix(SIGNATURE_PREFIX)?).ok());
    if given.any(|signature| matches(&signature)) { Ok(()) } else { Err(VerifyError::Signature) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const ID: &str = "evt_01j9z3k5r8w2q4t6v8x0y2a4c6";
    const AT: Timestamp = Timestamp::from_millis(1_773_500_966_000);
    const SIGNATURE: &str = "v1,VANMZNlQMYxWrfeF2W7P+Ki0e4uSASbVbmc/jMNnVk0=";
    const BODY: &str = include_str!("../tests/fixtures/signed_body.json");

    fn secret() -> Secret {
        SECRET.parse().unwrap()
    }

    fn other() -> Secret {
        Secret::generate([7; 32])
    }

    fn check(signature: &str, secrets: &[Secret], now: Timestamp) -> Result<(), VerifyError> {
        let timestamp = unix_seconds(AT).to_string();
        verify(Headers { id: ID, timestamp: &timestamp, signature }, BODY.as_bytes(), secrets, now, TOLERANCE)
    }

    #[test]
    fn the_published_test_vector_is_signed_byte_for_byte() {
        assert_eq!(BODY.len(), 566);
        assert_eq!(signature_header(&[secret()], ID, AT, BODY.as_bytes()), SIGNATURE);
        assert_eq!(check(SIGNATURE, &[secret()], AT), Ok(()));
    }

    #[test]
    fn w_10_during_a_rotation_both_secrets_sign_and_afterwards_the_old_one_is_refused() {
        let both = signature_header(&[other(), secret()], ID, AT, BODY.as_bytes());
        assert_eq!(both.split(' ').count(), 2);
        assert_eq!(check(&both, &[secret()], AT), Ok(()));
        assert_eq!(check(&both, &[other()], AT), Ok(()));
        let only_new = signature_header(&[other()], ID, AT, BODY.as_bytes());
        assert_eq!(check(&only_new, &[secret()], AT), Err(VerifyError::Signature));
        assert_eq!(check(&only_new, &[], AT), Err(VerifyError::Signature));
    }

    #[test]
    fn a_request_from_another_time_is_refused() {
        let minutes = Millis::from_mins;
        let signed = |now| check(SIGNATURE, &[secret()], now);
        assert_eq!(signed(AT.after(minutes(5))), Ok(()));
        assert_eq!(signed(AT.before(minutes(5))), Ok(()));
        assert_eq!(signed(AT.after(minutes(5)).after(Millis::new(1))), Err(VerifyError::TooOld));
        assert_eq!(signed(AT.before(minutes(5)).before(Millis::new(1))), Err(VerifyError::TooNew));
    }

    #[test]
    fn malformed_headers_are_refused_before_any_work() {
        let check = |id: &str, timestamp: &str, signature: &str| {
            verify(Headers { id, timestamp, signature }, BODY.as_bytes(), &[secret()], AT, TOLERANCE).unwrap_err()
        };
        assert_eq!(check("", "1773500966", SIGNATURE), VerifyError::Id);
        assert_eq!(check("evt.1", "1773500966", SIGNATURE), VerifyError::Id);
        for timestamp in ["", "x", "+1773500966", "01773500966", "1773500966.0", " 1773500966", "9223372036854775808"] {
            assert_eq!(check(ID, timestamp, SIGNATURE), VerifyError::Timestamp, "{timestamp}");
        }
        for signature in ["", "v1", "v1,", "v1,!", "v2,VANMZNlQMYxWrfeF2W7P+Ki0e4uSASbVbmc/jMNnVk0=", &SIGNATURE[3..]] {
            assert_eq!(check(ID, "1773500966", signature), VerifyError::Signature, "{signature}");
        }
        let late = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        assert_eq!(check(ID, "1773500966", &late), VerifyError::Signature);
    }

    #[test]
    fn z_04_a_secret_shows_itself_only_when_asked_to() {
        assert_eq!(secret().reveal(), SECRET);
        assert_eq!(format!("{:?}", secret()), "<signing secret>");
        let errors = ["AAECAwQF", "whsec_canary!", "whsec_Y2FuYXJ5"].map(|text| text.parse::<Secret>().unwrap_err());
        assert_eq!(errors, [SecretError::Prefix, SecretError::Base64, SecretError::Length(6)]);
        assert!(errors.iter().all(|error| !error.to_string().contains("canary")));
    }

    proptest! {
        #[test]
        fn any_change_of_the_content_breaks_the_signature(
            body in proptest::collection::vec(any::<u8>(), 1..200),
            at in 0usize..200,
            flip in 1u8..=255,
        ) {
            let signature = signature_header(&[secret()], ID, AT, &body);
            let timestamp = unix_seconds(AT).to_string();
            let check = |id: &str, body: &[u8]| {
                verify(Headers { id, timestamp: &timestamp, signature: &signature }, body, &[secret()], AT, TOLERANCE)
            };
            prop_assert_eq!(check(ID, &body), Ok(()));
            prop_assert_eq!(check("evt_x", &body), Err(VerifyError::Signature));
            let mut changed = body.clone();
            let at = at % changed.len();
            changed[at] ^= flip;
            prop_assert_eq!(check(ID, &changed), Err(VerifyError::Signature));
        }
    }
}
