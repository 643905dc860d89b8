//! Reading what a data directory or an export remembers, for whoever only wants to know. Not a byte is changed.

use std::path::Path;
use std::sync::Arc;

use crate::blobs::Blobs;
use crate::codec::{Value, decode};
use crate::disk::{known_identity, refuse_others};
use crate::export::ExportReader;
use crate::files::RealFiles;
use crate::journal;
use crate::lock::Lock;
use crate::{Entry, Error, Head, RowChange};

/// Visits every entry of the store in `dir`, oldest first. A torn tail is passed over and left where it is.
///
/// # Errors
/// No store there, one in use by another process, damage, or [`Error::HistoryTrimmed`] when the oldest entries are not
/// kept any more. What was visited before an error is to be thrown away.
pub fn read_history(dir: &Path, visit: &mut dyn FnMut(Entry)) -> Result<Head, Error> {
    known_identity(dir)?;
    refuse_others(dir)?;
    // Held until the end, so that no server begins to write meanwhile.
    let lock = Lock::peek(dir)?;
    let blobs = Blobs::new(dir, Arc::new(RealFiles));
    let mut is_first = true;
    let scan = journal::scan(&dir.join("journal"), &mut |scanned| {
        let index = scanned.head.index;
        if std::mem::take(&mut is_first) && index > 1 {
            return Err(Error::HistoryTrimmed { asked: 1, first: index });
        }
        let record = decode(scanned.payload)
            .ok_or_else(|| Error::corrupt("journal", 0, format!("entry {index} cannot be read")))?;
        let row = |change: crate::codec::Change| {
            let value = change.value.map(|value| blobs.resolve(value)).transpose()?;
            Ok(RowChange { key: change.key, value })
        };
        let rows = record.rows.into_iter().map(row).collect::<Result<_, Error>>()?;
        visit(Entry { index, time_ms: record.time_ms, event: record.event, rows });
        Ok(())
    })?;
    drop(lock);
    match scan.before() {
        Some(before) if before.index > 0 => Err(Error::HistoryTrimmed { asked: 1, first: before.index + 1 }),
        _ => Ok(scan.head),
    }
}

/// Visits every row of the export at `path`, in key order.
///
/// # Errors
/// A file that cannot be read or is no whole export. What was visited before an error is to be thrown away.
pub fn read_export(path: &Path, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<Head, Error> {
    let place = path.display().to_string();
    let mut reader = ExportReader::open(path, &place)?;
    while let Some((key, value)) = reader.next()? {
        match value {
            Value::Inline(bytes) => visit(&key, &bytes),
            Value::Blob(_) => return Err(Error::corrupt(place, 0, "a portable export refers to a file outside it")),
        }
    }
    Ok(reader.header.head)
}
