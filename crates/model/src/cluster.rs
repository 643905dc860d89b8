//! Clusters and regions: where machines can be had.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resources::MachineShape;
use crate::{Name, Rate};

/// A provider's region, written `aws/us-east-1`; the unit in which egress is priced.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Region(Arc<str>);

crate::name::stored_as_text!(Region, "a region");

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a region; write provider/region in lower case, such as aws/us-east-1 or onprem/berlin")]
pub struct RegionError(String);

impl Region {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn provider(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The part after the provider.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

impl FromStr for Region {
    type Err = RegionError;

    fn from_str(text: &str) -> Result<Self, RegionError> {
        let part = |p: &str| {
            (1..=63).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        match text.split_once('/') {
            Some((provider, name)) if part(provider) && part(name) => Ok(Self(text.into())),
            _ => Err(RegionError(crate::name::escape(text))),
        }
    }
}

impl TryFrom<String> for Region {
    type Error = RegionError;

    fn try_from(text: String) -> Result<Self, RegionError> {
        text.parse()
    }
}

impl From<Region> for String {
    fn from(region: Region) -> Self {
        region.as_str().to_owned()
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an operator declares about a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSpec {
    pub name: Name,
    /// Which driver reaches it: `local`, later `slurm`, `kubernetes`, `aws`.
    pub driver: Name,
    pub region: Region,
    pub zone: Option<Box<str>>,
    pub machines: Vec<Machines>,
    /// Base URL under which runs here keep their checkpoints.
    pub checkpoints: Box<str>,
    pub labels: BTreeMap<String, String>,
}

/// A shape that a cluster has, how many of it, and its declared prices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machines {
    pub shape: MachineShape,
    /// Most machines of this shape at once over all capacity types; `None` where the provider decides.
    pub count: Option<u32>,
    /// Declared price of on-demand capacity, also the reference that a spot price is checked against.
    pub on_demand: Option<Rate>,
    /// Declared spot price; a market feed replaces it.
    pub spot: Option<Rate>,
    /// Price of capacity that is paid for anyway, marked free by the operator when zero.
    pub reserved: Option<Rate>,
}

/// Whether a cluster takes new runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterState {
    #[default]
    Ready,
    /// Runs finish; nothing new is placed.
    Draining,
    /// Its driver cannot reach it; nothing new is placed, runs are judged by their leases.
    Unreachable,
}

impl ClusterState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Draining => "draining",
            Self::Unreachable => "unreachable",
        }
    }
}
