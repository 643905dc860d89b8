//! Which files a saved directory holds. Only regular files can be published; anything else is refused by name rather
//! than left out, because a checkpoint that is silently incomplete is worse than none.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::manifest::{FILES_MAX, ManifestError};
use crate::path::{self, Unsafe, Why};
use crate::publish::PublishError;
use crate::ready::READY;

/// A regular file as the walk saw it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub path: String,
    pub file: PathBuf,
    pub size: u64,
    identity: Identity,
}

/// What tells whether an opened file is still the one that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl Found {
    /// Opens the file that was found and no other: the program may still own the directory and swap in a link.
    pub fn open(&self) -> Result<File, PublishError> {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&self.file);
        let file = opened.map_err(|source| PublishError::Read { path: self.file.clone(), source })?;
        let metadata = file.metadata().map_err(|source| PublishError::Read { path: self.file.clone(), source })?;
        let same = metadata.is_file() && Identity::of(&metadata) == self.identity && metadata.len() == self.size;
        if same { Ok(file) } else { Err(PublishError::Changed { path: self.path.clone() }) }
    }
}

/// All files below `dir`, ordered by path, without the top-level `READY` marker, which is no part of the state. Empty
/// directories are not kept.
pub(crate) fn walk(dir: &Path) -> Result<Vec<Found>, PublishError> {
    let failed = |source: io::Error| PublishError::Read { path: dir.to_path_buf(), source };
    let top = std::fs::symlink_metadata(dir).map_err(failed)?;
    if !top.is_dir() {
        return Err(failed(io::ErrorKind::NotADirectory.into()));
    }
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(dir).min_depth(1).follow_links(false) {
        let entry = entry.map_err(|error| failed(error.into()))?;
        let relative = entry.path().strip_prefix(dir).unwrap_or(entry.path());
        let Some(path) = relative.to_str() else {
            return Err(unsafe_path(&relative.to_string_lossy(), Why::NotUtf8));
        };
        let kind = entry.file_type();
        if kind.is_dir() || (kind.is_file() && path == READY) {
            continue;
        }
        if !kind.is_file() {
            return Err(unsafe_path(path, if kind.is_symlink() { Why::Symlink } else { Why::Special }));
        }
        if found.len() == FILES_MAX {
            return Err(ManifestError::TooManyFiles { count: FILES_MAX + 1 }.into());
        }
        let metadata = entry.metadata().map_err(|error| failed(error.into()))?;
        found.push(Found {
            path: path.to_owned(),
            file: entry.path().to_path_buf(),
            size: metadata.len(),
            identity: Identity::of(&metadata),
        });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    path::check_all(found.iter().map(|file| &*file.path)).map_err(ManifestError::from)?;
    Ok(found)
}

fn unsafe_path(path: &str, why: Why) -> PublishError {
    ManifestError::from(Unsafe::new(path, why)).into()
}
