//! The one format version of everything a store keeps: identity, journal segments, bases and exports.
//!
//! Entries and rows are bytes without names, so a program reads exactly its own version. Another one is refused by the
//! headers alone, before anything is written: misread rows would be taken for the truth.

use crate::Error;

/// Format of data directories and exports. It rises with every change of a stored type, be it of the engine's rows and
/// events or of the files of this crate.
pub const FORMAT_VERSION: u32 = 2;

/// Refuses what another version wrote. `place` names the file.
pub(crate) fn check(place: impl Into<String>, found: u32) -> Result<(), Error> {
    let (place, supported) = (place.into(), FORMAT_VERSION);
    match found.cmp(&supported) {
        std::cmp::Ordering::Less => Err(Error::OlderFormat { place, found, supported }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Error::NewerFormat { place, found, supported }),
    }
}
