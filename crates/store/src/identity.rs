//! Which store this is: a small file that outlives everything else in the data directory.
//!
//! It is written last when a store is created and never silently made anew, so that a data directory whose other
//! files are gone (wrong mount, partial restore) is refused rather than taken for an empty store. It also holds its own
//! place, see [`crate::place`].

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{Files, write_made};
use crate::place::Place;
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
    /// Where this file was written; a store of an earlier program has none until it is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    place: Option<Place>,
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
    Ok(read_file(dir)?.map(|file| file.identity))
}

/// Where the identity was written; `None` when that was not noted, or there is none.
pub(crate) fn place(dir: &Path) -> Result<Option<Place>, Error> {
    Ok(read_file(dir)?.and_then(|file| file.place))
}

fn read_file(dir: &Path) -> Result<Option<File>, Error> {
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
    Ok(Some(file))
}

fn check(identity: &Identity) -> u32 {
    crc32fast::hash(format!("{}\0{}", identity.installation, identity.incarnation).as_bytes())
}

/// Writes the file anew, which is then at home where it lies.
pub(crate) fn write(files: &dyn Files, dir: &Path, identity: &Identity) -> Result<(), Error> {
    let path = path(dir);
    let make = |temporary: &Path| {
        // Its place is known once it exists, and stays when it gets its name.
        let place = Some(Place::of(&fs::metadata(temporary)?));
        let content =
            File { format: format::FORMAT_VERSION, identity: identity.clone(), check: check(identity), place };
        let mut bytes = serde_json::to_vec_pretty(&content)?;
        bytes.push(b'\n');
        Ok(bytes)
    };
    write_made(files, &path, make).map_err(|error| Error::at(&path, error))
}
