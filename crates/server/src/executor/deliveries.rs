//! Webhook deliveries: one attempt for each order, at most four at once to one endpoint. When to try again is the
//! scheduler's business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use leeway_core::Event;
use leeway_model::notify::{DeliveryOutcome, Endpoint, Notification};
use leeway_model::{Name, OutboxId};
use leeway_webhook::{EventId, Origin, Secret, body};
use tokio::sync::Semaphore;

use crate::clock::wall;
use crate::grpc::Shared;
use crate::metrics::ByOutcome;
use crate::secrets::Purpose;

/// Attempts under way to one endpoint.
const AT_ONCE: usize = 4;

#[derive(Clone)]
pub(super) struct Deliveries {
    shared: Shared,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// A slow endpoint holds up only itself.
    turns: BTreeMap<Name, Arc<Semaphore>>,
    /// An order that comes again while its attempt is under way is the same one.
    under_way: BTreeSet<OutboxId>,
}

impl Deliveries {
    pub fn new(shared: Shared) -> Self {
        Self { shared, state: Arc::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt; how many can wait here is bounded by the scheduler's own queues.
    pub fn begin(&self, id: OutboxId, endpoint: Name, notification: Notification) {
        let turn = {
            let mut state = self.state();
            if !state.under_way.insert(id) {
                return;
            }
            state.turns.entry(endpoint.clone()).or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE))).clone()
        };
        let deliveries = self.clone();
        tokio::spawn(async move {
            // The semaphore is never closed.
            let permit = turn.acquire_owned().await;
            let outcome = Box::pin(deliveries.attempt(&endpoint, &notification)).await;
            drop(permit);
            if let Some(outcome) = outcome {
                let word = match &outcome {
                    DeliveryOutcome::Delivered => "delivered",
                    DeliveryOutcome::Failed { .. } => "failed",
                    DeliveryOutcome::Gone => "gone",
                };
                deliveries.shared.metrics.deliveries.get_or_create(&ByOutcome { outcome: word }).inc();
                // Down: the attempt is made again after the next start, and the receiver knows the event's id.
                let _ = deliveries.shared.handle.bring(Event::DeliveryFinished { delivery: id, outcome }).await;
            }
            deliveries.state().under_way.remove(&id);
        });
    }

    /// `None` when the endpoint is gone, and with it the delivery.
    async fn attempt(&self, name: &Name, notification: &Notification) -> Option<DeliveryOutcome> {
        let wanted = name.clone();
        let look =
            move |view: &mut crate::driver_loop::View<'_>| view.scheduler.tables().endpoints.get(&wanted).cloned();
        let endpoint: Endpoint = self.shared.handle.read(look).await.ok()??;
        let secret = match self.secret(&endpoint) {
            Ok(secret) => secret,
            Err(detail) => return Some(DeliveryOutcome::Failed { detail: detail.into(), retry_after: None }),
        };
        let origin = Origin { installation: self.shared.installation().clone(), currency: self.shared.ledger() };
        let bytes = body(notification, &origin, None);
        let id = EventId::of(notification, &origin.installation);
        // Signed for the real time, which is what the receiver compares it with.
        let secrets = [secret];
        Some(match self.shared.deliverer.attempt(&endpoint.url, &secrets, &id, &bytes, wall()).await {
            // A pause that a receiver asks for is real time.
            DeliveryOutcome::Failed { detail, retry_after } => DeliveryOutcome::Failed {
                detail,
                retry_after: retry_after.map(|length| self.shared.clock.from_agent(length)),
            },
            other => other,
        })
    }

    fn secret(&self, endpoint: &Endpoint) -> Result<Secret, &'static str> {
        let opened = self.shared.keys.open_sealed(Purpose::WebhookSecret, &endpoint.secret);
        let opened = opened.map_err(|_| "the signing secret cannot be opened with this installation's key")?;
        let text = String::from_utf8(opened).map_err(|_| "the signing secret is damaged")?;
        text.parse().map_err(|_| "the signing secret is damaged")
    }
}
