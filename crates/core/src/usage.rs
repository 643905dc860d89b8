//! What owners use, for orders of the queue in which they take turns.
//!
//! What an owner's runs hold is counted from the order for their machines until these are proven gone, in whole units.
//! The past is a mean that fades (`decay`); it has a row for each owner, written whenever what the owner holds changes.
//! What is held now is no row: it follows from the runs. So a restart finds exactly what was there. Nothing of this is
//! kept while the queue's order ranks no owners.

use std::collections::BTreeMap;

use leeway_model::run::Run;
use leeway_model::{Bytes, Millis, Name, RunId, Timestamp};
use serde::{Deserialize, Serialize};

pub mod decay;

use crate::order::{Rank, Used};
use crate::scheduler::Scheduler;
use decay::{Left, Mean};

/// What can be held, each in a unit of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Resource {
    /// In thousandths.
    Cpus,
    /// In MiB.
    Memory,
    /// Of one model.
    Accelerators(Box<str>),
    /// The price of it all, in nano-units an hour.
    Money,
}

/// The durable part of what an owner uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub owner: Name,
    /// The means are those of this instant. From then on the owner held what its runs hold now.
    pub at: Timestamp,
    /// In order of the resources.
    pub means: Vec<(Resource, Mean)>,
}

type Amounts = BTreeMap<Resource, u128>;

/// What follows from rows.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    /// What each run that is not released holds, with its owner.
    runs: BTreeMap<RunId, (Name, Amounts)>,
    /// The same by owner.
    held: BTreeMap<Name, Amounts>,
    /// What all clusters have; `None` where one does not say how many machines it has.
    capacity: Option<Amounts>,
    /// When all owners were ranked last.
    ranked: Timestamp,
}

/// An owner that holds nothing is forgotten after so many half-lives: a millionth of what it used would be left.
const FORGOTTEN_AFTER: u64 = 20;
/// Owners are ranked anew this often, or more often where the half-life is short.
const RANK_EVERY: Millis = Millis::from_mins(1);

impl Meters {
    fn set(&mut self, run: RunId, owner: &Name, holds: Option<Amounts>) {
        let held = self.held.entry(owner.clone()).or_default();
        let old = match &holds {
            Some(holds) => self.runs.insert(run, (owner.clone(), holds.clone())),
            None => self.runs.remove(&run),
        };
        for (resource, amount) in old.map(|(_, old)| old).into_iter().flatten() {
            let sum = held.get_mut(&resource).expect("what a run holds is part of what its owner holds");
            *sum = sum.checked_sub(amount).expect("an owner holds at least what its run holds");
        }
        for (resource, amount) in holds.into_iter().flatten() {
            *held.entry(resource).or_default() += amount;
        }
        held.retain(|_, amount| *amount > 0);
        if held.is_empty() {
            self.held.remove(owner);
        }
    }

    fn held(&self, owner: &Name, resource: &Resource) -> u64 {
        let held = self.held.get(owner).and_then(|held| held.get(resource)).copied().unwrap_or(0);
        u64::try_from(held).unwrap_or(u64::MAX)
    }
}

impl Scheduler {
    /// Takes note of what a run holds from now on.
    pub(crate) fn meter_run(&mut self, id: RunId) {
        if !self.order.ranks_owners() {
            return;
        }
        let Some(owner) = self.job(id.job).map(|job| job.spec.owner.clone()) else { return };
        let holds = self.run(id).filter(|run| !run.state.is_over()).map(|run| self.holding(run));
        if self.meters.runs.get(&id).map(|(_, holds)| holds) == holds.as_ref() {
            return;
        }
        self.accrue(&owner);
        self.meters.set(id, &owner, holds);
        self.rank_owner(&owner);
    }

    /// The clusters changed: what there is, and what machines of runs there amount to.
    pub(crate) fn meter_clusters(&mut self) {
        if !self.order.ranks_owners() {
            return;
        }
        self.meters.capacity = self.capacity();
        let runs: Vec<RunId> = self.meters.runs.keys().copied().collect();
        runs.into_iter().for_each(|run| self.meter_run(run));
        self.rank_owners();
    }

    /// Everything that follows from rows. An owner without a row begins with this instant.
    pub(crate) fn meter_anew(&mut self) {
        if !self.order.ranks_owners() {
            return;
        }
        self.meters = Meters { capacity: self.capacity(), ..Meters::default() };
        for run in self.standing.values().flatten() {
            let owner = self.job(run.job).map(|job| job.spec.owner.clone());
            let holds = self.run(*run).map(|run| self.holding(run));
            if let (Some(owner), Some(holds)) = (owner, holds) {
                self.meters.set(*run, &owner, Some(holds));
            }
        }
        let unknown: Vec<Name> =
            self.meters.held.keys().filter(|owner| !self.tables.usage.contains(owner)).cloned().collect();
        unknown.iter().for_each(|owner| self.accrue(owner));
        self.rank_owners();
    }

    /// Brings an owner's means up to this instant.
    fn accrue(&mut self, owner: &Name) {
        let row = Usage { owner: owner.clone(), at: self.now, means: self.means(owner) };
        self.tables.usage.insert(owner.clone(), row);
    }

    /// An owner's means as of now.
    fn means(&self, owner: &Name) -> Vec<(Resource, Mean)> {
        let row = self.tables.usage.get(owner);
        let gone = row.map_or(Millis::ZERO, |row| self.now.since(row.at));
        let left = Left::after(gone, self.config.fair_share.half_life);
        let mut means: BTreeMap<Resource, Mean> =
            row.map(|row| row.means.iter().cloned().collect()).unwrap_or_default();
        for resource in self.meters.held.get(owner).into_iter().flat_map(BTreeMap::keys) {
            means.entry(resource.clone()).or_default();
        }
        for (resource, mean) in &mut means {
            *mean = mean.moved(self.meters.held(owner, resource), left);
        }
        means.into_iter().collect()
    }

    /// What a run's machines amount to.
    fn holding(&self, run: &Run) -> Amounts {
        let gang = u64::from(run.nodes);
        let rate = run.meter.as_ref().map_or_else(|| run.price.rate.checked_mul(gang), |meter| Some(meter.rate()));
        let mut holds = Amounts::new();
        if let Some(offer) = self.fleet.find(&run.offer) {
            add_machines(&mut holds, &self.fleet.slot(offer).shape, gang);
        }
        holds.insert(Resource::Money, rate.map_or(u64::MAX, |rate| rate.nanos_per_hour()).into());
        holds
    }

    fn capacity(&self) -> Option<Amounts> {
        let mut capacity = Amounts::new();
        for machines in self.tables.clusters.values().flat_map(|cluster| &cluster.spec.machines) {
            add_machines(&mut capacity, &machines.shape, u64::from(machines.count?));
        }
        Some(capacity)
    }

    /// Tells the queue where an owner stands now.
    fn rank_owner(&mut self, owner: &Name) {
        let (mut shares, mut rate) = (Vec::new(), 0.0);
        for (resource, mean) in self.means(owner) {
            let used = mean.beside(self.meters.held(owner, &resource));
            // What no cluster has any more cannot be shared.
            let all = self.meters.capacity.as_ref().and_then(|all| all.get(&resource)).filter(|all| **all > 0);
            match (resource, all) {
                (Resource::Money, _) => rate = used / 1e9,
                (_, Some(all)) => shares.push(used / *all as f64),
                (_, None) => {}
            }
        }
        let weight = self.config.fair_share.weights.get(owner).copied().unwrap_or(1.0);
        let used = Used { shares: self.meters.capacity.as_ref().map(|_| &shares[..]), rate, weight };
        let rank = Rank::of(self.order.rank(&used));
        self.queue.rank(owner, rank);
    }

    fn rank_owners(&mut self) {
        let owners: Vec<Name> = self.tables.usage.iter().map(|(owner, _)| owner.clone()).collect();
        owners.iter().for_each(|owner| self.rank_owner(owner));
        self.meters.ranked = self.now;
    }

    /// The past fades for everybody, but not for everybody alike: now and then all are ranked anew.
    pub(crate) fn keep_ranks(&mut self) {
        let every = Millis::new(self.config.fair_share.half_life.as_millis() / 64).min(RANK_EVERY);
        if self.order.ranks_owners() && self.now.since(self.meters.ranked) >= every {
            self.rank_owners();
        }
    }

    /// Forgets owners who used nothing for long.
    pub(crate) fn forget_owners(&mut self) {
        let long = self.config.fair_share.half_life.saturating_mul(FORGOTTEN_AFTER);
        let idle = |row: &&Usage| !self.meters.held.contains_key(&row.owner) && self.now.since(row.at) > long;
        let gone: Vec<Name> = self.tables.usage.values().filter(idle).map(|row| row.owner.clone()).collect();
        for owner in gone {
            self.tables.usage.remove(&owner);
            self.queue.rank(&owner, Rank::default());
        }
    }

    /// Whether what owners are said to hold is what their runs hold.
    pub(crate) fn check_meters(&self) {
        if !self.order.ranks_owners() {
            return;
        }
        let mut expected: BTreeMap<&Name, Amounts> = BTreeMap::new();
        for run in self.tables.runs.values().filter(|run| !run.state.is_over()) {
            let Some(job) = self.job(run.id.job) else { continue };
            let sums = expected.entry(&job.spec.owner).or_default();
            for (resource, amount) in self.holding(run).into_iter().filter(|(_, amount)| *amount > 0) {
                *sums.entry(resource).or_default() += amount;
            }
        }
        expected.retain(|_, held| !held.is_empty());
        assert!(
            self.meters.held.iter().eq(expected.iter().map(|(owner, held)| (*owner, held))),
            "owners hold what their runs hold"
        );
    }
}

fn add_machines(amounts: &mut Amounts, shape: &leeway_model::resources::MachineShape, count: u64) {
    let mut add = |resource: Resource, each: u64| {
        let sum = amounts.entry(resource).or_default();
        // Counts and sizes of one machine have at most 32 and 44 places.
        *sum += u128::from(each) * u128::from(count);
    };
    const MIB: Bytes = Bytes::new(1 << 20);
    add(Resource::Cpus, u64::from(shape.cpus.0));
    add(Resource::Memory, shape.memory.get() / MIB.get());
    if let Some(accelerators) = &shape.accelerators {
        add(Resource::Accelerators(accelerators.model.clone()), u64::from(accelerators.count));
    }
}
