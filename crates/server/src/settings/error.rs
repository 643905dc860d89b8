//! Why a configuration is refused. Every message names the key, the value and what to do.

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
