//! The thread that keeps the index behind the journal, never in its way.
//!
//! ```text
//! flush --group--> bounded queue --batch--> sled
//!                  (full: the group is not queued; the thread reads it from the journal instead)
//! ```
//!
//! Nobody waits for the index, so it is fed late and in large batches: a row that changes several times meanwhile is
//! written once, and the flushes do not share the processors with a thread that wakes at each of them.
//!
//! The same thread writes bases (`bases`), because it alone knows rows and their entry together; syncs the journal's mark
//! once a second; and makes the index anew when it failed, or when it has grown far beyond what its rows weigh.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Applied, BATCH_BYTES, BuildError, Changes, Damage, Index, bases};
use crate::export::Base;
use crate::files::{Files, LogFile, occupied};
use crate::journal::Layout;
use crate::{Error, Head, Identity, Index as EntryIndex};

/// How often an index that failed is made anew.
const RETRY: Duration = Duration::from_secs(30);
/// How often the mark is synced, and how often the index. After a crash the index takes from the journal what it lacks,
/// so that its own syncs, which hold up those of the journal, need not be many.
const MARK_EVERY: Duration = Duration::from_secs(1);
const FLUSH_EVERY: Duration = Duration::from_secs(10);
/// How long rows may wait for a batch to fill.
const LINGER: Duration = Duration::from_secs(1);
/// How long a clean close goes on applying what is queued; the rest is read from the journal at the next open.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);
/// sled may occupy twice what its rows weigh and this much more; beyond, it is made anew.
const SLACK_BYTES: u64 = 24 * 1024 * 1024;
/// Applied bytes between two looks at what the index occupies.
const LOOK_EVERY_BYTES: u64 = 16 * 1024 * 1024;

/// What the thread needs to know of its store.
#[derive(Debug)]
pub(crate) struct Setup {
    pub data_dir: PathBuf,
    pub identity: Identity,
    pub files: Arc<dyn Files>,
    pub layout: Layout,
    pub mark: Arc<dyn LogFile>,
    pub cache_bytes: u64,
    pub queue_bytes: u64,
}

/// The rows that a flush made durable.
#[derive(Debug)]
pub(crate) struct Group {
    pub first: EntryIndex,
    pub head: Head,
    pub changes: Changes,
    pub bytes: u64,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Group>,
    queued_bytes: u64,
    /// Since when the oldest queued group waits.
    queued_since: Option<Instant>,
    /// Callers that wait for the index to catch up.
    waiters: usize,
    target: Head,
    index: Option<Index>,
    applied: Applied,
    failed: Option<String>,
    base: Option<Base>,
    base_wanted: bool,
    base_done: Option<Result<Base, Error>>,
    mark_dirty: bool,
    stop: bool,
    abandon: bool,
}

impl State {
    /// Whether what is queued is worth a batch by now.
    fn is_due(&self, batch_bytes: u64) -> bool {
        let waited = self.queued_since.is_some_and(|since| since.elapsed() >= LINGER);
        self.queued_bytes >= batch_bytes || waited || self.waiters > 0 || self.stop
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stopped_at: OnceLock<Instant>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handle of the thread.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    queue_bytes: u64,
    batch_bytes: u64,
}

/// Queued bytes that make a batch; the rest of the queue takes what comes while it is applied.
fn batch_bytes(queue_bytes: u64) -> u64 {
    BATCH_BYTES.min(queue_bytes / 2)
}

impl Worker {
    /// Starts the thread, with the index or with the reason why there is none yet.
    pub fn start(
        setup: Setup,
        index: Result<Index, Damage>,
        base: Option<Base>,
        target: Head,
    ) -> Result<Worker, Error> {
        let (index, failed) = match index {
            Ok(index) => (Some(index), None),
            Err(damage) => (None, Some(damage.0)),
        };
        let failed_at = failed.as_ref().map(|_| Instant::now());
        let state = State {
            queue: VecDeque::new(),
            queued_bytes: 0,
            queued_since: None,
            waiters: 0,
            target,
            applied: index.as_ref().map(|index| index.applied).unwrap_or_default(),
            index: index.clone(),
            failed,
            base,
            base_wanted: false,
            base_done: None,
            mark_dirty: false,
            stop: false,
            abandon: false,
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), stopped_at: OnceLock::new() });
        let (queue_bytes, now) = (setup.queue_bytes, Instant::now());
        let loop_ =
            Loop { shared: shared.clone(), setup, index, dirty: false, marked: now, flushed: now, unlooked_bytes: 0 };
        let thread = std::thread::Builder::new().name("store-index".into()).spawn(move || loop_.run(failed_at))?;
        Ok(Worker { shared, thread: Some(thread), queue_bytes, batch_bytes: batch_bytes(queue_bytes) })
    }

    /// Hands over what a flush made durable. Never waits.
    pub fn submit(&self, group: Group) {
        let mut state = self.shared.lock();
        state.target = group.head;
        state.mark_dirty = true;
        if state.failed.is_none() && state.queued_bytes + group.bytes <= self.queue_bytes {
            state.queued_bytes += group.bytes;
            state.queued_since.get_or_insert_with(Instant::now);
            state.queue.push_back(group);
        }
        let due = state.is_due(self.batch_bytes);
        drop(state);
        // Otherwise the thread looks around by itself before anything has waited for long.
        if due {
            self.shared.changed.notify_all();
        }
    }

    /// Waits until the index has all rows, and returns it; `None` when it failed or stands still for `patience`.
    pub fn caught_up(&self, patience: Duration) -> Option<Index> {
        self.shared.lock().waiters += 1;
        self.shared.changed.notify_all();
        let index = self.wait_for_target(patience);
        self.shared.lock().waiters -= 1;
        index
    }

    fn wait_for_target(&self, patience: Duration) -> Option<Index> {
        let mut state = self.shared.lock();
        let (mut seen, mut since) = (state.applied.head.index, Instant::now());
        loop {
            if state.failed.is_some() || state.stop {
                return None;
            }
            if state.applied.head.index >= state.target.index {
                let mut index = state.index.clone()?;
                index.applied = state.applied;
                return Some(index);
            }
            if state.applied.head.index != seen {
                (seen, since) = (state.applied.head.index, Instant::now());
            }
            if since.elapsed() >= patience {
                return None;
            }
            let wait = Duration::from_millis(200).min(patience);
            state = self.shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What the index holds now.
    pub fn applied(&self) -> Applied {
        self.shared.lock().applied
    }

    /// Why the index does not work, when it does not.
    pub fn failure(&self) -> Option<String> {
        self.shared.lock().failed.clone()
    }

    /// Says that the index was found damaged while it was read; it will be made anew.
    pub fn report(&self, damage: &Damage) {
        self.shared.lock().failed = Some(damage.0.clone());
        self.shared.changed.notify_all();
    }

    /// Asks for a base; `take_base` tells when it is there.
    pub fn want_base(&self) {
        self.shared.lock().base_wanted = true;
        self.shared.changed.notify_all();
    }

    pub fn take_base(&self) -> Option<Result<Base, Error>> {
        self.shared.lock().base_done.take()
    }

    /// Waits for the base that was asked for.
    pub fn wait_for_base(&self) -> Result<Base, Error> {
        let mut state = self.shared.lock();
        loop {
            if let Some(done) = state.base_done.take() {
                return done;
            }
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(Error::Failed);
            }
            let wait = Duration::from_millis(200);
            state = self.shared.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the thread; with `abandon`, at once and without flushing, as a crash would.
    pub fn stop(&mut self, abandon: bool) {
        let mut state = self.shared.lock();
        state.stop = true;
        state.abandon |= abandon;
        drop(state);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the index panicked; the next open will prove the index");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop(false);
    }
}

/// What to do next.
enum Task {
    Apply(Group),
    CatchUp,
    Base,
    Renew(String),
    Mark,
    Flush,
    Stop,
}

struct Loop {
    shared: Arc<Shared>,
    setup: Setup,
    index: Option<Index>,
    dirty: bool,
    /// When the mark and the index were last synced.
    marked: Instant,
    flushed: Instant,
    unlooked_bytes: u64,
}

impl Loop {
    fn run(mut self, mut failed_at: Option<Instant>) {
        loop {
            let result = match self.next_task(failed_at) {
                Task::Apply(group) => self.apply(group),
                Task::CatchUp => self.catch_up(),
                Task::Base => {
                    self.write_base();
                    Ok(())
                }
                Task::Renew(reason) => self.renew(&reason),
                Task::Mark => {
                    self.mark();
                    Ok(())
                }
                Task::Flush => self.flush(),
                Task::Stop => break,
            };
            failed_at = match result {
                Ok(()) if self.shared.lock().failed.is_none() => None,
                Ok(()) => failed_at,
                Err(error) => {
                    self.fail(error);
                    Some(Instant::now())
                }
            };
        }
        self.close();
    }

    fn next_task(&self, failed_at: Option<Instant>) -> Task {
        let mut state = self.shared.lock();
        loop {
            let closing = state.stop.then(|| *self.shared.stopped_at.get_or_init(Instant::now));
            let out_of_time = closing.is_some_and(|since| since.elapsed() >= CLOSE_PATIENCE);
            if state.abandon || out_of_time || (state.stop && state.queue.is_empty()) {
                return Task::Stop;
            }
            if state.base_wanted && !state.stop {
                return Task::Base;
            }
            if state.mark_dirty && self.marked.elapsed() >= MARK_EVERY {
                state.mark_dirty = false;
                return Task::Mark;
            }
            if self.dirty && self.flushed.elapsed() >= FLUSH_EVERY {
                return Task::Flush;
            }
            if let Some(reason) = &state.failed {
                if closing.is_some() {
                    return Task::Stop;
                }
                if failed_at.is_none_or(|at| at.elapsed() >= RETRY) {
                    return Task::Renew(reason.clone());
                }
            } else if let Some(task) = pending(&mut state, batch_bytes(self.setup.queue_bytes)) {
                return task;
            }
            state = self.shared.changed.wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn apply(&mut self, group: Group) -> Result<(), BuildError> {
        let index = self.index.as_mut().ok_or_else(|| Damage::new("there is no index"))?;
        index.apply(group.head, &group.changes)?;
        self.publish(group.bytes);
        self.look()
    }

    fn catch_up(&mut self) -> Result<(), BuildError> {
        let index = self.index.as_mut().ok_or_else(|| Damage::new("there is no index"))?;
        let shared = self.shared.clone();
        index.catch_up(&self.setup.layout, |index| {
            let mut state = shared.lock();
            state.applied = index.applied;
            shared.changed.notify_all();
            !state.stop && state.queue.front().is_none_or(|group| group.first > index.applied.head.index + 1)
        })?;
        self.publish(BATCH_BYTES);
        self.look()
    }

    /// Tells the others what is applied.
    fn publish(&mut self, bytes: u64) {
        let Some(index) = &self.index else { return };
        self.dirty = true;
        self.unlooked_bytes += bytes;
        self.shared.lock().applied = index.applied;
        self.shared.changed.notify_all();
    }

    /// sled keeps old versions around; when they outweigh the rows too far, a fresh index is the only cure.
    fn look(&mut self) -> Result<(), BuildError> {
        if self.unlooked_bytes < LOOK_EVERY_BYTES {
            return Ok(());
        }
        self.unlooked_bytes = 0;
        self.flush()?;
        let live = self.index.as_ref().map_or(0, |index| index.applied.rows.bytes);
        let bytes = occupied(&self.setup.data_dir.join("index"));
        if bytes <= live.saturating_mul(2).saturating_add(SLACK_BYTES) {
            return Ok(());
        }
        tracing::info!(bytes, live, "the index has outgrown its rows and is made anew");
        self.replace(false)
    }

    fn renew(&mut self, reason: &str) -> Result<(), BuildError> {
        tracing::warn!(reason, "the index is set aside and made anew");
        self.replace(true)
    }

    fn replace(&mut self, keep_old: bool) -> Result<(), BuildError> {
        let base = {
            let mut state = self.shared.lock();
            state.index = None;
            state.base.clone()
        };
        if let Some(old) = self.index.take() {
            super::discard(old);
        }
        let dir = self.setup.data_dir.join("index");
        if keep_old {
            super::set_aside(&self.setup.data_dir)?;
        } else if dir.exists() {
            std::fs::remove_dir_all(&dir).map_err(|error| Error::at(&dir, error))?;
        }
        let index = super::build(&dir, self.setup.cache_bytes, base.as_ref(), &self.setup.layout)?;
        let mut state = self.shared.lock();
        state.applied = index.applied;
        state.index = Some(index.clone());
        state.failed = None;
        drop(state);
        self.index = Some(index);
        self.dirty = true;
        self.shared.changed.notify_all();
        Ok(())
    }

    fn write_base(&mut self) {
        let result = match self.base() {
            Ok(base) => Ok(base),
            Err(BuildError::Truth(error)) => Err(error),
            Err(BuildError::Index(damage)) => {
                tracing::warn!(reason = %damage.0, "the base is written from the journal, for the index does not work");
                let old = {
                    let mut state = self.shared.lock();
                    state.failed = Some(damage.0);
                    state.base.clone()
                };
                bases::from_history(old.as_ref(), &self.setup)
            }
        };
        let mut state = self.shared.lock();
        state.base_wanted = false;
        if let Ok(base) = &result {
            state.base = Some(base.clone());
        }
        state.base_done = Some(result);
        drop(state);
        self.shared.changed.notify_all();
    }

    fn base(&mut self) -> Result<Base, BuildError> {
        let failed = self.shared.lock().failed.clone();
        if let Some(reason) = failed {
            return Err(Damage(reason).into());
        }
        self.catch_up()?;
        let index = self.index.as_ref().ok_or_else(|| Damage::new("there is no index"))?;
        bases::from_index(index, &self.setup)
    }

    fn mark(&mut self) {
        self.marked = Instant::now();
        if let Err(error) = self.setup.mark.sync() {
            tracing::warn!(%error, "the mark of the durable head could not be synced");
        }
    }

    fn flush(&mut self) -> Result<(), BuildError> {
        self.flushed = Instant::now();
        if std::mem::take(&mut self.dirty)
            && let Some(index) = &self.index
        {
            index.flush()?;
        }
        Ok(())
    }

    fn fail(&mut self, error: BuildError) {
        let reason = match error {
            BuildError::Index(damage) => damage.0,
            BuildError::Truth(error) => error.to_string(),
        };
        tracing::error!(%reason, "the index stopped; the journal goes on, and the index will be made anew");
        let mut state = self.shared.lock();
        state.failed = Some(reason);
        state.index = None;
        state.queue.clear();
        state.queued_bytes = 0;
        state.queued_since = None;
        drop(state);
        if let Some(old) = self.index.take() {
            super::discard(old);
        }
        self.shared.changed.notify_all();
    }

    fn close(&mut self) {
        let abandon = {
            let mut state = self.shared.lock();
            state.index = None;
            state.abandon
        };
        if abandon {
            if let Some(index) = self.index.take() {
                super::discard(index);
            }
            return;
        }
        self.mark();
        if let Err(BuildError::Index(damage)) = self.flush() {
            tracing::warn!(reason = %damage.0, "the index could not be flushed on close");
        }
    }
}

/// The next thing to apply: what is queued when it follows, otherwise the journal.
fn pending(state: &mut State, batch_bytes: u64) -> Option<Task> {
    let applied = state.applied.head.index;
    while state.queue.front().is_some_and(|group| group.head.index <= applied) {
        take(state);
    }
    match state.queue.front() {
        Some(group) if group.first == applied + 1 && state.is_due(batch_bytes) => {}
        Some(group) if group.first == applied + 1 => return None,
        // A group that is partly applied, or whose predecessors found no room, is read from the journal.
        Some(_) => return Some(Task::CatchUp),
        None if applied < state.target.index && !state.stop => return Some(Task::CatchUp),
        None => return None,
    }
    let mut merged = take(state)?;
    while merged.bytes < BATCH_BYTES && state.queue.front().is_some_and(|next| next.first == merged.head.index + 1) {
        let Some(next) = take(state) else { break };
        merged.head = next.head;
        merged.bytes += next.bytes;
        merged.changes.extend(next.changes);
    }
    Some(Task::Apply(merged))
}

fn take(state: &mut State) -> Option<Group> {
    let group = state.queue.pop_front()?;
    state.queued_bytes -= group.bytes;
    // What is left waits for the next batch.
    state.queued_since = (!state.queue.is_empty()).then(Instant::now);
    Some(group)
}
