//! How stores are reached: what their URLs cannot say, such as another endpoint or keys.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What is known of the stores below one URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAccess {
    /// Such as `s3://bucket` or `s3://bucket/prefix`.
    pub url: String,
    /// Under the names of `object_store`, such as `aws_endpoint`.
    pub options: BTreeMap<String, String>,
    /// Options that are secret; shown nowhere.
    pub keys: BTreeMap<String, String>,
}

impl StoreAccess {
    /// Whether a URL names a place of these stores; `s3://a` is not above `s3://ab`.
    pub fn covers(&self, url: &str) -> bool {
        let rest = url.strip_prefix(self.url.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Debug for StoreAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreAccess").field("url", &self.url).field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(url: &str) -> StoreAccess {
        let keys = [("aws_secret_access_key".to_owned(), "hush".to_owned())].into();
        StoreAccess { url: url.into(), options: BTreeMap::new(), keys }
    }

    #[test]
    fn a_url_is_below_another_only_at_a_slash() {
        assert!(access("s3://a/b").covers("s3://a/b/c") && access("s3://a/").covers("s3://a"));
        assert!(!access("s3://a").covers("s3://ab") && !access("s3://a/b").covers("s3://a"));
    }

    #[test]
    fn z_04_keys_are_not_shown() {
        assert!(!format!("{:?}", access("s3://a")).contains("hush"));
    }
}
