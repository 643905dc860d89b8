//! Carries out what the scheduler orders, and brings back what came of it.
//!
//! ```text
//! Launch            ─> driver, then RunLaunched or LaunchRefused
//! Stop              ─> driver; only a complete listing proves that it is gone   (polls)
//! DeleteCheckpoint  ─> object store, then CheckpointDeleted
//! Deliver           ─> webhook, four at a time to one endpoint, then DeliveryFinished
//! ```
//!
//! Nothing is kept here that a restart would miss: what had no outcome is ordered again under the same token.

use std::sync::Arc;
use std::time::Duration;

use leeway_core::{Action, Event, LaunchOrder};
use leeway_data::JobAt;
use leeway_drivers::{Launch, LaunchError, Token};
use leeway_model::checkpoint::CheckpointRef;
use leeway_model::cluster::ClusterSpec;
use leeway_model::resources::MachineShape;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{JobId, Millis, Name, RunId};
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::grpc::Shared;
use crate::in_flight::InFlight;
use crate::metrics::ByOutcome;

mod deliveries;
pub mod polls;

/// Attempts to delete a checkpoint before it is left to the next start.
const DELETE_ATTEMPTS: u32 = 6;

#[derive(Clone, Debug)]
pub struct Executor {
    pub shared: Shared,
    pub in_flight: Arc<InFlight>,
}

impl Executor {
    /// Takes orders until the server stops. What was begun is left to finish or to the next start.
    pub async fn run(self, mut orders: mpsc::UnboundedReceiver<Action>) {
        let deliveries = deliveries::Deliveries::new(self.shared.clone());
        loop {
            let order = tokio::select! {
                order = orders.recv() => order,
                () = self.shared.stopping.cancelled() => return,
            };
            match order {
                None => return,
                Some(Action::Launch(order)) => self.begin_launch(order),
                Some(Action::Stop { run, cluster, grace }) => {
                    let executor = self.clone();
                    let span = tracing::info_span!("stop", job = %run.job, run = %run);
                    tokio::spawn(async move { executor.stop(run, cluster, grace).await }.instrument(span));
                }
                Some(Action::DeleteCheckpoint { job, checkpoint }) => {
                    let executor = self.clone();
                    tokio::spawn(async move { executor.delete(job, checkpoint).await });
                }
                Some(Action::Deliver { delivery, endpoint, notification, .. }) => {
                    deliveries.begin(delivery, endpoint, notification);
                }
                // The loop answers and signals by itself.
                Some(Action::Reply(_) | Action::Signal { .. }) => {}
            }
        }
    }

    fn begin_launch(&self, order: LaunchOrder) {
        let run = order.run;
        if !self.in_flight.claim(run) {
            return;
        }
        let executor = self.clone();
        let span = tracing::info_span!("launch", job = %run.job, run = %run);
        let task = async move {
            let event = executor.launch(order).await;
            if executor.shared.handle.bring(event).await.is_ok() {
                executor.in_flight.end(run);
            }
        };
        tokio::spawn(task.instrument(span));
    }

    async fn launch(&self, order: LaunchOrder) -> Event {
        let run = order.run;
        let outcome = match self.prepare(&order).await {
            Ok((launch, driver)) => {
                let limit = self.shared.clock.to_real(launch.deadline).saturating_add(Duration::from_secs(30));
                let real = Launch { deadline: real_millis(self.shared.clock.to_real(launch.deadline)), ..launch };
                match tokio::time::timeout(limit, driver.launch(&real)).await {
                    Ok(outcome) => outcome,
                    Err(_) => {
                        // Whatever it may have made is ended by its token.
                        let _ = driver.stop(&order.offer.cluster, run, Millis::ZERO).await;
                        Err(LaunchError::new(LaunchErrorClass::Transient, "the driver did not answer in time"))
                    }
                }
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(instances) => {
                self.shared.metrics.launches.get_or_create(&ByOutcome { outcome: "launched" }).inc();
                tracing::info!(offer = %order.offer, nodes = order.nodes, "launched");
                Event::RunLaunched { run, instances }
            }
            Err(LaunchError { class, message }) => {
                self.shared.metrics.launches.get_or_create(&ByOutcome { outcome: class.as_str() }).inc();
                tracing::warn!(offer = %order.offer, class = class.as_str(), %message, "launch refused");
                Event::LaunchRefused { run, class, message: message.into() }
            }
        }
    }

    async fn prepare(
        &self,
        order: &LaunchOrder,
    ) -> Result<(Launch, Arc<dyn leeway_drivers::ClusterDriver>), LaunchError> {
        let offer = order.offer.clone();
        let run = order.run;
        let metrics = self.shared.metrics.clone();
        let look = move |view: &mut crate::driver_loop::View<'_>| -> Option<(ClusterSpec, MachineShape)> {
            // A job's later runs wait for other things than a decision.
            if let Some((job, run)) =
                view.scheduler.job(run.job).zip(view.scheduler.run(run).filter(|_| run.epoch == 1))
            {
                metrics.placement_seconds.observe(run.placed.since(job.submitted).as_millis() as f64 / 1_000.0);
            }
            let cluster = view.scheduler.tables().clusters.get(&offer.cluster)?.spec.clone();
            let slot = view.scheduler.fleet().find(&offer).map(|id| view.scheduler.fleet().slot(id));
            let shape = slot.map(|slot| slot.shape.clone())?;
            Some((cluster, shape))
        };
        let invalid = |message: String| LaunchError::new(LaunchErrorClass::Invalid, message);
        let transient = |message: String| LaunchError::new(LaunchErrorClass::Transient, message);
        let found = self.shared.handle.read(look).await.map_err(|failure| transient(failure.to_string()))?;
        let (cluster, shape) = found.ok_or_else(|| invalid(format!("offer {} is gone", order.offer)))?;
        let driver = self.shared.drivers.get(&cluster.driver).cloned();
        let driver = driver.ok_or_else(|| invalid(format!("driver '{}' is not in this build", cluster.driver)))?;
        let tokens = (0..order.nodes).map(|rank| Token::new(self.shared.keys.agent_token(order.run, rank)));
        let launch = Launch {
            run: order.run,
            offer: order.offer.clone(),
            shape,
            nodes: order.nodes,
            server: self.shared.agents_url.clone(),
            tokens: tokens.collect(),
            installation: self.shared.installation().clone(),
            stores: self.shared.stores.0.clone(),
            deadline: order.deadline.since(self.shared.clock.now()),
            cluster,
        };
        if launch.deadline.is_zero() {
            return Err(transient("its deadline has passed".to_owned()));
        }
        Ok((launch, driver))
    }

    async fn stop(&self, run: RunId, cluster: Name, grace: Millis) {
        let name = cluster.clone();
        let look = move |view: &mut crate::driver_loop::View<'_>| {
            view.scheduler.tables().clusters.get(&name).map(|cluster| cluster.spec.driver.clone())
        };
        let Ok(Some(driver)) = self.shared.handle.read(look).await else { return };
        let Some(driver) = self.shared.drivers.get(&driver) else { return };
        let grace = real_millis(self.shared.clock.to_real(grace));
        // The scheduler orders it again until a listing proves the end.
        if let Err(error) = driver.stop(&cluster, run, grace).await {
            tracing::warn!(%cluster, %error, "stop failed; it will be ordered again");
        }
    }

    async fn delete(&self, job: JobId, checkpoint: CheckpointRef) {
        let place = JobAt { installation: self.shared.installation().clone(), job };
        let mut wait = Duration::from_secs(1);
        for attempt in 1..=DELETE_ATTEMPTS {
            let deleted = match self.shared.stores.open(&checkpoint.base) {
                Ok(repository) => repository.delete(&place, checkpoint.id).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match deleted {
                Ok(removal) => {
                    for left in &removal.left {
                        tracing::warn!(%job, object = %left.object, reason = left.reason, "left in the checkpoint store");
                    }
                    // Down: the deletion is repeated after the next start, which is harmless.
                    let _ = self.shared.handle.bring(Event::CheckpointDeleted { job, checkpoint: checkpoint.id }).await;
                    return;
                }
                Err(error) => {
                    tracing::warn!(%job, epoch = checkpoint.id.epoch, seq = checkpoint.id.seq, attempt, %error, "checkpoint was not deleted");
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(4);
                }
            }
        }
    }
}

fn real_millis(length: Duration) -> Millis {
    Millis::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}
