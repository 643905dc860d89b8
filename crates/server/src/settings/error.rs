//! Why a configuration is refused. Every message names the key, the value and what to do, and all of them come at once.

use std::collections::BTreeMap;
use std::fmt;

/// A key of the configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// The key's path, such as `clusters[1].machines[0].on_demand`; empty for a whole file.
    pub key: String,
    /// What was given and what would do.
    pub message: String,
    /// The file, `the environment` or `the command line`, where it is known.
    pub origin: Option<String>,
}

impl SettingsError {
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), origin: None }
    }

    #[must_use]
    pub fn from_origin(mut self, origin: Option<&str>) -> Self {
        self.origin = self.origin.or_else(|| origin.map(str::to_owned));
        self
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(origin) = &self.origin {
            write!(f, "{origin}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration, one line each, in the order in which it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Problems(Vec<SettingsError>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl From<SettingsError> for Problems {
    fn from(problem: SettingsError) -> Self {
        Self(vec![problem])
    }
}

impl Problems {
    pub fn iter(&self) -> std::slice::Iter<'_, SettingsError> {
        self.0.iter()
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one, unless its key, or a table around it, has one already: what follows from a mistake is not a second.
    pub fn add(&mut self, problem: SettingsError) {
        let within = |known: &SettingsError| {
            let rest = problem.key.strip_prefix(&known.key).filter(|_| !known.key.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if !self.0.iter().any(within) {
            self.0.push(problem);
        }
    }

    /// The value, or nothing and one problem more.
    pub fn take<T>(&mut self, outcome: Result<T, SettingsError>) -> Option<T> {
        outcome.map_err(|problem| self.add(problem)).ok()
    }

    /// As [`take`](Self::take), going on with the default of the type.
    pub fn or_default<T: Default>(&mut self, outcome: Result<T, SettingsError>) -> T {
        self.take(outcome).unwrap_or_default()
    }

    pub fn extend(&mut self, more: Self) {
        more.0.into_iter().for_each(|problem| self.add(problem));
    }

    /// `Ok` with the value when nothing is wrong.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Names what set the key of each: the name that it has there, and the source.
    #[must_use]
    pub fn set_by(self, by: &BTreeMap<&str, (String, &str)>) -> Self {
        let name = |problem: SettingsError| match by.get(problem.key.as_str()) {
            Some((name, origin)) => {
                SettingsError { key: name.clone(), origin: Some((*origin).to_owned()), message: problem.message }
            }
            None => problem,
        };
        Self(self.0.into_iter().map(name).collect())
    }

    /// Names the source of those whose source is not known.
    #[must_use]
    pub fn from_origin(self, origin: Option<&str>) -> Self {
        Self(self.0.into_iter().map(|problem| problem.from_origin(origin)).collect())
    }
}
