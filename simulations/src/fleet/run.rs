//! One run: the engine on a virtual clock, in a world that answers its actions, until every job has ended.
//!
//! Few things are pending at any moment: the next arrival, the next change of each market, one instant for each run, one
//! for each way of the network, and the scheduler's own wake-up. A checkpoint that changes nothing is no event.

use std::collections::{BTreeMap, VecDeque};

use leeway_core::reply::Reply;
use leeway_core::{Action, Event};
use leeway_engine::Engine;
use leeway_model::job::JobState;
use leeway_model::{JobId, Micros, Millis, Name, RunId, Timestamp};
use leeway_store::Store;

use super::outcome::{Ended, Outcome, Refusals, Sample, Totals};
use super::regret::Yardstick;
use super::setup::{Arrival, ClusterPlan, Setup, Shock, Terms, WorkloadError};
use super::world::jobs::Jobs;
use super::world::network::Network;
use super::world::place::Place;
use super::world::runs::Runs;
use crate::kernel::Kernel;

/// Anything that is still to happen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    Arrival,
    /// The scheduler is told of its surroundings.
    News,
    /// Somebody cancels a job, by its number in the history.
    Cancel(JobId),
    Market(u32),
    /// A stretch of notice ends: no more than `alive` machines may stay.
    Reclaimed {
        place: u32,
        alive: u32,
    },
    Run {
        slot: u32,
        turn: u32,
    },
    Way {
        way: u32,
        turn: u32,
    },
    Shock {
        number: u32,
        is_over: bool,
    },
    /// A machine goes before its notice is over.
    Taken {
        slot: u32,
        serial: u32,
    },
    Sample,
}

/// Why a run came to no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Engine(#[from] leeway_engine::Error),
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error("the scheduler refused what the scenario sets up: {0}")]
    Setup(String),
}

/// What is told of a run while it goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Simulated time.
    pub now: Timestamp,
    pub arrived: u64,
    pub ended: u64,
}

/// Takes each job as it ends, so that none need be kept.
pub type Sink<'a> = dyn FnMut(&Ended) + 'a;

pub(super) struct Fleet<'a, S> {
    pub(super) engine: Engine<S, ()>,
    pub(super) kernel: Kernel<Happening>,
    pub(super) start: Timestamp,
    limit: Timestamp,
    pub(super) seed: u64,
    pub(super) terms: Terms,
    pub(super) places: Vec<Place>,
    /// By cluster and shape.
    pub(super) by_shape: BTreeMap<(Name, Name), usize>,
    news: VecDeque<(Millis, Event)>,
    /// Who cancels jobs that are to be cancelled.
    cancels: BTreeMap<JobId, Name>,
    yardstick: Yardstick,
    pub(super) shocks: Vec<Shock>,
    pub(super) runs: Runs,
    pub(super) jobs: Jobs,
    pub(super) network: Network,
    pub(super) totals: Totals,
    pub(super) refusals: Refusals,
    arrivals: Box<dyn Iterator<Item = Result<Arrival, WorkloadError>> + Send>,
    /// The one whose instant is planned.
    next: Option<Arrival>,
    submitted: Option<JobId>,
    sink: &'a mut Sink<'a>,
    samples: Vec<Sample>,
    sample_every: Millis,
    events: u64,
    /// Events that the scheduler took, wake-ups included.
    steps: u64,
    checked: bool,
}

/// Runs a setup to its end. `sink` is told of each job; `progress` now and then.
///
/// # Errors
/// A workload that cannot be read on, or a setup that the scheduler refuses.
pub fn run<'a, S: Store>(
    setup: Setup,
    policies: leeway_core::PolicySet,
    store: S,
    sink: &'a mut Sink<'a>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    let mut fleet = Fleet::new(setup, policies, store, sink)?;
    let is_complete = fleet.go(progress)?;
    Ok(fleet.outcome(is_complete))
}

impl<'a, S: Store> Fleet<'a, S> {
    fn new(setup: Setup, policies: leeway_core::PolicySet, store: S, sink: &'a mut Sink<'a>) -> Result<Self, Error> {
        let yardstick = Yardstick::new(&setup);
        let Setup { config, start, limit, seed, clusters, budgets, shocks, news, terms, workload, samples, checked } =
            setup;
        let shape = |(number, plan): (usize, &ClusterPlan)| {
            Some(((plan.spec.name.clone(), plan.machines()?.shape.name.clone()), number))
        };
        let by_shape = clusters.iter().enumerate().filter_map(shape).collect();
        let place = |plan: &ClusterPlan| Place::new(plan, plan.speed(&config), terms.notice, start);
        let places = clusters.iter().map(place).collect();
        let (engine, _) = Engine::open(store, config, policies, start)?;
        let mut fleet = Self {
            engine,
            kernel: Kernel::new(start),
            start,
            limit: start.after(limit),
            seed,
            places,
            by_shape,
            news: news.into(),
            cancels: BTreeMap::new(),
            yardstick,
            shocks,
            runs: Runs::default(),
            jobs: Jobs::default(),
            network: Network::new(terms.between_regions, terms.within_region),
            terms,
            totals: Totals::default(),
            refusals: Refusals::default(),
            arrivals: workload.0,
            next: None,
            submitted: None,
            sink,
            samples: Vec::new(),
            sample_every: Millis::new((limit.as_millis() / u64::from(samples.max(1))).max(1)),
            events: 0,
            steps: 0,
            checked,
        };
        for spec in budgets {
            let by = spec.name.clone();
            fleet.set_up(Event::BudgetSet { spec, by })?;
        }
        for plan in clusters.into_iter().filter(|plan| !plan.is_told) {
            fleet.set_up(Event::ClusterRegistered { spec: plan.spec })?;
        }
        for (number, shock) in fleet.shocks.iter().enumerate() {
            let number = number as u32;
            fleet.kernel.at(start.after(shock.at), Happening::Shock { number, is_over: false });
            let end = shock.at.saturating_add(shock.length);
            fleet.kernel.at(start.after(end), Happening::Shock { number, is_over: true });
        }
        for place in 0..fleet.places.len() {
            fleet.plan_market(place);
        }
        fleet.plan_news();
        fleet.plan_arrival()?;
        fleet.kernel.at(start, Happening::Sample);
        Ok(fleet)
    }

    /// An event whose refusal is a mistake of the scenario.
    fn set_up(&mut self, event: Event) -> Result<(), Error> {
        self.engine.step(self.kernel.now(), event, ())?;
        for released in self.engine.commit()? {
            for action in released.actions {
                if let Action::Reply(Reply::Refused(refused)) = action {
                    return Err(Error::Setup(refused.message));
                }
            }
        }
        Ok(())
    }

    /// Until every job has ended, or the time is over; whether all have.
    fn go(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<bool, Error> {
        loop {
            if self.next.is_none() && self.jobs.open() == 0 && self.runs.is_empty() {
                return Ok(true);
            }
            let wake = self.engine.next_wakeup();
            let next = self.kernel.next();
            let now = match (wake, next) {
                (Some(wake), Some(next)) => wake.min(next),
                (Some(at), None) | (None, Some(at)) => at,
                (None, None) => return Ok(false),
            };
            if now > self.limit {
                self.kernel.idle_until(self.limit);
                return Ok(false);
            }
            self.events += 1;
            if self.events.is_multiple_of(1 << 14) {
                progress(Progress { now, arrived: self.jobs.arrived(), ended: self.totals.ended() });
            }
            if wake.is_some_and(|wake| next.is_none_or(|next| wake <= next)) {
                self.kernel.idle_until(now);
                self.step(Event::Woke)?;
                continue;
            }
            match self.kernel.pop() {
                Some(happening) => self.happen(happening)?,
                None => return Ok(false),
            }
        }
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Error> {
        match happening {
            Happening::Arrival => self.arrive(),
            Happening::News => {
                self.tell_news()?;
                self.plan_news();
                Ok(())
            }
            Happening::Cancel(source) => self.cancel(source),
            Happening::Market(place) => self.on_market(place as usize),
            Happening::Reclaimed { place, alive } => self.reclaim(place as usize, alive),
            Happening::Run { slot, turn } => self.on_run(slot, turn),
            Happening::Way { way, turn } => self.on_way(way, turn),
            Happening::Taken { slot, serial } => self.on_taken(slot, serial),
            Happening::Shock { number, is_over } => self.on_shock(number as usize, is_over),
            Happening::Sample => {
                self.sample();
                Ok(())
            }
        }
    }

    /// The scheduler takes an event; what it orders is done.
    pub(super) fn step(&mut self, event: Event) -> Result<(), Error> {
        self.steps += 1;
        self.engine.step(self.kernel.now(), event, ())?;
        if self.checked {
            leeway_core::invariants::check(self.engine.scheduler());
        }
        for released in self.engine.commit()? {
            for action in released.actions {
                self.act(action)?;
            }
            for job in released.changed_jobs {
                self.look_at(job);
            }
        }
        Ok(())
    }

    fn act(&mut self, action: Action) -> Result<(), Error> {
        match action {
            Action::Reply(reply) => {
                self.hear(reply);
                Ok(())
            }
            Action::Launch(order) => {
                self.launch(&order);
                Ok(())
            }
            Action::Stop { run, .. } => self.stop(run),
            Action::Signal { run } => {
                self.signal(run);
                Ok(())
            }
            Action::DeleteCheckpoint { job, checkpoint } => {
                self.step(Event::CheckpointDeleted { job, checkpoint: checkpoint.id })
            }
            // A scenario has no receivers.
            Action::Deliver { .. } => Ok(()),
        }
    }

    fn hear(&mut self, reply: Reply) {
        match reply {
            Reply::Submitted(results) => {
                for result in results {
                    match result {
                        Ok(submitted) => self.submitted = Some(submitted.job),
                        Err(refused) => self.refusals.count(refused.code, &refused.message),
                    }
                }
            }
            Reply::Refused(refused) => self.refusals.count(refused.code, &refused.message),
            _ => {}
        }
    }

    fn plan_arrival(&mut self) -> Result<(), Error> {
        self.next = self.arrivals.next().transpose()?;
        if let Some(next) = &self.next {
            self.kernel.at(self.start.after(next.at), Happening::Arrival);
        }
        Ok(())
    }

    fn arrive(&mut self) -> Result<(), Error> {
        let Some(mut arrival) = self.next.take() else { return Ok(()) };
        self.tell_news()?;
        self.submitted = None;
        self.jobs.expect(&mut arrival);
        let Arrival { mut spec, recorded, .. } = arrival;
        if let Some(recorded) = recorded {
            // A job that was refused here holds up nobody.
            spec.depends_on = spec.depends_on.iter().filter_map(|source| self.jobs.number(*source)).collect();
            if let Some((at, by)) = recorded.cancel {
                self.cancels.insert(recorded.id, by);
                self.kernel.at(self.start.after(at), Happening::Cancel(recorded.id));
            }
        }
        let job = leeway_core::event::Submission { spec, after: Vec::new() };
        self.step(Event::JobsSubmitted { request: None, jobs: vec![job] })?;
        if self.submitted.is_none() {
            self.jobs.refused();
        }
        self.plan_arrival()
    }

    fn plan_news(&mut self) {
        if let Some((at, _)) = self.news.front() {
            self.kernel.at(self.start.after(*at), Happening::News);
        }
    }

    /// Brings what there is to tell by now.
    fn tell_news(&mut self) -> Result<(), Error> {
        let now = self.kernel.now();
        while self.news.front().is_some_and(|(at, _)| self.start.after(*at) <= now) {
            if let Some((_, event)) = self.news.pop_front() {
                self.step(event)?;
            }
        }
        Ok(())
    }

    /// Cancels a job, unless it has ended by now.
    fn cancel(&mut self, source: JobId) -> Result<(), Error> {
        let by = self.cancels.remove(&source);
        let Some((job, by)) = self.jobs.number(source).zip(by) else { return Ok(()) };
        if self.engine.scheduler().job(job).is_none_or(|job| job.state.is_terminal()) {
            return Ok(());
        }
        self.step(Event::JobCancelled { job, by })
    }

    /// A job's row changed.
    fn look_at(&mut self, id: JobId) {
        let Some(job) = self.engine.scheduler().job(id) else { return };
        self.jobs.know(job);
        if job.state.is_terminal() {
            self.settle(id);
        }
    }

    /// Tells of a job that has ended and whose machines are gone.
    pub(super) fn settle(&mut self, id: JobId) {
        let scheduler = self.engine.scheduler();
        let Some(job) = scheduler.job(id).filter(|job| job.state.is_terminal()) else { return };
        if scheduler.runs_of(id).any(|run| !run.state.is_over()) {
            return;
        }
        let Some(known) = self.jobs.take(id) else { return };
        let mut ended = Ended::of(&known, job, scheduler.runs_of(id), &self.places);
        ended.over_optimum = self.yardstick.measure(&job.spec, &ended);
        self.totals.add(&ended);
        (self.sink)(&ended);
    }

    fn sample(&mut self) {
        let now = self.kernel.now();
        self.places.iter_mut().for_each(|place| place.use_of.advance(now));
        let scheduler = self.engine.scheduler();
        let machines = self.places.iter().fold([0_u64; 2], |sum, place| {
            [sum[0] + u64::from(place.use_of.machines[0]), sum[1] + u64::from(place.use_of.machines[1])]
        });
        let spent = scheduler.tables().budgets.values().filter(|budget| budget.spec.parent.is_none());
        self.samples.push(Sample {
            at: now.since(self.start),
            spot: machines[0],
            other: machines[1],
            queued: scheduler.queued() as u64,
            spent: spent.map(|budget| budget.posted).fold(Micros::ZERO, |a, b| a.saturating_add(b)),
        });
        self.kernel.after(self.sample_every, Happening::Sample);
    }

    fn outcome(mut self, is_complete: bool) -> Outcome {
        self.sample();
        let open = self.jobs.open();
        let scheduler = self.engine.scheduler();
        let mut states: BTreeMap<JobState, u64> = BTreeMap::new();
        let mut reasons: BTreeMap<Box<str>, (u64, Box<str>)> = BTreeMap::new();
        for job in scheduler.tables().jobs.values().filter(|job| !job.state.is_terminal()) {
            *states.entry(job.state).or_default() += 1;
            if let Some(reason) = scheduler.reason(job) {
                reasons.entry(reason.code).or_insert((0, reason.message)).0 += 1;
            }
        }
        Outcome {
            is_complete,
            open,
            open_states: states,
            open_reasons: reasons,
            totals: self.totals,
            refusals: self.refusals,
            length: self.kernel.now().since(self.start),
            samples: self.samples,
            places: self.places.iter().map(super::outcome::PlaceUse::of).collect(),
            budgets: scheduler.tables().budgets.values().map(super::outcome::BudgetUse::of).collect(),
            moved_between_regions: self.network.moved_between(),
            events: self.events,
            steps: self.steps,
        }
    }

    /// Luck that belongs to one run and one purpose, the same whatever else happened before, so that every policy meets
    /// the same.
    pub(super) fn luck(&self, run: RunId, purpose: u64) -> crate::random::Lot {
        crate::random::Lot::new(self.seed, [run.job.0, run.epoch, purpose])
    }
}
