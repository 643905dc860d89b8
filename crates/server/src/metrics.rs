//! What an operator watches: counters that the parts of the server bump, and gauges that are read from the scheduler
//! when somebody looks.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use leeway_model::job::JobState;
use leeway_model::resources::CapacityType;
use leeway_model::run::RunState;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::driver_loop::{Handle, View};

/// A scheduler that does not answer for so long is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByState {
    pub state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByRun {
    pub state: &'static str,
    pub capacity: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByBudget {
    pub budget: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByOutcome {
    pub outcome: &'static str,
}

type Amount = Gauge<f64, AtomicU64>;

#[derive(Debug)]
pub struct Metrics {
    pub steps: Counter,
    pub flushes: Counter,
    pub overloaded: Counter,
    pub step_seconds: Histogram,
    pub commit_seconds: Histogram,
    pub group_size: Histogram,
    pub deliveries: Family<ByOutcome, Counter>,
    pub launches: Family<ByOutcome, Counter>,
    pub renewals: Counter,
    pub unwarned_agents: Counter,
    jobs: Family<ByState, Gauge>,
    runs: Family<ByRun, Gauge>,
    queued: Gauge,
    decisions: Gauge,
    offers: Gauge,
    budget_posted: Family<ByBudget, Amount>,
    budget_held: Family<ByBudget, Amount>,
    budget_cap: Family<ByBudget, Amount>,
    waiting_deliveries: Gauge,
    store_index: Gauge,
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_01, 2.0, 20));
        let mut metrics = Self {
            steps: Counter::default(),
            flushes: Counter::default(),
            overloaded: Counter::default(),
            step_seconds: seconds(),
            commit_seconds: seconds(),
            group_size: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            deliveries: Family::default(),
            launches: Family::default(),
            renewals: Counter::default(),
            unwarned_agents: Counter::default(),
            jobs: Family::default(),
            runs: Family::default(),
            queued: Gauge::default(),
            decisions: Gauge::default(),
            offers: Gauge::default(),
            budget_posted: Family::default(),
            budget_held: Family::default(),
            budget_cap: Family::default(),
            waiting_deliveries: Gauge::default(),
            store_index: Gauge::default(),
            registry: Registry::with_prefix("leeway"),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("steps", "Events that the scheduler decided on", self.steps.clone());
        registry.register("flushes", "Groups of steps made durable", self.flushes.clone());
        registry.register("overloaded", "Requests refused because the queue was full", self.overloaded.clone());
        registry.register("step_seconds", "Time of one decision", self.step_seconds.clone());
        registry.register("commit_seconds", "Time to make a group durable", self.commit_seconds.clone());
        registry.register("group_size", "Steps that shared a flush", self.group_size.clone());
        registry.register("webhook_attempts", "Attempts to deliver, by outcome", self.deliveries.clone());
        registry.register("launches", "Launches, by outcome", self.launches.clone());
        registry.register("lease_renewals", "Renewals of agents' leases", self.renewals.clone());
        registry.register(
            "unwarned_renewals",
            "Renewals by agents that cannot hear interruption notices",
            self.unwarned_agents.clone(),
        );
        registry.register("jobs", "Jobs by state", self.jobs.clone());
        registry.register("runs", "Runs that are not over, by state and capacity", self.runs.clone());
        registry.register("queued_jobs", "Jobs that wait for a place", self.queued.clone());
        registry.register("decisions", "Placements that are remembered", self.decisions.clone());
        registry.register("offers", "Offers that are known", self.offers.clone());
        registry.register("budget_posted", "Spent, in currency units", self.budget_posted.clone());
        registry.register("budget_held", "Set aside, in currency units", self.budget_held.clone());
        registry.register("budget_cap", "Cap, in currency units", self.budget_cap.clone());
        registry.register("waiting_deliveries", "Webhooks not yet delivered", self.waiting_deliveries.clone());
        registry.register("store_index", "Last durable entry of the journal", self.store_index.clone());
    }

    /// Brings the gauges up to date.
    fn look(&self, view: &View<'_>) {
        let tables = view.scheduler.tables();
        let mut jobs = [0_i64; JobState::ALL.len()];
        for job in tables.jobs.values() {
            jobs[job.state as usize] += 1;
        }
        for state in JobState::ALL {
            self.jobs.get_or_create(&ByState { state: state.as_str() }).set(jobs[state as usize]);
        }
        let mut runs = [[0_i64; CapacityType::ALL.len()]; RunState::ALL.len()];
        for run in tables.runs.values() {
            runs[run.state as usize][run.offer.capacity as usize] += 1;
        }
        for state in RunState::ALL.into_iter().filter(|state| !state.is_over()) {
            for capacity in CapacityType::ALL {
                let labels = ByRun { state: state.as_str(), capacity: capacity.as_str() };
                self.runs.get_or_create(&labels).set(runs[state as usize][capacity as usize]);
            }
        }
        self.queued.set(view.scheduler.queued() as i64);
        self.decisions.set(tables.decisions.len() as i64);
        self.offers.set(view.scheduler.fleet().len() as i64);
        for budget in tables.budgets.values() {
            let labels = ByBudget { budget: budget.spec.name.to_string() };
            self.budget_posted.get_or_create(&labels).set(budget.posted.as_units_f64());
            self.budget_held.get_or_create(&labels).set(budget.held.as_units_f64());
            self.budget_cap.get_or_create(&labels).set(budget.spec.cap.as_units_f64());
        }
        let waiting = tables.deliveries.values().filter(|delivery| !delivery.failed).count();
        self.waiting_deliveries.set(waiting as i64);
        self.store_index.set(i64::try_from(view.head().index).unwrap_or(i64::MAX));
    }

    /// Everything as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

#[derive(Clone, Debug)]
struct Page {
    handle: Handle,
    metrics: Arc<Metrics>,
}

/// `/metrics`, `/healthz`, `/readyz`, and nothing else.
pub fn router(handle: Handle, metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/metrics", get(show))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(Page { handle, metrics })
}

async fn show(State(page): State<Page>) -> impl IntoResponse {
    let metrics = page.metrics.clone();
    // A scheduler that is busy or gone leaves the gauges as they were; the counters are still worth showing.
    let looked = page.handle.read(move |view| metrics.look(view));
    let _ = tokio::time::timeout(READY_WITHIN, looked).await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page.metrics.text())
}

async fn ready(State(page): State<Page>) -> impl IntoResponse {
    match tokio::time::timeout(READY_WITHIN, page.handle.read(|_| ())).await {
        Ok(Ok(())) => (StatusCode::OK, "ready\n".to_owned()),
        Ok(Err(failure)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{failure}\n")),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the scheduler does not answer\n".to_owned()),
    }
}
