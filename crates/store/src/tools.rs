//! What an operator does with a data directory: verify, export, import, rebuild, adopt. The reports can be printed or serialised.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::blobs::Blobs;
use crate::codec::{BlobRef, MAX_INLINE_BYTES, Value};
use crate::disk::{DiskStore, Options, behind_index, create, known_identity, refuse_others, require_empty};
use crate::export::{ExportReader, Header, Writer, base_path};
use crate::index::bases::make_base_dir;
use crate::lock::Lock;
use crate::{Error, Head, Identity, Store, index, journal};

mod adopt;
mod read;
mod verify;

pub use adopt::{AdoptReport, Adopted, adopt};
pub use read::{read_export, read_history};
pub use verify::{BlobsReport, IndexReport, Problem, Report, SegmentReport, verify};

/// What `export` wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    pub path: PathBuf,
    pub identity: Identity,
    pub head: Head,
    pub rows: u64,
    /// Length of the file.
    pub bytes: u64,
}

/// What `import` made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    pub dir: PathBuf,
    /// The identity in the export.
    pub from: Identity,
    /// The identity of the new store: same installation, new incarnation.
    pub identity: Identity,
    pub head: Head,
    pub rows: u64,
}

/// What `rebuild` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RebuildReport {
    pub head: Head,
    pub rows: u64,
    /// Where the old index went, if there was one.
    pub set_aside: Option<PathBuf>,
}

/// Writes all rows of the store in `dir` to the new file `path`. The store must not be in use.
pub fn export(dir: &Path, path: &Path, options: Options) -> Result<ExportReport, Error> {
    if path.exists() {
        return Err(Error::NotEmpty { path: path.to_path_buf() });
    }
    let files = options.files.clone();
    let store = DiskStore::open(dir, options)?;
    let header = Header { identity: store.identity().clone(), head: store.head(), portable: true };
    let mut writer = Writer::create(files, path, &header)?;
    let mut failed = None;
    store.rows(&mut |key, value| {
        if failed.is_none() {
            failed = writer.row(key, &Value::Inline(value.into())).err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let written = writer.finish()?;
    let identity = header.identity;
    Ok(ExportReport { path: path.to_path_buf(), identity, head: header.head, rows: written.rows, bytes: written.bytes })
}

/// Who the store in `dir` is, when this program can read its format. Looks at headers only and changes nothing.
pub fn identify(dir: &Path) -> Result<Identity, Error> {
    let identity = known_identity(dir)?;
    refuse_others(dir)?;
    Ok(identity)
}

/// Makes a store in `dir`, absent or empty, with the rows of the export at `path`. It goes on from the export's entry
/// under a new `incarnation`, which must differ from the exported one. History before it stays behind.
pub fn import(path: &Path, dir: &Path, incarnation: &str, options: Options) -> Result<ImportReport, Error> {
    require_empty(dir)?;
    let place = path.display().to_string();
    let mut reader = ExportReader::open(path, &place)?;
    let (from, head) = (reader.header.identity.clone(), reader.header.head);
    if !reader.header.portable {
        return Err(Error::corrupt(place, 0, "this is a base of a data directory, not a portable export"));
    }
    if from.incarnation == incarnation || incarnation.is_empty() {
        let reason = format!("incarnation {incarnation:?} is not a new one; an import needs an id never used before");
        return Err(Error::IdentityMismatch { dir: dir.to_path_buf(), reason });
    }
    // The whole file is proven before anything is made of it.
    while reader.next()?.is_some() {}
    let identity = Identity { installation: from.installation.clone(), incarnation: incarnation.to_owned() };
    crate::files::create_private_dir(dir).map_err(|error| Error::at(dir, error))?;
    let rows = lay_base(path, &place, dir, &identity, head, &options)?;
    create(dir, &identity, head, &options)?;
    DiskStore::open(dir, options)?.close()?;
    Ok(ImportReport { dir: dir.to_path_buf(), from, identity, head, rows })
}

/// Turns the export into the base of `dir`, with long values in files of their own.
fn lay_base(
    path: &Path,
    place: &str,
    dir: &Path,
    identity: &Identity,
    head: Head,
    options: &Options,
) -> Result<u64, Error> {
    let mut reader = ExportReader::open(path, place)?;
    let blobs = Blobs::new(dir, options.files.clone());
    make_base_dir(dir)?;
    let header = Header { identity: identity.clone(), head, portable: false };
    let mut writer = Writer::create(options.files.clone(), &base_path(dir, head.index), &header)?;
    while let Some((key, value)) = reader.next()? {
        let value = match value {
            Value::Inline(bytes) if bytes.len() > MAX_INLINE_BYTES => {
                let blob = BlobRef::of(&bytes);
                blobs.put(blob, &bytes)?;
                Value::Blob(blob)
            }
            Value::Inline(bytes) => Value::Inline(bytes),
            Value::Blob(_) => return Err(Error::corrupt(place, 0, "a portable export refers to a file outside it")),
        };
        writer.row(&key, &value)?;
    }
    let written = writer.finish()?;
    options.files.sync_dir(dir).map_err(|error| Error::at(dir, error))?;
    Ok(written.rows)
}

/// Sets the index of `dir` aside and builds it again from base and journal.
pub fn rebuild(dir: &Path, options: Options) -> Result<RebuildReport, Error> {
    // Nothing is written into a folder that is no store.
    if crate::identity::read(dir)?.is_none() {
        return Err(Error::NotInitialised { dir: dir.to_owned() });
    }
    let lock = Lock::take(dir)?;
    // Before the index goes, which may be all that knows of entries that the journal has lost.
    refuse_short_journal(dir, &options)?;
    let set_aside = index::set_aside(dir)?;
    drop(lock);
    let store = DiskStore::open(dir, options)?;
    let mut rows = 0;
    store.rows(&mut |_, _| rows += 1)?;
    Ok(RebuildReport { head: store.close()?, rows, set_aside })
}

/// Refuses a journal that ends before what its whole index has seen.
fn refuse_short_journal(dir: &Path, options: &Options) -> Result<(), Error> {
    let Ok(index) = index::open(&dir.join("index"), options.cache_bytes, options.index_patience) else { return Ok(()) };
    let seen = index.applied.head.index;
    index::discard(index);
    let scan = journal::scan(&dir.join("journal"), &mut |_| Ok(()))?;
    if seen > scan.head.index { Err(behind_index(dir, &scan, seen)) } else { Ok(()) }
}
