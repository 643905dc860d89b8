//! What a store remembers, folded into the newest state of every row that ever was, and the events that told of the world.

use std::collections::{BTreeMap, BTreeSet};

use leeway_core::Event;
use leeway_core::state::Cluster;
use leeway_core::state::table::TableId;
use leeway_engine::Recorded;
use leeway_engine::history::{decode_row, table_of};
use leeway_model::budget::{Budget, BudgetSpec, EntryKind, LedgerEntry};
use leeway_model::cluster::ClusterSpec;
use leeway_model::dataset::Dataset;
use leeway_model::decision::Decision;
use leeway_model::job::Job;
use leeway_model::market::{Offer, OfferKey, Price, PriceObservation, Source};
use leeway_model::run::Run;
use leeway_model::{Epoch, JobId, Micros, Name, RunId, Timestamp};
use leeway_store::Entry;

use super::Error;

/// A history as it was read.
#[derive(Debug, Default)]
pub struct Past {
    /// Every entry was read; otherwise only the rows that were left at the end.
    pub is_whole: bool,
    pub from: Timestamp,
    pub to: Timestamp,
    pub entries: u64,
    /// Rows that were forgotten in the meantime too.
    pub jobs: BTreeMap<JobId, Job>,
    pub runs: BTreeMap<RunId, Run>,
    /// The policy of the newest decision on each job.
    pub deciders: BTreeMap<JobId, Name>,
    /// The budget that paid for each job.
    pub payers: BTreeMap<JobId, Name>,
    /// What was set aside for each run when it was placed.
    pub held: BTreeMap<RunId, Micros>,
    /// What the ledger posted for each job.
    pub charged: BTreeMap<JobId, Micros>,
    /// Newest declaration of each cluster, with the shapes of older ones behind its own.
    pub clusters: BTreeMap<Name, ClusterSpec>,
    pub budgets: BTreeMap<Name, BudgetSpec>,
    /// What the scheduler was told of its surroundings, in order of time.
    pub news: Vec<(Timestamp, Event)>,
    /// Who cancelled which job.
    pub cancels: BTreeMap<JobId, (Timestamp, Name)>,
    /// When somebody had a job tried again, the last time.
    pub retries: BTreeMap<JobId, Timestamp>,
    datasets: Vec<Dataset>,
    offers: Vec<Offer>,
    decided: BTreeMap<JobId, RunId>,
}

impl Past {
    /// Takes the next entry.
    ///
    /// # Errors
    /// A row or an event that this program cannot read.
    pub fn entry(&mut self, entry: &Entry) -> Result<(), Error> {
        let now = Timestamp::from_millis(entry.time_ms);
        if self.entries == 0 {
            self.from = now;
        }
        (self.entries, self.to) = (self.entries + 1, now);
        for row in &entry.rows {
            self.row(&row.key, row.value.as_deref())?;
        }
        let event =
            leeway_engine::decode_event(&entry.event).map_err(|detail| Error::Event { index: entry.index, detail })?;
        if let Recorded::Other(event) = event {
            self.event(now, event.into_owned());
        }
        Ok(())
    }

    /// Takes a row; one that is removed is kept as it was last.
    ///
    /// # Errors
    /// A row that this program cannot read.
    pub fn row(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        let Some(value) = value else { return Ok(()) };
        let table = table_of(key)?;
        match table {
            TableId::Job => {
                let job: Job = decode_row(table, value)?;
                self.jobs.insert(job.id, job);
            }
            TableId::Run => {
                let run: Run = decode_row(table, value)?;
                self.runs.insert(run.id, run);
            }
            TableId::Decision => {
                let decision: Decision = decode_row(table, value)?;
                let newest = self.decided.entry(decision.run.job).or_insert(decision.run);
                if decision.run >= *newest {
                    *newest = decision.run;
                    self.deciders.insert(decision.run.job, decision.policy);
                }
            }
            TableId::Cluster => {
                let cluster: Cluster = decode_row(table, value)?;
                self.cluster(cluster.spec);
            }
            TableId::Budget => {
                let budget: Budget = decode_row(table, value)?;
                self.budgets.insert(budget.spec.name.clone(), budget.spec);
            }
            TableId::Ledger => {
                let line: LedgerEntry = decode_row(table, value)?;
                self.line(line);
            }
            TableId::Offer if !self.is_whole => self.offers.push(decode_row(table, value)?),
            TableId::Dataset if !self.is_whole => self.datasets.push(decode_row(table, value)?),
            _ => {}
        }
        Ok(())
    }

    fn line(&mut self, line: LedgerEntry) {
        let Some((job, _)) = line.kind.job() else { return };
        match line.kind {
            EntryKind::HoldOpen { hold, path, amount } => {
                self.held.insert(hold.0, amount);
                if let Some(leaf) = path.into_iter().next() {
                    self.payers.insert(job, leaf);
                }
            }
            EntryKind::Post { amount, .. } | EntryKind::ForcePost { amount, .. } => {
                let sum = self.charged.entry(job).or_insert(Micros::ZERO);
                *sum = sum.saturating_add(amount);
            }
            _ => {}
        }
    }

    fn cluster(&mut self, mut spec: ClusterSpec) {
        if let Some(older) = self.clusters.get(&spec.name) {
            let gone = older.machines.iter().filter(|old| spec.machines.iter().all(|m| m.shape.name != old.shape.name));
            let gone: Vec<_> = gone.cloned().collect();
            spec.machines.extend(gone);
        }
        self.clusters.insert(spec.name.clone(), spec);
    }

    fn event(&mut self, now: Timestamp, event: Event) {
        match event {
            Event::JobCancelled { job, by } => {
                self.cancels.insert(job, (now, by));
            }
            Event::JobRetried { job } => {
                self.retries.insert(job, now);
                // It went on, whatever was to become of it.
                self.cancels.remove(&job);
            }
            Event::PricesObserved { .. }
            | Event::CapacityObserved { .. }
            | Event::ClusterRegistered { .. }
            | Event::ClusterDrained { .. }
            | Event::ClusterResumed { .. }
            | Event::ClusterRemoved { .. }
            | Event::ClusterReached { .. }
            | Event::DatasetRegistered { .. }
            | Event::DatasetRemoved { .. }
            | Event::BudgetSet { .. } => self.news.push((now, event)),
            _ => {}
        }
    }

    /// The runs of a job, in order.
    pub fn runs_of(&self, job: JobId) -> impl Iterator<Item = &Run> {
        self.runs.range(RunId { job, epoch: 0 }..=RunId { job, epoch: Epoch::MAX }).map(|(_, run)| run)
    }

    /// Called once all is read: makes up for the events that rows alone do not have.
    pub(super) fn settle(&mut self) {
        if self.is_whole {
            return;
        }
        let jobs = self.jobs.values().flat_map(|job| [job.submitted, job.since]);
        let runs = self.runs.values().flat_map(|run| [Some(run.placed), run.stopped, run.released]);
        let known: BTreeSet<Timestamp> = jobs.chain(runs.flatten()).collect();
        self.from = known.first().copied().unwrap_or_default();
        self.to = known.last().copied().unwrap_or_default();
        for job in self.jobs.values().filter(|job| is_cancelled(job)) {
            let by = job.spec.owner.clone();
            self.cancels.insert(job.id, (job.ended.unwrap_or(job.since), by));
        }
        let mut news = self.budgets_in_order();
        let from = self.from;
        news.extend(self.clusters.values().map(|spec| Event::ClusterRegistered { spec: spec.clone() }));
        news.extend(self.datasets.drain(..).map(|dataset| Event::DatasetRegistered { dataset }));
        self.news = news.into_iter().map(|event| (from, event)).collect();
        self.news.extend(prices_of_rows(&self.runs, &self.offers));
    }

    /// Parents first, as they must be set.
    fn budgets_in_order(&self) -> Vec<Event> {
        let mut left: Vec<&BudgetSpec> = self.budgets.values().collect();
        let (mut known, mut events) = (BTreeSet::new(), Vec::new());
        loop {
            let (ready, rest): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|spec| spec.parent.as_ref().is_none_or(|parent| known.contains(parent)));
            if ready.is_empty() {
                return events;
            }
            for spec in ready {
                known.insert(spec.name.clone());
                events.push(Event::BudgetSet { spec: spec.clone(), by: spec.name.clone() });
            }
            left = rest;
        }
    }
}

fn is_cancelled(job: &Job) -> bool {
    job.state == leeway_model::job::JobState::Cancelled
}

/// Of prices the rows have those at which runs were placed, and the last one of each offer.
fn prices_of_rows(runs: &BTreeMap<RunId, Run>, offers: &[Offer]) -> Vec<(Timestamp, Event)> {
    let seen = runs.values().map(|run| (run.placed, &run.offer, &run.price));
    let last = offers.iter().filter_map(|offer| offer.price.as_ref().map(|price| (price.observed, &offer.key, price)));
    let mut prices: Vec<(Timestamp, &OfferKey, &Price)> =
        seen.chain(last).filter(|(_, _, price)| price.source != Source::Declared).collect();
    prices.sort_by_key(|(at, offer, _)| (*at, *offer));
    let event = |(at, offer, price): (Timestamp, &OfferKey, &Price)| {
        let prices = vec![PriceObservation { offer: offer.clone(), price: price.clone() }];
        (at, Event::PricesObserved { prices })
    };
    prices.into_iter().map(event).collect()
}
