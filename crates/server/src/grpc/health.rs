//! What the health service says: whether the scheduler answers in time.
//!
//! A question to the scheduler waits behind the flush of the group before it. While a disk is too slow, or the queue is
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

/// A scheduler that does not answer for so long is not serving.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Between two questions.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Between two tries to find room in a full queue.
const ROOM_EVERY: Duration = Duration::from_millis(20);

/// Keeps the health of the server up to date until `stopping` fires, and says last that it serves no more.
pub(super) async fn run(handle: Handle, health: HealthReporter, stopping: CancellationToken) {
    let watching = watch(&handle, ANSWER_WITHIN, LOOK_EVERY, |serving| {
        let health = health.clone();
        async move { tell(&health, serving).await }
    });
    tokio::select! {
        () = watching => {}
        () = stopping.cancelled() => {}
    }
    tell(&health, false).await;
}

async fn tell(health: &HealthReporter, serving: bool) {
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    health.set_service_status(<JobServiceServer<Jobs> as tonic::server::NamedService>::NAME, status).await;
    health.set_service_status(<AgentServiceServer<Agents> as tonic::server::NamedService>::NAME, status).await;
    health.set_service_status("", status).await;
}

/// Tells each change, beginning with the first finding. Returns when the scheduler is gone for good.
async fn watch<F: Future<Output = ()>>(handle: &Handle, within: Duration, every: Duration, tell: impl Fn(bool) -> F) {
    let mut known = None;
    loop {
        let serving = match tokio::time::timeout(within, answers(handle)).await {
            Ok(Ok(())) => true,
            Ok(Err(_)) => return,
            Err(_) => false,
        };
        if known != Some(serving) {
            if !serving {
                tracing::warn!(within = ?within, "the scheduler does not answer in time; is the disk slow?");
            }
            tell(serving).await;
            known = Some(serving);
        }
        tokio::time::sleep(every).await;
    }
}

/// Waits for an answer of the scheduler, and before it for room in its queue.
async fn answers(handle: &Handle) -> Result<(), Failure> {
    loop {
        match handle.read(|_| ()).await {
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

    /// A memory store whose flush takes as long as the flag is set.
    struct Slow(MemoryStore, Arc<AtomicBool>);

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
        fn rows(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
            self.0.rows(visit)
        }
        fn entries(&self, from: Index, visit: &mut dyn FnMut(Entry) -> bool) -> Result<(), Error> {
            self.0.entries(from, visit)
        }
    }

    fn start(slow: Arc<AtomicBool>, queue: usize) -> (Running<Slow>, mpsc::UnboundedReceiver<Action>) {
        let config = Config::new(InstallationId("test".parse().unwrap()), leeway_policies::DEFAULT.parse().unwrap());
        let store = Slow(MemoryStore::new(), slow);
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
        let (running, _orders) = start(slow.clone(), 2);
        let (told, mut findings) = mpsc::unbounded_channel();
        let handle = running.handle.clone();
        let millis = Duration::from_millis;
        tokio::spawn(async move {
            watch(&handle, millis(100), millis(5), |serving| {
                let told = told.clone();
                async move { told.send(serving).unwrap() }
            })
            .await;
        });
        assert_eq!(findings.recv().await, Some(true));
        slow.store(true, Ordering::SeqCst);
        let handle = running.handle.clone();
        let first = tokio::spawn(async move { handle.ask(budget("a")).await });
        assert_eq!(findings.recv().await, Some(false), "the flush does not end");
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
        assert_eq!(findings.recv().await, Some(true), "it is quick again");
        running.handle.stop().await;
        assert_eq!(findings.recv().await, None, "a scheduler that is gone is watched no more");
    }
}
