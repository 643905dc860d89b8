//! What the health service says: whether the scheduler answers in time, and takes new work.
//!
//! While the disk has no room for new work, only agents are served: what they say ends work or saves it. A question to the scheduler waits behind the flush of the group before it. While a disk is too slow, or the queue is
//! full and stays full, the services that change something are not serving, so that load balancers and people look
//! elsewhere (S-11); they are again as soon as it answers.

use std::time::Duration;

use leeway_proto::pb::agent_service_server::AgentServiceServer;
use leeway_proto::pb::job_service_server::JobServiceServer;
use tokio_util::sync::CancellationToken;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::agents::Agents;
use super::jobs::Jobs;
use crate::driver_loop::{Failure, Handle};
use crate::health::takes_work;

/// A scheduler that does not answer for so long is not serving.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Between two questions.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to find room in a full queue.
const ROOM_EVERY: Duration = Duration::from_millis(20);

/// Keeps the health of the server up to date until `stopping` fires, and says last that it serves no more.
pub(super) async fn run(handle: Handle, health: HealthReporter, stopping: CancellationToken) {
    let watching = watch(&handle, ANSWER_WITHIN, LOOK_EVERY, |found| {
        let health = health.clone();
        async move { tell(&health, found == Finding::Ready, found != Finding::Silent).await }
    });
    tokio::select! {
        () = watching => {}
        () = stopping.cancelled() => {}
    }
    tell(&health, false, false).await;
}

/// How the scheduler was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Ready,
    /// It answers and takes nothing new: the disk is full.
    Full,
    /// It does not answer in time.
    Silent,
}

async fn tell(health: &HealthReporter, work: bool, agents: bool) {
    let status = |serving| if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    let jobs = <JobServiceServer<Jobs> as tonic::server::NamedService>::NAME;
    let agent = <AgentServiceServer<Agents> as tonic::server::NamedService>::NAME;
    health.set_service_status(jobs, status(work)).await;
    health.set_service_status(agent, status(agents)).await;
    health.set_service_status("", status(work)).await;
}

/// Tells each change, beginning with the first finding. Returns when the scheduler is gone for good.
async fn watch<F: Future<Output = ()>>(
    handle: &Handle,
    within: Duration,
    every: Duration,
    tell: impl Fn(Finding) -> F,
) {
    let mut known = None;
    loop {
        let found = match tokio::time::timeout(within, answers(handle)).await {
            Ok(Ok(())) => Finding::Ready,
            Ok(Err(Failure::DiskFull)) => Finding::Full,
            Ok(Err(_)) => return,
            Err(_) => Finding::Silent,
        };
        if known != Some(found) {
            match found {
                Finding::Ready => {}
                Finding::Full => tracing::warn!(code = "DISK_FULL", "{}", Failure::DiskFull),
                Finding::Silent => {
                    tracing::warn!(within = ?within, "the scheduler does not answer in time; is the disk slow?");
                }
            }
            tell(found).await;
            known = Some(found);
        }
        tokio::time::sleep(every).await;
    }
}

/// Waits for an answer of the scheduler, and before it for room in its queue.
async fn answers(handle: &Handle) -> Result<(), Failure> {
    loop {
        match takes_work(handle).await {
            Err(Failure::Overloaded) => tokio::time::sleep(ROOM_EVERY).await,
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use leeway_core::{Action, Config, Event, Reply};
    use leeway_engine::Engine;
    use leeway_model::budget::{BudgetSpec, Period};
    use leeway_model::{InstallationId, Micros, Timestamp};
    use leeway_store::{Entry, Error, Head, Index, MemoryStore, Store};
    use tokio::sync::{broadcast, mpsc};

    use super::*;
    use crate::clock::Clock;
    use crate::driver_loop::{Bounds, Effects, Running};

    /// A memory store whose flush takes as long as the flag is set, or that has no room while the other is.
    struct Slow(MemoryStore, Arc<AtomicBool>, Arc<AtomicBool>);

    impl Store for Slow {
        fn head(&self) -> Head {
            self.0.head()
        }
        fn append(&mut self, entry: Entry) -> Result<(), Error> {
            self.0.append(entry)
        }
        fn flush(&mut self) -> Result<Head, Error> {
            while self.1.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.0.flush()
        }
        fn short_of_space(&mut self) -> Result<bool, Error> {
            Ok(self.2.load(Ordering::SeqCst))
        }
        fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
            self.0.rows(visit)
        }
        fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
            self.0.entries(from, visit)
        }
    }

    fn start(
        slow: Arc<AtomicBool>,
        full: Arc<AtomicBool>,
        queue: usize,
    ) -> (Running<Slow>, mpsc::UnboundedReceiver<Action>) {
        let config = Config::new(InstallationId("test".parse().unwrap()), leeway_policies::DEFAULT.parse().unwrap());
        let store = Slow(MemoryStore::new(), slow, full);
        let (engine, _) = Engine::open(store, config, leeway_policies::all(), Timestamp::ZERO).unwrap();
        let (actions, orders) = mpsc::unbounded_channel();
        let effects = Effects {
            actions,
            changes: broadcast::channel(4).0,
            signals: Arc::default(),
            in_flight: Arc::default(),
            metrics: Arc::default(),
        };
        let bounds = Bounds { queue, group: 64 };
        (crate::driver_loop::start(engine, Clock::starting(Timestamp::ZERO, 1), effects, bounds).unwrap(), orders)
    }

    fn budget(name: &str) -> Event {
        let cap = Micros::from_units(5);
        let spec =
            BudgetSpec { name: name.parse().unwrap(), parent: None, cap, period: Period::Total, soft_limit: None };
        Event::BudgetSet { spec, by: "me".parse().unwrap() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn s_11_a_slow_disk_presses_back_and_is_shown_until_it_is_quick_again() {
        let slow = Arc::new(AtomicBool::new(false));
        let (running, _orders) = start(slow.clone(), Arc::default(), 2);
        let (told, mut findings) = mpsc::unbounded_channel();
        let handle = running.handle.clone();
        let millis = Duration::from_millis;
        tokio::spawn(async move {
            watch(&handle, millis(100), millis(5), |found| {
                let told = told.clone();
                async move { told.send(found).unwrap() }
            })
            .await;
        });
        assert_eq!(findings.recv().await, Some(Finding::Ready));
        slow.store(true, Ordering::SeqCst);
        let handle = running.handle.clone();
        let first = tokio::spawn(async move { handle.ask(budget("a")).await });
        assert_eq!(findings.recv().await, Some(Finding::Silent), "the flush does not end");
        assert!(!first.is_finished(), "nothing is acknowledged before its flush");
        // Whoever comes now finds room at first, and then is told to come back.
        let refused = loop {
            match tokio::time::timeout(millis(50), running.handle.ask(budget("b"))).await {
                Ok(answer) => break answer,
                Err(_) => continue,
            }
        };
        assert_eq!(refused, Err(Failure::Overloaded));
        slow.store(false, Ordering::SeqCst);
        assert_eq!(first.await.unwrap(), Ok(Reply::Done));
        assert_eq!(findings.recv().await, Some(Finding::Ready), "it is quick again");
        running.handle.stop().await;
        assert_eq!(findings.recv().await, None, "a scheduler that is gone is watched no more");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn s_10_a_full_disk_is_told_by_every_page_but_the_one_that_restarts_a_server() {
        let full = Arc::new(AtomicBool::new(false));
        let (running, _orders) = start(Arc::default(), full.clone(), 64);
        let handle = running.handle.clone();
        let (told, mut findings) = mpsc::unbounded_channel();
        tokio::spawn({
            let handle = handle.clone();
            async move {
                watch(&handle, Duration::from_secs(60), Duration::from_millis(5), |found| {
                    let told = told.clone();
                    async move { told.send(found).unwrap() }
                })
                .await;
            }
        });
        assert_eq!(findings.recv().await, Some(Finding::Ready));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            crate::health::router(handle.clone(), Arc::default(), running.failure, std::path::PathBuf::from("none"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let pages = || async {
            let mut answers = Vec::new();
            for path in ["/livez", "/readyz", "/healthz"] {
                answers.push(get(address, path).await);
            }
            answers
        };
        for answer in pages().await {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        full.store(true, Ordering::SeqCst);
        assert_eq!(findings.recv().await, Some(Finding::Full));
        let answers = pages().await;
        assert!(answers[0].starts_with("HTTP/1.1 200"), "a restart would find the disk as full: {}", answers[0]);
        for answer in &answers[1..] {
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("DISK_FULL: the server's disk"), "{answer}");
        }
        full.store(false, Ordering::SeqCst);
        assert_eq!(findings.recv().await, Some(Finding::Ready));
        handle.stop().await;
        running.thread.join().unwrap();
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 503"));
    }

    async fn get(address: std::net::SocketAddr, path: &str) -> String {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        answer
    }
}
