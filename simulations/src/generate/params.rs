//! The parameter file: a few numbers in TOML that stand for a recording. Unknown keys are refused.

use std::fs;
use std::path::Path;

use leeway_market::trace;
use leeway_model::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::arrivals::Arrivals;
use super::spread::Spread;

/// What a parameter file says of itself first.
pub const SCHEMA: &str = "leeway-params-v1";
/// A century, the longest that a job may run.
const RUNTIME_MAX_S: f64 = 876_600.0 * 3_600.0;

/// A parameter file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub schema: String,
    /// Which recording this was fitted to, whose it is and under which licence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub market: Option<Market>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
}

/// One machine type in one zone: when there is spot capacity, and at which price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Market {
    /// Length of a tick in seconds.
    pub gap_s: u32,
    /// Nodes asked for at each tick, and so the most that there are.
    #[serde(default = "one")]
    pub nodes: u32,
    pub on_demand_usd_per_h: f64,
    /// Mean time for which a number of nodes stays within a spell, in seconds. Only with `levels`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub level_s: f64,
    /// How long capacity lasts and how long it is away. Without both there is always capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Spread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Spread>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rhythm: Option<Rhythm>,
    pub price: Price,
    /// How many nodes there are while there are any; always all when there is no entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

/// How the risk of a loss follows the day: `1 + swing cos(hours from the peak)` times the mean risk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rhythm {
    /// From 0 to 0.95.
    pub swing: f64,
    /// UTC where the moment of the first tick is known, otherwise hours from the first tick.
    pub peak_hour: f64,
}

/// The logarithm of the price returns to its mean while chance moves it, and holds for a step each time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The price whose logarithm is the mean of the logarithms.
    pub mean_usd_per_h: f64,
    /// Standard deviation of the logarithm over a long time; 0 for a price that does not move.
    #[serde(default)]
    pub deviation: f64,
    /// The share of the distance to the mean that is made up in an hour, as a rate.
    #[serde(default = "daily")]
    pub reversion_per_h: f64,
    /// The share of steps in which the price moves at all.
    #[serde(default = "always")]
    pub moves: f64,
    /// Length of a step in seconds, in whole ticks: at least one.
    #[serde(default = "hour")]
    pub step_s: u32,
    /// No price is below this.
    pub floor_usd_per_h: f64,
    /// No price is above so many times the on-demand price.
    pub cap_of_on_demand: f64,
}

/// A number of nodes, and how often it is there beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    pub nodes: u32,
    pub weight: f64,
}

/// Jobs as they are submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Runtimes are cut here, in seconds.
    #[serde(rename = "runtime_max_s", serialize_with = "as_secs", deserialize_with = "from_secs")]
    pub runtime_max: Millis,
    pub arrivals: Arrivals,
    pub runtime: Spread,
    /// At least one.
    pub sizes: Vec<Size>,
    /// Who submits; when there is none, jobs have neither team nor user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teams: Vec<Team>,
}

/// One shape of a job, and how often it occurs beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    pub weight: f64,
    #[serde(default = "one")]
    pub nodes: u32,
    #[serde(default)]
    pub gpus: u32,
    #[serde(default)]
    pub cpus: u32,
    #[serde(default)]
    pub memory_mib: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<String>,
}

impl Default for Size {
    fn default() -> Self {
        Self { weight: 1.0, nodes: 1, gpus: 0, cpus: 0, memory_mib: 0, accelerator: None }
    }
}

/// A team, and how much of the jobs is its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Team {
    pub name: String,
    pub weight: f64,
    #[serde(default = "one")]
    pub users: u32,
}

const fn one() -> u32 {
    1
}

const fn hour() -> u32 {
    3_600
}

const fn always() -> f64 {
    1.0
}

const fn daily() -> f64 {
    1.0 / 24.0
}

fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

fn as_secs<S: Serializer>(length: &Millis, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(length.as_secs_f64())
}

fn from_secs<'de, D: Deserializer<'de>>(from: D) -> Result<Millis, D::Error> {
    let secs = f64::deserialize(from)?;
    if secs > 0.0 && secs <= RUNTIME_MAX_S {
        return Ok(Millis::from_secs_f64(secs));
    }
    Err(serde::de::Error::custom(format!("{secs} is not a number of seconds above 0 and below a century")))
}

/// Why a parameter file is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("'{file}': {error}")]
    Io { file: String, error: std::io::Error },
    /// The text names line, column and key.
    #[error("'{file}': {problem}")]
    Toml { file: String, problem: String },
    #[error("'{file}': {field}: {problem}")]
    Field { file: String, field: String, problem: String },
}

impl Params {
    /// Reads and checks a parameter file.
    ///
    /// # Errors
    /// Names the file and the key.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| Error::Io { file: file.clone(), error })?;
        Self::parse(&file, &text)
    }

    /// Reads and checks a text; `file` is only for messages.
    ///
    /// # Errors
    /// Names the file and the key.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let params: Self = toml::from_str(text)
            .map_err(|error| Error::Toml { file: file.to_owned(), problem: error.to_string().trim_end().to_owned() })?;
        let refuse = |(field, problem)| Error::Field { file: file.to_owned(), field, problem };
        params.check().map_err(refuse)?;
        Ok(params)
    }

    /// The file that reads back as these parameters.
    pub fn write(&self) -> String {
        toml::to_string(self).expect("parameters are tables, lists, texts and numbers, all of which TOML has")
    }

    fn check(&self) -> Result<(), (String, String)> {
        if self.schema != SCHEMA {
            return Err(("schema".to_owned(), format!("'{}' is not known; this reader knows {SCHEMA}", self.schema)));
        }
        let within = |part: &str| {
            let part = part.to_owned();
            move |(field, problem): (String, String)| (format!("{part}.{field}"), problem)
        };
        self.market.as_ref().map_or(Ok(()), Market::check).map_err(within("market"))?;
        self.workload.as_ref().map_or(Ok(()), Workload::check).map_err(within("workload"))
    }
}

impl Market {
    /// That a market can be drawn from these parameters.
    ///
    /// # Errors
    /// The field and what is wrong with it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |field: &str, problem: String| Err((field.to_owned(), problem));
        if self.gap_s == 0 || self.gap_s > 86_400 {
            return wrong("gap_s", format!("is {}; it must be from 1 to 86400", self.gap_s));
        }
        if self.nodes == 0 || self.nodes > trace::NODES_MAX {
            return wrong("nodes", format!("is {}; it must be from 1 to {}", self.nodes, trace::NODES_MAX));
        }
        let prices = [
            ("on_demand_usd_per_h", self.on_demand_usd_per_h),
            ("price.mean_usd_per_h", self.price.mean_usd_per_h),
            ("price.floor_usd_per_h", self.price.floor_usd_per_h),
            ("price.cap_of_on_demand", self.price.cap_of_on_demand),
        ];
        if let Some((field, value)) = prices.iter().find(|(_, value)| !(0.0001..=1e6).contains(value)) {
            return wrong(field, format!("is {value}; it must be from 0.0001 to 1000000"));
        }
        if self.price.floor_usd_per_h > self.price.cap_of_on_demand * self.on_demand_usd_per_h {
            return wrong("price.floor_usd_per_h", "is above the cap, so there is no price between them".to_owned());
        }
        let (deviation, reversion) = (self.price.deviation, self.price.reversion_per_h);
        if !(0.0..=10.0).contains(&deviation) || !(1e-6..=1e6).contains(&reversion) {
            let problem = format!(
                "deviation is {deviation} and reversion_per_h {reversion}; they must be from 0 to 10 and above 0"
            );
            return wrong("price", problem);
        }
        if !(self.price.moves > 0.0 && self.price.moves <= 1.0) {
            return wrong("price.moves", format!("is {}; it must be above 0 and at most 1", self.price.moves));
        }
        for (field, spread) in [("up", self.up), ("down", self.down)] {
            if let Some(problem) = spread.and_then(|spread| spread.fault()) {
                return wrong(field, problem);
            }
        }
        if self.up.is_some() != self.down.is_some() {
            return wrong("up", "needs down as well, and down needs up".to_owned());
        }
        let is_swing =
            |rhythm: &Rhythm| (0.0..=0.95).contains(&rhythm.swing) && (0.0..=24.0).contains(&rhythm.peak_hour);
        if self.rhythm.as_ref().is_some_and(|rhythm| !is_swing(rhythm)) {
            return wrong("rhythm", "swing must be from 0 to 0.95 and peak_hour from 0 to 24".to_owned());
        }
        let is_level =
            |level: &Level| (1..=self.nodes).contains(&level.nodes) && level.weight > 0.0 && level.weight <= 1e12;
        if let Some(index) = self.levels.iter().position(|level| !is_level(level)) {
            let problem = format!("needs nodes from 1 to {} and a weight above 0", self.nodes);
            return wrong(&format!("levels[{index}]"), problem);
        }
        let lasts = self.level_s > 0.0 && self.level_s.is_finite();
        if !self.levels.is_empty() && !lasts {
            return wrong("level_s", format!("is {}; with levels it must be above 0", self.level_s));
        }
        Ok(())
    }
}

impl Workload {
    /// That jobs can be drawn from these parameters.
    ///
    /// # Errors
    /// The field and what is wrong with it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |field: String, problem: String| Err((field, problem));
        if let Some(problem) = self.arrivals.fault() {
            return wrong("arrivals".to_owned(), problem);
        }
        if let Some(problem) = self.runtime.fault() {
            return wrong("runtime".to_owned(), problem);
        }
        if self.sizes.is_empty() {
            return wrong("sizes".to_owned(), "has no entry; at least one is needed".to_owned());
        }
        let weights = (self.sizes.iter().enumerate().map(|(index, size)| (format!("sizes[{index}]"), size.weight)))
            .chain(self.teams.iter().enumerate().map(|(index, team)| (format!("teams[{index}]"), team.weight)));
        for (field, weight) in weights {
            if !(weight > 0.0 && weight <= 1e12) {
                return wrong(field, format!("weight is {weight}; it must be a number above 0 and at most 1e12"));
            }
        }
        if let Some(index) = self.sizes.iter().position(|size| size.nodes == 0 || size.nodes > 1_000_000) {
            return wrong(format!("sizes[{index}]"), "nodes must be from 1 to 1000000".to_owned());
        }
        let is_team = |team: &Team| team.users > 0 && is_name(&team.name);
        if let Some(index) = self.teams.iter().position(|team| !is_team(team)) {
            let problem = "needs at least one user and a name of 1 to 128 printable characters".to_owned();
            return wrong(format!("teams[{index}]"), problem);
        }
        if let Some(index) =
            self.sizes.iter().position(|size| size.accelerator.as_deref().is_some_and(|text| !is_name(text)))
        {
            return wrong(format!("sizes[{index}]"), "accelerator needs 1 to 128 printable characters".to_owned());
        }
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKET: &str = r#"
schema = "leeway-params-v1"
[market]
gap_s = 600
on_demand_usd_per_h = 3.06
[market.up]
kind = "weibull"
shape = 0.6
scale_s = 9000.0
[market.down]
kind = "lomax"
shape = 1.5
scale_s = 3000.0
[market.price]
mean_usd_per_h = 0.92
floor_usd_per_h = 0.3
cap_of_on_demand = 1.0
"#;

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        let workload = "\n[workload]\nruntime_max_s = 86400\n[workload.arrivals]\nper_hour = 4.5\n[workload.runtime]\nkind = \"log-normal\"\n\
                        mu = 8.0\nsigma = 1.5\n[[workload.sizes]]\nweight = 1\ngpus = 8\n";
        let params = Params::parse("params", &format!("{MARKET}{workload}")).unwrap();
        assert_eq!(Params::parse("params", &params.write()).unwrap(), params);
        assert_eq!(params.workload.unwrap().sizes[0].nodes, 1);
    }

    #[test]
    fn c_04_unknown_keys_and_impossible_values_are_refused_by_name() {
        for (from, to, part) in [
            ("gap_s = 600", "gap_s = 600\ngaps = 5", "gaps"),
            ("shape = 0.6", "shape = 0.6\nform = 1.0", "form"),
            ("\"weibull\"", "\"cauchy\"", "cauchy"),
            ("shape = 0.6", "shape = -0.6", "market.up: shape is -0.6"),
            ("scale_s = 3000.0", "scale_s = nan", "market.down: scale_s is NaN"),
            ("gap_s = 600", "gap_s = 0", "market.gap_s: is 0"),
            ("mean_usd_per_h = 0.92", "mean_usd_per_h = -1.0", "market.price.mean_usd_per_h"),
            ("floor_usd_per_h = 0.3", "floor_usd_per_h = 30.0", "above the cap"),
            ("-params-v1", "-params-v9", "schema"),
        ] {
            assert!(MARKET.contains(from), "{from}");
            let error = Params::parse("params", &MARKET.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with("'params': ") && error.contains(part), "{to}: {error}");
        }
    }
}
