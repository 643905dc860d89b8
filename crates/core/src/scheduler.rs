//! The scheduler: state, dispatch of events, and what the shells may ask of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leeway_model::checkpoint::CheckpointState;
use leeway_model::cluster::ClusterState;
use leeway_model::job::{Job, JobState, Progress};
use leeway_model::market::{Offer, OfferKey};
use leeway_model::run::{Run, RunState};
use leeway_model::{JobId, Millis, RunId, Timestamp};

use crate::action::{Action, Directive};
use crate::config::Config;
use crate::event::Event;
use crate::order::{Order, Waiting};
use crate::policy::PolicySet;
use crate::reply::Reply;
use crate::round::ends::Ends;
use crate::round::fleet::Fleet;
use crate::round::queue::Queue;
use crate::state::rows::{RowError, RowSource};
use crate::state::table::{RowSink, TableId};
use crate::state::{Cluster, Tables, Volatile};
use crate::timers::{Timer, Timers};
use crate::usage::Meters;

/// Decides. Same configuration and same events: same state and same actions, on every machine.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) config: Config,
    pub(crate) policies: PolicySet,
    pub(crate) order: Arc<dyn Order>,
    pub(crate) tables: Tables,
    pub(crate) fleet: Fleet,
    pub(crate) queue: Queue,
    pub(crate) timers: Timers,
    pub(crate) volatile: Volatile,
    /// What owners hold, where the order ranks them.
    pub(crate) meters: Meters,
    /// Jobs that have not ended, by owner.
    pub(crate) open_jobs: BTreeMap<leeway_model::Name, u64>,
    /// Jobs that wait for others, by the job they wait for.
    pub(crate) dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Runs that are not released, by the offer they stand on.
    pub(crate) standing: BTreeMap<OfferKey, BTreeSet<RunId>>,
    /// When these are expected to end.
    pub(crate) ends: Ends,
    /// Budgets that gained room since the last round.
    pub(crate) roomier: BTreeSet<leeway_model::Name>,
    /// The last round stopped at its bound; another must follow at once.
    pub(crate) unfinished: bool,
    pub(crate) actions: Vec<Action>,
    pub(crate) now: Timestamp,
}

impl Scheduler {
    /// An empty scheduler.
    pub fn new(config: Config, policies: PolicySet) -> Self {
        assert!(policies.get(&config.default_policy).is_some(), "the default policy is one of the installed policies");
        let order =
            policies.order(&config.queue_order).expect("the queue's order is one of the installed orders").clone();
        let mut timers = Timers::default();
        timers.set(Timer::Sweep, Timestamp::ZERO);
        Self {
            fleet: Fleet::new(config.estimates.speeds.clone()),
            config,
            policies,
            tables: Tables::default(),
            queue: Queue::new(order.clone()),
            order,
            timers,
            volatile: Volatile::default(),
            meters: Meters::default(),
            open_jobs: BTreeMap::new(),
            dependents: BTreeMap::new(),
            standing: BTreeMap::new(),
            ends: Ends::default(),
            roomier: BTreeSet::new(),
            unfinished: false,
            actions: Vec::new(),
            now: Timestamp::ZERO,
        }
    }

    /// Applies one event. Every consequence is in `actions` when this returns.
    pub fn handle(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        self.notice_gap(now);
        self.now = self.now.max(now);
        debug_assert!(self.actions.is_empty(), "actions of the last step were taken");
        let reply = self.dispatch(event);
        self.fire_timers();
        self.round();
        if let Some(reply) = reply {
            let reply = self.completed(reply);
            self.actions.push(Action::Reply(reply));
        }
        actions.append(&mut self.actions);
    }

    /// When to bring [`Event::Woke`] if nothing else happens first.
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        if self.unfinished { Some(self.now) } else { self.timers.next() }
    }

    fn dispatch(&mut self, event: Event) -> Option<Reply> {
        match event {
            Event::JobsSubmitted { request, jobs } => Some(self.on_jobs_submitted(request, jobs)),
            Event::JobCancelled { job, by } => Some(self.on_job_cancelled(job, &by)),
            Event::JobRetried { job } => Some(self.on_job_retried(job)),
            Event::BudgetSet { spec, by } => Some(self.on_budget_set(spec, &by)),
            Event::ClusterRegistered { spec } => Some(self.on_cluster_registered(spec)),
            Event::ClusterDrained { cluster } => Some(self.on_cluster_drained(&cluster, true)),
            Event::ClusterResumed { cluster } => Some(self.on_cluster_drained(&cluster, false)),
            Event::ClusterRemoved { cluster } => Some(self.on_cluster_removed(&cluster)),
            Event::ClusterReached { cluster, reached } => Some(self.on_cluster_reached(&cluster, reached)),
            Event::DatasetRegistered { dataset } => Some(self.on_dataset_registered(dataset)),
            Event::DatasetRemoved { dataset } => Some(self.on_dataset_removed(&dataset)),
            Event::EndpointSet { endpoint } => Some(self.on_endpoint_set(endpoint)),
            Event::EndpointRemoved { endpoint } => Some(self.on_endpoint_removed(&endpoint)),
            Event::EndpointTested { endpoint } => Some(self.on_endpoint_tested(&endpoint)),
            Event::PricesObserved { prices } => Some(self.on_prices_observed(prices)),
            Event::CapacityObserved { capacities } => Some(self.on_capacity_observed(capacities)),
            Event::RunLaunched { run, instances } => Some(self.on_run_launched(run, instances)),
            Event::LaunchRefused { run, class, message } => Some(self.on_launch_refused(run, class, &message)),
            Event::InstanceLost { run, rank } => Some(self.on_instance_lost(run, rank)),
            Event::InstancesGone { run } => Some(self.on_instances_gone(run)),
            Event::InterruptionNoticed { run, deadline, source } => {
                Some(self.on_interruption_noticed(run, deadline, source))
            }
            Event::AgentRegistered { run, rank, identity } => Some(self.on_agent_registered(run, rank, identity)),
            Event::LeaseRenewed { run, rank, progress } => Some(self.on_lease_renewed(run, rank, progress)),
            Event::PhaseReported { run, rank, phase } => Some(self.on_phase_reported(run, rank, phase)),
            Event::CheckpointPublished { run, rank, shard } => Some(self.on_checkpoint_published(run, rank, shard)),
            Event::DamageReported { run, rank, checkpoint, detail } => {
                Some(self.on_damage_reported(run, rank, checkpoint, &detail))
            }
            Event::ExitReported { run, rank, exit_code } => Some(self.on_exit_reported(run, rank, exit_code)),
            Event::DeliveryFinished { delivery, outcome } => Some(self.on_delivery_finished(delivery, outcome)),
            Event::CheckpointDeleted { job, checkpoint } => Some(self.on_checkpoint_deleted(job, checkpoint)),
            Event::SpaceChanged { short } => {
                self.volatile.short_of_space = short;
                None
            }
            Event::Woke => None,
            Event::Opened { incarnation } => Some(self.on_opened(incarnation)),
            Event::NoticesUnheard { run, rank } => Some(self.on_notices_unheard(run, rank)),
            Event::StoreFull { run, rank } => Some(self.on_store_full(run, rank)),
        }
    }

    /// Called long after it asked to be: the clock jumped, or this process or its machine stood still. No silence in
    /// that time is the agents' fault, so leases are judged as after a start.
    fn notice_gap(&mut self, now: Timestamp) {
        const GAP: Millis = Millis::from_mins(5);
        let due = self.next_wakeup().map(|due| due.max(self.now));
        if due.is_some_and(|due| now.since(due) > GAP) {
            self.volatile.started = now;
            self.volatile.renewals.clear();
        }
    }

    fn fire_timers(&mut self) {
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Run(run) => self.on_run_timer(run),
                Timer::Job(job) => self.on_job_timer(job),
                Timer::Delivery(delivery) => self.on_delivery_timer(delivery),
                Timer::Offer(offer) => self.on_offer_timer(&offer),
                Timer::Sweep => self.on_sweep(),
            }
        }
    }

    /// Fills in what only the round could tell.
    fn completed(&self, reply: Reply) -> Reply {
        match reply {
            Reply::Submitted(results) => Reply::Submitted(
                results
                    .into_iter()
                    .map(|result| {
                        result.map(|mut submitted| {
                            if let Some(job) = self.job(submitted.job) {
                                submitted.state = job.state;
                                submitted.reason = self.reason(job);
                                submitted.warnings = self.doubts(job);
                            }
                            submitted
                        })
                    })
                    .collect(),
            ),
            Reply::Job(old) => match self.job(old.id) {
                Some(job) => Reply::Job(Box::new(job.clone())),
                None => Reply::Job(old),
            },
            other => other,
        }
    }

    // ----- What the shells may ask. -----

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn policies(&self) -> &PolicySet {
        &self.policies
    }

    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// Jobs that wait for a place.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.tables.jobs.get(&id)
    }

    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.tables.runs.get(&id)
    }

    /// A job's runs from the first to the newest.
    pub fn runs_of(&self, job: JobId) -> impl DoubleEndedIterator<Item = &Run> {
        let (first, last) = (RunId { job, epoch: 0 }, RunId { job, epoch: u64::MAX });
        self.tables.runs.range(first..=last).map(|(_, run)| run)
    }

    /// The newest progress a job's program reported, newer than its row where a run is under way.
    pub fn progress(&self, job: &Job) -> Progress {
        let live = job.newest_run().and_then(|run| self.volatile.progress.get(&run));
        live.copied().unwrap_or(job.progress)
    }

    /// What a run's agents should be doing.
    pub fn directive(&self, run: &Run) -> Directive {
        match run.state {
            RunState::Draining => Directive::Drain {
                deadline: run.drain_by.unwrap_or(self.now),
                save: run.save_on_drain,
                notice: run.notice.is_some(),
            },
            RunState::Launching | RunState::Setup | RunState::Restoring | RunState::Running => {
                Directive::Run { interval: run.interval }
            }
            RunState::Stopping | RunState::Lost | RunState::Released => Directive::Stop,
        }
    }

    // ----- Durability: what the engine asks. -----

    /// Whether the last events changed anything durable.
    pub fn has_changes(&self) -> bool {
        self.tables.has_changes() || self.fleet.has_changes()
    }

    /// Jobs whose rows changed since the last drain.
    pub fn changed_jobs(&mut self) -> &[JobId] {
        self.tables.jobs.changed()
    }

    /// Hands every changed row to `sink` and forgets that it changed.
    pub fn drain_changes(&mut self, sink: &mut impl RowSink) {
        self.tables.drain(sink);
        self.fleet.drain(sink);
    }

    /// As [`drain_changes`](Self::drain_changes) for a store that keeps nothing: no row is looked at.
    pub fn forget_changes(&mut self) {
        self.tables.forget_changes();
        self.fleet.settle();
    }

    /// A scheduler from stored rows, in the order of their keys. Everything derived is built anew; no past decision is
    /// made again.
    pub fn restore<S: RowSource>(
        config: Config,
        policies: PolicySet,
        now: Timestamp,
        rows: impl IntoIterator<Item = (TableId, Vec<u8>, S)>,
    ) -> Result<Self, RowError> {
        let mut restoring = Self::restoring(config, policies);
        for (table, key, source) in rows {
            restoring.row(table, &key, &source)?;
        }
        Ok(restoring.finish(now))
    }

    /// As [`restore`](Self::restore), for a caller that has the rows one at a time and need not keep them.
    pub fn restoring(config: Config, policies: PolicySet) -> Restoring {
        Restoring { scheduler: Self::new(config, policies), offers: Vec::new() }
    }

    fn rebuild(&mut self, offers: Vec<Offer>) {
        let currency = self.config.currency;
        let clusters: Vec<Cluster> = self.tables.clusters.values().cloned().collect();
        for cluster in &clusters {
            self.fleet.declare(&cluster.spec, cluster.state == ClusterState::Ready, currency);
        }
        for offer in offers {
            if let Some(cluster) = self.tables.clusters.get(&offer.key.cluster) {
                let ready = cluster.state == ClusterState::Ready;
                if let Some(until) = offer.cooling_until {
                    self.timers.set(Timer::Offer(offer.key.clone()), until);
                }
                self.fleet.load(offer, &cluster.spec, ready);
            }
        }
        self.fleet.settle();
        let standing = self.tables.runs.values().filter(|run| !run.state.is_over());
        let standing: Vec<(OfferKey, u32, RunId)> =
            standing.map(|run| (run.offer.clone(), run.nodes, run.id)).collect();
        for (offer, nodes, run) in standing {
            if let Some(found) = self.fleet.find(&offer)
                && let Some(decision) = self.tables.decisions.get(&run)
            {
                self.ends.expect(run, found, nodes, decision.at.after(decision.chosen.expected_time));
            }
            self.stand(offer, nodes, run);
            self.set_run_timer(run);
        }
        self.meter_anew();
        self.count_probes();
        self.count_alive();
        for job in self.tables.jobs.values() {
            if !job.state.is_terminal() {
                *self.open_jobs.entry(job.spec.owner.clone()).or_default() += 1;
            }
            match job.state {
                JobState::Pending if job.not_before > self.now => {
                    self.queue.park(job, crate::round::queue::Park::Timer);
                    if !job.is_held() {
                        self.timers.set(Timer::Job(job.id), job.not_before);
                    }
                }
                JobState::Pending => self.queue.add(Waiting::new(&self.config, job), &self.fleet),
                JobState::Waiting => {
                    for other in &job.spec.depends_on {
                        self.dependents.entry(*other).or_default().insert(job.id);
                    }
                }
                _ => {}
            }
        }
        for (id, delivery) in self.tables.deliveries.iter() {
            self.volatile.outbox.added(*id, delivery);
            if !delivery.failed {
                self.timers.set(Timer::Delivery(*id), delivery.next_attempt);
            }
        }
        self.timers.set(Timer::Sweep, self.now.after(SWEEP_EVERY));
        self.unfinished = !self.queue.is_empty();
    }

    /// Actions without a recorded outcome, to be issued again after a restart under the same tokens.
    pub fn unfinished_actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for run in self.tables.runs.values() {
            match run.state {
                RunState::Launching => actions.push(Action::Launch(self.launch_order(run))),
                RunState::Stopping | RunState::Lost => actions.push(self.stop_action(run)),
                _ => {}
            }
        }
        for checkpoint in self.tables.checkpoints.values() {
            if checkpoint.state == CheckpointState::Expired {
                actions
                    .push(Action::DeleteCheckpoint { job: checkpoint.job, checkpoint: checkpoint.reference.clone() });
            }
        }
        actions
    }
}

/// A scheduler whose rows come one at a time; see [`Scheduler::restore`].
#[derive(Debug)]
pub struct Restoring {
    scheduler: Scheduler,
    offers: Vec<Offer>,
}

impl Restoring {
    /// Takes one durable row. Rows come in the order of their keys.
    pub fn row(&mut self, table: TableId, key: &[u8], source: &impl RowSource) -> Result<(), RowError> {
        if table != TableId::Offer {
            return self.scheduler.tables.load(table, key, source);
        }
        self.offers.push(source.decode().map_err(|detail| RowError { table, detail })?);
        Ok(())
    }

    /// Builds what follows from the rows.
    pub fn finish(mut self, now: Timestamp) -> Scheduler {
        self.scheduler.now = now;
        self.scheduler.volatile.started = now;
        self.scheduler.rebuild(self.offers);
        self.scheduler
    }
}

/// How often finished jobs are looked through.
pub(crate) const SWEEP_EVERY: Millis = Millis::from_hours(1);
