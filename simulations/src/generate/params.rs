//! The parameter file: a few numbers in TOML that stand for a recording. Unknown keys are refused.

use std::fs;
use std::path::Path;

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
    pub workload: Option<Workload>,
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
        self.workload.as_ref().map_or(Ok(()), Workload::check)
    }
}

impl Workload {
    /// That jobs can be drawn from these parameters.
    ///
    /// # Errors
    /// The field and what is wrong with it.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |field: String, problem: String| Err((format!("workload.{field}"), problem));
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
        if let Some(index) = self.teams.iter().position(|team| team.users == 0 || team.name.is_empty()) {
            return wrong(format!("teams[{index}]"), "needs a name and at least one user".to_owned());
        }
        Ok(())
    }
}
