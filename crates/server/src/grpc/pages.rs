//! Page tokens: where the next page begins, marked so that only ours are taken, and only for the question they were
//! made for. Opaque to clients.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leeway_proto::Invalid;
use leeway_proto::Message;

use crate::secrets::{Keys, MARK_BYTES};

/// A question with its filter; a token is good for it only.
#[derive(Debug)]
pub(crate) struct Question(Vec<u8>);

impl Question {
    /// From the request without its page fields, encoded.
    pub fn new(rpc: &str, filter: &impl Message) -> Self {
        let mut scope = rpc.as_bytes().to_vec();
        scope.push(0);
        scope.extend(filter.encode_to_vec());
        Self(scope)
    }

    pub fn token(&self, keys: &Keys, last: &[u8]) -> String {
        let mut token = keys.mark(&self.0, last).to_vec();
        token.extend_from_slice(last);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// The last key of the page before; `None` for the first page.
    pub fn last(&self, keys: &Keys, token: &str) -> Result<Option<Vec<u8>>, Invalid> {
        if token.is_empty() {
            return Ok(None);
        }
        let refuse = || {
            Invalid::new(
                "page_token",
                "is not one of this question; pass on what the page before returned, with the same filter",
            )
        };
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| refuse())?;
        let (mark, last) = bytes.split_at_checked(MARK_BYTES).ok_or_else(refuse)?;
        if !keys.is_mark(&self.0, last, mark) {
            return Err(refuse());
        }
        Ok(Some(last.to_vec()))
    }

    /// The same for pages that are ordered by a number.
    pub fn last_number(&self, keys: &Keys, token: &str) -> Result<Option<u64>, Invalid> {
        let last = self.last(keys, token)?;
        Ok(last.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_10_a_token_is_good_for_its_own_question_only() {
        let keys = Keys::from_bytes(&[3; 64], leeway_model::InstallationId("here".parse().unwrap()));
        let other_keys = Keys::from_bytes(&[4; 64], leeway_model::InstallationId("here".parse().unwrap()));
        let question =
            |rpc: &str, owner: &str| Question::new(rpc, &leeway_proto::pb::GetJobRequest { job_id: owner.into() });
        let token = question("jobs", "me").token(&keys, &7_u64.to_be_bytes());
        assert_eq!(question("jobs", "me").last_number(&keys, &token).unwrap(), Some(7));
        assert_eq!(question("jobs", "me").last(&keys, "").unwrap(), None);
        assert!(question("jobs", "you").last(&keys, &token).is_err());
        assert!(question("runs", "me").last(&keys, &token).is_err());
        assert!(question("jobs", "me").last(&other_keys, &token).is_err());
        for wrong in ["x", "%%%", &token[1..], &format!("{token}AA")] {
            assert!(question("jobs", "me").last(&keys, wrong).is_err(), "{wrong}");
        }
    }
}
