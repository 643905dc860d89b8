//! One step is one atomic commit: decide, make durable, then act. Both shells use this, and only this, to drive the
//! scheduler.
//!
//! ```text
//! step(now, event, tag)   decides in memory and stages one entry; its actions stay inside
//! commit()                makes all staged entries durable with one flush and only then hands the actions out
//! ```
//!
//! [`begin_commit`](Engine::begin_commit) and [`end_commit`](Engine::end_commit) are a commit whose waiting in between is
//! left to the caller: steps that are made meanwhile belong to the commit after it.
//!
//! A failed append or flush fails the engine for good: memory is ahead of the disk, so the process must end and open
//! the store again. Recovery copies rows and never decides again.

mod codec;
pub mod history;

use leeway_core::event::Event;
use leeway_core::state::rows::RowError;
use leeway_core::{Action, Config, PolicySet, Scheduler};
use leeway_model::{JobId, Timestamp};
use leeway_store::{Entry, Flushed, Flushing, Head, Index, Store};

pub use codec::{Recorded, decode_event};

/// The scheduler over a store. `T` marks whose step it was, so that a shell can answer the right caller.
#[derive(Debug)]
pub struct Engine<S, T = ()> {
    scheduler: Scheduler,
    store: S,
    staged: Vec<Released<T>>,
    /// Steps of the commit that is under way.
    committing: Option<Vec<Released<T>>>,
    scratch: codec::Scratch,
    /// Index of the last staged entry.
    index: Index,
    now: Timestamp,
    failed: bool,
    /// The scheduler was told that the store is short of space.
    short: bool,
}

/// A step whose entry is durable, with the actions that may now happen.
#[derive(Debug)]
pub struct Released<T> {
    pub tag: T,
    /// Entry of the step; `None` when it changed nothing durable.
    pub index: Option<Index>,
    pub actions: Vec<Action>,
    /// Jobs whose rows the step changed, for those who watch.
    pub changed_jobs: Vec<JobId>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Store(#[from] leeway_store::Error),
    #[error("stored state cannot be read: {0}")]
    Row(#[from] RowError),
    #[error("stored state holds a row of unknown table {0}; it was written by a newer version of leeway")]
    UnknownTable(u8),
    /// Nothing was decided; the event may be brought again when there is room.
    #[error("the data directory is short of space; free some, or wait until running work has ended")]
    DiskFull,
    #[error("the engine failed earlier; open the store again")]
    Failed,
}

impl<S: Store, T> Engine<S, T> {
    /// Opens a scheduler from what the store holds. The actions returned had no recorded outcome and are to be issued
    /// again.
    pub fn open(store: S, config: Config, policies: PolicySet, now: Timestamp) -> Result<(Self, Vec<Action>), Error> {
        let mut restoring = Scheduler::restoring(config, policies);
        let mut refused = None;
        store.rows(&mut |key, value| {
            let taken = match codec::split_key(key) {
                Ok((table, key)) => restoring.row(table, key, &codec::Encoded(value)).map_err(Error::from),
                Err(byte) => Err(Error::UnknownTable(byte)),
            };
            if let Err(error) = taken {
                refused.get_or_insert(error);
            }
        })?;
        if let Some(error) = refused {
            return Err(error);
        }
        let head = store.head();
        let mut last = Timestamp::ZERO;
        // A store that was made from an export has all rows, and its history begins after them.
        if head.index >= store.first_entry() {
            store.entries(head.index, &mut |entry| {
                last = Timestamp::from_millis(entry.time_ms);
                true
            })?;
        }
        let now = now.max(last);
        let scheduler = restoring.finish(now);
        let actions = scheduler.unfinished_actions();
        let engine = Self {
            scheduler,
            store,
            staged: Vec::new(),
            committing: None,
            scratch: codec::Scratch::default(),
            index: head.index,
            now,
            failed: false,
            short: false,
        };
        Ok((engine, actions))
    }

    /// Decides on one event, or refuses it untouched with [`Error::DiskFull`]. Its actions are handed out by the next [`commit`](Self::commit). Time never runs back.
    pub fn step(&mut self, now: Timestamp, event: Event, tag: T) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        self.now = self.now.max(now);
        let short = self.store.short_of_space().inspect_err(|_| self.failed = true)?;
        if short && !event.is_essential() {
            return Err(Error::DiskFull);
        }
        let mut released = Released { tag, index: None, actions: Vec::new(), changed_jobs: Vec::new() };
        if short != self.short {
            self.short = short;
            self.decide(Event::SpaceChanged { short }, &mut released)?;
        }
        self.decide(event, &mut released)?;
        self.staged.push(released);
        Ok(())
    }

    /// One decision and its entry. What was decided in memory must reach the store: the reserve pays for it if needed.
    fn decide(&mut self, event: Event, released: &mut Released<T>) -> Result<(), Error> {
        let keeps = self.store.keeps_entries();
        let encoded = if keeps { self.scratch.encode(&Recorded::of(&event)) } else { Box::default() };
        self.scheduler.handle(self.now, event, &mut released.actions);
        released.changed_jobs.extend_from_slice(self.scheduler.changed_jobs());
        if !self.scheduler.has_changes() {
            return Ok(());
        }
        let rows = if keeps {
            let mut rows = codec::Rows::new(&mut self.scratch);
            self.scheduler.drain_changes(&mut rows);
            rows.changes
        } else {
            self.scheduler.forget_changes();
            Vec::new()
        };
        let entry = Entry { index: self.index + 1, time_ms: self.now.as_millis(), event: encoded, rows };
        self.store.append_essential(entry).inspect_err(|_| self.failed = true)?;
        self.index += 1;
        released.index = Some(self.index);
        Ok(())
    }

    /// Makes every staged step durable and releases its actions, in the order of the steps.
    pub fn commit(&mut self) -> Result<Vec<Released<T>>, Error> {
        let flushing = self.begin_commit()?;
        self.end_commit(flushing.wait())
    }

    /// Begins to make every staged step durable. [`end_commit`](Self::end_commit) must follow before the next.
    pub fn begin_commit(&mut self) -> Result<Flushing, Error> {
        // Two at a time would be answered for in the wrong order.
        if self.failed || self.committing.is_some() {
            return Err(Error::Failed);
        }
        let flushing = if has_entries(&self.staged) {
            self.store.begin_flush().inspect_err(|_| self.failed = true)?
        } else {
            Flushing::default()
        };
        self.committing = Some(std::mem::take(&mut self.staged));
        Ok(flushing)
    }

    /// Releases the actions of the steps that the commit covers, in the order of the steps.
    pub fn end_commit(&mut self, flushed: Flushed) -> Result<Vec<Released<T>>, Error> {
        if self.failed {
            return Err(Error::Failed);
        }
        let released = self.committing.take().unwrap_or_default();
        if has_entries(&released) {
            self.store.end_flush(flushed).inspect_err(|_| self.failed = true)?;
        }
        Ok(released)
    }

    /// Whether no step waits for a commit or for its end, so that the state is what the disk has.
    pub fn is_settled(&self) -> bool {
        self.staged.is_empty() && self.committing.is_none()
    }

    /// The steps that no commit has begun with.
    pub fn staged(&self) -> &[Released<T>] {
        &self.staged
    }

    /// When to bring [`Event::Woke`] at the latest.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.scheduler.next_wakeup()
    }

    /// The state as of the last step. Only what a commit covered may be shown to anyone.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub fn store(&self) -> &S {
        &self.store
    }

    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    pub fn head(&self) -> Head {
        self.store.head()
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Gives the store back; staged steps that were not committed are lost, as in a crash.
    pub fn into_store(self) -> S {
        self.store
    }
}

fn has_entries<T>(steps: &[Released<T>]) -> bool {
    steps.iter().any(|step| step.index.is_some())
}
