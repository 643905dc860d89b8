//! Taking a store for the one that is served from now on, knowingly: after a move, or from an older copy.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::disk::{DiskStore, Options, known_identity, refuse_others, scan_as_is};
use crate::journal::Journal;
use crate::lock::Lock;
use crate::{Error, Head, Identity, identity, index};

/// What a directory that is not at home is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adopted<'a> {
    /// All of the store, as it was last served: its identity stays.
    Moved,
    /// An older state of the store, or one whose end may be lost: whoever saw a later one must be able to tell them
    /// apart, so it becomes this incarnation, which was never used before.
    Restored { incarnation: &'a str },
}

/// What `adopt` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdoptReport {
    pub dir: PathBuf,
    pub identity: Identity,
    /// The incarnation that it was before.
    pub from: String,
    pub head: Head,
}

/// Makes the store in `dir` at home where it lies. The caller has seen to it that no other copy is ever served again.
///
/// # Errors
/// When the store is in use or damaged; an end that may be lost is damage only to [`Adopted::Moved`]. When the
/// incarnation is not a new one.
pub fn adopt(dir: &Path, as_what: Adopted<'_>, options: Options) -> Result<AdoptReport, Error> {
    let known = known_identity(dir)?;
    let files = options.files.clone();
    let (identity, head) = match as_what {
        Adopted::Moved => {
            // Opening proves that it is whole; nothing says that it is at home before.
            let store = DiskStore::open(dir, options)?;
            identity::write(&*files, dir, &known)?;
            (known.clone(), store.close()?)
        }
        Adopted::Restored { incarnation } => {
            let identity = Identity { installation: known.installation.clone(), incarnation: incarnation.to_owned() };
            (identity.clone(), take_as_is(dir, &known, &identity, options)?)
        }
    };
    Ok(AdoptReport { dir: dir.to_path_buf(), identity, from: known.incarnation, head })
}

fn take_as_is(dir: &Path, known: &Identity, identity: &Identity, options: Options) -> Result<Head, Error> {
    if identity.incarnation.is_empty() || identity.incarnation == known.incarnation {
        let reason = format!("incarnation {:?} is not a new one; use an id never used before", identity.incarnation);
        return Err(Error::IdentityMismatch { dir: dir.to_path_buf(), reason });
    }
    refuse_others(dir)?;
    let lock = Lock::take(dir)?;
    let files = &*options.files;
    let head = scan_as_is(dir)?.head;
    // In this order: after a crash in between it is refused again rather than served under the old incarnation.
    identity::write(files, dir, identity)?;
    index::set_aside(dir)?;
    Journal::mark_anew(files, dir, head)?;
    drop(lock);
    DiskStore::open(dir, options)?.close()
}
