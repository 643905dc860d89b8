//! Where a store is at home, so that a copy of its directory is told from the store itself.
//!
//! A store that is served in two places runs its jobs twice. The identity file therefore holds what no copy of it keeps:
//! its own inode, when that was born, and the machine. A directory that is renamed, or mounted elsewhere on its machine,
//! stays at home. What is not told apart: a clone of a whole machine with its disk, and a clone of a disk on the same
//! machine. A file system whose inodes change from mount to mount makes a copy of every store on it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::{Error, identity};

const MACHINE_ID: &str = "/etc/machine-id";

/// What tells one file from every copy of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The system's id of the machine, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine: Option<String>,
    inode: u64,
    /// Nanoseconds since 1970 at which the file was made, where the file system tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born_ns: Option<u64>,
}

impl Place {
    /// Of a file that stays what it is when it is renamed.
    pub fn of(file: &Metadata) -> Place {
        let born = file.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        let born_ns = born.and_then(|born| u64::try_from(born.as_nanos()).ok());
        Place { machine: machine(), inode: file.ino(), born_ns }
    }

    /// Why the file at `found` is not the one at this place. What one of them does not tell proves nothing.
    fn differs(&self, found: &Place) -> Option<&'static str> {
        let both = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
        if both(&self.machine, &found.machine) {
            Some("that was on another machine")
        } else if self.inode != found.inode {
            Some("its files are copies")
        } else if self.born_ns.zip(found.born_ns).is_some_and(|(one, other)| one != other) {
            Some("its files were made at another time")
        } else {
            None
        }
    }
}

fn machine() -> Option<String> {
    let text = std::fs::read_to_string(MACHINE_ID).ok()?;
    let id = text.trim();
    // A machine that was not set up yet says "uninitialized".
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// Refuses a directory that is a copy of a store, as far as can be told. Reads only, and only what names the store: a copy
/// may be verified and exported, but not served.
///
/// # Errors
/// [`Error::Copied`], or that the identity cannot be read. A directory without one passes: it is no store.
pub fn refuse_copy(dir: &Path) -> Result<(), Error> {
    let Some(place) = identity::place(dir)? else { return Ok(()) };
    let path = identity::path(dir);
    let found = std::fs::metadata(&path).map_err(|error| Error::at(&path, error))?;
    match place.differs(&Place::of(&found)) {
        Some(reason) => Err(Error::Copied { dir: dir.to_path_buf(), reason: reason.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_differs_by_what_both_sides_tell() {
        let place =
            |machine: Option<&str>, inode, born_ns| Place { machine: machine.map(str::to_owned), inode, born_ns };
        let home = place(Some("a"), 7, Some(9));
        let check = |found: Place, expected: Option<&str>| assert_eq!(home.differs(&found), expected, "{found:?}");
        check(home.clone(), None);
        check(place(None, 7, None), None);
        check(place(Some("b"), 7, Some(9)), Some("that was on another machine"));
        check(place(None, 8, Some(9)), Some("its files are copies"));
        check(place(Some("a"), 7, Some(10)), Some("its files were made at another time"));
    }

    #[test]
    fn a_file_keeps_its_place_when_it_is_renamed_and_a_copy_has_another() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two, copy) = (dir.path().join("one"), dir.path().join("two"), dir.path().join("copy"));
        std::fs::write(&one, "x").unwrap();
        let of = |path: &Path| Place::of(&std::fs::metadata(path).unwrap());
        let home = of(&one);
        std::fs::rename(&one, &two).unwrap();
        std::fs::copy(&two, &copy).unwrap();
        assert_eq!(home.differs(&of(&two)), None);
        assert_eq!(home.differs(&of(&copy)), Some("its files are copies"));
    }
}
