//! How stores are reached, by the beginning of their URLs: what a URL cannot say, such as another endpoint or keys.

use std::collections::BTreeMap;
use std::fmt;

use crate::repository::{OpenError, Repository, open_with};

/// What is known of the stores below one URL.
#[derive(Clone, PartialEq, Eq)]
pub struct Store {
    /// Such as `s3://bucket` or `s3://bucket/prefix`.
    pub url: String,
    /// Under the names of `object_store`, such as `aws_endpoint`. They may hold keys.
    pub options: BTreeMap<String, String>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("url", &self.url).field("options", &self.options.keys()).finish()
    }
}

/// All stores of which something is known. Of others the environment of the process says how they are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores(pub Vec<Store>);

impl Stores {
    /// Opens the store that a URL names, in the way of the longest URL that it begins with.
    ///
    /// # Errors
    /// As [`open_store`](crate::open_store).
    pub fn open(&self, url: &str) -> Result<Repository, OpenError> {
        let fitting = self.0.iter().filter(|store| is_below(url, &store.url));
        let options = fitting.max_by_key(|store| store.url.len()).map(|store| &store.options);
        open_with(url, options.unwrap_or(&BTreeMap::new()))
    }
}

/// Whether a URL names a place below another one; `s3://a` is not above `s3://ab`.
fn is_below(url: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    url.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_below_another_only_at_a_slash() {
        assert!(is_below("s3://a/b/c", "s3://a/b") && is_below("s3://a", "s3://a/"));
        assert!(!is_below("s3://ab", "s3://a") && !is_below("s3://a", "s3://a/b"));
    }

    #[test]
    fn z_04_keys_are_not_shown() {
        let options = [("aws_secret_access_key".to_owned(), "hush".to_owned())].into();
        let shown = format!("{:?}", Stores(vec![Store { url: "s3://a".into(), options }]));
        assert!(shown.contains("aws_secret_access_key") && !shown.contains("hush"), "{shown}");
    }
}
