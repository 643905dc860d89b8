//! One run of the world: set up from a seed, faults for a while, then clear weather until everything has come to rest.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use leeway_core::reply::Reply;
use leeway_core::{Config, Event};
use leeway_model::cluster::ClusterSpec;
use leeway_model::job::JobState;
use leeway_model::{InstallationId, JobId, Millis, Name, RunId, Timestamp};

use crate::dst::checkers::audit;
use crate::dst::faults::FaultPlan;
use crate::dst::scenario;
use crate::dst::shell::{Caller, CrashAt, Shell};
use crate::dst::world::agents::{self, Agent};
use crate::dst::world::clients::{Clients, PATIENCE};
use crate::dst::world::cloud::{self, Cloud};
use crate::dst::world::market::Market;
use crate::dst::world::programs::Programs;
use crate::dst::world::webhooks::Receiver;
use crate::kernel::Kernel;
use crate::random::{Stream, stream};

/// Every run begins at this instant of the shell's clock.
pub const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);

/// Anything that is still to happen.
#[derive(Debug)]
pub enum Happening {
    Arrive {
        caller: Caller,
        event: Event,
        incarnation: Option<u64>,
    },
    Commit {
        incarnation: u64,
    },
    Wake {
        incarnation: u64,
    },
    Restart,
    Answer {
        number: usize,
        reply: Reply,
    },
    Client(usize),
    Agent {
        instance: u64,
        tick: agents::Tick,
    },
    Cloud(cloud::Tick),
    Feed,
    /// Something random that clients do.
    Whim,
}

/// What a caller may choose of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long things go wrong.
    pub stormy: Millis,
    /// How long the world may take to come to rest after that.
    pub calm: Millis,
    /// Core's own invariants are checked every so many steps, beside every commit; zero for commits only.
    pub check_every: u64,
    pub crash_at: Option<CrashAt>,
    /// Prints every event and action.
    pub trace: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stormy: Millis::from_mins(40),
            calm: Millis::from_hours(36),
            check_every: 1,
            crash_at: None,
            trace: false,
        }
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    /// The invariant that broke, or what never came to rest.
    pub failure: Option<String>,
    /// Over every byte of every journal entry.
    pub hash: u64,
    pub steps: u64,
    pub entries: u64,
    pub crashes: u64,
    pub runs: u64,
    pub interruptions: u64,
    pub succeeded: u64,
    /// Virtual time from the end of the storm to the quiet end.
    pub settling: Millis,
}

/// The world with the scheduler in it.
#[derive(Debug)]
pub struct Simulation {
    pub seed: u64,
    pub settings: Options,
    pub config: Config,
    pub kernel: Kernel<Happening>,
    /// What goes wrong now, and the worst of it over the run.
    pub faults: FaultPlan,
    pub faults_worst: FaultPlan,
    pub luck: Stream,
    pub net: Stream,
    pub shell: Shell,
    pub cloud: Cloud,
    pub agents: BTreeMap<u64, Agent>,
    pub programs: Programs,
    pub clients: Clients,
    pub market: Market,
    pub receiver: Receiver,
    /// Codes of refusals that parts of the process itself met.
    pub refused_inside: Vec<&'static str>,
    pub strangers_ended: u64,
    pub feed_every: Millis,
    pub whims_until: Timestamp,
}

/// Runs one seed to its quiet end. Never panics: a broken invariant is the outcome's failure.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let mut simulation = None;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let simulation = simulation.insert(scenario::seeded(seed, options));
        simulation.storm_and_calm()
    }));
    let (settling, failure) = match result {
        Ok(Ok(settling)) => (settling, None),
        Ok(Err(unquiet)) => (Millis::ZERO, Some(unquiet)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (Millis::ZERO, Some(text.unwrap_or_else(|| "a panic without a text".into())))
        }
    };
    let mut outcome = Outcome {
        seed,
        failure,
        hash: 0,
        steps: 0,
        entries: 0,
        crashes: 0,
        runs: 0,
        interruptions: 0,
        succeeded: 0,
        settling,
    };
    if let Some(mut simulation) = simulation {
        let audited = catch_unwind(AssertUnwindSafe(|| simulation.tell(&mut outcome)));
        if let Err(panic) = audited
            && outcome.failure.is_none()
        {
            let text = panic.downcast_ref::<String>().cloned();
            outcome.failure = Some(text.unwrap_or_else(|| "the audit panicked".into()));
        }
    }
    outcome
}

/// The one command that replays a seed.
pub fn replay_command(seed: u64) -> String {
    format!("LEEWAY_SEED={seed} cargo test -p leeway-simulations --test seeds -- --nocapture")
}

impl Simulation {
    /// A world with nothing in it, its scheduler started.
    pub fn new(seed: u64, settings: Options, faults: FaultPlan) -> Self {
        let installation = InstallationId(name("simulated"));
        let mut config = Config::new(installation, name(leeway_policies::DEFAULT));
        config.default_budget = Some(name("org"));
        // There is one owner, so that fair shares decide nothing here; but they are metered, and survive every crash.
        if seed % 2 == 1 {
            config.queue_order = name("fair-share");
        }
        let mut simulation = Self {
            seed,
            config,
            kernel: Kernel::new(START),
            faults_worst: faults.clone(),
            faults,
            luck: stream(seed, "faults"),
            net: stream(seed, "network"),
            shell: Shell::new(START),
            cloud: Cloud::new(stream(seed, "cloud")),
            agents: BTreeMap::new(),
            programs: Programs::default(),
            clients: Clients::new(stream(seed, "clients")),
            market: Market::new(stream(seed, "prices")),
            receiver: Receiver::default(),
            refused_inside: Vec::new(),
            strangers_ended: 0,
            feed_every: Millis::from_mins(3),
            whims_until: START,
            settings,
        };
        simulation.shell.crash_at = simulation.settings.crash_at;
        simulation.start_scheduler();
        simulation.kernel.after(cloud::POLL_EVERY, Happening::Cloud(cloud::Tick::Poll));
        simulation.kernel.after(Millis::from_secs(1), Happening::Feed);
        simulation
    }

    pub fn now(&self) -> Timestamp {
        self.kernel.now()
    }

    /// Takes the next thing that happens.
    pub fn happen(&mut self) {
        let Some(happening) = self.kernel.pop() else { return };
        match happening {
            Happening::Arrive { caller, event, incarnation } => self.arrive(caller, event, incarnation),
            Happening::Commit { incarnation } => self.commit(incarnation),
            Happening::Wake { incarnation } => self.wake(incarnation),
            Happening::Restart => self.start_scheduler(),
            Happening::Answer { number, reply } => self.clients.answered(number, &reply),
            Happening::Client(number) => self.ask(number),
            Happening::Agent { instance, tick } => self.on_agent(instance, tick),
            Happening::Cloud(tick) => self.on_cloud(tick),
            Happening::Feed => self.feed(),
            Happening::Whim => self.whim(),
        }
    }

    /// Lets the world go on until an instant.
    pub fn run_until(&mut self, at: Timestamp) {
        while self.kernel.next().is_some_and(|next| next <= at) {
            self.happen();
        }
        self.kernel.idle_until(at);
    }

    pub fn run_for(&mut self, length: Millis) {
        self.run_until(self.now().after(length));
    }

    /// Lets the world go on until something is so; `false` when it was not within `length`.
    pub fn run_while(&mut self, length: Millis, mut go_on: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now().after(length);
        while go_on(self) {
            if self.kernel.next().is_none_or(|next| next > end) {
                return false;
            }
            self.happen();
        }
        true
    }

    /// The storm, then the calm; the time it took to come to rest, or what did not.
    pub fn storm_and_calm(&mut self) -> Result<Millis, String> {
        self.run_for(self.settings.stormy);
        self.calm_down();
        self.come_to_rest(self.settings.calm)
    }

    /// The weather clears: nothing new goes wrong, links work, and operators make room for everyone.
    pub fn calm_down(&mut self) {
        self.faults.clear();
        self.cloud.outages.clear();
        self.cloud.closed.clear();
        self.cloud.stops_ignored_until = Timestamp::ZERO;
        let now = self.now();
        for agent in self.agents.values_mut() {
            agent.up_blocked_until = now;
            agent.down_blocked_until = now;
        }
        for number in scenario::amnesty(self) {
            self.kernel.after(Millis::from_secs(1), Happening::Client(number));
        }
    }

    /// Waits for the quiet end: quiet now, and still quiet a while later. Operators thaw what an overrun froze.
    pub fn come_to_rest(&mut self, within: Millis) -> Result<Millis, String> {
        const LOOK_EVERY: Millis = Millis::from_secs(30);
        const STAYS: Millis = Millis::from_mins(15);
        let from = self.now();
        let mut quiet_since: Option<Timestamp> = None;
        let mut thawed = from;
        while self.now().since(from) < within {
            self.run_for(LOOK_EVERY);
            let now = self.now();
            if now.since(thawed) > Millis::from_mins(30) {
                thawed = now;
                scenario::thaw(self);
            }
            match self.unquiet() {
                Some(_) => quiet_since = None,
                None if now.since(*quiet_since.get_or_insert(now)) >= STAYS => {
                    return Ok(quiet_since.unwrap_or(now).since(from));
                }
                None => {}
            }
        }
        Err(format!("K9: not at rest {within} after the storm: {}", self.unquiet().unwrap_or_default()))
    }

    /// Audits the journal and fills in the outcome.
    fn tell(&mut self, outcome: &mut Outcome) {
        outcome.steps = self.shell.steps;
        outcome.crashes = self.shell.crashes;
        if let Some(engine) = self.shell.engine() {
            let tables = engine.scheduler().tables();
            outcome.runs = tables.runs.len() as u64;
            outcome.entries = engine.head().index;
            outcome.interruptions = tables.jobs.values().map(|job| u64::from(job.retries.interruptions)).sum();
            let done = tables.jobs.values().filter(|job| job.state == JobState::Succeeded);
            outcome.succeeded = done.count() as u64;
            if outcome.failure.is_none() {
                outcome.hash = audit::audit(self, engine.store());
            }
        }
    }

    /// Audits the journal of a run that a test drove itself.
    pub fn audit(&self) -> u64 {
        let engine = self.shell.engine().expect("the scheduler is up when its journal is audited");
        audit::audit(self, engine.store())
    }

    // ----- Clients and the feed. -----

    /// Has a client ask for something, from now on until it is answered; returns the number of the request.
    pub fn ask_for(&mut self, event: Event) -> usize {
        let number = self.clients.want(event);
        self.kernel.after(Millis::new(1), Happening::Client(number));
        number
    }

    fn ask(&mut self, number: usize) {
        let request = &mut self.clients.requests[number];
        if request.answered {
            return;
        }
        request.sent += 1;
        let event = request.event.clone();
        if let Event::BudgetSet { spec, .. } = &event {
            // Copies of requests may overtake each other, so that a raise may be followed by the lower cap before it.
            let highest = self.clients.caps.entry(spec.name.clone()).or_insert(spec.cap);
            if spec.cap != *highest {
                self.clients.cut.insert(spec.name.clone());
            }
            *highest = (*highest).max(spec.cap);
        }
        self.kernel.after(PATIENCE, Happening::Client(number));
        if self.net.chance(self.faults.lost) {
            return;
        }
        let copies = 1 + u32::from(self.net.chance(self.faults.duplicated));
        for _ in 0..copies {
            let late = self.net.chance(self.faults.delayed);
            let wait = if late { self.net.millis(Millis::ZERO, self.faults.delay_max) } else { Millis::new(20) };
            let caller = Caller::Client(number);
            self.kernel.after(wait, Happening::Arrive { caller, event: event.clone(), incarnation: None });
        }
    }

    fn feed(&mut self) {
        let now = self.now();
        let observed = self.shell.time_at(now);
        let prices = self.market.tick(observed, &self.faults);
        if !prices.is_empty() {
            self.inside(Millis::new(5), Event::PricesObserved { prices });
        }
        let offers: Vec<_> = self.market.prices.keys().cloned().collect();
        let mut capacities = Vec::new();
        for offer in offers {
            if self.luck.chance(self.faults.capacity_gone) {
                let until = now.after(self.luck.millis(Millis::from_mins(1), Millis::from_mins(15)));
                self.cloud.closed.insert(offer.clone(), until);
                if self.luck.below(2) == 0 {
                    capacities.push(crate::dst::world::market::capacity(&offer, Some(0)));
                }
            } else if self.cloud.closed.get(&offer).is_none_or(|until| *until <= now) {
                capacities.push(crate::dst::world::market::capacity(&offer, None));
            }
        }
        if !capacities.is_empty() {
            self.inside(Millis::new(6), Event::CapacityObserved { capacities });
        }
        self.kernel.after(self.feed_every, Happening::Feed);
    }

    fn whim(&mut self) {
        if self.now() > self.whims_until {
            return;
        }
        scenario::whim(self);
        let wait = self.clients.luck.millis(Millis::from_secs(20), Millis::from_mins(5));
        self.kernel.after(wait, Happening::Whim);
    }

    // ----- What tests ask. -----

    /// The scheduler's job; tests ask while it is up.
    pub fn job(&self, id: u64) -> &leeway_model::job::Job {
        let scheduler = self.shell.scheduler().expect("a test looks at jobs while the scheduler is up");
        scheduler.job(JobId(id)).expect("a test looks at jobs that exist")
    }

    pub fn state(&self, id: u64) -> Option<JobState> {
        self.shell.scheduler()?.job(JobId(id)).map(|job| job.state)
    }

    pub fn run_of(&self, id: u64) -> Option<RunId> {
        self.shell.scheduler()?.job(JobId(id))?.newest_run()
    }

    /// Living machines of a job's newest run, in rank order.
    pub fn machines(&self, id: u64) -> Vec<u64> {
        let Some(run) = self.run_of(id) else { return Vec::new() };
        self.cloud.of_run(run).filter(|(_, instance)| instance.ended.is_none()).map(|(id, _)| id).collect()
    }

    /// Adds a cluster with what its provider really has.
    pub fn add_cluster(&mut self, spec: ClusterSpec) {
        for machines in &spec.machines {
            let key = (spec.name.clone(), machines.shape.name.clone());
            self.cloud.capacity.insert(key, machines.count.unwrap_or(u32::MAX));
            if let (Some(spot), Some(on_demand)) = (machines.spot, machines.on_demand) {
                let offer = leeway_model::market::OfferKey {
                    cluster: spec.name.clone(),
                    shape: machines.shape.name.clone(),
                    capacity: leeway_model::resources::CapacityType::Spot,
                };
                self.market.prices.insert(offer, (spot, on_demand));
            }
        }
        self.ask_for(Event::ClusterRegistered { spec });
    }
}

/// A name that is written in this crate.
pub fn name(text: &str) -> Name {
    text.parse().expect("names in the simulator are valid")
}
