//! One attempt to deliver one event: check the target, send, classify the answer. When to attempt again is decided
//! elsewhere; two attempts share nothing, not even a connection, because each must go to an address it has checked.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leeway_model::notify::DeliveryOutcome;
use leeway_model::{Millis, Timestamp};
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, redirect, retry};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use tokio::time::{Instant, timeout_at};

use crate::redact;
use crate::sign::{self, ID_HEADER, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER};
use crate::target::{Resolver, SystemResolver, Target, TargetError, TargetPolicy};
use crate::{EventId, tls};

/// Bytes of a reply that are read at most.
pub const REPLY_BYTES_MAX: usize = 64 * 1024;
/// A receiver may ask for a pause up to this long.
pub const RETRY_AFTER_MAX: Millis = Millis::from_hours(24);
const USER_AGENT: &str = concat!("leeway-webhook/", env!("CARGO_PKG_VERSION"));
const MEDIA_TYPE: &str = "application/cloudevents+json";

/// What the operator decides about deliveries.
#[derive(Clone, Debug)]
pub struct Settings {
    pub policy: TargetPolicy,
    /// For the whole attempt: resolving, connecting, sending and reading. 15 s by default.
    pub timeout: Duration,
    /// Certificate authorities to trust besides the platform's.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { policy: TargetPolicy::default(), timeout: Duration::from_secs(15), extra_roots: Vec::new() }
    }
}

/// A root certificate in the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("extra_roots holds something that is not a certificate authority: {0}")]
pub struct SettingsError(#[from] rustls::Error);

/// Makes attempts. Cheap to clone; keeps no state between attempts.
#[derive(Clone)]
pub struct Deliverer {
    policy: TargetPolicy,
    timeout: Duration,
    tls: ClientConfig,
    resolver: Arc<dyn Resolver>,
}

/// Why there was no answer to classify.
#[derive(Debug, thiserror::Error)]
enum AttemptError {
    #[error("endpoint has no signing secret")]
    NoSecret,
    #[error("target refused: {0}")]
    Target(#[from] TargetError),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("{0}")]
    Transport(String),
}

impl Deliverer {
    /// A deliverer that asks the operating system for addresses.
    ///
    /// # Errors
    /// When an extra root is not a certificate.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// The same with another source of addresses.
    ///
    /// # Errors
    /// When an extra root is not a certificate.
    pub fn with_resolver(settings: Settings, resolver: Arc<dyn Resolver>) -> Result<Self, SettingsError> {
        tls::install_crypto_provider();
        let tls = tls::client_config(&settings.extra_roots)?;
        Ok(Self { policy: settings.policy, timeout: settings.timeout, tls, resolver })
    }

    /// Checks an endpoint's URL as far as that is possible without sending anything.
    ///
    /// # Errors
    /// Says which part of the URL is not allowed.
    pub fn check(&self, url: &str) -> Result<Target, TargetError> {
        Target::parse(url, &self.policy)
    }

    /// Sends `body` once, signed with every one of `secrets` for the time `now`, and says how it went. Never fails
    /// otherwise: whatever goes wrong is an outcome. Dropping the future abandons the attempt; the receiver may have
    /// the event by then.
    pub async fn attempt(
        &self,
        url: &str,
        secrets: &[Secret],
        id: &EventId,
        body: &[u8],
        now: Timestamp,
    ) -> DeliveryOutcome {
        let deadline = Instant::now() + self.timeout;
        let outcome = match timeout_at(deadline, Box::pin(self.send(url, secrets, id, body, now))).await {
            Err(_) => failed(AttemptError::Timeout(self.timeout).to_string()),
            Ok(Err(error)) => failed(error.to_string()),
            Ok(Ok((response, hidden))) => classify(response, &hidden, now, deadline).await,
        };
        tracing::debug!(event = %id, target = %redact::url(url), ?outcome, "webhook attempted");
        outcome
    }

    /// The answer's head, and what must not be kept of its body.
    async fn send(
        &self,
        url: &str,
        secrets: &[Secret],
        id: &EventId,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(Response, Vec<String>), AttemptError> {
        if secrets.is_empty() {
            return Err(AttemptError::NoSecret);
        }
        let target = Target::parse(url, &self.policy)?;
        let addresses = target.resolve(&self.policy, &*self.resolver).await?;
        let signature = sign::signature_header(secrets, id.as_str(), now, body);
        let mut hidden = redact::credentials(target.url());
        for secret in secrets.iter().map(Secret::reveal) {
            hidden.extend([secret.clone(), secret.trim_start_matches(sign::SECRET_PREFIX).to_owned()]);
        }
        hidden.extend(signature.split(' ').map(str::to_owned));

        let mut client = self.client();
        if let Some(domain) = target.domain() {
            client = client.resolve_to_addrs(domain, &addresses);
        }
        let client = client.build().map_err(|error| transport(error, &hidden))?;
        let request = client
            .post(target.url().clone())
            .header(CONTENT_TYPE, MEDIA_TYPE)
            .header(ID_HEADER, id.as_str())
            .header(TIMESTAMP_HEADER, sign::unix_seconds(now).to_string())
            .header(SIGNATURE_HEADER, signature)
            .body(body.to_vec());
        let response = request.send().await.map_err(|error| transport(error, &hidden))?;
        Ok((response, hidden))
    }

    /// Nothing that could lead elsewhere: no redirect, no proxy of the environment, no hidden retry, no kept
    /// connection, no decompression that could make a small reply large.
    fn client(&self) -> reqwest::ClientBuilder {
        Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .pool_max_idle_per_host(0)
            .http1_only()
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .user_agent(USER_AGENT)
    }
}

impl fmt::Debug for Deliverer {
    /// Without the certificates of the whole platform.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deliverer")
            .field("policy", &self.policy)
            .field("timeout", &self.timeout)
            .field("resolver", &self.resolver)
            .finish_non_exhaustive()
    }
}

/// What the answer means. An answer of success is taken at its head: waiting for its body could only turn a delivered
/// event into one that is sent twice.
async fn classify(response: Response, hidden: &[String], now: Timestamp, deadline: Instant) -> DeliveryOutcome {
    let status = response.status();
    if status.is_success() {
        return DeliveryOutcome::Delivered;
    }
    if status == StatusCode::GONE {
        return DeliveryOutcome::Gone;
    }
    let retry_after = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
        .then(|| retry_after(response.headers(), now))
        .flatten();
    let note = if status.is_redirection() { "; redirects are not followed" } else { "" };
    let reply = redact::excerpt(&read(response, deadline).await, hidden);
    let separator = if reply.is_empty() { "" } else { ": " };
    let detail = format!("receiver answered {}{note}{separator}{reply}", status.as_u16());
    DeliveryOutcome::Failed { detail: detail.into(), retry_after }
}

fn failed(detail: String) -> DeliveryOutcome {
    DeliveryOutcome::Failed { detail: detail.into(), retry_after: None }
}

/// As much of the reply as arrives in time, at most [`REPLY_BYTES_MAX`] bytes.
async fn read(mut response: Response, deadline: Instant) -> Vec<u8> {
    let mut reply = Vec::new();
    while reply.len() < REPLY_BYTES_MAX {
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(chunk))) => reply.extend_from_slice(&chunk[..chunk.len().min(REPLY_BYTES_MAX - reply.len())]),
            // The end, a broken reply or no time left: what is there explains the status as well as it can.
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    reply
}

/// The pause the receiver asks for, in seconds or as a date, never more than [`RETRY_AFTER_MAX`].
fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit still mean a long time.
        Millis::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Timestamp::from_millis(i64::try_from(date.as_millis()).ok()?).since(now)
    };
    Some(pause.min(RETRY_AFTER_MAX))
}

/// The error with its causes, without the URL that reqwest puts into it.
fn transport(error: reqwest::Error, hidden: &[String]) -> AttemptError {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    AttemptError::Transport(redact::excerpt(text.as_bytes(), hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_02_a_pause_is_read_in_seconds_or_as_a_date_and_never_longer_than_a_day() {
        let now = Timestamp::from_millis(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT
        let check = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            retry_after(&headers, now)
        };
        assert_eq!(check("120"), Some(Millis::from_secs(120)));
        assert_eq!(check("0"), Some(Millis::ZERO));
        assert_eq!(check("Sun, 06 Nov 1994 08:51:37 GMT"), Some(Millis::from_secs(120)));
        assert_eq!(check("Sunday, 06-Nov-94 08:51:37 GMT"), Some(Millis::from_secs(120)));
        assert_eq!(check("Sun Nov  6 08:51:37 1994"), Some(Millis::from_secs(120)));
        assert_eq!(check("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Millis::ZERO));
        assert_eq!(check("86401"), Some(RETRY_AFTER_MAX));
        assert_eq!(check("99999999999999999999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(check("Fri, 31 Dec 9999 23:59:59 GMT"), Some(RETRY_AFTER_MAX));
        for text in ["", "soon", "-1", "1.5", "+5"] {
            assert_eq!(check(text), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn the_defaults_are_the_strict_ones() {
        let settings = Settings::default();
        assert_eq!(settings.timeout, Duration::from_secs(15));
        assert_eq!(settings.policy, TargetPolicy { allow_http: false, ..TargetPolicy::default() });
        let deliverer = Deliverer::new(settings).unwrap();
        assert_eq!(deliverer.check("http://example.com"), Err(TargetError::PlainHttp));
        assert!(deliverer.check("https://example.com/hook").is_ok());
    }
}
