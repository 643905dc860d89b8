//! Values that are too long for journal and index, each in a file named by its SHA-256.
//!
//! A blob is durable before the journal entry that names it, so an entry never refers to nothing. Blobs are never
//! changed; those that neither the rows nor the kept history name are removed at open and by compaction.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::codec::{BlobRef, Value};
use crate::files::{Files, names, write_whole};

#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
    files: Arc<dyn Files>,
}

impl Blobs {
    pub fn new(data_dir: &Path, files: Arc<dyn Files>) -> Blobs {
        Blobs { dir: data_dir.join("blobs"), files }
    }

    /// Stores `bytes` durably under its digest.
    pub fn put(&self, blob: BlobRef, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(&blob);
        if fs::metadata(&path).is_ok_and(|meta| meta.len() == blob.len) && self.get(&blob).is_ok() {
            return Ok(());
        }
        if !self.dir.is_dir() {
            fs::create_dir_all(&self.dir).map_err(|error| Error::at(&self.dir, error))?;
            let parent = crate::files::parent(&self.dir);
            self.files.sync_dir(parent).map_err(|error| Error::at(parent, error))?;
        }
        write_whole(&*self.files, &path, bytes).map_err(|error| Error::at(&path, error))
    }

    /// Reads a blob and proves that it is the one.
    pub fn get(&self, blob: &BlobRef) -> Result<Box<[u8]>, Error> {
        let path = self.path(blob);
        let place = || format!("blobs/{}", name(blob));
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::corrupt(place(), 0, "the file is missing"));
            }
            Err(error) => return Err(Error::at(&path, error)),
        };
        if BlobRef::of(&bytes) != *blob {
            return Err(Error::corrupt(place(), 0, "its content does not have the digest that is its name"));
        }
        Ok(bytes.into())
    }

    /// The bytes of a kept value, wherever they live.
    pub fn resolve(&self, value: Value) -> Result<Box<[u8]>, Error> {
        match value {
            Value::Inline(bytes) => Ok(bytes),
            Value::Blob(blob) => self.get(&blob),
        }
    }

    /// Removes what `live` does not name; returns count and bytes removed.
    pub fn collect(&self, live: &BTreeSet<[u8; 32]>) -> Result<(u64, u64), Error> {
        let keep: BTreeSet<String> = live.iter().map(|digest| hex(digest)).collect();
        let (mut count, mut bytes) = (0, 0);
        for (name, len) in self.list()? {
            if !keep.contains(&name) {
                let path = self.dir.join(name);
                self.files.remove(&path).map_err(|error| Error::at(&path, error))?;
                count += 1;
                bytes += len;
            }
        }
        Ok((count, bytes))
    }

    /// Names and lengths of all files.
    pub fn list(&self) -> Result<Vec<(String, u64)>, Error> {
        let names = names(&self.dir).map_err(|error| Error::at(&self.dir, error))?;
        let len = |name: &String| fs::metadata(self.dir.join(name)).map_or(0, |meta| meta.len());
        Ok(names.into_iter().map(|name| (name.clone(), len(&name))).collect())
    }

    fn path(&self, blob: &BlobRef) -> PathBuf {
        self.dir.join(name(blob))
    }
}

pub(crate) fn name(blob: &BlobRef) -> String {
    hex(&blob.digest)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
