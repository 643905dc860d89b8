//! What waits for each endpoint, counted and found by the trouble it tells of, so that a flood of alerts costs no more
//! than a look at each. It follows from the deliveries.

use std::collections::BTreeMap;

use leeway_model::{Name, OutboxId};

use super::Delivery;

#[derive(Clone, Debug, Default)]
pub struct Outbox {
    counts: BTreeMap<Name, usize>,
    newest: BTreeMap<(Name, String), OutboxId>,
}

impl Outbox {
    pub fn added(&mut self, id: OutboxId, delivery: &Delivery) {
        *self.counts.entry(delivery.endpoint.clone()).or_default() += 1;
        if let Some(key) = delivery.notification.alert.key() {
            self.newest.insert((delivery.endpoint.clone(), key), id);
        }
    }

    pub fn removed(&mut self, id: OutboxId, delivery: &Delivery) {
        if let Some(count) = self.counts.get_mut(&delivery.endpoint) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&delivery.endpoint);
            }
        }
        let Some(key) = delivery.notification.alert.key() else { return };
        let key = (delivery.endpoint.clone(), key);
        if self.newest.get(&key) == Some(&id) {
            self.newest.remove(&key);
        }
    }

    /// Deliveries of an endpoint that were neither made nor taken away, given up ones included.
    pub fn count(&self, endpoint: &Name) -> usize {
        self.counts.get(endpoint).copied().unwrap_or(0)
    }

    /// The newest of them that tells of the same trouble.
    pub fn newest(&self, endpoint: &Name, key: &str) -> Option<OutboxId> {
        self.newest.get(&(endpoint.clone(), key.to_owned())).copied()
    }
}
