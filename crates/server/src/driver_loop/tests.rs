//! The loop by itself, over stores in memory that can be told to fail.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};

use leeway_core::Config;
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::{InstallationId, Micros, Name};
use leeway_store::{Entry, Error, Fault, FaultyStore, Flushing, Index, MemoryStore, Step};

use super::*;

/// A memory store that can be short of space.
struct Tight(MemoryStore, Arc<AtomicBool>);

impl Store for Tight {
    fn head(&self) -> Head {
        self.0.head()
    }
    fn append(&mut self, entry: Entry) -> Result<(), Error> {
        self.0.append(entry)
    }
    fn flush(&mut self) -> Result<Head, Error> {
        self.0.flush()
    }
    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.0.rows(visit)
    }
    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        self.0.entries(from, visit)
    }
    fn short_of_space(&mut self) -> Result<bool, Error> {
        Ok(self.1.load(Ordering::SeqCst))
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn budget(name: &str) -> Event {
    let spec = BudgetSpec {
        name: name.parse().unwrap(),
        parent: None,
        cap: Micros::from_units(5),
        period: Period::Total,
        soft_limit: None,
    };
    Event::BudgetSet { spec, by: "me".parse().unwrap() }
}

fn start<S: Store + 'static>(store: S, queue: usize) -> (Running<S>, mpsc::UnboundedReceiver<Action>) {
    start_with(store, Bounds { queue, group: 64 })
}

fn start_with<S: Store + 'static>(store: S, bounds: Bounds) -> (Running<S>, mpsc::UnboundedReceiver<Action>) {
    let config = Config::new(InstallationId(name("test")), name(leeway_policies::DEFAULT));
    let (engine, _) = Engine::open(store, config, leeway_policies::all(), Timestamp::ZERO).unwrap();
    let (actions, orders) = mpsc::unbounded_channel();
    let effects = Effects {
        actions,
        changes: broadcast::channel(4).0,
        signals: Arc::default(),
        in_flight: Arc::default(),
        metrics: Arc::default(),
    };
    let running = super::start(engine, Clock::starting(Timestamp::ZERO, 1), effects, bounds);
    (running.unwrap(), orders)
}

/// Holds the loop inside a read until the returned sender is used or dropped. Returns when it is held.
async fn hold(handle: &Handle) -> std::sync::mpsc::Sender<()> {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (entered, inside) = oneshot::channel();
    let handle = handle.clone();
    tokio::spawn(async move {
        let _ = handle
            .read(move |_| {
                let _ = entered.send(());
                let _ = held.recv();
            })
            .await;
    });
    inside.await.unwrap();
    release
}

fn budgets(view: &mut View<'_>) -> Vec<String> {
    view.scheduler.tables().budgets.values().map(|budget| budget.spec.name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_followed_by_reads_that_see_it_and_the_store_comes_back_at_the_end() {
    let (running, _orders) = start(MemoryStore::new(), 16);
    assert_eq!(running.handle.ask(budget("a")).await, Ok(Reply::Done));
    assert_eq!(running.handle.read(budgets).await.unwrap(), ["a"]);
    running.handle.stop().await;
    let store = running.thread.join().unwrap().unwrap();
    assert_eq!(store.head().index, 1);
    assert_eq!(running.handle.ask(budget("b")).await, Err(Failure::Down));
    assert_eq!(*running.failure.borrow(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_together_share_one_flush() {
    let (running, _orders) = start(MemoryStore::new(), 64);
    let release = hold(&running.handle).await;
    let handle = &running.handle;
    let asked = (0..32).map(|number| handle.ask(budget(&format!("b{number}"))));
    let mut all = std::pin::pin!(futures::future::join_all(asked));
    assert!(futures::poll!(&mut all).is_pending(), "all are in the queue");
    let before = handle.metrics.flushes.get();
    drop(release);
    assert_eq!(all.await, vec![Ok(Reply::Done); 32]);
    assert_eq!(handle.metrics.flushes.get() - before, 1);
    running.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_said_to_be_full_and_our_own_events_wait_for_room() {
    let (running, _orders) = start(MemoryStore::new(), 1);
    let release = hold(&running.handle).await;
    running.handle.send(Command::Read(Box::new(|_| ()))).unwrap();
    assert_eq!(running.handle.ask(budget("a")).await, Err(Failure::Overloaded));
    let patient = tokio::spawn({
        let handle = running.handle.clone();
        async move { handle.bring(budget("b")).await }
    });
    tokio::task::yield_now().await;
    drop(release);
    assert_eq!(patient.await.unwrap(), Ok(Reply::Done));
    assert_eq!(running.handle.read(budgets).await.unwrap(), ["b"]);
    running.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_05_a_caller_that_gave_up_before_its_turn_has_brought_nothing() {
    let (running, _orders) = start(MemoryStore::new(), 16);
    let release = hold(&running.handle).await;
    {
        let mut asked = std::pin::pin!(running.handle.ask(budget("a")));
        assert!(futures::poll!(&mut asked).is_pending(), "it is in the queue");
    }
    drop(release);
    assert_eq!(running.handle.read(budgets).await.unwrap(), [""; 0]);
    running.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_09_a_failed_flush_answers_nobody_and_ends_the_loop_with_a_reason() {
    let plan = |step: Step| match step {
        Step::Flush { .. } => Fault::Fail,
        Step::Append { .. } => Fault::None,
    };
    let (mut running, _orders) = start(FaultyStore::new(MemoryStore::new(), plan), 16);
    assert_eq!(running.handle.ask(budget("a")).await, Err(Failure::Down));
    let reason = running.failure.wait_for(Option::is_some).await.unwrap().clone();
    assert!(reason.unwrap().starts_with("the store failed"));
    assert!(running.thread.join().unwrap().is_none());
    assert_eq!(running.handle.read(|_| ()).await, Err(Failure::Down));
}

#[tokio::test(flavor = "multi_thread")]
async fn s_08_a_full_disk_refuses_new_work_goes_on_with_the_rest_and_resumes() {
    let short = Arc::new(AtomicBool::new(true));
    let (running, _orders) = start(Tight(MemoryStore::new(), short.clone()), 16);
    let new_work = || Event::JobsSubmitted { request: None, jobs: Vec::new() };
    assert_eq!(running.handle.ask(new_work()).await, Err(Failure::DiskFull));
    assert_eq!(running.handle.ask(budget("a")).await, Ok(Reply::Done));
    short.store(false, Ordering::SeqCst);
    assert_eq!(running.handle.ask(new_work()).await, Ok(Reply::Submitted(Vec::new())));
    running.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o_06_a_question_that_breaks_fails_alone_and_the_loop_goes_on() {
    let (running, _orders) = start(MemoryStore::new(), 16);
    let broken = running.handle.read(|view| assert!(view.scheduler.tables().budgets.values().count() > 7));
    assert_eq!(broken.await, Err(Failure::Mistake));
    assert_eq!(running.handle.ask(budget("a")).await, Ok(Reply::Done));
    assert_eq!(running.handle.read(budgets).await.unwrap(), ["a"]);
    assert_eq!(*running.failure.borrow(), None);
    running.handle.stop().await;
}

/// A memory store over a disk that needs leave for every flush, and tells when it begins one.
struct Slow(MemoryStore, Receiver<()>, Sender<()>);

impl Slow {
    fn new() -> (Self, Sender<()>, Receiver<()>) {
        let ((leave, granted), (tell, begun)) = (bounded(8), bounded(8));
        (Self(MemoryStore::new(), granted, tell), leave, begun)
    }
}

impl Store for Slow {
    fn head(&self) -> Head {
        self.0.head()
    }
    fn append(&mut self, entry: Entry) -> Result<(), Error> {
        self.0.append(entry)
    }
    fn flush(&mut self) -> Result<Head, Error> {
        let flushing = self.begin_flush()?;
        self.end_flush(flushing.wait())
    }
    fn begin_flush(&mut self) -> Result<Flushing, Error> {
        self.2.send(()).unwrap();
        let leave = self.1.clone();
        Ok(Flushing::of(move || leave.recv().map_err(std::io::Error::other)))
    }
    fn end_flush(&mut self, flushed: Flushed) -> Result<Head, Error> {
        flushed.outcome()?;
        self.0.flush()
    }
    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.0.rows(visit)
    }
    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        self.0.entries(from, visit)
    }
}

type Asked = Pin<Box<dyn Future<Output = Result<Reply, Failure>>>>;

/// Puts a budget of this name into the queue.
async fn ask<S>(running: &Running<S>, name: &str) -> Asked {
    let (handle, event) = (running.handle.clone(), budget(name));
    let mut asked: Asked = Box::pin(async move { handle.ask(event).await });
    assert!(futures::poll!(&mut asked).is_pending(), "it is in the queue");
    asked
}

async fn until_taken<S>(running: &Running<S>) {
    while !running.handle.queue.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_disk_works_the_next_steps_are_made_and_nobody_is_answered() {
    let (store, leave, begun) = Slow::new();
    let (running, _orders) = start(store, 16);
    let release = hold(&running.handle).await;
    let (mut a, mut b) = (ask(&running, "a").await, ask(&running, "b").await);
    drop(release);
    begun.recv().unwrap();
    let mut c = ask(&running, "c").await;
    until_taken(&running).await;
    for asked in [&mut a, &mut b, &mut c] {
        assert!(futures::poll!(asked).is_pending(), "nothing is durable yet");
    }
    leave.send(()).unwrap();
    assert_eq!((a.await, b.await), (Ok(Reply::Done), Ok(Reply::Done)));
    assert!(futures::poll!(&mut c).is_pending(), "its flush comes after");
    leave.send(()).unwrap();
    assert_eq!(c.await, Ok(Reply::Done));
    assert_eq!(running.handle.read(budgets).await.unwrap(), ["a", "b", "c"]);
    running.handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_stands_still_fills_the_queue_and_not_the_memory() {
    let (store, leave, begun) = Slow::new();
    let (running, _orders) = start_with(store, Bounds { queue: 2, group: 2 });
    let release = hold(&running.handle).await;
    let mut asked = vec![ask(&running, "a").await, ask(&running, "b").await];
    drop(release);
    begun.recv().unwrap();
    // Two are under way, and two more are staged.
    for name in ["c", "d"] {
        asked.push(ask(&running, name).await);
        until_taken(&running).await;
    }
    for name in ["e", "f"] {
        asked.push(ask(&running, name).await);
    }
    assert_eq!(running.handle.ask(budget("g")).await, Err(Failure::Overloaded));
    (0..3).for_each(|_| leave.send(()).unwrap());
    assert_eq!(futures::future::join_all(asked).await, vec![Ok(Reply::Done); 6]);
    running.handle.stop().await;
}

/// A store that has a broken invariant.
struct Broken(MemoryStore);

impl Store for Broken {
    fn head(&self) -> Head {
        self.0.head()
    }
    fn append(&mut self, _: Entry) -> Result<(), Error> {
        panic!("an invariant")
    }
    fn flush(&mut self) -> Result<Head, Error> {
        self.0.flush()
    }
    fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.0.rows(visit)
    }
    fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
        self.0.entries(from, visit)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o_06_a_broken_invariant_answers_nobody_and_ends_the_server_with_a_reason() {
    let (mut running, _orders) = start(Broken(MemoryStore::new()), 16);
    assert_eq!(running.handle.ask(budget("a")).await, Err(Failure::Down));
    let reason = running.failure.wait_for(Option::is_some).await.unwrap().clone();
    assert!(reason.unwrap().contains("invariant"), "the process is told to end");
    assert!(running.thread.join().is_err());
    assert_eq!(running.handle.read(|_| ()).await, Err(Failure::Down));
}
