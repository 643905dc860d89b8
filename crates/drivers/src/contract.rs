//! What every driver promises.
//!
//! A run's id is the only idempotency token: it is written on everything a driver makes, and found again there. A
//! driver holds no state of its own that its cluster does not hold, so it may be dropped and made anew at any moment.

use std::fmt;

use async_trait::async_trait;
use leeway_model::access::StoreAccess;
use leeway_model::cluster::ClusterSpec;
use leeway_model::market::{CapacityObservation, OfferKey, PriceObservation};
use leeway_model::resources::MachineShape;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{InstallationId, Millis, Name, RunId};

/// What proves an agent to be the one that a launch started; shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

impl Token {
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// Everything a driver needs to bring up the machines of a run, with an agent on each.
#[derive(Clone, Debug)]
pub struct Launch {
    pub run: RunId,
    pub cluster: ClusterSpec,
    pub offer: OfferKey,
    pub shape: MachineShape,
    /// Machines, at least 1; all of them or none.
    pub nodes: u32,
    /// gRPC URL at which the agents reach the server.
    pub server: String,
    /// One a rank. The same run must always be given the same tokens: derive them from the run and a key, since a
    /// second launch adopts agents that already hold theirs.
    pub tokens: Vec<Token>,
    pub installation: InstallationId,
    /// How the agents reach stores of which more is to be said than their URLs. A driver whose machines others may look
    /// into leaves the keys out.
    pub stores: Vec<StoreAccess>,
    /// Time from now within which all machines must be up.
    pub deadline: Millis,
}

/// A launch had no effect that lasts: whatever was made for it is gone or is being ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot launch ({}): {message}", class.as_str())]
pub struct LaunchError {
    pub class: LaunchErrorClass,
    pub message: String,
}

impl LaunchError {
    pub fn new(class: LaunchErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }
}

/// What a driver sees of the machines that are ours in one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Ordered by run and rank.
    pub instances: Vec<Instance>,
    /// Nothing of ours can be missing from `instances`. `false` never proves the absence of anything.
    pub complete: bool,
}

impl Observation {
    /// Whether this proves that no machine of a run is left.
    pub fn proves_gone(&self, run: RunId) -> bool {
        self.complete && self.of(run).all(|instance| instance.state == InstanceState::Gone)
    }

    pub fn of(&self, run: RunId) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(move |instance| instance.run == run)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    pub run: RunId,
    pub rank: u32,
    /// The provider's own name for it.
    pub id: Box<str>,
    pub state: InstanceState,
    /// Set while the provider says that it will take the machine.
    pub warning: Option<Warning>,
    /// Why it is in its state, in the provider's words, for people; no decision rests on it.
    pub detail: Option<Box<str>>,
}

impl Instance {
    pub fn new(run: RunId, rank: u32, id: Box<str>, state: InstanceState) -> Self {
        Self { run, rank, id, state, warning: None, detail: None }
    }
}

/// A provider's word that it will take a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Time from the observation until the machine goes.
    pub left: Millis,
    /// Where it was heard, such as `slurm`.
    pub source: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Being made, or up.
    Running,
    /// Asked to end and not yet proven gone; it still costs.
    Stopping,
    /// Proven gone. It may be listed for a while, or not at all.
    Gone,
    /// The provider said something that we do not know: no proof of anything, and no reason to end it.
    Unknown,
}

/// A call that is not a launch failed; it may have had its effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the driver failed ({}): {message}", class.as_str())]
pub struct DriverError {
    pub class: DriverErrorClass,
    pub message: String,
}

impl DriverError {
    pub fn new(class: DriverErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverErrorClass {
    /// The cluster does not answer; try again.
    Unreachable,
    Throttled,
    /// Credentials are missing, expired or not allowed.
    Denied,
    /// An answer that makes no sense to us.
    Invalid,
}

impl DriverErrorClass {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
        }
    }
}

/// One kind of cluster. Calls for different runs may overlap; calls for one run may too, and the driver orders them.
///
/// *Cancellation*: dropping the future of any call leaves a state from which the same call, repeated, goes on.
#[async_trait]
pub trait ClusterDriver: Send + Sync + fmt::Debug {
    /// Brings up all machines of a run and returns their ids in rank order.
    ///
    /// *Idempotency*: the run's id is the token. A second launch of a run adopts what the first one made and never makes
    /// more; when machines of it have already ended, it ends the rest and fails with `Transient`. After a `stop` of a
    /// run, or after a launch of it failed, no launch of it ever makes a machine.
    ///
    /// *All or nothing*: when not all machines are up by the deadline, those that are up are ended and it fails.
    ///
    /// *Durability*: once it returns `Ok`, the machines outlive this process. A launch whose answer is lost is found by
    /// `observe`.
    async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError>;

    /// Lists what is ours in a cluster: every machine that bears our mark and no other one. A cluster in which nothing
    /// was ever launched is an empty, complete observation.
    ///
    /// A driver may put right what it finds on the way, such as a program whose agent has died; it never ends a machine
    /// that could still be in good order.
    async fn observe(&self, cluster: &Name) -> Result<Observation, DriverError>;

    /// Has the machines of a run end: agents are asked, and killed after `grace`. Returns without waiting for the end,
    /// which only `observe` proves.
    ///
    /// *Idempotency*: any number of calls end the run once, at the earliest moment any of them allowed. Stopping what
    /// does not exist, or has ended, is success. It holds across restarts of this process: what a stop left undone is
    /// finished by the next `observe` or `stop`.
    ///
    /// *Ownership*: only machines that bear our mark are ended, and the mark is looked at just before.
    async fn stop(&self, cluster: &Name, run: RunId, grace: Millis) -> Result<(), DriverError>;

    /// Whether this driver could reach a cluster that is about to be declared, and has what it needs for its machines.
    /// The text says what to do.
    fn check(&self, spec: &ClusterSpec) -> Result<(), String> {
        let _ = spec;
        Ok(())
    }

    /// Addresses at which the machines of a run reach each other, in rank order; empty where only the machines know.
    async fn addresses(&self, cluster: &Name, run: RunId, nodes: u32) -> Result<Vec<String>, DriverError> {
        let _ = (cluster, run, nodes);
        Ok(Vec::new())
    }

    /// How often a cluster bears to be looked at; `None` where a look costs little.
    fn poll_every(&self, cluster: &Name) -> Option<Millis> {
        let _ = cluster;
        None
    }

    /// Machines of each offer of a cluster that could be held now, ours included, as far as the cluster tells. An offer
    /// that is not named is one of which nothing is known.
    async fn capacity(&self, cluster: &ClusterSpec) -> Result<Vec<CapacityObservation>, DriverError> {
        let _ = cluster;
        Ok(Vec::new())
    }

    /// Prices that changed since the last call, as far as the cluster's provider tells. Asked with every look; the driver
    /// decides how often it asks its provider.
    async fn prices(&self, cluster: &ClusterSpec) -> Result<Vec<PriceObservation>, DriverError> {
        let _ = cluster;
        Ok(Vec::new())
    }

    /// Removes what is left on disk of a run whose machines are proven gone. Refused with
    /// [`DriverErrorClass::Invalid`] while one of them may live. What does not exist is success.
    async fn forget(&self, cluster: &Name, run: RunId) -> Result<(), DriverError> {
        let _ = (cluster, run);
        Ok(())
    }

    /// Tells the agents of a cluster that the server has moved, where they can be told without being heard first.
    async fn readdress(&self, cluster: &Name, server: &str) -> Result<(), DriverError> {
        let _ = (cluster, server);
        Ok(())
    }
}
