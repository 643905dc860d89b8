//! Webhook endpoints.

use leeway_model::Name;
use leeway_model::Timestamp;
use leeway_model::notify::{Alert, Endpoint};

use crate::limits::{EVENT_TYPES_MAX, LABEL_VALUE_MAX};
use crate::{Invalid, check, pb};

impl From<&Endpoint> for pb::Endpoint {
    /// Without its secret.
    fn from(value: &Endpoint) -> Self {
        Self {
            name: value.name.to_string(),
            url: value.url.to_string(),
            types: value.types.iter().map(ToString::to_string).collect(),
            disabled: value.disabled.as_deref().map(str::to_owned),
            last_success_ms: value.last_success.map(Timestamp::as_millis),
            failing_since_ms: value.failing_since.map(Timestamp::as_millis),
            failures: value.failures,
        }
    }
}

/// An endpoint to add. Whether its address may be called is judged where calls are made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEndpoint {
    pub name: Name,
    pub url: Box<str>,
    pub types: Vec<Box<str>>,
    /// A secret of 24 to 64 bytes that the client chose.
    pub secret: Option<pb::SecretValue>,
}

impl TryFrom<pb::AddEndpointRequest> for NewEndpoint {
    type Error = Invalid;

    fn try_from(wire: pb::AddEndpointRequest) -> Result<Self, Invalid> {
        let name = check::name("name", &wire.name)?;
        let url = check::url("url", wire.url, "https://example.com/hook")?;
        if !(url.starts_with("https://") || url.starts_with("http://")) {
            return Err(Invalid::new("url", "must begin with https:// or http://"));
        }
        if let Some(secret) = &wire.secret {
            check::between("secret", secret.value.len(), 24..=64).map_err(|error| Invalid {
                message: format!("its length {}; or leave it out to get one", error.message),
                ..error
            })?;
        }
        let types = check::list("types", wire.types, 0..=EVENT_TYPES_MAX, event_type)?;
        Ok(Self { name, url, types, secret: wire.secret })
    }
}

/// `leeway.job.state_changed`, or a family as `leeway.job.*`.
fn event_type(text: String) -> Result<Box<str>, Invalid> {
    let text = check::word("", text, LABEL_VALUE_MAX)?;
    let stem = text.strip_suffix('*').unwrap_or(&text);
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_');
    let is_family = stem.len() < text.len() && (stem.is_empty() || stem.ends_with('.'));
    let is_known = |known: &&str| if is_family { known.starts_with(stem) } else { **known == *text };
    if stem.chars().all(plain) && Alert::TYPES.iter().any(is_known) {
        return Ok(text);
    }
    let message = format!(
        "'{}' is no event type; use a family such as leeway.job.*, or one of {}",
        leeway_model::name::escape(&text),
        Alert::TYPES.join(", ")
    );
    Err(Invalid::new("", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_type_that_no_event_has_is_refused_with_those_there_are() {
        for good in ["leeway.job.held", "leeway.job.*", "*"] {
            assert_eq!(event_type(good.to_owned()).unwrap().as_ref(), good);
        }
        for bad in ["nope", "leeway.job.hled", "leeway.jobs.*", "leeway.job*", "Leeway.job.*"] {
            let error = event_type(bad.to_owned()).unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("leeway.job.held"), "{error}");
        }
    }
}
