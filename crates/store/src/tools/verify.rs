//! Looking at a data directory without changing a byte of it.
//!
//! sled writes when it opens, so its files are copied to a temporary directory and opened there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::blobs::Blobs;
use crate::codec::{Value, decode};
use crate::disk::{Options, find_base, known_identity, refuse_others};
use crate::export::Base;
use crate::files::names;
use crate::index::{self, Damage};
use crate::journal::{self, Scan};
use crate::lock::Lock;
use crate::rowset::RowSet;
use crate::{Error, Head, Identity, Index, Key};

/// What `verify` found. The store is sound when `problems` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub dir: PathBuf,
    pub identity: Identity,
    /// Another process holds the store: it may have grown meanwhile, and its index was not looked at.
    pub in_use_by: Option<String>,
    pub head: Head,
    /// The last entry that was marked as durable.
    pub marked: Index,
    pub first_entry: Index,
    pub entries: u64,
    pub journal_bytes: u64,
    pub segments: Vec<SegmentReport>,
    /// Bytes of a torn tail; the next open will cut them off. Not a problem.
    pub torn_bytes: u64,
    /// Entry that the base is as of.
    pub base: Option<Index>,
    pub rows: u64,
    /// Bytes of keys and values.
    pub live_bytes: u64,
    /// Names all rows, whatever their order; equal on every machine for equal rows.
    pub rows_hash: String,
    pub index: Option<IndexReport>,
    pub blobs: BlobsReport,
    pub problems: Vec<Problem>,
}

/// One segment of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentReport {
    pub place: String,
    pub first: Index,
    pub last: Index,
    pub bytes: u64,
}

/// What the index holds. It may be behind the journal; it must be right as far as it goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IndexReport {
    pub applied: Index,
    pub rows: u64,
    pub agrees: bool,
}

/// Files of long values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlobsReport {
    pub files: u64,
    pub bytes: u64,
    /// Files that no row names; history may.
    pub not_in_rows: u64,
}

/// Something wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub code: &'static str,
    pub place: String,
    pub offset: u64,
    pub message: String,
    /// The next open repairs it by itself.
    pub repairable: bool,
}

/// Beside the store in a server's data directory: its key, and what its first start writes after the key.
const KEY_FILE: &str = "secret.key";
const SERVED_FILE: &str = "ledger-currency";
/// The table of webhook endpoints, whose every row holds a sealed secret; numbers of tables are part of the format.
const SEALED_TABLE: u8 = 12;

/// Rows by key, with the hash of their kept form instead of the values.
type Kept = BTreeMap<Key, Value>;

/// Reads everything in `dir`, writes nothing there. Only what makes looking impossible is an error.
pub fn verify(dir: &Path, options: Options) -> Result<Report, Error> {
    let mut report = Report { dir: dir.to_path_buf(), identity: known_identity(dir)?, ..Report::default() };
    refuse_others(dir)?;
    let lock = match Lock::peek(dir) {
        Err(Error::Locked { holder, .. }) => {
            report.in_use_by = Some(holder);
            None
        }
        other => other?,
    };
    let (base, base_damage) = find_base(dir)?;
    if let Some((_, error)) = &base_damage {
        // A base can be written again as long as the index or the whole journal is there.
        report.problem(error, true);
    }
    report.base = base.as_ref().map(|base| base.head.index);
    let index = if report.in_use_by.is_none() { Some(copy_and_open(dir, &options)) } else { None };
    let applied = index.as_ref().and_then(|index| index.as_ref().ok()).map(|index| index.applied);

    match replay(dir, base.as_ref(), applied.map(|applied| applied.head)) {
        Err(error) => report.problem(&error, false),
        Ok(replayed) => {
            report.journal(dir, &replayed.scan);
            report.set_rows(&replayed.rows);
            if let Some(index) = index {
                report.index(index, &replayed);
            }
            report.key(dir, &replayed.rows);
            report.blobs(&Blobs::new(dir, options.files.clone()), &replayed.rows)?;
        }
    }
    drop(lock);
    Ok(report)
}

struct Replayed {
    scan: Scan,
    rows: Kept,
    /// Rows as of the index's entry, and whether the chain agreed there.
    at_index: Option<(RowSet, bool)>,
}

fn replay(dir: &Path, base: Option<&Base>, applied: Option<Head>) -> Result<Replayed, Error> {
    let mut rows = Kept::new();
    let start = base.map(|base| base.head).unwrap_or_default();
    if let Some(base) = base {
        let mut reader = Base::reader(&base.path)?;
        while let Some((key, value)) = reader.next()? {
            rows.insert(key, value);
        }
    }
    let mut at_index = applied.filter(|head| head.index == start.index).map(|head| (set_of(&rows), head == start));
    let scan = journal::scan(&dir.join("journal"), &mut |entry| {
        if entry.head.index == start.index && entry.head != start {
            return Err(Error::corrupt("base", 0, "the base is of another history than the journal"));
        }
        if entry.head.index > start.index {
            let record = decode(entry.payload)
                .ok_or_else(|| Error::corrupt("journal", 0, format!("entry {} cannot be read", entry.head.index)))?;
            for change in record.rows {
                match change.value {
                    Some(value) => rows.insert(change.key, value),
                    None => rows.remove(&change.key),
                };
            }
        }
        if let Some(head) = applied.filter(|head| head.index == entry.head.index && head.index > start.index) {
            at_index = Some((set_of(&rows), head == entry.head));
        }
        Ok(())
    })?;
    let first = scan.segments.first().map_or(1, |segment| segment.first);
    if first > start.index + 1 {
        let reason = format!("entries {} to {} are missing before this segment", start.index + 1, first - 1);
        return Err(Error::corrupt(journal::place(first), 0, reason));
    }
    Ok(Replayed { scan, rows, at_index })
}

fn set_of(rows: &Kept) -> RowSet {
    let mut set = RowSet::default();
    let mut kept = Vec::new();
    for (key, value) in rows {
        kept.clear();
        value.put(&mut kept);
        set.add(key, &kept, value.len());
    }
    set
}

impl Report {
    fn problem(&mut self, error: &Error, repairable: bool) {
        let (place, offset) = match error {
            Error::Corrupt { place, offset, .. } => (place.clone(), *offset),
            Error::MarkMissing { place, .. } => (place.clone(), 0),
            _ => (String::new(), 0),
        };
        self.problems.push(Problem { code: error.code(), place, offset, message: error.to_string(), repairable });
    }

    fn journal(&mut self, dir: &Path, scan: &Scan) {
        self.head = scan.head;
        self.marked = scan.marked();
        if scan.mark.is_none() {
            self.problem(&Error::mark_missing(dir, scan.head.index), false);
        }
        self.first_entry = scan.segments.first().map_or(0, |segment| segment.first);
        self.entries = scan.segments.iter().map(|segment| segment.last + 1 - segment.first).sum();
        self.journal_bytes = scan.segments.iter().map(|segment| segment.bytes).sum();
        let segment = |segment: &journal::Segment| SegmentReport {
            place: journal::place(segment.first),
            first: segment.first,
            last: segment.last,
            bytes: segment.bytes,
        };
        self.segments = scan.segments.iter().map(segment).collect();
        self.torn_bytes = scan.tear.as_ref().map_or(0, |tear| tear.lost_bytes);
    }

    fn set_rows(&mut self, rows: &Kept) {
        let set = set_of(rows);
        self.rows = set.count;
        self.live_bytes = set.bytes;
        self.rows_hash = format!("{:032x}", set.hash);
    }

    fn index(&mut self, index: Result<index::Index, Damage>, replayed: &Replayed) {
        let applied = match index {
            Ok(index) => index.applied,
            Err(damage) => return self.problem(&Error::corrupt("index", 0, damage.0), true),
        };
        let agrees = replayed.at_index == Some((applied.rows, true));
        self.index = Some(IndexReport { applied: applied.head.index, rows: applied.rows.count, agrees });
        if applied.head.index > self.head.index {
            let reason =
                format!("the index has seen entry {}, the journal ends at {}", applied.head.index, self.head.index);
            let (place, end) =
                self.segments.last().map_or_else(Default::default, |last| (last.place.clone(), last.bytes));
            self.problem(&Error::corrupt(place, end, reason), false);
        } else if !agrees && applied.head.index >= self.base.unwrap_or(0) {
            let reason = format!("the rows as of entry {} are not those of the journal", applied.head.index);
            self.problem(&Error::corrupt("index", 0, reason), true);
        }
    }

    /// The key that opens sealed secrets and proves agents' tokens is no part of the store, but the store is of little
    /// use without it: a server refuses to start.
    fn key(&mut self, dir: &Path, rows: &Kept) {
        let Some(data) = dir.parent().filter(|_| dir.ends_with("store")) else { return };
        let sealed = rows.keys().filter(|key| key.first() == Some(&SEALED_TABLE)).count();
        let served = self.head.index > 0 && data.join(SERVED_FILE).exists();
        if (sealed == 0 && !served) || data.join(KEY_FILE).exists() {
            return;
        }
        let what = match sealed {
            0 => "the tokens of its agents and every secret that was sealed".to_owned(),
            _ => format!("{sealed} secrets of webhooks, the tokens of its agents and secrets of jobs"),
        };
        let message =
            format!("{} is missing, and with it {what}; restore it from a copy", data.join(KEY_FILE).display());
        let place = KEY_FILE.to_owned();
        self.problems.push(Problem { code: "KEY_MISSING", place, offset: 0, message, repairable: false });
    }

    fn blobs(&mut self, blobs: &Blobs, rows: &Kept) -> Result<(), Error> {
        let files = blobs.list()?;
        self.blobs.files = files.len() as u64;
        self.blobs.bytes = files.iter().map(|(_, bytes)| bytes).sum();
        let mut named = std::collections::BTreeSet::new();
        for value in rows.values() {
            let Value::Blob(blob) = value else { continue };
            if named.insert(crate::blobs::name(blob))
                && let Err(error) = blobs.get(blob)
            {
                self.problem(&error, false);
            }
        }
        self.blobs.not_in_rows = files.iter().filter(|(name, _)| !named.contains(name)).count() as u64;
        Ok(())
    }
}

/// Opens a copy of the index, and removes the copy.
fn copy_and_open(dir: &Path, options: &Options) -> Result<index::Index, Damage> {
    let from = dir.join("index");
    if !from.is_dir() {
        return Err(Damage("there is no index".to_owned()));
    }
    let unique = format!("leeway-verify-{}-{:?}", std::process::id(), std::time::Instant::now());
    let unique: String = unique.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let to = std::env::temp_dir().join(unique);
    let result = copy_dir(&from, &to)
        .map_err(|error| Damage(format!("the index could not be copied to {}: {error}", to.display())))
        .and_then(|()| index::open(&to, options.cache_bytes, options.index_patience));
    if let Err(error) = std::fs::remove_dir_all(&to) {
        tracing::debug!(%error, copy = %to.display(), "the copy of the index could not be removed");
    }
    result
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for name in names(from)? {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy_dir(&source, &target)?;
        } else {
            std::fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskStore, Entry, RowChange, Store as _};

    /// Codes of what is wrong with a store that has one row of a table.
    fn codes(data: &Path) -> Vec<&'static str> {
        let report = verify(&data.join("store"), Options::default()).unwrap();
        report.problems.iter().map(|problem| problem.code).collect()
    }

    fn store_with_row(data: &Path, table: u8) {
        let options = Options { reserve_bytes: 0, min_free_bytes: 0, ..Options::default() };
        let identity = Identity { installation: "local".into(), incarnation: "i-1".into() };
        let mut store = DiskStore::init(&data.join("store"), identity, options).unwrap();
        let rows = vec![RowChange { key: [table, 1].into(), value: Some((*b"v").into()) }];
        store.append(Entry { index: 1, time_ms: 1, event: (*b"e").into(), rows }).unwrap();
        store.flush().unwrap();
        store.close().unwrap();
    }

    #[test]
    fn a_missing_key_is_told_when_something_was_sealed_with_it() {
        let sealed = tempfile::tempdir().unwrap();
        store_with_row(sealed.path(), SEALED_TABLE);
        assert_eq!(codes(sealed.path()), ["KEY_MISSING"]);
        std::fs::write(sealed.path().join(KEY_FILE), [0; 64]).unwrap();
        assert_eq!(codes(sealed.path()), [""; 0]);

        let plain = tempfile::tempdir().unwrap();
        store_with_row(plain.path(), 2);
        assert_eq!(codes(plain.path()), [""; 0], "a restored store whose key is still to be brought");
        std::fs::write(plain.path().join(SERVED_FILE), "USD\n").unwrap();
        assert_eq!(codes(plain.path()), ["KEY_MISSING"], "a server has used it");
    }
}
