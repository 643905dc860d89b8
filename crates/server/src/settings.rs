//! Configuration: defaults, then a file, then the environment, then the command line. What is wrong is refused with its
//! key, its value and what to do; an unknown key with the nearest known one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use config::{Config as Layers, File, FileFormat, Value};
use leeway_aws::AwsConfig;
use leeway_core::{Config, config as core_config};
use leeway_data::Stores;
use leeway_drivers::slurm::SlurmConfig;
use leeway_market::replay::End;
use leeway_model::budget::BudgetSpec;
use leeway_model::cluster::ClusterSpec;
use leeway_model::egress::EgressTable;
use leeway_model::{Bytes, Currency, Millis, Name, Timestamp};
use leeway_webhook::TargetPolicy;

mod aws;
mod convert;
mod environment;
mod error;
mod filter;
mod order;
mod raw;
mod read;
mod schema;
mod slurm;
mod stores;
mod tree;

pub use environment::is_known_variable;
pub use error::{Problems, SettingsError};
pub use schema::{nearest, scalar_keys};

/// A whole configuration with every key explained; also the text of `deploy/`'s example.
pub const EXAMPLE: &str = include_str!("settings/example.toml");

const COMMAND_LINE: &str = "the command line";

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// Usually `std::env::vars()`; `LEEWAY_LEASE__TTL` sets `lease.ttl`.
    pub environment: BTreeMap<String, String>,
    /// Key and value, as flags of the command line gave them.
    pub overrides: Vec<(String, String)>,
}

/// Everything the server needs to know to start.
#[derive(Clone, Debug)]
pub struct Settings {
    pub installation: Name,
    /// Home of the store, keys, logs and uploads.
    pub data_dir: PathBuf,
    pub listen: SocketAddr,
    pub metrics_listen: SocketAddr,
    /// URL under which agents reach the server, when it is another than where it listens.
    pub advertise: Option<String>,
    pub default_policy: Name,
    /// Policy of jobs that have a deadline and name none.
    pub deadline_policy: Option<Name>,
    /// Which of the jobs that wait goes first.
    pub queue_order: Name,
    pub fair_share: core_config::FairShare,
    pub default_budget: Option<Name>,
    /// Of the ledger.
    pub currency: Currency,
    pub log: Log,
    pub lease: core_config::Lease,
    pub money: core_config::Money,
    pub launch: core_config::Launch,
    pub estimates: core_config::Estimates,
    pub price_max_age: Millis,
    pub keep_finished: Millis,
    pub keep_requests: Millis,
    pub placements_per_step: usize,
    pub open_jobs_per_owner: u64,
    pub wait_for_cheaper_factor: f64,
    pub limits: Limits,
    /// The program of agents on this host, started as `PROGRAM agent --run-dir DIR`; this very program when not given.
    pub agent_program: Option<PathBuf>,
    pub webhooks: Webhooks,
    pub budgets: Vec<BudgetSpec>,
    pub clusters: Vec<ClusterSettings>,
    /// How object stores are reached, by the server and by agents.
    pub stores: Stores,
    pub catalogs: Vec<CatalogSettings>,
    pub egress: EgressTable,
    /// So many seconds of the scheduler pass in a real one.
    pub clock_speed: u32,
    /// Incarnation of a restored store that an operator has looked at.
    pub confirm_restore: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Log {
    /// A filter such as `info` or `leeway_server=debug,warn`.
    pub level: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// What happens at a bound is said where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Commands that may wait for the scheduler; beyond it callers are told to come back.
    pub queue: usize,
    /// Commands that share one flush at most.
    pub group: usize,
    /// Output that is kept of one rank of one run.
    pub log_size: Bytes,
    /// Largest upload.
    pub upload_size: Bytes,
    /// Jobs that one owner may submit in a second, over ten of them.
    pub submissions_per_second: usize,
}

#[derive(Clone, Debug)]
pub struct Webhooks {
    pub policy: TargetPolicy,
    /// For one attempt.
    pub timeout: Duration,
}

#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Where it stands in the configuration, such as `clusters[0]`.
    pub key: String,
    pub spec: ClusterSpec,
    pub market: Option<MarketSettings>,
    /// Of a cluster that Slurm runs.
    pub slurm: Option<SlurmConfig>,
    /// Of a cluster of EC2 instances.
    pub aws: Option<AwsConfig>,
}

/// A recorded market that a cluster's spot offers follow.
#[derive(Clone, Debug)]
pub struct MarketSettings {
    /// A file, or `builtin:NAME` for one that comes with the program.
    pub trace: String,
    /// The machine shape whose spot offer follows it.
    pub shape: Name,
    /// Warning before a loss for which the trace states none.
    pub notice: Millis,
    pub end: End,
}

/// A price list to read at start.
#[derive(Clone, Debug)]
pub struct CatalogSettings {
    /// Where it stands in the configuration, such as `catalogs[0]`.
    pub key: String,
    pub file: PathBuf,
    /// For layouts that name no provider.
    pub provider: Option<String>,
    /// When its prices were seen; the file's own time when the file does not say.
    pub as_of: Option<Timestamp>,
    /// Refused when it is older.
    pub max_age: Option<Millis>,
}

impl Settings {
    /// Reads all sources, the later ones winning, and looks for everything for which this program would refuse them, the
    /// files that they name included. Makes and changes nothing. The store is looked at by [`crate::check_store`].
    ///
    /// # Errors
    /// All problems at once, each with its key, its value and what to do.
    pub fn load(sources: &Sources) -> Result<Self, Problems> {
        let origin = sources.file.as_ref().map(|file| file.display().to_string());
        let mut problems = Problems::default();
        let mut layers = Layers::builder();
        if let Some(path) = &sources.file {
            let text = std::fs::read_to_string(path).map_err(|error| {
                let message = format!("cannot be read: {error}; name an existing file with --config");
                SettingsError::new("", message).from_origin(origin.as_deref())
            })?;
            layers = layers.add_source(Text { origin: path.display().to_string(), text });
        }
        let variables = environment::settings(&sources.environment, &mut problems);
        for (key, value) in &variables {
            layers = set(layers, key, value.clone(), environment::ORIGIN)?;
        }
        for (key, value) in &sources.overrides {
            if problems.take(known(key)).is_some() {
                layers = set(layers, key, value.clone(), COMMAND_LINE)?;
            }
        }
        let base = sources.file.as_ref().and_then(|file| file.parent()).unwrap_or_else(|| "".as_ref());
        let settings = convert(layers, base, &mut problems)?;
        problems.extend(crate::check::all(&settings));
        // Whatever is wrong with a key is wrong with what set it last.
        let flags = sources.overrides.iter().map(|(key, _)| (key.as_str(), (key.clone(), COMMAND_LINE)));
        let variables =
            variables.iter().map(|(key, _)| (key.as_str(), (environment::variable_of(key), environment::ORIGIN)));
        let set_by = variables.chain(flags).collect();
        problems.set_by(&set_by).from_origin(origin.as_deref()).or(settings)
    }

    /// Settings from the text of a file, for tests and for servers inside another program. What depends on that program,
    /// on files or on the data directory is looked at by [`start_with`](crate::start_with).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_toml(text: &str) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let layers = Layers::builder().add_source(File::from_str(text, FileFormat::Toml));
        let settings = convert(layers, "".as_ref(), &mut problems)?;
        problems.or(settings)
    }

    /// What the core needs of all this.
    pub fn core(&self) -> Config {
        let installation = leeway_model::InstallationId(self.installation.clone());
        Config {
            currency: self.currency,
            deadline_policy: self.deadline_policy.clone(),
            queue_order: self.queue_order.clone(),
            fair_share: self.fair_share.clone(),
            default_budget: self.default_budget.clone(),
            lease: self.lease,
            money: self.money,
            launch: self.launch,
            estimates: self.estimates.clone(),
            egress: self.egress.clone(),
            price_max_age: self.price_max_age,
            keep_finished: self.keep_finished,
            keep_requests: self.keep_requests,
            placements_per_step: self.placements_per_step,
            open_jobs_per_owner: self.open_jobs_per_owner,
            wait_for_cheaper_factor: self.wait_for_cheaper_factor,
            ..Config::new(installation, self.default_policy.clone())
        }
    }
}

/// Only what makes reading the rest impossible is an error; everything else is added to `problems`.
fn convert(layers: Builder, base: &std::path::Path, problems: &mut Problems) -> Result<Settings, Problems> {
    let mut layers = layers.build().map_err(layer_error)?;
    schema::check(&mut layers.cache, problems);
    let raw: raw::Raw = layers.try_deserialize().map_err(layer_error)?;
    Ok(convert::settings(&raw, base, problems))
}

/// A file that was read already, so that its errors carry its name.
#[derive(Clone, Debug)]
struct Text {
    origin: String,
    text: String,
}

impl config::Source for Text {
    fn clone_into_box(&self) -> Box<dyn config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<config::Map<String, Value>, config::ConfigError> {
        use config::Format;
        FileFormat::Toml
            .parse(Some(&self.origin), &self.text)
            .map_err(|cause| config::ConfigError::FileParse { uri: Some(self.origin.clone()), cause })
    }
}

type Builder = config::ConfigBuilder<config::builder::DefaultState>;

fn set(layers: Builder, key: &str, value: String, origin: &str) -> Result<Builder, SettingsError> {
    let value = Value::new(Some(&origin.to_owned()), value);
    layers.set_override(key, value).map_err(layer_error)
}

/// Refuses a key of the command line that does not exist.
fn known(key: &str) -> Result<(), SettingsError> {
    let keys = scalar_keys();
    if keys.iter().any(|known| known == key) {
        return Ok(());
    }
    let message = match nearest(key, keys.iter().map(String::as_str)) {
        Some(name) => format!("there is no such key; did you mean '{name}'?"),
        None => "there is no such key".to_owned(),
    };
    Err(SettingsError::new(key, message).from_origin(Some(COMMAND_LINE)))
}

fn layer_error(error: config::ConfigError) -> SettingsError {
    match error {
        config::ConfigError::FileParse { uri, cause } => {
            let message = format!("is not TOML: {cause}");
            SettingsError::new("", message).from_origin(uri.as_deref())
        }
        config::ConfigError::Type { origin, unexpected, expected, key } => {
            let message = format!("found {unexpected}; write {expected}");
            SettingsError::new(key.unwrap_or_default(), message).from_origin(origin.as_deref())
        }
        config::ConfigError::At { error, origin, key } => {
            let mut inner = layer_error(*error);
            if inner.key.is_empty() {
                inner.key = key.unwrap_or_default();
            }
            inner.from_origin(origin.as_deref())
        }
        other => SettingsError::new("", other.to_string()),
    }
}
