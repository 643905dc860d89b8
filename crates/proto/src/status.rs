//! Errors as gRPC statuses: a code, a sentence, and in the details a stable reason for programs (`google.rpc.ErrorInfo`)
//! and the field at fault (`google.rpc.BadRequest`).

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::{Invalid, pb};

/// The domain of all our reasons.
pub const DOMAIN: &str = "leeway";

/// Reasons that programs may rely on. Those of refused holds and of pending jobs come from the model.
pub mod reason {
    pub const INVALID_FIELD: &str = "INVALID_FIELD";
    pub const MALFORMED_MESSAGE: &str = "MALFORMED_MESSAGE";
    pub const NOT_FOUND: &str = "NOT_FOUND";
    pub const ALREADY_EXISTS: &str = "ALREADY_EXISTS";
    pub const IDEMPOTENCY_KEY_REUSED: &str = "IDEMPOTENCY_KEY_REUSED";
    pub const STALE_EPOCH: &str = "STALE_EPOCH";
    pub const WRONG_AGENT: &str = "WRONG_AGENT";
    pub const IN_USE: &str = "IN_USE";
    pub const SLOW_CONSUMER: &str = "SLOW_CONSUMER";
    pub const OVERLOADED: &str = "OVERLOADED";
}

/// A status that carries `reason`, with facts about it such as `("run", "j-4-r2")`.
pub fn with_reason<'a>(
    code: Code,
    reason: &str,
    message: impl Into<String>,
    metadata: impl IntoIterator<Item = (&'a str, String)>,
) -> Status {
    let metadata: HashMap<String, String> = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Status::with_error_details(code, message, ErrorDetails::with_error_info(reason, DOMAIN, metadata))
}

/// Our reason for a status, when it carries one. Details that cannot be read are as good as none.
pub fn reason_of(status: &Status) -> Option<String> {
    let info = status.get_details_error_info()?;
    (info.domain == DOMAIN).then_some(info.reason)
}

/// The facts beside the reason.
pub fn metadata_of(status: &Status) -> HashMap<String, String> {
    status.get_details_error_info().map(|info| info.metadata).unwrap_or_default()
}

impl From<Invalid> for Status {
    fn from(invalid: Invalid) -> Self {
        let mut details = ErrorDetails::with_bad_request_violation(invalid.field.as_str(), invalid.message.as_str());
        details.set_error_info(
            reason::INVALID_FIELD,
            DOMAIN,
            HashMap::from([("field".to_owned(), invalid.field.clone())]),
        );
        Self::with_error_details(Code::InvalidArgument, invalid.to_string(), details)
    }
}

impl From<&Invalid> for pb::ItemError {
    fn from(invalid: &Invalid) -> Self {
        Self {
            status: Code::InvalidArgument as u32,
            reason: reason::INVALID_FIELD.to_owned(),
            message: invalid.to_string(),
            field: invalid.field.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_field_becomes_an_invalid_argument_that_names_it() {
        let status = Status::from(Invalid::new("spec.nodes", "0 is too few; use 1 to 1024"));
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(status.message(), "spec.nodes: 0 is too few; use 1 to 1024");
        assert_eq!(reason_of(&status).as_deref(), Some(reason::INVALID_FIELD));
        assert_eq!(metadata_of(&status)["field"], "spec.nodes");
        let violations = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!((violations.len(), violations[0].field.as_str()), (1, "spec.nodes"));
    }

    #[test]
    fn a_reason_comes_back_with_its_facts() {
        let status =
            with_reason(Code::FailedPrecondition, reason::STALE_EPOCH, "run is over", [("run", "j-1-r2".into())]);
        assert_eq!(reason_of(&status).as_deref(), Some("STALE_EPOCH"));
        assert_eq!(metadata_of(&status)["run"], "j-1-r2");
    }

    #[test]
    fn details_of_others_or_without_sense_give_no_reason() {
        let foreign = ErrorDetails::with_error_info("STALE_EPOCH", "example.com", HashMap::new());
        assert_eq!(reason_of(&Status::with_error_details(Code::Aborted, "x", foreign)), None);
        let broken = Status::with_details(Code::Aborted, "x", vec![0xff; 9].into());
        assert_eq!((reason_of(&broken), metadata_of(&broken).len()), (None, 0));
    }
}
