//! Where a history is read from. Nothing is ever written there.

use std::path::Path;

use super::{Error, Past};

/// A store's own folder, entry by entry, or an export, which has rows only.
pub(super) fn read(path: &Path) -> Result<Past, Error> {
    let mut past = Past::default();
    let mut damage = None;
    if path.is_dir() {
        past.is_whole = true;
        let read = leeway_store::read_history(path, &mut |entry| {
            if damage.is_none() {
                damage = past.entry(&entry).err();
            }
        });
        read.map_err(|error| refused(path, error))?;
    } else if path.exists() {
        let read = leeway_store::read_export(path, &mut |key, value| {
            if damage.is_none() {
                damage = past.row(key, Some(value)).err();
            }
        });
        read.map_err(|error| refused(path, error))?;
    } else {
        return Err(Error::Missing { path: path.to_owned() });
    }
    damage.map_or(Ok(past), Err)
}

fn refused(path: &Path, error: leeway_store::Error) -> Error {
    let path = path.to_owned();
    match error {
        leeway_store::Error::Locked { holder, .. } => Error::Locked { path, holder },
        leeway_store::Error::NotInitialised { .. } => Error::NoStore { path },
        leeway_store::Error::HistoryTrimmed { first, .. } => Error::Trimmed { path, first },
        other => Error::Store(other),
    }
}
