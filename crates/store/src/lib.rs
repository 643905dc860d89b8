//! The durability contract of the engine, and the stores that keep it.
//!
//! A store holds *entries* (the history, in order, never changed) and *rows* (the present state, by key).
//! One entry carries the rows that it changes; both become visible together or not at all. The store knows nothing of
//! jobs or money: keys, values and events are bytes to it.
//!
//! ```text
//! append(entry) append(entry) ...   staged, in order, nothing durable yet
//! flush()                           one fdatasync makes them all durable; only then may anyone be answered
//! ```

use std::fmt;

mod blobs;
mod codec;
pub mod conformance;
mod disk;
mod error;
mod export;
mod faulty;
pub mod files;
mod flushing;
mod format;
mod identity;
mod index;
mod journal;
mod lock;
mod memory;
mod place;
mod reserve;
mod rowset;
mod tools;

pub use codec::{MAX_ENTRY_BYTES, MAX_INLINE_BYTES, MAX_KEY_BYTES};
pub use disk::{CompactReport, DiskStore, OpenReport, Options, is_vacant};
pub use error::Error;
pub use faulty::{Fault, FaultyStore, Plan, SeededPlan, Step};
pub use flushing::{Flushed, Flushing};
pub use format::FORMAT_VERSION;
pub use identity::Identity;
pub use memory::MemoryStore;
pub use place::refuse_copy;
pub use tools::{
    AdoptReport, Adopted, BlobsReport, ExportReport, ImportReport, IndexReport, Problem, RebuildReport, Report,
    SegmentReport, adopt, export, identify, import, read_export, read_history, rebuild, verify,
};

/// Position of an entry in the history; the first entry has index 1, `0` means "nothing yet".
pub type Index = u64;

/// A row's key: a table byte followed by the id's bytes, ordered bytewise.
pub type Key = Box<[u8]>;

/// One row changed by an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    pub key: Key,
    /// The new value, or `None` when the row is removed.
    pub value: Option<Box<[u8]>>,
}

/// One durable step of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Must be `last_index() + 1` of the store when it is appended.
    pub index: Index,
    /// Instant the engine stamped on the step, UTC milliseconds.
    pub time_ms: i64,
    /// What happened, as encoded by the engine.
    pub event: Box<[u8]>,
    pub rows: Vec<RowChange>,
}

/// SHA-256 over the previous chain value and the entry's bytes; names a whole history.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Chain(pub [u8; 32]);

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl serde::Serialize for Chain {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a history stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize)]
pub struct Head {
    pub index: Index,
    pub chain: Chain,
}

/// What the engine needs from durable storage. One owner at a time; calls are synchronous.
///
/// * `append` stages an entry. It may write, but promises nothing before `flush`.
/// * `flush` returns only after every staged entry would survive a power cut. After an error from `append` or `flush`
///   the store is *failed*: every later call returns `Error::Failed`, and nothing staged may be treated as durable.
///   The exceptions are clean refusals of one `append`, for which [`Error::is_refusal`] is true (`DiskFull`,
///   `OutOfOrder`, `TooLarge`): nothing of that entry was kept, entries staged before it stay staged, and the store
///   goes on.
/// * `begin_flush` and `end_flush` are a `flush` whose waiting in between needs no store: entries that are staged
///   meanwhile belong to the flush after it. One at a time; a store that has nothing to wait for need not know of them.
/// * `rows` visits the rows as of `head()`, in key order. When it returns an error, whatever was visited must be
///   thrown away. `entries` visits the durable history from an index on.
/// * Opening a store never loses an acknowledged entry silently: it restores it or refuses with the place of the damage.
pub trait Store: Send {
    /// The last durable entry.
    fn head(&self) -> Head;
    fn append(&mut self, entry: Entry) -> Result<(), Error>;
    /// Makes everything staged durable and returns the new head.
    fn flush(&mut self) -> Result<Head, Error>;
    /// Begins to make everything staged so far durable.
    fn begin_flush(&mut self) -> Result<Flushing, Error> {
        self.flush().map(|_| Flushing::default())
    }
    /// Ends what `begin_flush` began, and returns the new head.
    fn end_flush(&mut self, flushed: Flushed) -> Result<Head, Error> {
        flushed.outcome().map_err(Error::Io)?;
        Ok(self.head())
    }
    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error>;
    /// Visits durable entries with `index >= from` until `visit` returns `false`. Refuses with
    /// `Error::HistoryTrimmed` when entries from `from` (0 counts as 1) on were dropped by retention.
    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error>;
    /// Like `append`, for what must go on when the disk is full (cancel, terminate, lease renewal): a store that
    /// keeps a reserve gives it up for such an entry instead of refusing.
    fn append_essential(&mut self, entry: Entry) -> Result<(), Error> {
        self.append(entry)
    }
    /// Whether ordinary appends would be refused for lack of space now. Looks at the disk anew while that is so.
    fn short_of_space(&mut self) -> Result<bool, Error> {
        Ok(false)
    }
    /// Index of the oldest entry that `entries` can still visit.
    fn first_entry(&self) -> Index {
        1
    }
    /// Whether the store keeps what entries hold. One that only numbers them may be given entries without event and
    /// rows, so that nobody encodes what is thrown away.
    fn keeps_entries(&self) -> bool {
        true
    }
}

impl<S: Store + ?Sized> Store for Box<S> {
    fn head(&self) -> Head {
        (**self).head()
    }
    fn append(&mut self, entry: Entry) -> Result<(), Error> {
        (**self).append(entry)
    }
    fn flush(&mut self) -> Result<Head, Error> {
        (**self).flush()
    }
    fn begin_flush(&mut self) -> Result<Flushing, Error> {
        (**self).begin_flush()
    }
    fn end_flush(&mut self, flushed: Flushed) -> Result<Head, Error> {
        (**self).end_flush(flushed)
    }
    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        (**self).rows(visit)
    }
    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        (**self).entries(from, visit)
    }
    fn append_essential(&mut self, entry: Entry) -> Result<(), Error> {
        (**self).append_essential(entry)
    }
    fn short_of_space(&mut self) -> Result<bool, Error> {
        (**self).short_of_space()
    }
    fn first_entry(&self) -> Index {
        (**self).first_entry()
    }
    fn keeps_entries(&self) -> bool {
        (**self).keeps_entries()
    }
}
