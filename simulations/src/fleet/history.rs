//! An installation's own history as a world: what was submitted, offered, observed and done is read out of a store, and
//! other policies are tried on it.
//!
//! ```text
//! source (a data directory or an export) -> past (rows and events) -> work, pace, market -> world (a run) -> the fleet
//!                                                \-> happened (what it cost, and how far the model is from it)
//! ```
//!
//! The scheduler is told what it was told then, at the instants at which it was told: prices, capacity, clusters, budgets.
//! The jobs come as they came. What the world must answer by itself is reckoned from the record: how much work each job
//! was (`work`), how long machines take to come and to go (`pace`), when spot machines were there (`market`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use leeway_core::Config;
use leeway_model::{InstallationId, JobId, Micros, Millis, Name, RunId, Timestamp};

mod happened;
mod market;
mod pace;
mod past;
mod says;
mod source;
mod work;
mod world;

pub use happened::{AS_IT_HAPPENED, Check, Happened};
use pace::Pace;
pub use past::Past;
pub use work::Work;

/// Stands for the policies that decided when it happened, where there was more than one: every job keeps its own.
pub const AS_RECORDED: &str = "as-recorded";

/// Why a history cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("'{}' does not exist; name a server's data directory or a file that 'leeway store export' wrote", path.display())]
    Missing { path: PathBuf },
    #[error("'{}' holds no store; name a server's data directory or a file that 'leeway store export' wrote", path.display())]
    NoStore { path: PathBuf },
    #[error(
        "'{}' is in use by process {holder}; stop that server first, or replay an export of the store", path.display()
    )]
    Locked { path: PathBuf, holder: String },
    #[error(
        "the history of '{}' begins at entry {first}: what came before was dropped or is in another store; replay an export \
         of it instead ('leeway store export DIR FILE'), which does with what its rows still tell", path.display()
    )]
    Trimmed { path: PathBuf, first: u64 },
    #[error("'{}' has no jobs, so there is nothing to replay; name the store of a server that has run some", path.display())]
    NoJobs { path: PathBuf },
    #[error("{0}")]
    Store(leeway_store::Error),
    #[error("{0}")]
    Row(#[from] leeway_engine::Error),
    #[error("entry {index}: its event cannot be read: {detail}")]
    Event { index: u64, detail: String },
}

impl Error {
    /// Stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "FILE",
            Self::NoStore { .. } => "STORE_NOT_INITIALISED",
            Self::Locked { .. } => "STORE_LOCKED",
            Self::Trimmed { .. } => "STORE_HISTORY_TRIMMED",
            Self::NoJobs { .. } => "NO_JOBS",
            Self::Store(error) => error.code(),
            Self::Row(_) | Self::Event { .. } => "STORE_ROW",
        }
    }
}

/// A history, ready to be replayed.
#[derive(Debug)]
pub struct History {
    name: String,
    past: Past,
    config: Config,
    pace: Pace,
    work: BTreeMap<JobId, Work>,
    /// How many jobs each policy placed last, of those that this program has.
    policies: BTreeMap<Name, u64>,
    /// Jobs that a policy placed that this program does not have.
    unknown_policies: BTreeMap<Name, u64>,
}

impl History {
    /// Reads a store's own folder or an export. `config` has what no store remembers: speeds of machines, tariffs of
    /// egress, cool-downs.
    ///
    /// # Errors
    /// Nothing there, a store in use, one whose beginning is gone, one without jobs, damage.
    pub fn read(path: &Path, config: Option<Config>) -> Result<Self, Error> {
        Self::new(path, source::read(path)?, config)
    }

    /// A history that somebody has read; `path` is what messages call it by.
    ///
    /// # Errors
    /// One without jobs.
    pub fn new(path: &Path, mut past: Past, config: Option<Config>) -> Result<Self, Error> {
        if past.jobs.is_empty() {
            return Err(Error::NoJobs { path: path.to_owned() });
        }
        past.settle();
        let config = config.unwrap_or_else(|| assumed(&past));
        let pace = Pace::of(&past);
        let work = past.jobs.values().map(|job| (job.id, Work::of(&past, job, &config, &pace))).collect();
        let known = leeway_policies::all();
        let (mut policies, mut unknown_policies) = (BTreeMap::new(), BTreeMap::new());
        for policy in past.deciders.values() {
            let counts = if known.get(policy).is_some() { &mut policies } else { &mut unknown_policies };
            *counts.entry(policy.clone()).or_default() += 1;
        }
        let name = called(path);
        Ok(Self { name, past, config, pace, work, policies, unknown_policies })
    }

    /// The policy under which the model is checked: the one that decided then, or all that did.
    pub fn recorded_policy(&self) -> Name {
        match self.policies.len() {
            0 => named(leeway_policies::DEFAULT),
            1 => self.policies.keys().next().cloned().unwrap_or_else(|| named(leeway_policies::DEFAULT)),
            _ => named(AS_RECORDED),
        }
    }

    /// How many jobs each policy placed, of those that this program has.
    pub fn policies(&self) -> &BTreeMap<Name, u64> {
        &self.policies
    }

    pub fn past(&self) -> &Past {
        &self.past
    }

    /// How much work a job was.
    pub fn work(&self, job: JobId) -> Option<&Work> {
        self.work.get(&job)
    }

    /// From the first thing recorded to the last.
    pub fn length(&self) -> Millis {
        self.past.to.since(self.past.from)
    }

    pub fn start(&self) -> Timestamp {
        self.past.from
    }

    /// Jobs whose work is not known, because their program never came to its end.
    pub fn estimated(&self) -> u64 {
        self.work.values().filter(|work| work.is_estimated).count() as u64
    }

    /// What the ledger has for jobs whose rows are forgotten, and how many these are.
    pub fn forgotten(&self) -> (u64, Micros) {
        let gone = self.past.charged.iter().filter(|(job, _)| !self.past.jobs.contains_key(job));
        gone.fold((0, Micros::ZERO), |(count, sum), (_, amount)| (count + 1, sum.saturating_add(*amount)))
    }
}

/// What people call a history: its file or folder, and not the one inside that every server calls 'store'.
fn called(path: &Path) -> String {
    let name = path.file_name().filter(|name| *name != "store");
    let name = name.or_else(|| path.parent().and_then(Path::file_name)).or_else(|| path.file_name());
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into())
}

/// What is assumed where no configuration is given.
fn assumed(past: &Past) -> Config {
    let mut config = Config::new(InstallationId(named("replayed")), named(leeway_policies::DEFAULT));
    config.egress = leeway_market::egress::defaults();
    // Holds tell for how long one pays. Where none was as long as is usual, small budgets lived on that.
    let usual = config.money.horizon.saturating_add(config.money.stop_reserve);
    if let Some(longest) = longest_hold(past).filter(|longest| *longest < usual) {
        let share = |part: Millis| {
            let part = part.as_secs_f64() / usual.as_secs_f64() * longest.as_secs_f64();
            Millis::from_secs_f64(part).max(Millis::from_mins(1))
        };
        config.money.horizon = share(config.money.horizon);
        config.money.stop_reserve = share(config.money.stop_reserve);
        config.money.extend_before = share(config.money.extend_before);
    }
    config
}

/// The longest time of its machines that any run had money for when it was placed.
fn longest_hold(past: &Past) -> Option<Millis> {
    let length = |(id, held): (&RunId, &Micros)| {
        let run = past.runs.get(id)?;
        let rate = run.rate_max.as_units_f64() * f64::from(run.nodes);
        (rate > 0.0).then(|| Millis::from_secs_f64(held.as_units_f64() / rate * 3_600.0))
    };
    past.held.iter().filter_map(length).max()
}

fn named(text: &str) -> Name {
    text.parse().expect("names written in this folder are valid")
}
