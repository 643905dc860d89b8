//! The outbox of webhooks: who is told what, when it is tried again, and when an endpoint is given up.

use leeway_model::notify::{Alert, DeliveryOutcome, Endpoint, Notification, Severity};
use leeway_model::{Millis, Name, OutboxId};

use crate::action::Action;
use crate::reply::{Refused, RefusedKind, Reply};
use crate::schedule;
use crate::scheduler::Scheduler;
use crate::state::Delivery;
use crate::timers::Timer;

/// Longest wait that a receiver may ask for.
const RETRY_AFTER_MAX: Millis = Millis::from_hours(24);
/// An endpoint without success for this long, and failures this far apart, is disabled.
const DISABLE_AFTER: Millis = Millis::from_hours(5 * 24);
/// An alert about trouble that was told of a moment ago waits for so long, and is replaced by a newer one meanwhile.
const SETTLE: Millis = Millis::from_mins(1);
/// Deliveries that may wait for one endpoint; beyond it only critical ones are added.
const QUEUE_MAX: usize = 10_000;
/// An attempt without outcome is made again after this.
const ATTEMPT_LOST: Millis = Millis::from_mins(1);

impl Scheduler {
    /// Writes a notification for every endpoint that wants it, in the same step as what it tells of.
    pub(crate) fn notify(&mut self, severity: Severity, alert: Alert) {
        let type_name = alert.type_name();
        let wanted: Vec<Name> =
            self.tables.endpoints.values().filter(|e| e.wants(type_name)).map(|e| e.name.clone()).collect();
        if wanted.is_empty() {
            return;
        }
        self.tables.meta.notifications += 1;
        let notification = Notification { sequence: self.tables.meta.notifications, at: self.now, severity, alert };
        for endpoint in wanted {
            self.enqueue(endpoint, notification.clone());
        }
    }

    fn enqueue(&mut self, endpoint: Name, notification: Notification) {
        let is_critical = notification.severity == Severity::Critical;
        let same = if is_critical { None } else { self.same_trouble(&endpoint, &notification.alert) };
        if let Some((id, true)) = same
            && let Some(row) = self.tables.deliveries.change(&id)
        {
            // It was not received, or not sent at all: the newer one says what the trouble has come to.
            row.notification = notification;
            return;
        }
        if !is_critical && self.volatile.outbox.count(&endpoint) >= QUEUE_MAX {
            return;
        }
        self.tables.meta.deliveries += 1;
        let id = OutboxId(self.tables.meta.deliveries);
        let next_attempt = if same.is_some() { self.now.after(SETTLE) } else { self.now };
        let delivery = Delivery { endpoint, notification, attempts: 0, next_attempt, last_error: None, failed: false };
        self.volatile.outbox.added(id, &delivery);
        self.tables.deliveries.insert(id, delivery);
        if same.is_some() {
            self.timers.set(Timer::Delivery(id), next_attempt);
        } else {
            self.attempt(id);
        }
    }

    /// The delivery that tells an endpoint of the same trouble, and whether it waits, so that it may say something newer.
    /// A critical one keeps its words.
    fn same_trouble(&self, endpoint: &Name, alert: &Alert) -> Option<(OutboxId, bool)> {
        let id = self.volatile.outbox.newest(endpoint, &alert.key()?)?;
        let delivery = self.tables.deliveries.get(&id).filter(|delivery| !delivery.failed)?;
        let waits = delivery.next_attempt > self.now && delivery.notification.severity != Severity::Critical;
        Some((id, waits))
    }

    fn drop_delivery(&mut self, id: OutboxId) {
        self.timers.clear(&Timer::Delivery(id));
        if let Some(delivery) = self.tables.deliveries.remove(&id) {
            self.volatile.outbox.removed(id, &delivery);
        }
    }

    fn attempt(&mut self, id: OutboxId) {
        let Some(delivery) = self.tables.deliveries.get(&id) else { return };
        self.actions.push(Action::Deliver {
            delivery: id,
            endpoint: delivery.endpoint.clone(),
            notification: delivery.notification.clone(),
            attempt: delivery.attempts,
        });
        self.timers.set(Timer::Delivery(id), self.now.after(ATTEMPT_LOST));
    }

    pub(crate) fn on_delivery_timer(&mut self, id: OutboxId) {
        if self.tables.deliveries.get(&id).is_some_and(|delivery| !delivery.failed) {
            self.attempt(id);
        }
    }

    pub(crate) fn on_delivery_finished(&mut self, id: OutboxId, outcome: DeliveryOutcome) -> Reply {
        let now = self.now;
        let Some(delivery) = self.tables.deliveries.get(&id) else { return Reply::Done };
        let name = delivery.endpoint.clone();
        self.timers.clear(&Timer::Delivery(id));
        match outcome {
            DeliveryOutcome::Delivered => {
                self.drop_delivery(id);
                if let Some(row) = self.tables.endpoints.change(&name) {
                    (row.last_success, row.failing_since, row.failures) = (Some(now), None, 0);
                }
            }
            DeliveryOutcome::Gone => {
                self.drop_delivery(id);
                self.disable(&name, "the receiver answered 410 Gone");
            }
            DeliveryOutcome::Failed { detail, retry_after } => {
                self.retry_delivery(id, detail, retry_after);
                let Some(row) = self.tables.endpoints.change(&name) else { return Reply::Done };
                row.failures = row.failures.saturating_add(1);
                let since = *row.failing_since.get_or_insert(now);
                if row.failures >= 2 && now.since(since) >= DISABLE_AFTER {
                    self.disable(&name, "no delivery succeeded for five days");
                }
            }
        }
        Reply::Done
    }

    fn retry_delivery(&mut self, id: OutboxId, detail: Box<str>, retry_after: Option<Millis>) {
        let now = self.now;
        let Some(row) = self.tables.deliveries.change(&id) else { return };
        row.last_error = Some(detail);
        row.attempts += 1;
        match schedule::next_attempt(row.attempts, id.0) {
            None => row.failed = true,
            Some(wait) => {
                let asked = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
                row.next_attempt = now.after(wait.max(asked));
                self.timers.set(Timer::Delivery(id), row.next_attempt);
            }
        }
    }

    fn disable(&mut self, name: &Name, why: &str) {
        let Some(row) = self.tables.endpoints.change(name) else { return };
        row.disabled = Some(why.into());
        let waiting: Vec<OutboxId> = self.deliveries_of(name);
        for id in waiting {
            self.timers.clear(&Timer::Delivery(id));
            if let Some(row) = self.tables.deliveries.change(&id) {
                row.failed = true;
            }
        }
        self.notify(Severity::Warning, Alert::EndpointDisabled { endpoint: name.clone(), reason: why.into() });
    }

    fn deliveries_of(&self, name: &Name) -> Vec<OutboxId> {
        self.tables.deliveries.iter().filter(|(_, d)| d.endpoint == *name).map(|(id, _)| *id).collect()
    }

    /// Adds an endpoint, changes it, or enables it again.
    pub(crate) fn on_endpoint_set(&mut self, endpoint: Endpoint) -> Reply {
        self.tables.endpoints.insert(endpoint.name.clone(), endpoint);
        Reply::Done
    }

    pub(crate) fn on_endpoint_removed(&mut self, name: &Name) -> Reply {
        if self.tables.endpoints.remove(name).is_none() {
            return Reply::Refused(Refused::not_found("endpoint", name));
        }
        for id in self.deliveries_of(name) {
            self.drop_delivery(id);
        }
        Reply::Done
    }

    /// Sends a test event to one endpoint, whatever types it wants.
    pub(crate) fn on_endpoint_tested(&mut self, name: &Name) -> Reply {
        match self.tables.endpoints.get(name) {
            None => return Reply::Refused(Refused::not_found("endpoint", name)),
            Some(endpoint) if endpoint.disabled.is_some() => {
                let message = format!("endpoint '{name}' is disabled; set it again to enable it");
                return Reply::Refused(Refused::new(RefusedKind::Precondition, "ENDPOINT_DISABLED", message));
            }
            Some(_) => {}
        }
        self.tables.meta.notifications += 1;
        let sequence = self.tables.meta.notifications;
        let alert = Alert::EndpointTest { endpoint: name.clone() };
        self.enqueue(name.clone(), Notification { sequence, at: self.now, severity: Severity::Info, alert });
        Reply::Done
    }
}
