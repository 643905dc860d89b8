//! A receiver of webhooks that counts what it gets, and fails when the plan says so.

use std::collections::BTreeMap;

use leeway_model::OutboxId;
use leeway_model::notify::{DeliveryOutcome, Notification};

/// What arrived, by the notification's sequence.
#[derive(Debug, Default)]
pub struct Receiver {
    pub seen: BTreeMap<u64, Notification>,
    pub attempts: u64,
    pub deliveries: BTreeMap<OutboxId, u32>,
}

impl Receiver {
    /// Takes one delivery.
    pub fn receive(&mut self, delivery: OutboxId, notification: Notification, fails: bool) -> DeliveryOutcome {
        self.attempts += 1;
        *self.deliveries.entry(delivery).or_default() += 1;
        if fails {
            return DeliveryOutcome::Failed { detail: "503 from the simulated receiver".into(), retry_after: None };
        }
        self.seen.insert(notification.sequence, notification);
        DeliveryOutcome::Delivered
    }
}
