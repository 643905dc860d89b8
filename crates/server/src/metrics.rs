//! What an operator watches: counters that the parts of the server bump, and gauges that are read from the scheduler
//! when somebody looks.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

use leeway_model::JobId;
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

use crate::driver_loop::{Failure, Handle, View};

/// Jobs that one look at the scheduler examines at most, so that it answers others in between.
const EXAMINE: usize = 20_000;
/// Budgets that have series of their own: the roots, then those with most money in them. The others are counted.
pub const BUDGETS_SHOWN: usize = 200;
/// Reasons that have series of their own: the commonest. The others are one.
pub const REASONS_SHOWN: usize = 30;
/// The label of what has no series of its own, and of a job without a reason.
const OTHER: &str = "other";
const NO_REASON: &str = "none";

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
pub struct ByReason {
    pub reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ByPart {
    pub part: &'static str,
}

/// Bytes of the store on its disk.
#[derive(Clone, Copy, Debug)]
pub struct StoreBytes {
    pub journal: u64,
    pub index: u64,
    /// Long values, the base, the reserve.
    pub other: u64,
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
    /// From a submission to its first placement, in the scheduler's time.
    pub placement_seconds: Histogram,
    pub group_size: Histogram,
    pub deliveries: Family<ByOutcome, Counter>,
    pub launches: Family<ByOutcome, Counter>,
    pub renewals: Counter,
    pub unwarned_agents: Counter,
    jobs: Family<ByState, Gauge>,
    runs: Family<ByRun, Gauge>,
    queued: Gauge,
    queued_by_reason: Family<ByReason, Gauge>,
    decisions: Gauge,
    offers: Gauge,
    budget_posted: Family<ByBudget, Amount>,
    budget_held: Family<ByBudget, Amount>,
    budget_cap: Family<ByBudget, Amount>,
    budgets_not_shown: Gauge,
    waiting_deliveries: Gauge,
    store_index: Gauge,
    store_bytes: Family<ByPart, Gauge>,
    /// Series are made anew at each look, which must not be seen half done.
    turn: Mutex<()>,
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
            placement_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 16)),
            group_size: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            deliveries: Family::default(),
            launches: Family::default(),
            renewals: Counter::default(),
            unwarned_agents: Counter::default(),
            jobs: Family::default(),
            runs: Family::default(),
            queued: Gauge::default(),
            queued_by_reason: Family::default(),
            decisions: Gauge::default(),
            offers: Gauge::default(),
            budget_posted: Family::default(),
            budget_held: Family::default(),
            budget_cap: Family::default(),
            budgets_not_shown: Gauge::default(),
            waiting_deliveries: Gauge::default(),
            store_index: Gauge::default(),
            store_bytes: Family::default(),
            turn: Mutex::default(),
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
        registry.register("decision_seconds", "Time of one decision", self.step_seconds.clone());
        registry.register(
            "placement_seconds",
            "Time from a submission to its first placement",
            self.placement_seconds.clone(),
        );
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
        registry.register(
            "queued_jobs_by_reason",
            "Jobs that wait for a place, by the code of what they wait for",
            self.queued_by_reason.clone(),
        );
        registry.register("decisions", "Placements that are remembered", self.decisions.clone());
        registry.register("offers", "Offers that are known", self.offers.clone());
        registry.register("budget_posted", "Spent, in currency units", self.budget_posted.clone());
        registry.register("budget_held", "Set aside, in currency units", self.budget_held.clone());
        registry.register("budget_cap", "Cap, in currency units", self.budget_cap.clone());
        registry.register("budgets_not_shown", "Budgets without series of their own", self.budgets_not_shown.clone());
        registry.register("waiting_deliveries", "Webhooks not yet delivered", self.waiting_deliveries.clone());
        registry.register("store_index", "Last durable entry of the journal", self.store_index.clone());
        registry.register("store_bytes", "Bytes of the store on its disk, by part", self.store_bytes.clone());
    }

    /// How much of the disk the store takes.
    pub fn set_store(&self, bytes: StoreBytes) {
        for (part, bytes) in [("journal", bytes.journal), ("index", bytes.index), ("other", bytes.other)] {
            self.store_bytes.get_or_create(&ByPart { part }).set(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }

    /// Brings the gauges up to date, in looks that are short however many jobs there are.
    pub async fn look(&self, handle: &Handle) -> Result<(), Failure> {
        let mut jobs = Jobs::default();
        let mut from = Some(JobId(0));
        while let Some(at) = from {
            let mut seen = jobs;
            (jobs, from) = handle
                .read(move |view| {
                    let next = seen.examine(view, at);
                    (seen, next)
                })
                .await?;
        }
        let whole = handle.read(|view| Whole::of(view)).await?;
        self.show(&jobs, &whole);
        Ok(())
    }

    fn show(&self, jobs: &Jobs, whole: &Whole) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        for state in JobState::ALL {
            self.jobs.get_or_create(&ByState { state: state.as_str() }).set(jobs.by_state[state as usize]);
        }
        self.queued_by_reason.clear();
        for (reason, count) in commonest(&jobs.by_reason) {
            self.queued_by_reason.get_or_create(&ByReason { reason }).set(count);
        }
        for state in RunState::ALL.into_iter().filter(|state| !state.is_over()) {
            for capacity in CapacityType::ALL {
                let labels = ByRun { state: state.as_str(), capacity: capacity.as_str() };
                self.runs.get_or_create(&labels).set(whole.runs[state as usize][capacity as usize]);
            }
        }
        self.queued.set(whole.queued as i64);
        self.decisions.set(whole.decisions as i64);
        self.offers.set(whole.offers as i64);
        for family in [&self.budget_posted, &self.budget_held, &self.budget_cap] {
            family.clear();
        }
        for (budget, [posted, held, cap]) in &whole.budgets {
            let labels = ByBudget { budget: budget.clone() };
            self.budget_posted.get_or_create(&labels).set(*posted);
            self.budget_held.get_or_create(&labels).set(*held);
            self.budget_cap.get_or_create(&labels).set(*cap);
        }
        self.budgets_not_shown.set(whole.budgets_not_shown as i64);
        self.waiting_deliveries.set(whole.waiting_deliveries as i64);
        self.store_index.set(i64::try_from(whole.store_index).unwrap_or(i64::MAX));
    }

    /// Everything as Prometheus reads it.
    pub fn text(&self) -> String {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

/// What is counted of jobs, look by look.
#[derive(Debug, Default)]
struct Jobs {
    by_state: [i64; JobState::ALL.len()],
    by_reason: BTreeMap<Box<str>, i64>,
}

impl Jobs {
    /// Counts the next jobs; where to go on when there are more.
    fn examine(&mut self, view: &View<'_>, from: JobId) -> Option<JobId> {
        let mut rows = view.scheduler.tables().jobs.range(from..);
        for (_, job) in rows.by_ref().take(EXAMINE) {
            self.by_state[job.state as usize] += 1;
            if job.state == JobState::Pending {
                let code = view.scheduler.reason(job).map_or_else(|| NO_REASON.into(), |reason| reason.code);
                *self.by_reason.entry(code).or_default() += 1;
            }
        }
        rows.next().map(|(id, _)| *id)
    }
}

/// The commonest reasons, and the rest under one label.
fn commonest(counts: &BTreeMap<Box<str>, i64>) -> Vec<(String, i64)> {
    let mut sorted: Vec<(&str, i64)> = counts.iter().map(|(code, count)| (&**code, *count)).collect();
    sorted.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
    let rest: i64 = sorted.iter().skip(REASONS_SHOWN).map(|(_, count)| count).sum();
    let mut shown: Vec<(String, i64)> =
        sorted.into_iter().take(REASONS_SHOWN).map(|(code, count)| (code.to_owned(), count)).collect();
    if rest > 0 {
        shown.push((OTHER.to_owned(), rest));
    }
    shown
}

/// What one short look at the scheduler tells.
#[derive(Debug)]
struct Whole {
    runs: [[i64; CapacityType::ALL.len()]; RunState::ALL.len()],
    queued: usize,
    decisions: usize,
    offers: usize,
    /// Posted, held and cap by name.
    budgets: Vec<(String, [f64; 3])>,
    budgets_not_shown: usize,
    waiting_deliveries: usize,
    store_index: u64,
}

impl Whole {
    fn of(view: &View<'_>) -> Self {
        let tables = view.scheduler.tables();
        let mut runs = [[0_i64; CapacityType::ALL.len()]; RunState::ALL.len()];
        let standing = tables.clusters.values().flat_map(|cluster| view.scheduler.runs_on(&cluster.spec.name));
        for run in standing.filter_map(|id| view.scheduler.run(id)) {
            runs[run.state as usize][run.offer.capacity as usize] += 1;
        }
        let mut budgets: Vec<_> = tables.budgets.values().collect();
        if budgets.len() > BUDGETS_SHOWN {
            let weight = |budget: &leeway_model::budget::Budget| budget.posted.saturating_add(budget.held);
            budgets.sort_by_key(|budget| (budget.spec.parent.is_some(), std::cmp::Reverse(weight(budget))));
        }
        let budgets_not_shown = budgets.len().saturating_sub(BUDGETS_SHOWN);
        let budgets = budgets.into_iter().take(BUDGETS_SHOWN).map(|budget| {
            let amounts = [budget.posted, budget.held, budget.spec.cap].map(leeway_model::Micros::as_units_f64);
            (budget.spec.name.to_string(), amounts)
        });
        Self {
            runs,
            queued: view.scheduler.queued(),
            decisions: tables.decisions.len(),
            offers: view.scheduler.fleet().len(),
            budgets: budgets.collect(),
            budgets_not_shown,
            waiting_deliveries: tables.deliveries.values().filter(|delivery| !delivery.failed).count(),
            store_index: view.head().index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_reasons_there_are_their_series_are_few_and_none_is_lost() {
        let counts: BTreeMap<Box<str>, i64> =
            (0..100).map(|number| (format!("R{number:03}").into(), i64::from(number == 99) * 7 + 1)).collect();
        let shown = commonest(&counts);
        assert_eq!(shown.len(), REASONS_SHOWN + 1);
        assert_eq!(shown[0], ("R099".to_owned(), 8));
        assert_eq!(shown.iter().map(|(_, count)| count).sum::<i64>(), 107);
        assert_eq!(shown.last().unwrap().0, OTHER);
        assert_eq!(commonest(&BTreeMap::from([("A".into(), 2)])), [("A".to_owned(), 2)]);
    }

    #[test]
    fn the_store_s_bytes_are_shown_by_part() {
        let metrics = Metrics::default();
        metrics.set_store(StoreBytes { journal: 120, index: 7, other: 4 });
        let text = metrics.text();
        for line in ["part=\"journal\"} 120", "part=\"index\"} 7", "part=\"other\"} 4"] {
            assert!(text.contains(&format!("leeway_store_bytes{{{line}")), "{text}");
        }
    }
}
