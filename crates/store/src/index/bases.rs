//! Bases: all rows in one file, so that the journal before it may go. They come from the index, or where that does not
//! work from the base before and the journal.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::worker::Setup;
use super::{BuildError, Index};
use crate::codec::Value;
use crate::export::{Base, Header, Writer, base_path};
use crate::journal::Layout;
use crate::{Error, Head, Key};

/// Writes the rows of an index.
pub(super) fn from_index(index: &Index, setup: &Setup) -> Result<Base, BuildError> {
    let mut blobs = Vec::new();
    let (mut writer, path) = writer(setup, index.applied.head)?;
    index.rows(|key, value| {
        note_blob(&mut blobs, &value);
        writer.row(key, &value)
    })?;
    let written = writer.finish()?;
    Ok(Base::written(&path, index.applied.head, blobs, written.bytes))
}

/// Writes the rows of the base before with those of the journal since.
pub(super) fn from_history(old: Option<&Base>, setup: &Setup) -> Result<Base, Error> {
    let (rows, head) = history_rows(old, &setup.layout)?;
    let mut blobs = Vec::new();
    let (mut writer, path) = writer(setup, head)?;
    for (key, value) in &rows {
        note_blob(&mut blobs, value);
        writer.row(key, value)?;
    }
    let written = writer.finish()?;
    Ok(Base::written(&path, head, blobs, written.bytes))
}

fn writer(setup: &Setup, head: Head) -> Result<(Writer, PathBuf), Error> {
    let path = base_path(&setup.data_dir, head.index);
    make_base_dir(&setup.data_dir)?;
    let header = Header { identity: setup.identity.clone(), head, portable: false };
    Ok((Writer::create(setup.files.clone(), &path, &header)?, path))
}

fn note_blob(blobs: &mut Vec<[u8; 32]>, value: &Value) {
    if let Value::Blob(blob) = value {
        blobs.push(blob.digest);
    }
}

pub(crate) fn make_base_dir(data_dir: &Path) -> Result<(), Error> {
    let dir = data_dir.join("base");
    std::fs::create_dir_all(&dir).map_err(|error| Error::at(&dir, error))
}

/// All rows as base and journal have them, and the entry they are as of. For when there is no index to ask.
pub(crate) fn history_rows(base: Option<&Base>, layout: &Layout) -> Result<(BTreeMap<Key, Value>, Head), Error> {
    let mut rows = BTreeMap::new();
    let mut head = Head::default();
    if let Some(base) = base {
        let mut reader = Base::reader(&base.path)?;
        while let Some((key, value)) = reader.next()? {
            rows.insert(key, value);
        }
        head = reader.header.head;
    }
    let mut reader = layout.reader(head.index + 1);
    while let Some((record, chain)) = reader.next()? {
        head = Head { index: record.index, chain };
        for change in record.rows {
            match change.value {
                Some(value) => rows.insert(change.key, value),
                None => rows.remove(&change.key),
            };
        }
    }
    Ok((rows, head))
}
