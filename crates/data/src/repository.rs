//! The repository: an object store, the prefix below which it is ours, and how long to insist.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig};
use url::Url;

use crate::durable;
use crate::error::{Class, StoreError};
use crate::retry::Patience;

/// Checkpoints in one object store. Cheap to clone; clones share the store.
#[derive(Clone, Debug)]
pub struct Repository {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) patience: Patience,
    /// Folder of a file store, where links that lead out of it must be looked for before deleting.
    pub(crate) root: Option<PathBuf>,
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("'{url}' is not a store URL: {reason}; write file:///absolute/path or s3://bucket/prefix")]
    Url { url: String, reason: String },
    #[error(
        "stores of kind '{scheme}' are not available in this build; use file:///absolute/path, s3://bucket/prefix or memory:"
    )]
    Scheme { scheme: String },
    #[error("cannot use the folder '{folder}' as a store; check that it can be created and written")]
    Folder {
        folder: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Opens the store that a URL names. A folder is created when it does not exist; each `memory:` is a new, empty store; how
/// a remote one is reached is said by the environment, such as `AWS_REGION`.
///
/// # Errors
/// A URL that cannot be used, or a store that cannot be reached in the way that is said.
pub fn open_store(url: &str) -> Result<Repository, OpenError> {
    open_with(url, [])
}

/// With options that win over the environment.
pub(crate) fn open_with<'a>(
    url: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Repository, OpenError> {
    let refuse = |reason: &str| OpenError::Url { url: leeway_model::name::escape(url), reason: reason.to_owned() };
    let parsed = Url::parse(url).map_err(|error| refuse(&error.to_string()))?;
    if parsed.query().is_some() || parsed.fragment().is_some() {
        return Err(refuse("it has a query or a fragment"));
    }
    match parsed.scheme() {
        "memory" if parsed.path().trim_matches('/').is_empty() => Ok(Repository::new(Arc::new(InMemory::new()))),
        "memory" => Err(refuse("memory: takes no path")),
        "file" if !url.to_ascii_lowercase().starts_with("file:///") => Err(refuse("its path is not absolute")),
        "file" => open_folder(&parsed.to_file_path().map_err(|()| refuse("its path is not a local one"))?),
        "s3" => open_bucket(&parsed, options).map_err(|error| refuse(&error)),
        scheme => Err(OpenError::Scheme { scheme: scheme.to_owned() }),
    }
}

fn open_folder(folder: &FilePath) -> Result<Repository, OpenError> {
    let failed = |source| OpenError::Folder { folder: folder.to_path_buf(), source };
    durable::create_dir_all(folder).map_err(failed)?;
    let root = folder.canonicalize().map_err(failed)?;
    // With fsync, a put returns only when the file and all directories that name it are durable, as with a remote
    // store; without it, a power cut could keep a manifest and lose its data.
    let store = LocalFileSystem::new_with_prefix(&root).map_err(|error| failed(error.into()))?;
    let store = store.with_fsync(true).with_automatic_cleanup(true);
    Ok(Repository { root: Some(root), ..Repository::new(Arc::new(store)) })
}

/// An S3 bucket, or the part of it below a prefix.
fn open_bucket<'a>(url: &Url, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Repository, String> {
    let bucket =
        url.host_str().filter(|_| url.port().is_none() && url.username().is_empty() && url.password().is_none());
    let bucket = bucket.ok_or("it names no bucket")?;
    // The client wants an implementation of TLS even for plain http. That another part of the program chose it first is
    // as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(30), ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        // What exists is never overwritten: the store itself refuses.
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        .with_retry(retry);
    for (name, value) in options {
        let key = name.parse::<AmazonS3ConfigKey>().map_err(|error| format!("its option '{name}': {error}"))?;
        builder = builder.with_config(key, value);
    }
    let store = builder.build().map_err(|error| error.to_string())?;
    let prefix = Path::from_url_path(url.path()).map_err(|error| error.to_string())?;
    let store: Arc<dyn ObjectStore> =
        if prefix.as_ref().is_empty() { Arc::new(store) } else { Arc::new(PrefixStore::new(store, prefix)) };
    Ok(Repository::new(store))
}

/// An object read whole, or why it was not.
pub(crate) enum Fetched {
    Whole(Bytes),
    Missing,
    TooLarge(u64),
}

impl Repository {
    /// Over any store; wrap it in `object_store::prefix::PrefixStore` to use a part of a bucket.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, patience: Patience::default(), root: None }
    }

    /// The same store behind another one, such as [`crate::faulty::FaultyStore`].
    #[must_use]
    pub fn wrapped<S: ObjectStore>(mut self, wrap: impl FnOnce(Arc<dyn ObjectStore>) -> S) -> Self {
        self.store = Arc::new(wrap(self.store));
        self
    }

    #[must_use]
    pub const fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Reads a small object whole.
    pub(crate) async fn fetch(&self, object: &Path, limit: u64) -> Result<Fetched, StoreError> {
        let attempt = || async {
            let found = self.store.get_opts(object, GetOptions::default()).await;
            match found {
                Ok(found) if found.meta.size > limit => Ok(Fetched::TooLarge(found.meta.size)),
                Ok(found) => found.bytes().await.map(Fetched::Whole).map_err(|e| StoreError::new("read", object, e)),
                Err(error) if Class::of(&error) == Class::Missing => Ok(Fetched::Missing),
                Err(error) => Err(StoreError::new("read", object, error)),
            }
        };
        self.patience.run(StoreError::retryable, attempt).await
    }

    /// Writes an object that must not exist yet. `Class::Exists` may also mean that an earlier try of this very call
    /// got through and its answer was lost: compare the contents.
    pub(crate) async fn create(&self, object: &Path, bytes: &Bytes) -> Result<(), StoreError> {
        let attempt = || async {
            let options = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(object, PutPayload::from_bytes(bytes.clone()), options).await;
            put.map(drop).map_err(|error| StoreError::new("create", object, error))
        };
        self.patience.run(StoreError::retryable, attempt).await
    }

    /// Size of an object, `None` when it is not there.
    pub(crate) async fn size_of(&self, object: &Path) -> Result<Option<u64>, StoreError> {
        let attempt = || async {
            match self.store.head(object).await {
                Ok(found) => Ok(Some(found.size)),
                Err(error) if Class::of(&error) == Class::Missing => Ok(None),
                Err(error) => Err(StoreError::new("look up", object, error)),
            }
        };
        self.patience.run(StoreError::retryable, attempt).await
    }

    /// All objects below a prefix, in the store's order.
    pub(crate) async fn list(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, StoreError> {
        let attempt = || async {
            let found = self.store.list(Some(prefix)).try_collect().await;
            found.map_err(|error| StoreError::new("list", prefix, error))
        };
        self.patience.run(StoreError::retryable, attempt).await
    }

    /// Folders and objects directly below a prefix.
    pub(crate) async fn list_level(&self, prefix: &Path) -> Result<(Vec<Path>, Vec<ObjectMeta>), StoreError> {
        let attempt = || async {
            let found = self.store.list_with_delimiter(Some(prefix)).await;
            found
                .map(|found| (found.common_prefixes, found.objects))
                .map_err(|error| StoreError::new("list", prefix, error))
        };
        self.patience.run(StoreError::retryable, attempt).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_opens_a_folder_or_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("deep/er store");
        let url = Url::from_file_path(&folder).unwrap();
        assert_eq!(open_store(url.as_str()).unwrap().root.unwrap(), folder.canonicalize().unwrap());
        assert!(open_store("memory:").unwrap().root.is_none());
        for (url, part) in [
            ("s3://user@bucket/x", "names no bucket"),
            ("gs://bucket", "'gs' are not available"),
            ("/plain/path", "file:///absolute/path"),
            ("file:relative", "not absolute"),
            ("file://host/share", "not absolute"),
            ("file:///a?b", "query"),
            ("memory:x", "no path"),
            ("", "file:///"),
        ] {
            let text = open_store(url).unwrap_err().to_string();
            assert!(text.contains(part), "{url}: {text}");
        }
        std::fs::write(dir.path().join("file"), "").unwrap();
        let taken = Url::from_file_path(dir.path().join("file")).unwrap();
        assert!(matches!(open_store(taken.as_str()), Err(OpenError::Folder { .. })));
    }
}
