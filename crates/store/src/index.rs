//! sled as the index of the journal: the rows as of some entry, and a record of which entry that is.
//!
//! ```text
//! "b" + fence -> crc 4 | rows (block.rs)          "m" -> crc 4 | applied index 8 | chain 32 | row set 40
//! ```
//!
//! Each batch changes rows and record together. Nothing here is trusted: every block has its checksum, the whole set has
//! its fingerprint ([`RowSet`]), and an index that disagrees is set aside and built again from base and journal.
//! sled panics on some damaged files, so every call into it is made behind an unwind boundary.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::codec::{Cursor, Value};
use crate::export::Base;
use crate::journal::Layout;
use crate::rowset::RowSet;
use crate::{Chain, Error, Head, Index as EntryIndex, Key};

pub(crate) mod bases;
mod block;
pub(crate) mod worker;

const META: &[u8] = b"m";
/// Bytes of changed rows after which a batch is applied while catching up.
const BATCH_BYTES: u64 = 4 * 1024 * 1024;

/// How long an index of this process may take to let go of its lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Changed rows, the last change of each key.
pub(crate) type Changes = BTreeMap<Key, Option<Value>>;

/// Why an index cannot be used; it is never more than a reason to rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage(pub String);

impl Damage {
    fn new(reason: impl Into<String>) -> Damage {
        Damage(reason.into())
    }
}

impl From<sled::Error> for Damage {
    fn from(error: sled::Error) -> Damage {
        Damage(error.to_string())
    }
}

/// Which entry the rows are as of, and what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Applied {
    pub head: Head,
    pub rows: RowSet,
}

/// Rows in sled.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    db: sled::Db,
    pub applied: Applied,
}

fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(error) if error.to_string().contains("could not acquire lock"))
}

/// Calls into sled; a panic becomes damage.
fn guard<T>(act: impl FnOnce() -> Result<T, Damage>) -> Result<T, Damage> {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(Damage(format!("sled panicked: {text}")))
        }
    }
}

/// Drops a damaged index where neither a panic nor a hang of its destructor can hurt.
pub(crate) fn discard(index: Index) {
    let dropped = std::thread::Builder::new().name("store-index-drop".into()).spawn(move || {
        let _ = guard(move || {
            drop(index);
            Ok(())
        });
    });
    if let Err(error) = dropped {
        tracing::warn!(%error, "a damaged index could not be dropped in a thread of its own");
    }
}

/// Opens the index at `dir` and proves it whole. sled may also hang on damaged files when one of its own threads has
/// panicked, so this runs in a thread of its own that is left behind after `patience`.
pub(crate) fn open(dir: &Path, cache_bytes: u64, patience: Duration) -> Result<Index, Damage> {
    if !dir.is_dir() {
        return Err(Damage::new("there is no index"));
    }
    let (sender, receiver) = mpsc::channel();
    let path = dir.to_path_buf();
    let spawned = std::thread::Builder::new().name("store-index-open".into()).spawn(move || {
        let mut index = match guard(|| Index::start(&path, cache_bytes)) {
            Ok(index) => index,
            // When patience ran out the receiver is gone: then nobody wants the result.
            Err(damage) => return drop(sender.send(Err(damage))),
        };
        match guard(|| index.prove()) {
            Ok(()) => drop(sender.send(Ok(index))),
            Err(damage) => {
                drop(sender.send(Err(damage)));
                discard(index);
            }
        }
    });
    spawned.map_err(|error| Damage(format!("no thread to open the index: {error}")))?;
    receiver.recv_timeout(patience).unwrap_or_else(|_| Err(Damage(format!("sled did not open within {patience:?}"))))
}

/// Removes what a crash of sled may have left half-written; with it sled refuses to open.
pub(crate) fn remove_leftovers(dir: &Path) -> Result<u64, Error> {
    let names = crate::files::names(dir).map_err(|error| Error::at(dir, error))?;
    let mut removed = 0;
    for name in names.iter().filter(|name| name.starts_with("snap.") && name.ends_with(".generating")) {
        std::fs::remove_file(dir.join(name)).map_err(|error| Error::at(dir, error))?;
        tracing::warn!(file = %name, "a half-written snapshot of the index was removed");
        removed += 1;
    }
    Ok(removed)
}

/// Renames a damaged index so that it can be looked at later. Only the newest is kept; more would fill the disk.
pub(crate) fn set_aside(data_dir: &Path) -> Result<Option<PathBuf>, Error> {
    let index = data_dir.join("index");
    if !index.exists() {
        return Ok(None);
    }
    let at = |error| Error::at(data_dir, error);
    let names = crate::files::names(data_dir).map_err(at)?;
    let old: Vec<(u64, &String)> =
        names.iter().filter_map(|name| Some((name.strip_prefix("index.damaged-")?.parse().ok()?, name))).collect();
    let number = old.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
    let target = data_dir.join(format!("index.damaged-{number}"));
    std::fs::rename(&index, &target).map_err(at)?;
    for (_, name) in old {
        std::fs::remove_dir_all(data_dir.join(name)).map_err(at)?;
    }
    Ok(Some(target))
}

/// Builds the index at `dir`, which must be absent, from the base and the durable journal.
pub(crate) fn build(dir: &Path, cache_bytes: u64, base: Option<&Base>, layout: &Layout) -> Result<Index, BuildError> {
    let mut index = guard(|| Index::start(dir, cache_bytes))?;
    if let Some(base) = base {
        index.load(base)?;
    }
    index.catch_up(layout, |_| true)?;
    Ok(index)
}

/// Building fails because of sled (try again later) or because of the truth itself.
#[derive(Debug)]
pub(crate) enum BuildError {
    Index(Damage),
    Truth(Error),
}

impl From<Damage> for BuildError {
    fn from(damage: Damage) -> Self {
        BuildError::Index(damage)
    }
}

impl From<Error> for BuildError {
    fn from(error: Error) -> Self {
        BuildError::Truth(error)
    }
}

impl Index {
    fn start(dir: &Path, cache_bytes: u64) -> Result<Index, Damage> {
        // sled's own flusher is off: the worker flushes, and the journal is the proof of durability anyway.
        let config = sled::Config::new().path(dir).cache_capacity(cache_bytes).flush_every_ms(None);
        let began = Instant::now();
        loop {
            match config.open() {
                // Our own lock keeps other processes away, so this is an index of this process that is being dropped:
                // sled's threads hold it a moment longer than its owner.
                Err(error) if is_locked(&error) && began.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => return Ok(Index { db: opened?, applied: Applied::default() }),
            }
        }
    }

    /// Reads everything and compares it with the record.
    fn prove(&mut self) -> Result<(), Damage> {
        let meta = self.db.get(META)?.ok_or_else(|| Damage::new("the index has no record of what it holds"))?;
        self.applied = parse_meta(&meta).ok_or_else(|| Damage::new("the record of what the index holds is damaged"))?;
        let mut rows = RowSet::default();
        for item in self.db.scan_prefix([block::BLOCK]) {
            let (key, stored) = item?;
            for row in block::open(&key, &stored)? {
                let row = row?;
                rows.add(row.key, row.kept, block::len(row.kept)?);
            }
        }
        self.compare(rows)
    }

    fn compare(&self, rows: RowSet) -> Result<(), Damage> {
        if rows != self.applied.rows {
            let (found, expected) = (rows.count, self.applied.rows.count);
            return Err(Damage(format!("the index holds {found} rows that are not the {expected} it should hold")));
        }
        Ok(())
    }

    /// Applies the changes of all entries up to `head`.
    pub fn apply(&mut self, head: Head, changes: &Changes) -> Result<(), Damage> {
        guard(|| {
            let mut batch = sled::Batch::default();
            let mut applied = Applied { head, rows: self.applied.rows };
            self.fill(&mut batch, &mut applied.rows, changes)?;
            batch.insert(META, meta(&applied));
            self.db.apply_batch(batch)?;
            self.applied = applied;
            Ok(())
        })
    }

    fn fill(&self, batch: &mut sled::Batch, rows: &mut RowSet, changes: &Changes) -> Result<(), Damage> {
        let mut changes = changes.iter().map(|(key, value)| (key, value.as_ref())).peekable();
        while let Some((key, _)) = changes.peek() {
            let first = block::stored_key(block::first_fence(key));
            let found = self.db.range(first.as_slice()..=block::stored_key(key).as_slice()).next_back().transpose()?;
            let (stored_key, stored) = match &found {
                Some((stored_key, stored)) => (stored_key.as_ref(), block::open(stored_key, stored)?),
                None => (first.as_slice(), block::Rows::default()),
            };
            let fence = &stored_key[1..];
            let table = fence.first().copied();
            let next = self.db.get_gt(stored_key)?.map(|(next, _)| next);
            // The record of what is applied comes after all blocks and is none.
            let end = next.filter(|next| next.first() == Some(&block::BLOCK));
            let in_block =
                |key: &Key| key.first().copied() == table && end.as_ref().is_none_or(|end| key.as_ref() < &end[1..]);
            let in_block = std::iter::from_fn(|| changes.next_if(|(key, _)| in_block(key)));
            let blocks = block::merge(fence, stored, in_block, rows)?;
            if blocks.is_empty() && found.is_some() {
                batch.remove(stored_key);
            }
            for block in blocks {
                batch.insert(block.key, block.bytes);
            }
        }
        Ok(())
    }

    /// Loads a base into an empty index. The record is written last: a load that was cut short is no index.
    fn load(&mut self, base: &Base) -> Result<(), BuildError> {
        let mut reader = Base::reader(&base.path)?;
        let mut rows = RowSet::default();
        let (mut packer, mut kept) = (block::Packer::of_all(), Vec::new());
        let mut done = false;
        while !done {
            let mut batch = sled::Batch::default();
            let mut bytes = 0;
            while bytes < BATCH_BYTES && !done {
                let block = match reader.next()? {
                    Some((key, value)) => {
                        kept.clear();
                        value.put(&mut kept);
                        rows.add(&key, &kept, value.len());
                        packer.push(block::Row { key: &key, kept: &kept })
                    }
                    None => {
                        done = true;
                        packer.finish()
                    }
                };
                if let Some(block) = block {
                    bytes += block.bytes.len() as u64;
                    batch.insert(block.key, block.bytes);
                }
            }
            guard(|| Ok(self.db.apply_batch(batch)?))?;
        }
        self.apply_nothing(Applied { head: reader.header.head, rows })?;
        Ok(())
    }

    fn apply_nothing(&mut self, applied: Applied) -> Result<(), Damage> {
        guard(|| {
            self.db.insert(META, meta(&applied))?;
            self.applied = applied;
            Ok(())
        })
    }

    /// Applies durable entries after the applied one, while `go_on` says so after each batch.
    pub fn catch_up(&mut self, layout: &Layout, mut go_on: impl FnMut(&Index) -> bool) -> Result<u64, BuildError> {
        let mut reader = layout.reader(self.applied.head.index + 1);
        let mut count = 0;
        loop {
            let mut changes = Changes::new();
            let (mut bytes, mut last) = (0, None);
            while bytes < BATCH_BYTES {
                let Some((record, chain)) = reader.next()? else { break };
                last = Some(Head { index: record.index, chain });
                count += 1;
                for change in record.rows {
                    bytes += change.key.len() as u64 + change.value.as_ref().map_or(0, kept_len);
                    changes.insert(change.key, change.value);
                }
                bytes += 16;
            }
            match last {
                Some(head) => self.apply(head, &changes)?,
                // An index of nothing has a record as well.
                None if count == 0 && self.applied == Applied::default() => self.apply_nothing(self.applied)?,
                None => return Ok(count),
            }
            if last.is_none() || !go_on(self) {
                return Ok(count);
            }
        }
    }

    /// Visits rows in key order and proves at the end that they were all, and the right ones.
    pub fn rows(&self, mut visit: impl FnMut(&[u8], Value) -> Result<(), Error>) -> Result<(), BuildError> {
        let mut rows = RowSet::default();
        let mut items = guard(|| Ok(self.db.scan_prefix([block::BLOCK])))?;
        // Only sled is behind the boundary: a panic of the visitor is the caller's.
        while let Some(item) = guard(|| Ok(items.next()))? {
            let (key, stored) = item.map_err(Damage::from)?;
            for row in block::open(&key, &stored)? {
                let row = row?;
                let value = Value::parse(row.kept).ok_or_else(|| block::damaged(&key))?;
                rows.add(row.key, row.kept, value.len());
                visit(row.key, value)?;
            }
        }
        Ok(self.compare(rows)?)
    }

    pub fn flush(&self) -> Result<(), Damage> {
        guard(|| Ok(self.db.flush().map(drop)?))
    }
}

fn kept_len(value: &Value) -> u64 {
    match value {
        Value::Inline(bytes) => bytes.len() as u64,
        Value::Blob(_) => 40,
    }
}

fn crc(stored_key: &[u8], bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(stored_key);
    hasher.update(bytes);
    hasher.finalize().to_le_bytes()
}

fn meta(applied: &Applied) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&applied.head.index.to_le_bytes());
    out.extend_from_slice(&applied.head.chain.0);
    applied.rows.put(&mut out);
    let crc = crc(META, &out[4..]);
    out[..4].copy_from_slice(&crc);
    out
}

fn parse_meta(stored: &[u8]) -> Option<Applied> {
    let (sum, rest) = stored.split_first_chunk::<4>()?;
    if *sum != crc(META, rest) {
        return None;
    }
    let mut cursor = Cursor(rest);
    let index: EntryIndex = cursor.u64()?;
    let head = Head { index, chain: Chain(cursor.array()?) };
    let rows = RowSet::parse(&mut cursor)?;
    cursor.0.is_empty().then_some(Applied { head, rows })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn change() -> impl Strategy<Value = (Key, Option<Value>)> {
        // Few keys of three tables, one of which is the empty key, and now and then a value that fills a block.
        let key = prop_oneof![
            Just(Key::default()),
            (prop_oneof![Just(b'a'), Just(b'z')], 0..60_u8).prop_map(|(table, row)| Key::from([table, row]))
        ];
        let value = prop_oneof![Just(None), (0..900_usize).prop_map(Some), (0..20_000_usize).prop_map(Some)];
        let value = value.prop_map(|len| len.map(|len| Value::Inline(vec![len as u8; len].into())));
        (key, value)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn after_any_changes_the_index_holds_what_a_map_holds(
            batches in prop::collection::vec(prop::collection::btree_map(change().prop_map(|c| c.0), change().prop_map(|c| c.1), 1..40), 1..12),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut index = Index::start(&dir.path().join("index"), 16 << 20).unwrap();
            let mut model = BTreeMap::new();
            for (number, changes) in batches.into_iter().enumerate() {
                let head = Head { index: number as u64 + 1, chain: Chain::default() };
                index.apply(head, &changes).unwrap();
                for (key, value) in changes {
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
                let mut found = Vec::new();
                index.rows(|key, value| {
                    found.push((Key::from(key), value));
                    Ok(())
                }).unwrap();
                prop_assert!(found.iter().map(|(key, value)| (key, value)).eq(&model), "in order, and all of them");
                let applied = index.applied;
                index.prove().unwrap();
                prop_assert_eq!(index.applied, applied);
            }
        }
    }
}
