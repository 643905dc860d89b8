//! Why a store refused. Every variant has a stable code for programs; the text is for people.

use std::io;
use std::path::{Path, PathBuf};

use crate::Index;

/// Why a store refused. `code()` is stable and meant for programs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the store failed earlier and accepts nothing until it is opened again")]
    Failed,
    #[error(
        "{place} is damaged at offset {offset}: {reason}; restore it from a copy, or import the last export into a new directory"
    )]
    Corrupt {
        /// File, relative to the data directory.
        place: String,
        offset: u64,
        reason: String,
    },
    #[error(
        "{place}, which says how far the journal is durable, is missing or cannot be read: the journal ends at entry \
         {head}, and acknowledged entries after it may be lost; bring the file back from a copy of the same moment, or \
         import the last export into a new directory, or go on with what is here by 'leeway store adopt --restored \
         {dir}'"
    )]
    MarkMissing {
        dir: PathBuf,
        /// File, relative to the data directory.
        place: String,
        head: Index,
    },
    #[error(
        "{dir} is not where its store was made or last adopted ({reason}): the same store served in two places would \
         run its jobs twice; see that the other one is never served again, then say what this one is: 'leeway store \
         adopt --moved {dir}' when nothing was served since it was copied, 'leeway store adopt --restored {dir}' when \
         it is an older copy"
    )]
    Copied { dir: PathBuf, reason: String },
    #[error("{dir}: {reason}")]
    IdentityMismatch { dir: PathBuf, reason: String },
    #[error("{dir} holds no store; name the right directory, or let a server make one there")]
    NotInitialised { dir: PathBuf },
    #[error("{path} exists already and is not empty: name an empty or absent place")]
    NotEmpty { path: PathBuf },
    #[error("the disk of {dir} is full or nearly so ({free} bytes free): free some space, writing resumes by itself")]
    DiskFull { dir: PathBuf, free: u64 },
    #[error("{path} cannot be written: {reason}")]
    ReadOnly { path: PathBuf, reason: String },
    #[error("{dir} is in use by process {holder}: stop it first, or use another directory")]
    Locked { dir: PathBuf, holder: String },
    #[error(
        "{place} has format {found}, this program reads only {supported}: use a newer program; nothing was changed"
    )]
    NewerFormat { place: String, found: u32, supported: u32 },
    #[error(
        "{place} has format {found}, this program reads only {supported}: finish its jobs with the older program (whose \
         'leeway store export' keeps a copy that only it can import), and give this one a fresh data directory; nothing \
         was changed"
    )]
    OlderFormat { place: String, found: u32, supported: u32 },
    #[error("entry {found} was appended where {expected} is next")]
    OutOfOrder { expected: Index, found: Index },
    #[error("entry {index}: {what} is {bytes} bytes long, the limit is {limit}")]
    TooLarge { index: Index, what: &'static str, bytes: u64, limit: u64 },
    #[error("entries from {asked} on are not kept: history starts at {first}")]
    HistoryTrimmed { asked: Index, first: Index },
}

impl Error {
    /// Stable machine code of this refusal.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Io(_) => "STORE_IO",
            Error::Failed => "STORE_FAILED",
            Error::Corrupt { .. } => "STORE_CORRUPT",
            Error::MarkMissing { .. } => "STORE_MARK_MISSING",
            Error::Copied { .. } => "STORE_COPIED",
            Error::IdentityMismatch { .. } => "STORE_IDENTITY_MISMATCH",
            Error::NotInitialised { .. } => "STORE_NOT_INITIALISED",
            Error::NotEmpty { .. } => "STORE_NOT_EMPTY",
            Error::DiskFull { .. } => "DISK_FULL",
            Error::ReadOnly { .. } => "STORE_READ_ONLY",
            Error::Locked { .. } => "STORE_LOCKED",
            Error::NewerFormat { .. } => "STORE_FORMAT_NEWER",
            Error::OlderFormat { .. } => "STORE_FORMAT_OLDER",
            Error::OutOfOrder { .. } => "STORE_OUT_OF_ORDER",
            Error::TooLarge { .. } => "STORE_ENTRY_TOO_LARGE",
            Error::HistoryTrimmed { .. } => "STORE_HISTORY_TRIMMED",
        }
    }

    pub(crate) fn mark_missing(dir: &Path, head: Index) -> Error {
        Error::MarkMissing { dir: dir.to_path_buf(), place: crate::journal::MARK_PLACE.to_owned(), head }
    }

    /// True when an `append` was refused cleanly: nothing of the entry was kept and the store goes on.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::DiskFull { .. } | Error::OutOfOrder { .. } | Error::TooLarge { .. })
    }

    /// Gives an I/O error on `path` its class, so that a full or read-only disk has its own code everywhere.
    pub(crate) fn at(path: &Path, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { dir: path.to_path_buf(), free: 0 }
            }
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Error::ReadOnly { path: path.to_path_buf(), reason: error.to_string() }
            }
            kind => Error::Io(io::Error::new(kind, format!("{}: {error}", path.display()))),
        }
    }

    pub(crate) fn corrupt(place: impl Into<String>, offset: u64, reason: impl Into<String>) -> Error {
        Error::Corrupt { place: place.into(), offset, reason: reason.into() }
    }
}
