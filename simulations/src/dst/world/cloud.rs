//! The simulated provider and the driver before it.
//!
//! The provider has the truth: which machines exist, since when, and when they ended. The driver sees it late and in
//! part, and obeys the rule that absence needs proof: complete listings, after the visibility window, three times.

use std::collections::{BTreeMap, BTreeSet};

use leeway_core::LaunchOrder;
use leeway_core::event::Event;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::run::{LaunchErrorClass, RunState};
use leeway_model::{Millis, Name, RunId, Timestamp};

use crate::dst::run::{Happening, Simulation};
use crate::random::Stream;

/// How long a new machine may be missing from listings.
pub const VISIBILITY_WINDOW: Millis = Millis::from_secs(120);
pub const POLL_EVERY: Millis = Millis::from_secs(20);
/// Ended machines are listed this long.
const LISTED_AFTER_END: Millis = Millis::from_mins(10);
/// Machines of ours that nobody knows are ended when seen twice this far apart.
const STRANGER_AFTER: Millis = Millis::from_mins(5);

#[derive(Debug)]
pub enum Tick {
    Attempt(RunId),
    /// A launch whose reply was lost takes effect after all.
    Effect(RunId, OfferKey, u32),
    Boot(u64),
    Interrupt(u64),
    End(u64),
    Poll,
}

#[derive(Clone, Debug)]
pub struct Instance {
    pub run: RunId,
    pub rank: u32,
    pub offer: OfferKey,
    pub created: Timestamp,
    pub visible_from: Timestamp,
    pub ended: Option<Timestamp>,
}

#[derive(Debug)]
struct LaunchTask {
    order: LaunchOrder,
    attempts: u32,
    /// An attempt ended without a clear answer: machines may exist.
    ambiguous: bool,
    /// Fewer machines than asked for: all are given back before the refusal is told.
    abandon: bool,
}

/// What the driver remembers; a crash of the process wipes it.
#[derive(Debug, Default)]
struct Driver {
    started: Timestamp,
    launches: BTreeMap<RunId, LaunchTask>,
    stops: BTreeSet<RunId>,
    last_call: BTreeMap<RunId, Timestamp>,
    missing: BTreeMap<RunId, u32>,
    told_lost: BTreeSet<(RunId, u32)>,
    told_gone: BTreeSet<RunId>,
    strangers: BTreeMap<u64, Timestamp>,
    failed_polls: BTreeMap<Name, u32>,
    /// What the scheduler was last told of each cluster.
    reached: BTreeMap<Name, bool>,
}

#[derive(Debug)]
pub struct Cloud {
    pub luck: Stream,
    pub instances: BTreeMap<u64, Instance>,
    pub by_token: BTreeMap<RunId, Vec<u64>>,
    /// Machines of a cluster's shape that exist at most.
    pub capacity: BTreeMap<(Name, Name), u32>,
    /// Spot offers that the provider has none of, until then.
    pub closed: BTreeMap<OfferKey, Timestamp>,
    pub outages: BTreeMap<Name, Timestamp>,
    /// Terminate calls do nothing until then.
    pub stops_ignored_until: Timestamp,
    pub launch_calls: u64,
    next_id: u64,
    driver: Driver,
}

impl Cloud {
    pub fn new(luck: Stream) -> Self {
        Self {
            luck,
            instances: BTreeMap::new(),
            by_token: BTreeMap::new(),
            capacity: BTreeMap::new(),
            closed: BTreeMap::new(),
            outages: BTreeMap::new(),
            stops_ignored_until: Timestamp::ZERO,
            launch_calls: 0,
            next_id: 0,
            driver: Driver::default(),
        }
    }

    pub(crate) fn driver_starts(&mut self, now: Timestamp) {
        self.driver = Driver { started: now, ..Driver::default() };
    }

    pub fn alive(&self) -> impl Iterator<Item = (u64, &Instance)> {
        self.instances.iter().filter(|(_, instance)| instance.ended.is_none()).map(|(id, instance)| (*id, instance))
    }

    pub fn of_run(&self, run: RunId) -> impl Iterator<Item = (u64, &Instance)> {
        let ids = self.by_token.get(&run).into_iter().flatten();
        ids.filter_map(|id| self.instances.get(id).map(|instance| (*id, instance)))
    }

    pub fn has_alive(&self, run: RunId) -> bool {
        self.of_run(run).any(|(_, instance)| instance.ended.is_none())
    }

    fn room(&self, offer: &OfferKey, now: Timestamp) -> u32 {
        if self.closed.get(offer).is_some_and(|until| now < *until) {
            return 0;
        }
        let key = (offer.cluster.clone(), offer.shape.clone());
        let used = self.alive().filter(|(_, i)| i.offer.cluster == key.0 && i.offer.shape == key.1).count() as u32;
        self.capacity.get(&key).map_or(u32::MAX, |count| count.saturating_sub(used))
    }

    fn is_out(&self, cluster: &Name, now: Timestamp) -> bool {
        self.outages.get(cluster).is_some_and(|until| now < *until)
    }
}

impl Simulation {
    pub(crate) fn order_launch(&mut self, order: LaunchOrder) {
        let run = order.run;
        if self.cloud.driver.stops.contains(&run) {
            return;
        }
        // Ordered again by a process that just began: what the last one did with it is not known (P-02).
        let ambiguous = self.shell.incarnation > 1 && self.cloud.driver.started == self.kernel.now();
        let task = LaunchTask { order, attempts: 0, ambiguous, abandon: false };
        self.cloud.driver.launches.entry(run).or_insert(task);
        let wait = self.cloud.luck.millis(Millis::new(50), Millis::from_secs(3));
        self.kernel.after(wait, Happening::Cloud(Tick::Attempt(run)));
    }

    pub(crate) fn order_stop(&mut self, run: RunId) {
        self.cloud.driver.launches.remove(&run);
        self.cloud.driver.stops.insert(run);
        self.terminate(run);
    }

    pub(crate) fn on_cloud(&mut self, tick: Tick) {
        match tick {
            Tick::Attempt(run) => self.attempt_launch(run),
            Tick::Effect(run, offer, nodes) => self.create(run, &offer, nodes),
            Tick::Boot(id) => self.boot(id),
            Tick::Interrupt(id) => self.interrupt(id),
            Tick::End(id) => self.end_instance(id),
            Tick::Poll => {
                self.poll();
                self.kernel.after(POLL_EVERY, Happening::Cloud(Tick::Poll));
            }
        }
    }

    fn attempt_launch(&mut self, run: RunId) {
        let now = self.kernel.now();
        let Some(task) = self.cloud.driver.launches.get_mut(&run) else { return };
        if !self.shell.is_up() {
            return;
        }
        task.attempts += 1;
        let (order, ambiguous, attempts) = (task.order.clone(), task.ambiguous, task.attempts);
        self.cloud.driver.last_call.insert(run, now);
        self.cloud.launch_calls += 1;
        let cluster_out = self.cloud.is_out(&order.offer.cluster, now);
        if self.luck.chance(self.faults.throttled) {
            return self.launch_failed(run, LaunchErrorClass::Throttled, ambiguous, attempts);
        }
        if cluster_out || self.luck.chance(self.faults.error_before) {
            return self.launch_failed(run, LaunchErrorClass::Transient, ambiguous, attempts);
        }
        if !self.cloud.by_token.contains_key(&run) {
            if self.cloud.room(&order.offer, now) < order.nodes {
                return self.launch_failed(run, LaunchErrorClass::Capacity, ambiguous, attempts);
            }
            if self.luck.chance(self.faults.error_after) {
                // The reply is lost; the machines come all the same, now or a little later.
                let wait = Millis::from_secs(self.luck.below(20));
                let effect = Tick::Effect(run, order.offer.clone(), order.nodes);
                self.kernel.after(wait, Happening::Cloud(effect));
                if let Some(task) = self.cloud.driver.launches.get_mut(&run) {
                    task.ambiguous = true;
                }
                return self.launch_again(run, 30);
            }
            let partial = order.nodes > 1 && self.luck.chance(self.faults.partial);
            self.create(run, &order.offer, order.nodes - u32::from(partial));
        }
        let (alive, ended): (Vec<_>, Vec<_>) =
            self.cloud.of_run(run).map(|(id, i)| (id, i.ended)).partition(|(_, ended)| ended.is_none());
        if alive.len() < order.nodes as usize {
            if let Some(task) = self.cloud.driver.launches.get_mut(&run) {
                task.abandon = true;
            }
            if alive.is_empty() && !ended.is_empty() {
                self.cloud.driver.launches.remove(&run);
                self.inside(Millis::new(100), Event::InstancesGone { run });
            } else {
                self.terminate(run);
                self.launch_again(run, 20);
            }
            return;
        }
        self.cloud.driver.launches.remove(&run);
        let instances = alive.iter().map(|(id, _)| format!("i-{id}").into_boxed_str()).collect();
        let wait = self.cloud.luck.millis(Millis::new(100), Millis::from_secs(5));
        self.inside(wait, Event::RunLaunched { run, instances });
    }

    /// An attempt failed without effect. Only a launch without doubtful attempts may be told as refused.
    fn launch_failed(&mut self, run: RunId, class: LaunchErrorClass, ambiguous: bool, attempts: u32) {
        let abandon = self.cloud.driver.launches.get(&run).is_some_and(|task| task.abandon);
        let again = ambiguous || abandon || (class != LaunchErrorClass::Capacity && attempts < 3);
        if again {
            return self.launch_again(run, 15);
        }
        self.cloud.driver.launches.remove(&run);
        let message = format!("the simulated provider refused: {}", class.as_str()).into();
        self.inside(Millis::new(50), Event::LaunchRefused { run, class, message });
    }

    fn launch_again(&mut self, run: RunId, secs: u64) {
        let wait = Millis::from_secs(self.luck.between(2, secs));
        self.kernel.after(wait, Happening::Cloud(Tick::Attempt(run)));
    }

    /// The provider makes machines. The same token never makes more.
    fn create(&mut self, run: RunId, offer: &OfferKey, nodes: u32) {
        if self.cloud.by_token.contains_key(&run) {
            return;
        }
        let now = self.kernel.now();
        let mut ids = Vec::new();
        for rank in 0..nodes {
            self.cloud.next_id += 1;
            let id = self.cloud.next_id;
            let hidden = self.luck.millis(Millis::ZERO, self.faults.invisible_max);
            let instance = Instance {
                run,
                rank,
                offer: offer.clone(),
                created: now,
                visible_from: now.after(hidden),
                ended: None,
            };
            self.cloud.instances.insert(id, instance);
            ids.push(id);
            let boot = self.cloud.luck.millis(Millis::from_secs(5), Millis::from_secs(40));
            self.kernel.after(boot, Happening::Cloud(Tick::Boot(id)));
            if offer.capacity == CapacityType::Spot && !self.faults.spot_life.is_zero() {
                let life = self.luck.exponential(self.faults.spot_life);
                self.kernel.after(life, Happening::Cloud(Tick::Interrupt(id)));
            }
        }
        self.cloud.by_token.insert(run, ids);
    }

    fn boot(&mut self, id: u64) {
        let Some(instance) = self.cloud.instances.get(&id).filter(|instance| instance.ended.is_none()) else { return };
        let (run, rank) = (instance.run, instance.rank);
        self.start_agent(id, run, rank);
    }

    /// The market takes a machine back, in one of several ways.
    fn interrupt(&mut self, id: u64) {
        if self.faults.spot_life.is_zero() {
            return;
        }
        if self.luck.chance(self.faults.no_notice) {
            return self.end_instance(id);
        }
        let secs = if self.luck.chance(self.faults.short_notice) { self.luck.between(2, 40) } else { 120 };
        let carried_out = !self.luck.chance(self.faults.empty_notice);
        let sources = 1 + u32::from(self.luck.below(3) == 0);
        self.give_notice(id, Millis::from_secs(secs), carried_out, sources);
    }

    /// Warns of a machine's end, from one or two sources.
    pub fn give_notice(&mut self, id: u64, length: Millis, carried_out: bool, sources: u32) {
        let Some(run) = self.cloud.instances.get(&id).filter(|i| i.ended.is_none()).map(|i| i.run) else { return };
        let deadline = self.shell.time_at(self.kernel.now()).after(length);
        for source in 0..sources {
            let source = if source == 0 { "metadata" } else { "event-bus" };
            let wait = Millis::new(self.luck.between(10, 2_000));
            self.inside(wait, Event::InterruptionNoticed { run, deadline, source: source.into() });
        }
        if carried_out {
            self.kernel.after(length, Happening::Cloud(Tick::End(id)));
        }
    }

    /// A machine is gone, with everything on it.
    pub fn end_instance(&mut self, id: u64) {
        let now = self.kernel.now();
        if let Some(instance) = self.cloud.instances.get_mut(&id)
            && instance.ended.is_none()
        {
            instance.ended = Some(now);
            self.agent_dies(id);
        }
    }

    /// Asks the provider to end what it lists of a run.
    fn terminate(&mut self, run: RunId) {
        let now = self.kernel.now();
        let listed: Vec<u64> = self
            .cloud
            .of_run(run)
            .filter(|(_, i)| i.ended.is_none() && i.visible_from <= now && !self.cloud.is_out(&i.offer.cluster, now))
            .map(|(id, _)| id)
            .collect();
        for id in listed {
            let ignored = now < self.cloud.stops_ignored_until
                || self.luck.chance(self.faults.stop_fails)
                || self.luck.chance(self.faults.stop_ignored);
            if !ignored {
                let wait = self.cloud.luck.millis(Millis::from_secs(2), Millis::from_secs(30));
                self.kernel.after(wait, Happening::Cloud(Tick::End(id)));
            }
        }
    }

    /// One look at every cluster: the driver's only way to learn what became of its runs.
    fn poll(&mut self) {
        let now = self.kernel.now();
        let Some(scheduler) = self.shell.scheduler() else { return };
        let clusters: Vec<Name> = scheduler.tables().clusters.values().map(|c| c.spec.name.clone()).collect();
        let runs: Vec<(RunId, Name, u32, RunState, bool)> = scheduler
            .tables()
            .runs
            .values()
            .filter(|run| !run.state.is_over())
            .map(|run| (run.id, run.offer.cluster.clone(), run.nodes, run.state, run.launched.is_some()))
            .collect();
        for cluster in clusters {
            if self.luck.chance(self.faults.outage) {
                let length = self.luck.millis(Millis::from_secs(10), self.faults.outage_max);
                self.cloud.outages.insert(cluster.clone(), now.after(length));
            }
            let failed = self.cloud.driver.failed_polls.entry(cluster.clone()).or_default();
            if self.cloud.outages.get(&cluster).is_some_and(|until| now < *until) {
                *failed += 1;
                if *failed >= 3 && self.cloud.driver.reached.insert(cluster.clone(), false) != Some(false) {
                    self.inside(Millis::new(10), Event::ClusterReached { cluster, reached: false });
                }
                continue;
            }
            *failed = 0;
            if self.cloud.driver.reached.insert(cluster.clone(), true) != Some(true) {
                self.inside(Millis::new(10), Event::ClusterReached { cluster: cluster.clone(), reached: true });
            }
            for (run, of, nodes, state, launched) in &runs {
                if *of == cluster {
                    self.look_after(*run, *nodes, *state, *launched);
                }
            }
            self.end_strangers(&cluster, &runs);
        }
    }

    fn look_after(&mut self, run: RunId, nodes: u32, state: RunState, launched: bool) {
        let now = self.kernel.now();
        let stopping = matches!(state, RunState::Stopping | RunState::Lost);
        if stopping {
            self.cloud.driver.stops.insert(run);
            self.terminate(run);
        } else if !launched || self.cloud.driver.launches.contains_key(&run) {
            // The launch itself is still under way.
            return;
        }
        let listed: Vec<(u32, bool)> = self
            .cloud
            .of_run(run)
            .filter(|(_, i)| i.visible_from <= now && i.ended.is_none_or(|ended| now < ended.after(LISTED_AFTER_END)))
            .map(|(_, i)| (i.rank, i.ended.is_none()))
            .collect();
        let since = self.cloud.driver.last_call.get(&run).copied().unwrap_or(self.cloud.driver.started);
        let complete = listed.len() == nodes as usize;
        let missing = self.cloud.driver.missing.entry(run).or_default();
        if complete || now.since(since) <= VISIBILITY_WINDOW {
            *missing = 0;
        } else {
            *missing += 1;
        }
        let absent_is_gone = *missing >= 3;
        let alive = listed.iter().any(|(_, alive)| *alive);
        if !alive && (complete || absent_is_gone) {
            if self.cloud.driver.told_gone.insert(run) {
                self.inside(Millis::new(20), Event::InstancesGone { run });
            }
            return;
        }
        let gone = |rank: u32| match listed.iter().find(|(listed, _)| *listed == rank) {
            Some((_, alive)) => !alive,
            None => absent_is_gone,
        };
        for rank in (0..nodes).filter(|rank| gone(*rank)).collect::<Vec<_>>() {
            if self.cloud.driver.told_lost.insert((run, rank)) {
                self.inside(Millis::new(20), Event::InstanceLost { run, rank });
            }
        }
    }

    /// Ends machines with our mark that belong to no run under way, once seen twice.
    fn end_strangers(&mut self, cluster: &Name, runs: &[(RunId, Name, u32, RunState, bool)]) {
        let now = self.kernel.now();
        let strangers: Vec<(u64, RunId)> = self
            .cloud
            .alive()
            .filter(|(_, i)| i.offer.cluster == *cluster && i.visible_from <= now)
            .filter(|(_, i)| !runs.iter().any(|(run, ..)| *run == i.run))
            .map(|(id, i)| (id, i.run))
            .collect();
        for (id, run) in strangers {
            let first = *self.cloud.driver.strangers.entry(id).or_insert(now);
            if now.since(first) >= STRANGER_AFTER {
                self.strangers_ended += 1;
                self.terminate(run);
            }
        }
    }
}
