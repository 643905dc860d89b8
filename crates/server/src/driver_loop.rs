//! The one thread that owns the engine.
//!
//! ```text
//! queue ─> take what waits, up to a bound ─> step each ─> ONE commit ─> release actions, answer ─> again
//!                                                          │ the disk works in a thread of its own (flusher.rs) while
//!                                                          └ the steps of the next group are made
//! ```
//!
//! Whoever waits shares the flush of its group; nobody is answered, and nothing is shown, before that flush: who reads
//! has the loop wait until all steps are durable. The queue is bounded: a caller that finds it full is told to come back.
//! When the store fails, everybody who waits is let go without an answer and the thread ends; the process must follow.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, select};
use leeway_core::{Action, Event, Reply, Scheduler};
use leeway_engine::{Engine, Released};
use leeway_model::job::Job;
use leeway_model::{JobId, Timestamp};
use leeway_store::{Flushed, Head, Store};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::clock::Clock;
use crate::flusher::Flusher;
use crate::in_flight::InFlight;
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::signals::Signals;

/// Groups of changed jobs that a watcher may be behind.
pub const WATCH_BEHIND: usize = 1_024;
/// An idle loop looks around at least this often.
const IDLE: Duration = Duration::from_secs(3_600);
/// Between two tries of our own tasks to find room in the queue.
const ROOM_EVERY: Duration = Duration::from_millis(10);

/// Why a command got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("too many requests wait for the scheduler; try again in a moment")]
    Overloaded,
    #[error("the server's disk is full or nearly so, and nothing new is taken; try again later")]
    DiskFull,
    #[error(
        "the server is stopping or its store has failed; whether the request took effect is not known, so try again under the same request id"
    )]
    Down,
    #[error("the server made a mistake; its log says which")]
    Mistake,
}

type Answer = oneshot::Sender<Result<Reply, Failure>>;
type Reader = Box<dyn FnOnce(&mut View<'_>) + Send>;

enum Command {
    Event(Event, Option<Answer>),
    Read(Reader),
    Stop,
}

/// What readers see: the state as of the last commit.
pub struct View<'a> {
    pub scheduler: &'a Scheduler,
    pub store: &'a dyn Store,
    pub ledger: &'a mut Ledger,
    pub now: Timestamp,
    changes: &'a broadcast::Sender<Arc<[Job]>>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("now", &self.now).finish_non_exhaustive()
    }
}

impl View<'_> {
    /// Every change of a job after this view.
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<[Job]>> {
        self.changes.subscribe()
    }

    /// A job as people are shown it: with the newest progress, and why it waits.
    pub fn shown(&self, job: &Job) -> Job {
        shown(self.scheduler, job)
    }

    pub fn job(&self, id: JobId) -> Option<Job> {
        self.scheduler.job(id).map(|job| self.shown(job))
    }

    pub fn head(&self) -> Head {
        self.store.head()
    }
}

fn shown(scheduler: &Scheduler, job: &Job) -> Job {
    Job { progress: scheduler.progress(job), reason: scheduler.reason(job), ..job.clone() }
}

/// Where everybody else talks to the loop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    queue: Sender<Command>,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Event(..) => "Event",
            Self::Read(_) => "Read",
            Self::Stop => "Stop",
        })
    }
}

impl Handle {
    fn send(&self, command: Command) -> Result<(), Failure> {
        self.queue.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => {
                self.metrics.overloaded.inc();
                Failure::Overloaded
            }
            TrySendError::Disconnected(_) => Failure::Down,
        })
    }

    /// Waits for room, for our own tasks.
    async fn send_patiently(&self, mut command: Command) -> Result<(), Failure> {
        loop {
            command = match self.queue.try_send(command) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(command)) => command,
                Err(TrySendError::Disconnected(_)) => return Err(Failure::Down),
            };
            tokio::time::sleep(ROOM_EVERY).await;
        }
    }

    /// Brings an event and waits for its answer, which is durable. A caller that goes away before its event was taken
    /// from the queue has brought nothing.
    pub async fn ask(&self, event: Event) -> Result<Reply, Failure> {
        let (answer, reply) = oneshot::channel();
        self.send(Command::Event(event, Some(answer)))?;
        reply.await.unwrap_or(Err(Failure::Down))
    }

    /// Looks at the state.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut View<'_>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (answer, reply) = oneshot::channel();
        let reader: Reader = Box::new(move |view| {
            // A reader changes nothing but what the ledger remembers of the store: when it breaks, that is forgotten,
            // and only the one who asked is told (O-06).
            let outcome = catch_unwind(AssertUnwindSafe(|| read(view))).map_err(|_| {
                *view.ledger = Ledger::default();
                Failure::Mistake
            });
            // The one who asked may be gone.
            let _ = answer.send(outcome);
        });
        self.send(Command::Read(reader))?;
        reply.await.unwrap_or(Err(Failure::Down))
    }

    /// Brings an event that must not be lost, waiting for room; for our own tasks, never for clients.
    pub async fn bring(&self, event: Event) -> Result<Reply, Failure> {
        let (answer, reply) = oneshot::channel();
        self.send_patiently(Command::Event(event, Some(answer))).await?;
        reply.await.unwrap_or(Err(Failure::Down))
    }

    /// Has the loop end after what is in its queue.
    pub async fn stop(&self) {
        // A loop that is gone has stopped.
        let _ = self.send_patiently(Command::Stop).await;
    }
}

/// Where consequences go.
#[derive(Debug)]
pub struct Effects {
    /// Orders for the executor. What may be in it is bounded by the runs, deliveries and checkpoints that exist.
    pub actions: mpsc::UnboundedSender<Action>,
    pub changes: broadcast::Sender<Arc<[Job]>>,
    pub signals: Arc<Signals>,
    pub in_flight: Arc<InFlight>,
    pub metrics: Arc<Metrics>,
}

/// Bounds of the loop.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub queue: usize,
    pub group: usize,
}

/// The running loop.
#[derive(Debug)]
pub struct Running<S> {
    pub handle: Handle,
    /// Gives the store back; `None` when it failed.
    pub thread: JoinHandle<Option<S>>,
    /// Becomes `Some` with the reason when the loop ends by failure.
    pub failure: watch::Receiver<Option<String>>,
}

/// Starts the thread, from within a runtime.
pub fn start<S: Store + 'static>(
    engine: Engine<S>,
    clock: Clock,
    effects: Effects,
    bounds: Bounds,
) -> std::io::Result<Running<S>> {
    let (queue, commands) = bounded(bounds.queue.max(1));
    let flusher = Flusher::start()?;
    let (answered, mut groups) = mpsc::unbounded_channel::<Vec<Answered>>();
    tokio::spawn(async move {
        while let Some(group) = groups.recv().await {
            group.into_iter().for_each(Answered::tell);
        }
    });
    let handle = Handle { queue, metrics: effects.metrics.clone() };
    let (failed, failure) = watch::channel(None);
    let body = move || {
        let mut guard = PanicGuard { failed, armed: true };
        let group = bounds.group.max(1);
        let mut running = Loop {
            engine,
            clock,
            effects,
            ledger: Ledger::default(),
            commands,
            group,
            readers: Vec::new(),
            answers: VecDeque::new(),
            answered,
            flusher,
            under_way: None,
        };
        let outcome = running.run();
        guard.armed = false;
        match outcome {
            Ok(()) => Some(running.engine.into_store()),
            Err(error) => {
                tracing::error!(%error, "the store failed; the server stops, running jobs go on under their leases");
                guard.failed.send_replace(Some(format!("the store failed: {error}")));
                None
            }
        }
    };
    let thread = std::thread::Builder::new().name("scheduler".into()).spawn(body)?;
    Ok(Running { handle, thread, failure })
}

/// Tells the rest of the process when the scheduler's thread dies of a broken invariant.
struct PanicGuard {
    failed: watch::Sender<Option<String>>,
    armed: bool,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if self.armed {
            self.failed.send_replace(Some("an invariant of the scheduler is broken; see the log above".into()));
        }
    }
}

struct Loop<S> {
    engine: Engine<S>,
    clock: Clock,
    effects: Effects,
    ledger: Ledger,
    commands: Receiver<Command>,
    group: usize,
    /// Who waits to look at the state.
    readers: Vec<Reader>,
    /// Who waits for which step, in the order of the steps.
    answers: VecDeque<Option<Answer>>,
    /// Answers of a group, told by a task: to wake many from within the runtime costs less than from outside.
    answered: mpsc::UnboundedSender<Vec<Answered>>,
    flusher: Flusher,
    under_way: Option<UnderWay>,
}

/// What one who waits is to be told.
struct Answered {
    answer: Answer,
    reply: Reply,
}

impl Answered {
    fn tell(self) {
        // The one who asked may be gone; what was done stays done.
        let _ = self.answer.send(Ok(self.reply));
    }
}

/// A commit that waits for the disk.
struct UnderWay {
    began: Instant,
    /// The jobs that it changes, as it leaves them.
    changed: Vec<Job>,
}

enum Next {
    Command(Command),
    Flushed(Flushed),
    /// Time to look at the timers.
    Nothing,
}

impl<S: Store> Loop<S> {
    fn run(&mut self) -> Result<(), leeway_engine::Error> {
        loop {
            let mut stop = false;
            match self.wait()? {
                Next::Command(first) => stop = self.take(first)?,
                Next::Flushed(flushed) => self.end(flushed)?,
                Next::Nothing => {}
            }
            if !self.is_full() && self.engine.next_wakeup().is_some_and(|at| at <= self.clock.now()) {
                self.step(Event::Woke, None)?;
            }
            if stop || !self.readers.is_empty() {
                self.settle()?;
                self.serve();
            } else if self.under_way.is_none() && !self.engine.is_settled() {
                self.begin()?;
            }
            if stop {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> Result<Next, leeway_engine::Error> {
        let wait = self.engine.next_wakeup().map_or(IDLE, |at| self.clock.until(at)).min(IDLE);
        // What is durable is told first.
        if let Ok(flushed) = self.flusher.done.try_recv() {
            return Ok(Next::Flushed(flushed));
        }
        // A group that waits for a slow disk takes nobody in any more: the queue fills, and says so.
        if self.is_full() {
            return self.flusher.done.recv().map(Next::Flushed).map_err(|_| leeway_engine::Error::Failed);
        }
        select! {
            recv(self.flusher.done) -> flushed => flushed.map(Next::Flushed).map_err(|_| leeway_engine::Error::Failed),
            // When every handle is gone nobody can ever ask again.
            recv(self.commands) -> command => Ok(Next::Command(command.unwrap_or(Command::Stop))),
            default(wait) => Ok(Next::Nothing),
        }
    }

    /// Takes a command and what waits behind it, up to the bound of a group. Returns whether to stop.
    fn take(&mut self, first: Command) -> Result<bool, leeway_engine::Error> {
        let (mut next, mut taken) = (Some(first), 0);
        while let Some(command) = next {
            match command {
                Command::Event(event, answer) => {
                    // A caller that gave up before its turn has brought nothing (A-05).
                    if !answer.as_ref().is_some_and(oneshot::Sender::is_closed) {
                        self.step(event, answer)?;
                    }
                }
                Command::Read(reader) => self.readers.push(reader),
                Command::Stop => return Ok(true),
            }
            taken += 1;
            let is_enough = taken >= self.group || self.is_full();
            next = if is_enough { None } else { self.commands.try_recv().ok() };
        }
        Ok(false)
    }

    /// Whether the steps that no commit has begun with are as many as a commit takes.
    fn is_full(&self) -> bool {
        self.engine.staged().len() >= self.group
    }

    fn step(&mut self, event: Event, answer: Option<Answer>) -> Result<(), leeway_engine::Error> {
        let began = Instant::now();
        match self.engine.step(self.clock.now(), event, ()) {
            Ok(()) => self.answers.push_back(answer),
            Err(leeway_engine::Error::DiskFull) => {
                if let Some(answer) = answer {
                    // The one who asked may be gone.
                    let _ = answer.send(Err(Failure::DiskFull));
                }
            }
            Err(error) => return Err(error),
        }
        self.effects.metrics.step_seconds.observe(began.elapsed().as_secs_f64());
        Ok(())
    }

    /// Begins to make the staged steps durable. One step alone is waited for here and now, which is soonest.
    fn begin(&mut self) -> Result<(), leeway_engine::Error> {
        let is_alone = self.engine.staged().len() == 1 && self.commands.is_empty();
        self.under_way = Some(UnderWay { began: Instant::now(), changed: self.changed_jobs() });
        let flushing = self.engine.begin_commit()?;
        if flushing.is_done() || is_alone {
            self.end(flushing.wait())
        } else {
            self.flusher.begin(flushing);
            Ok(())
        }
    }

    fn end(&mut self, flushed: Flushed) -> Result<(), leeway_engine::Error> {
        let released = self.engine.end_commit(flushed)?;
        let metrics = &self.effects.metrics;
        metrics.steps.inc_by(released.len() as u64);
        metrics.group_size.observe(released.len() as f64);
        if let Some(UnderWay { began, changed }) = self.under_way.take() {
            if released.iter().any(|step| step.index.is_some()) {
                metrics.commit_seconds.observe(began.elapsed().as_secs_f64());
                metrics.flushes.inc();
            }
            if !changed.is_empty() {
                // Nobody listening any more is no fault.
                let _ = self.effects.changes.send(changed.into());
            }
        }
        let mut answered = Vec::with_capacity(released.len());
        for step in released {
            answered.extend(self.release(step));
        }
        if answered.len() > 1 {
            // The runtime is there as long as the loop.
            let _ = self.answered.send(answered);
        } else {
            answered.into_iter().for_each(Answered::tell);
        }
        Ok(())
    }

    /// Waits until every step is durable.
    fn settle(&mut self) -> Result<(), leeway_engine::Error> {
        while !self.engine.is_settled() {
            if self.under_way.is_none() {
                self.begin()?;
            } else {
                let flushed = self.flusher.done.recv().map_err(|_| leeway_engine::Error::Failed)?;
                self.end(flushed)?;
            }
        }
        Ok(())
    }

    /// What watchers will be told of the staged steps.
    fn changed_jobs(&self) -> Vec<Job> {
        if self.effects.changes.receiver_count() == 0 {
            return Vec::new();
        }
        let ids: BTreeSet<JobId> =
            self.engine.staged().iter().flat_map(|step| step.changed_jobs.iter().copied()).collect();
        let scheduler = self.engine.scheduler();
        let mut jobs: Vec<Job> =
            ids.into_iter().filter_map(|id| scheduler.job(id)).map(|job| shown(scheduler, job)).collect();
        jobs.sort_by_key(|job| job.version);
        jobs
    }

    /// Gives the actions of a step out, and the answer back.
    fn release(&mut self, step: Released<()>) -> Option<Answered> {
        let mut answer = self.answers.pop_front().flatten();
        let mut answered = None;
        for action in step.actions {
            match action {
                Action::Reply(reply) => {
                    answered = answer.take().map(|answer| Answered { answer, reply });
                }
                Action::Signal { run } => self.effects.signals.signal(run),
                other => {
                    if let Action::Launch(order) = &other {
                        self.effects.in_flight.begin(order.run);
                    }
                    // The executor ends only with the process.
                    let _ = self.effects.actions.send(other);
                }
            }
        }
        answered
    }

    fn serve(&mut self) {
        let mut view = View {
            scheduler: self.engine.scheduler(),
            store: self.engine.store(),
            ledger: &mut self.ledger,
            now: self.clock.now(),
            changes: &self.effects.changes,
        };
        for reader in self.readers.drain(..) {
            reader(&mut view);
        }
    }
}

#[cfg(test)]
mod tests;
