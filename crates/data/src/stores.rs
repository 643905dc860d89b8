//! All stores of which more is known than their URLs.

use leeway_model::access::StoreAccess;

use crate::repository::{OpenError, Repository, open_with};

/// See the module. Of a store that is not among them the environment of the process says how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores(pub Vec<StoreAccess>);

impl Stores {
    /// Opens the store that a URL names, in the way of the longest URL that it begins with.
    ///
    /// # Errors
    /// As [`open_store`](crate::open_store).
    pub fn open(&self, url: &str) -> Result<Repository, OpenError> {
        let fitting = self.0.iter().filter(|access| access.covers(url));
        let nearest = fitting.max_by_key(|access| access.url.len());
        let options = nearest.into_iter().flat_map(|access| access.options.iter().chain(&access.keys));
        open_with(url, options.map(|(name, value)| (name.as_str(), value.as_str())))
    }
}
