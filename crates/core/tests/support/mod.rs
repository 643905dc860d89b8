//! A scheduler in a test's hands: builders with good defaults, and a log of what was ordered.

#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part, and a wrong builder is a failed test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use leeway_core::action::Action;
use leeway_core::event::{Event, Phase, Shard, Submission};
use leeway_core::reply::{Refused, Reply, Submitted};
use leeway_core::state::rows::RowSource;
use leeway_core::state::table::{RowSink, TableId};
use leeway_core::{Config, Scheduler};
use leeway_model::budget::BudgetSpec;
use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::job::{Job, JobSpec, JobState, MoneyTerms, Program, Progress, RetryPolicy, TimeTerms};
use leeway_model::market::{Offer, OfferKey, Price, PriceObservation, Source};
use leeway_model::resources::{Accelerators, CapacityType, MachineShape, MilliCpus, ResourceRequest};
use leeway_model::run::{Run, RunState};
use leeway_model::{Bytes, Currency, InstallationId, JobId, Micros, Millis, Name, Rate, RunId, Timestamp};

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn usd(text: &str) -> Rate {
    Rate::parse_decimal(text).unwrap()
}

pub fn dollars(text: &str) -> Micros {
    Micros::parse_decimal(text).unwrap()
}

pub fn v100() -> ResourceRequest {
    ResourceRequest { accelerators: Some(Accelerators { model: "V100".into(), count: 1 }), ..Default::default() }
}

/// A job that needs one V100 for an hour and keeps checkpoints.
pub fn job(title: &str) -> JobSpec {
    JobSpec {
        name: title.parse().unwrap(),
        owner: name("ada"),
        nodes: 1,
        resources: vec![v100()],
        ordered: false,
        priority: 0,
        program: Program { run: "train".into(), ..Default::default() },
        money: MoneyTerms { budget: Some(name("team")), ..Default::default() },
        time: TimeTerms { estimate: Some(Millis::from_hours(1)), ..Default::default() },
        data: vec![],
        outputs: None,
        checkpoint: Some(CheckpointPolicy {
            path: None,
            interval: Interval::Auto,
            size: Some(Bytes::from_gb(1)),
            save_time: Some(Millis::from_secs(10)),
            restore_time: Some(Millis::from_secs(30)),
            keep: 3,
            restart_without: false,
        }),
        retry: RetryPolicy::default(),
        depends_on: vec![],
        policy: None,
        labels: Default::default(),
    }
}

/// A cluster of V100 machines.
pub fn cluster(title: &str, region: &str, count: u32, spot: &str, on_demand: &str) -> ClusterSpec {
    let price = |text: &str| (!text.is_empty()).then(|| usd(text));
    ClusterSpec {
        name: name(title),
        driver: name("local"),
        region: region.parse().unwrap(),
        zone: None,
        machines: vec![Machines {
            shape: MachineShape {
                name: name("v100"),
                instance_type: "p3.2xlarge".into(),
                cpus: MilliCpus(8_000),
                memory: Bytes::from_gib(61),
                accelerators: Some(Accelerators { model: "V100".into(), count: 1 }),
                disk: Bytes::from_gb(200),
            },
            count: Some(count),
            on_demand: price(on_demand),
            spot: price(spot),
            reserved: None,
        }],
        checkpoints: "file:///checkpoints".into(),
        labels: Default::default(),
    }
}

pub fn offer(cluster: &str, capacity: CapacityType) -> OfferKey {
    OfferKey { cluster: name(cluster), shape: name("v100"), capacity }
}

fn change_row<V: serde::Serialize + serde::de::DeserializeOwned>(bytes: &mut Vec<u8>, change: &mut impl FnMut(&mut V)) {
    let mut row: V = serde_json::from_slice(bytes).unwrap();
    change(&mut row);
    *bytes = serde_json::to_vec(&row).unwrap();
}

pub struct Desk {
    pub scheduler: Scheduler,
    pub now: Timestamp,
    pub log: Vec<String>,
    pub last: Vec<Action>,
    rows: Rows,
}

/// Every row that the scheduler ever gave out, as JSON.
#[derive(Debug, Default)]
struct Rows(BTreeMap<(TableId, Vec<u8>), Vec<u8>>);

impl RowSink for Rows {
    fn put<V: serde::Serialize>(&mut self, table: TableId, key: &[u8], value: &V) {
        self.0.insert((table, key.to_vec()), serde_json::to_vec(value).unwrap());
    }

    fn delete(&mut self, table: TableId, key: &[u8]) {
        self.0.remove(&(table, key.to_vec()));
    }
}

struct Row<'a>(&'a [u8]);

impl RowSource for Row<'_> {
    fn decode<V: serde::de::DeserializeOwned>(&self) -> Result<V, String> {
        serde_json::from_slice(self.0).map_err(|error| error.to_string())
    }
}

impl Desk {
    /// Two regions, the west cheaper, and a budget of 100 dollars.
    pub fn new() -> Self {
        let mut desk = Self::empty();
        desk.apply(Event::ClusterRegistered { spec: cluster("east", "aws/us-east-1", 4, "1.10", "3.06") });
        desk.apply(Event::ClusterRegistered { spec: cluster("west", "aws/us-west-2", 4, "0.92", "3.06") });
        desk.budget("team", None, "100");
        desk.log.clear();
        desk
    }

    pub fn empty() -> Self {
        Self::with(Config::new(InstallationId(name("test")), name("whole-bill")))
    }

    pub fn with(config: Config) -> Self {
        Self {
            scheduler: Scheduler::new(config, leeway_policies::all()),
            now: Timestamp::from_millis(1_700_000_000_000),
            log: vec![],
            last: vec![],
            rows: Rows::default(),
        }
    }

    /// Starts the scheduler anew from its rows, after `change_offer` and `change_job` had a hand in them.
    pub fn restart(&mut self, mut change_offer: impl FnMut(&mut Offer), mut change_job: impl FnMut(&mut Job)) {
        self.scheduler.drain_changes(&mut self.rows);
        for ((table, _), bytes) in &mut self.rows.0 {
            match table {
                TableId::Offer => change_row(bytes, &mut change_offer),
                TableId::Job => change_row(bytes, &mut change_job),
                _ => {}
            }
        }
        let rows = self.rows.0.iter().map(|((table, key), bytes)| (*table, key.clone(), Row(bytes)));
        let config = self.scheduler.config().clone();
        self.scheduler = Scheduler::restore(config, self.scheduler.policies().clone(), self.now, rows).unwrap();
    }

    pub fn apply(&mut self, event: Event) -> Reply {
        let mut actions = Vec::new();
        self.scheduler.handle(self.now, event, &mut actions);
        leeway_core::invariants::check(&self.scheduler);
        let mut reply = Reply::Done;
        for action in &actions {
            match action {
                Action::Reply(answer) => reply = answer.clone(),
                Action::Launch(order) => self.log.push(format!("launch {} at {}", order.run, order.offer)),
                Action::Stop { run, .. } => self.log.push(format!("stop {run}")),
                Action::Signal { run } => self.log.push(format!("signal {run}")),
                Action::Deliver { notification, .. } => self.log.push(format!(
                    "tell {} of {}",
                    notification.alert.type_name(),
                    notification.alert.subject()
                )),
                Action::DeleteCheckpoint { checkpoint, .. } => {
                    self.log.push(format!("delete checkpoint {}-{}", checkpoint.id.epoch, checkpoint.id.seq))
                }
            }
        }
        self.last = actions;
        reply
    }

    /// Lets time pass, waking the scheduler whenever it asked to be.
    pub fn pass(&mut self, length: Millis) {
        let end = self.now.after(length);
        while let Some(at) = self.scheduler.next_wakeup().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.apply(Event::Woke);
        }
        self.now = end;
    }

    pub fn budget(&mut self, title: &str, parent: Option<&str>, cap: &str) {
        let spec = BudgetSpec {
            name: name(title),
            parent: parent.map(name),
            cap: dollars(cap),
            period: Default::default(),
            soft_limit: None,
        };
        assert_eq!(self.apply(Event::BudgetSet { spec, by: name("ops") }), Reply::Done);
    }

    pub fn submit(&mut self, spec: JobSpec) -> JobId {
        self.try_submit(spec).unwrap().job
    }

    pub fn try_submit(&mut self, spec: JobSpec) -> Result<Submitted, Refused> {
        match self.apply(Event::JobsSubmitted { request: None, jobs: vec![Submission { spec, after: vec![] }] }) {
            Reply::Submitted(mut results) => results.remove(0),
            other => panic!("{other:?}"),
        }
    }

    pub fn job(&self, id: JobId) -> &Job {
        self.scheduler.job(id).unwrap()
    }

    pub fn state(&self, id: JobId) -> JobState {
        self.job(id).state
    }

    pub fn run(&self, id: RunId) -> &Run {
        self.scheduler.run(id).unwrap()
    }

    pub fn newest(&self, id: JobId) -> RunId {
        self.job(id).newest_run().unwrap()
    }

    pub fn launched(&mut self, run: RunId) {
        let instances = (0..self.run(run).nodes).map(|rank| format!("{run}-{rank}").into()).collect();
        self.apply(Event::RunLaunched { run, instances });
    }

    /// Brings a run's program up, from its checkpoint if it has one.
    pub fn up(&mut self, run: RunId) {
        self.launched(run);
        for rank in 0..self.run(run).nodes {
            let registered = self.apply(Event::AgentRegistered { run, rank, identity: format!("agent-{rank}").into() });
            assert!(matches!(registered, Reply::Assigned(_)), "{registered:?}");
        }
        let restored = self.run(run).restored_from.as_ref().map(|checkpoint| checkpoint.id);
        self.apply(Event::PhaseReported { run, rank: 0, phase: Phase::Running { restored } });
        assert_eq!(self.run(run).state, RunState::Running);
    }

    /// Time passes while the run's agents renew their leases.
    pub fn work(&mut self, run: RunId, length: Millis, step: u64) {
        let end = self.now.after(length);
        while self.now < end {
            let next = self.now.after(Millis::from_secs(15)).min(end);
            self.pass(next.since(self.now));
            for rank in 0..self.run(run).nodes {
                let progress = Progress { step, total: Some(1_000) };
                self.apply(Event::LeaseRenewed { run, rank, progress });
            }
        }
    }

    pub fn checkpoint(&mut self, run: RunId, seq: u64, step: u64) -> Reply {
        let shard =
            Shard { seq, step, manifest: [seq as u8; 32], size: Bytes::from_gb(1), save_time: Millis::from_secs(8) };
        self.apply(Event::CheckpointPublished { run, rank: 0, shard })
    }

    pub fn exit(&mut self, run: RunId, code: i32) {
        for rank in 0..self.run(run).nodes {
            self.apply(Event::ExitReported { run, rank, exit_code: code });
        }
    }

    pub fn gone(&mut self, run: RunId) {
        self.apply(Event::InstancesGone { run });
    }

    pub fn price(&mut self, cluster: &str, rate: &str) -> Reply {
        let price = Price { rate: usd(rate), currency: Currency::USD, observed: self.now, source: Source::Feed };
        let observation = PriceObservation { offer: offer(cluster, CapacityType::Spot), price };
        self.apply(Event::PricesObserved { prices: vec![observation] })
    }

    pub fn spec_of(&self, id: JobId) -> Arc<JobSpec> {
        self.job(id).spec.clone()
    }
}
