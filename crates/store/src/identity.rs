//! Which store this is: a small file that outlives everything else in the data directory.
//!
//! It is written last when a store is created and never silently made anew, so that a data directory whose other
//! files are gone (wrong mount, partial restore) is refused rather than taken for an empty store.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{Files, write_whole};
use crate::{Error, format};

/// Who a store is. The ids are the caller's; the store only keeps and compares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Stays for the life of the installation, through restores.
    pub installation: String,
    /// New for every import, so that whatever saw a later state than the restored one can tell them apart.
    pub incarnation: String,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    #[serde(flatten)]
    identity: Identity,
    /// CRC-32 of the ids, so that a flipped bit is not taken for another store.
    check: u32,
}

#[derive(Deserialize)]
struct OnlyFormat {
    format: u32,
}

pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("IDENTITY")
}

/// Reads the identity; `None` when there is no such file. Another format is refused before anything else is looked at.
pub(crate) fn read(dir: &Path) -> Result<Option<Identity>, Error> {
    let path = path(dir);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::at(&path, error)),
    };
    let damaged = |error: serde_json::Error| Error::corrupt("IDENTITY", error.column() as u64, error.to_string());
    let OnlyFormat { format } = serde_json::from_slice(&bytes).map_err(damaged)?;
    format::check("IDENTITY", format)?;
    let file: File = serde_json::from_slice(&bytes).map_err(damaged)?;
    if file.check != check(&file.identity) {
        return Err(Error::corrupt("IDENTITY", 0, "the ids do not match their checksum"));
    }
    Ok(Some(file.identity))
}

fn check(identity: &Identity) -> u32 {
    crc32fast::hash(format!("{}\0{}", identity.installation, identity.incarnation).as_bytes())
}

pub(crate) fn write(files: &dyn Files, dir: &Path, identity: &Identity) -> Result<(), Error> {
    let file = File { format: format::FORMAT_VERSION, identity: identity.clone(), check: check(identity) };
    let mut bytes = serde_json::to_vec_pretty(&file).map_err(std::io::Error::from)?;
    bytes.push(b'\n');
    write_whole(files, &path(dir), &bytes).map_err(|error| Error::at(&path(dir), error))
}
