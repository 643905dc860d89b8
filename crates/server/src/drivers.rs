//! The drivers of this process, and what only drills need of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use leeway_drivers::{ClusterDriver, DriverError, LocalDriver};
use leeway_model::{Name, RunId};

/// Takes machines away without a word, as a provider does. Only a recorded market asks for it, so that a loss is real
/// and the scheduler learns of it in the same way as of any other.
#[async_trait::async_trait]
pub trait TakesBack: Send + Sync + fmt::Debug {
    async fn take_back(&self, cluster: &Name, run: RunId) -> Result<(), DriverError>;
}

#[async_trait::async_trait]
impl TakesBack for LocalDriver {
    async fn take_back(&self, cluster: &Name, run: RunId) -> Result<(), DriverError> {
        self.lose(cluster, run).await
    }
}

/// Names of the drivers of this build.
pub fn names() -> Vec<Name> {
    vec![local_name()]
}

fn local_name() -> Name {
    "local".parse().expect("'local' is a name")
}

/// Drivers by the name that clusters use.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    pub by_name: BTreeMap<Name, Arc<dyn ClusterDriver>>,
    /// Those whose machines a recorded market can take.
    pub taking: BTreeMap<Name, Arc<dyn TakesBack>>,
    /// The one on this host, whose agents must be told when the server has moved.
    pub local: Option<LocalDriver>,
}

impl Drivers {
    /// The drivers of this build: the one on this host.
    pub fn local(driver: LocalDriver) -> Self {
        let name = local_name();
        Self {
            by_name: BTreeMap::from([(name.clone(), Arc::new(driver.clone()) as Arc<dyn ClusterDriver>)]),
            taking: BTreeMap::from([(name, Arc::new(driver.clone()) as Arc<dyn TakesBack>)]),
            local: Some(driver),
        }
    }
}
