//! What a run is made of, with every file read and every default filled in: the clusters and their markets, the jobs to
//! come, and the terms of the world. A scenario becomes this; tests and benchmarks build it by hand.

use std::fmt;

use leeway_core::{Config, Event};
use leeway_market::trace::SpotTrace;
use leeway_model::budget::BudgetSpec;
use leeway_model::cluster::{ClusterSpec, Machines, Region};
use leeway_model::job::JobSpec;
use leeway_model::{Bytes, JobId, Millis, Name, Timestamp};

/// A run, ready to go.
#[derive(Debug)]
pub struct Setup {
    pub config: Config,
    pub start: Timestamp,
    /// The run is given up this long after its start, whatever is still open.
    pub limit: Millis,
    pub seed: u64,
    pub clusters: Vec<ClusterPlan>,
    pub budgets: Vec<BudgetSpec>,
    pub shocks: Vec<Shock>,
    /// What the scheduler is told of its surroundings, since the start and in order of time; before jobs of the same
    /// instant. A recording has such news, a scenario has none.
    pub news: Vec<(Millis, Event)>,
    pub terms: Terms,
    pub workload: Workload,
    /// Points of the series over time.
    pub samples: u32,
    /// Whether the core's invariants are checked after every step.
    pub checked: bool,
}

/// A cluster and the market that the spot machines of one of its shapes follow.
#[derive(Clone, Debug)]
pub struct ClusterPlan {
    pub spec: ClusterSpec,
    /// Which of its shapes; a cluster with several has a plan for each.
    pub shape: usize,
    /// The news of the run register it and tell its prices and its capacity; the market only says what is there.
    pub is_told: bool,
    /// `None`: the declared prices hold, and every machine of the cluster can be had.
    pub market: Option<SpotTrace>,
    /// Grams of CO2 for a kilowatt-hour here.
    pub carbon: Option<f64>,
    /// Watts that one machine of it draws at work.
    pub watts: Option<f64>,
}

impl ClusterPlan {
    /// The machines of its shape.
    pub fn machines(&self) -> Option<&Machines> {
        self.spec.machines.get(self.shape)
    }

    /// Relative speed of its machines.
    pub fn speed(&self, config: &Config) -> f64 {
        self.machines().map_or(1.0, |machines| speed_of(config, machines))
    }
}

/// Relative speed of machines.
pub fn speed_of(config: &Config, machines: &Machines) -> f64 {
    let model = machines.shape.accelerators.as_ref();
    model.and_then(|model| config.estimates.speeds.get(&model.model)).copied().unwrap_or(1.0)
}

/// Something that happens to clusters at a stated time.
#[derive(Clone, Debug)]
pub struct Shock {
    /// Since the start.
    pub at: Millis,
    pub length: Millis,
    /// By their number.
    pub clusters: Vec<usize>,
    pub kind: ShockKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShockKind {
    /// Spot prices are this many times what the market says.
    Price(f64),
    /// Of what the market has, this share is left.
    Capacity(f64),
}

/// What policies are told of capacity that nobody asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// How many machines each spot market has, at each change.
    Free,
    /// Nothing: a launch is refused where there is none.
    #[default]
    Tried,
}

/// How the world behaves.
#[derive(Clone, Debug)]
pub struct Terms {
    pub sight: Sight,
    /// From the order to the machines.
    pub provision: Span,
    /// From the machines to the program, restoring and staging not counted.
    pub boot: Span,
    /// From the order to stop to the proof that the machines are gone.
    pub release: Millis,
    /// Warning before a machine is taken, unless the trace says otherwise.
    pub notice: Millis,
    /// Of a hundred losses, how many come without any warning, and with a tenth of it.
    pub unwarned_percent: u32,
    pub short_percent: u32,
    /// Bytes a second between two regions, and within one; all transfers of a pair share them.
    pub between_regions: Bytes,
    pub within_region: Bytes,
}

/// A length that is drawn evenly from here to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub low: Millis,
    pub high: Millis,
}

impl Span {
    pub const fn of(length: Millis) -> Self {
        Self { low: length, high: length }
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            sight: Sight::Tried,
            provision: Span { low: Millis::from_secs(20), high: Millis::from_secs(90) },
            boot: Span { low: Millis::from_secs(40), high: Millis::from_secs(120) },
            release: Millis::from_secs(20),
            notice: Millis::from_secs(120),
            unwarned_percent: 5,
            short_percent: 10,
            between_regions: Bytes::new(250_000_000),
            within_region: Bytes::new(1_000_000_000),
        }
    }
}

/// A job as it arrives, and what is true of it whatever its submitter stated.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Since the start.
    pub at: Millis,
    pub spec: JobSpec,
    /// Useful work on machines of relative speed 1.
    pub work: Millis,
    pub team: Box<str>,
    /// Inputs that must be brought to the machines' region before the program can begin.
    pub inputs: Vec<(Region, Bytes)>,
    /// Of a job out of an installation's history.
    pub recorded: Option<Box<Recorded>>,
}

/// What became of a job when it really ran, as far as it is true of it under any policy.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Its number then; the jobs that its specification depends on go by such numbers too.
    pub id: JobId,
    /// When somebody cancelled it, since the start, and who.
    pub cancel: Option<(Millis, Name)>,
    /// As measured, whatever its specification expects.
    pub save: Option<Millis>,
    pub restore: Option<Millis>,
    pub checkpoint: Option<Bytes>,
    /// Failures of its program, in order.
    pub failures: Vec<ProgramFailure>,
}

/// A program that ends by itself before its work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramFailure {
    /// Once so much of the job's work is done.
    pub at: Millis,
    pub exit_code: i32,
}

/// Why a workload cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(pub String);

/// Jobs in the order of their arrival; only the next one is ever held.
pub struct Workload(pub Box<dyn Iterator<Item = Result<Arrival, WorkloadError>> + Send>);

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Workload")
    }
}

/// Sets what a world without broken agents needs no timers for: leases that outlast every run, launches that are always
/// answered, meters that are read by the hour. Holds reach further to match.
pub fn quiet(config: &mut Config) {
    let ever = Millis::from_hours(24 * 365 * 100);
    config.lease.ttl = ever;
    config.launch.deadline = ever;
    config.launch.stop_again = Millis::from_hours(1);
    config.price_max_age = ever;
    config.money.meter_every = Millis::from_hours(1);
    config.money.horizon = Millis::from_hours(4);
    config.keep_requests = Millis::from_hours(1);
    config.keep_finished = Millis::from_hours(1);
}
