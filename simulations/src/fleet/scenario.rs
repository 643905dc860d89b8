//! Scenarios: a world, its jobs, what befalls them and the policies to try, in TOML.
//!
//! `cluster`, `workload` and `values` are the parts of the text; `build` makes a [`Setup`](super::Setup) of it for one
//! policy and one seed, `market` the
//! market of a cluster and `jobs` the stream of its jobs; `feasible` refuses what could never be. Scenarios that come with the program are in `simulations/scenarios/`.

use std::fs;
use std::path::{Path, PathBuf};

use leeway_model::{Millis, Timestamp};
use serde::Deserialize;

pub mod build;
pub mod cluster;
pub mod extent;
mod feasible;
mod jobs;
mod market;
pub mod values;
pub mod workload;

use cluster::Cluster;
use values::{Money, Range, text};
use workload::{Fixed, Stream};

/// Scenarios that come with the program: name and text.
pub const READY: [(&str, &str); 8] = [
    ("single-zone-deadline", include_str!("../../scenarios/single-zone-deadline.toml")),
    ("three-region-deadline", include_str!("../../scenarios/three-region-deadline.toml")),
    ("multi-region-egress", include_str!("../../scenarios/multi-region-egress.toml")),
    ("shared-pool", include_str!("../../scenarios/shared-pool.toml")),
    ("cluster-month", include_str!("../../scenarios/cluster-month.toml")),
    ("price-storm", include_str!("../../scenarios/price-storm.toml")),
    ("mass-reclaim", include_str!("../../scenarios/mass-reclaim.toml")),
    ("first-week", include_str!("../../scenarios/first-week.toml")),
];

/// A scenario as it is written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence for people.
    pub about: String,
    /// How long jobs arrive.
    #[serde(deserialize_with = "text")]
    pub length: Millis,
    /// When a run is given up, from its start; four times the length when not given.
    #[serde(default, deserialize_with = "values::maybe_text")]
    pub limit: Option<Millis>,
    #[serde(default = "start", deserialize_with = "text")]
    pub start: Timestamp,
    /// Policies to compare when none are asked for; the first is the one that a single run takes.
    #[serde(default = "policies")]
    pub policies: Vec<String>,
    /// Order of the jobs that wait, by name.
    pub queue_order: Option<String>,
    #[serde(default)]
    pub fair_share: FairShare,
    #[serde(default = "one")]
    pub seed: u64,
    /// Runs of each policy, each with a seed of its own that all policies share.
    #[serde(default = "five")]
    pub repetitions: u32,
    #[serde(default)]
    pub world: World,
    /// Speed of accelerators beside one of speed 1, by model.
    #[serde(default)]
    pub speeds: std::collections::BTreeMap<String, f64>,
    pub clusters: Vec<Cluster>,
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// Jobs that arrive by a law or out of a recording.
    #[serde(default)]
    pub workload: Vec<Stream>,
    /// Jobs written out one by one.
    #[serde(default)]
    pub jobs: Vec<Fixed>,
    #[serde(default)]
    pub shocks: Vec<Shock>,
}

/// How owners weigh in an order of the queue in which they take turns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FairShare {
    /// What an owner used so long ago counts half.
    #[serde(deserialize_with = "values::maybe_text")]
    pub half_life: Option<Millis>,
    /// By owner; 1 for who is not named.
    pub weights: std::collections::BTreeMap<String, f64>,
}

/// How the world behaves; see [`Terms`](super::setup::Terms) for the meaning and the defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct World {
    pub sight: Option<Sight>,
    pub provision: Option<Range>,
    pub boot: Option<Range>,
    #[serde(deserialize_with = "values::maybe_text")]
    pub release: Option<Millis>,
    #[serde(deserialize_with = "values::maybe_text")]
    pub notice: Option<Millis>,
    pub unwarned_percent: Option<u32>,
    pub short_percent: Option<u32>,
    #[serde(deserialize_with = "values::maybe_text")]
    pub between_regions: Option<leeway_model::Bytes>,
    #[serde(deserialize_with = "values::maybe_text")]
    pub within_region: Option<leeway_model::Bytes>,
}

/// What policies are told of capacity that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sight {
    Free,
    Tried,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub name: String,
    pub parent: Option<String>,
    pub cap: Money,
}

/// Something that happens at a stated time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shock {
    #[serde(deserialize_with = "text")]
    pub at: Millis,
    #[serde(deserialize_with = "text")]
    pub length: Millis,
    /// All of them when empty.
    #[serde(default)]
    pub clusters: Vec<String>,
    /// Spot prices are this many times what the market says.
    pub price: Option<f64>,
    /// This share of the spot capacity is left.
    pub capacity: Option<f64>,
}

fn start() -> Timestamp {
    // A Monday, so that weekly rhythms begin with the week.
    Timestamp::from_millis(1_772_409_600_000)
}

fn policies() -> Vec<String> {
    ["whole-bill", "cheapest", "failover", "on-demand"].map(str::to_owned).to_vec()
}

const fn one() -> u64 {
    1
}

const fn five() -> u32 {
    5
}

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no scenario '{name}' and no such file; ready ones are {}", names().join(", "))]
    Unknown { name: String },
    #[error("'{}': {error}", path.display())]
    Io { path: PathBuf, error: std::io::Error },
    #[error("{name}: {problem}")]
    Toml { name: String, problem: String },
    #[error("{name}: {field}: {problem}")]
    Field { name: String, field: String, problem: String },
    #[error(transparent)]
    Market(#[from] leeway_market::trace::Error),
}

impl Scenario {
    /// The keys under which it names a file to be read, with its path.
    pub fn files(&self) -> Vec<(String, &Path)> {
        let clusters =
            self.clusters.iter().enumerate().filter_map(|(number, cluster)| Some((number, cluster.market.as_ref()?)));
        let markets = clusters.flat_map(|(number, market)| {
            let key = |name: &str| format!("clusters[{number}].market.{name}");
            [(key("trace"), &market.trace), (key("fitted"), &market.fitted)]
        });
        let workloads = self.workload.iter().enumerate().flat_map(|(number, of)| {
            let key = |name: &str| format!("workload[{number}].{name}");
            [(key("trace"), &of.trace), (key("fitted"), &of.fitted)]
        });
        markets.chain(workloads).filter_map(|(key, path)| Some((key, path.as_deref()?))).collect()
    }
}

/// Names of the scenarios that come with the program.
pub fn names() -> Vec<&'static str> {
    READY.iter().map(|(name, _)| *name).collect()
}

/// A scenario with the name by which messages speak of it, and the folder from which its files are read.
#[derive(Clone, Debug)]
pub struct Named {
    pub name: String,
    pub folder: PathBuf,
    pub scenario: Scenario,
}

impl Named {
    /// A scenario that comes with the program, by name, or a file.
    ///
    /// # Errors
    /// A name that is not known and no file; a text that is no scenario, with line, key and the nearest known one.
    pub fn read(name: &str) -> Result<Self, Error> {
        Self::read_with(name, &[])
    }

    /// As [`read`](Self::read), with `key=value` settings laid over the text.
    ///
    /// # Errors
    /// As [`read`](Self::read); a setting whose key leads nowhere.
    pub fn read_with(name: &str, settings: &[(String, String)]) -> Result<Self, Error> {
        if let Some((known, text)) = READY.iter().find(|(known, _)| *known == name) {
            return Self::parse(known, text, Path::new("."), settings);
        }
        let path = Path::new(name);
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(name, &text, path.parent().unwrap_or(Path::new(".")), settings),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::Unknown { name: name.to_owned() }),
            Err(error) => Err(Error::Io { path: path.to_owned(), error }),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// As [`read_with`](Self::read_with).
    pub fn parse(name: &str, text: &str, folder: &Path, settings: &[(String, String)]) -> Result<Self, Error> {
        let wrong = |problem: String| Error::Toml { name: name.to_owned(), problem };
        let scenario: Scenario = if settings.is_empty() {
            toml::from_str(text).map_err(|error| wrong(values::explained(&error)))?
        } else {
            let mut table: toml::Table = toml::from_str(text).map_err(|error| wrong(values::explained(&error)))?;
            for (key, value) in settings {
                values::set(&mut table, key, value).map_err(|problem| Error::Field {
                    name: name.to_owned(),
                    field: key.clone(),
                    problem,
                })?;
            }
            let table = toml::Value::Table(table);
            Scenario::deserialize(table).map_err(|error| wrong(values::explained(&error)))?
        };
        Ok(Self { name: name.to_owned(), folder: folder.to_owned(), scenario })
    }
}
