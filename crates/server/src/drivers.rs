//! The drivers of this process, and what only drills need of them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use leeway_drivers::{ClusterDriver, DriverError, LocalDriver, SlurmDriver};
use leeway_model::{InstallationId, Name, RunId};

use crate::settings::Settings;

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
    let mut names = vec![name("local"), name("slurm")];
    if cfg!(feature = "aws") {
        names.push(name("aws"));
    }
    names
}

fn name(text: &str) -> Name {
    text.parse().expect("the names of drivers are names")
}

/// Drivers by the name that clusters use.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    pub by_name: BTreeMap<Name, Arc<dyn ClusterDriver>>,
    /// Those whose machines a recorded market can take.
    pub taking: BTreeMap<Name, Arc<dyn TakesBack>>,
}

impl Drivers {
    /// The drivers of this build, as the settings say.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub async fn of(settings: &Settings, data: &Path) -> anyhow::Result<Self> {
        let program = match &settings.agent_program {
            Some(program) => program.clone(),
            None => std::env::current_exe().context("local.agent: this program's own path is not known; set it")?,
        };
        let root = std::path::absolute(data.join("local"))?;
        let mut drivers = Self::local(LocalDriver::new(root, program).context("preparing the local driver")?);
        let installation = InstallationId(settings.installation.clone());
        let slurm = settings.clusters.iter();
        let slurm = slurm.filter_map(|cluster| Some((cluster.spec.name.clone(), cluster.slurm.clone()?))).collect();
        let slurm = SlurmDriver::new(&installation, slurm).context("preparing the slurm driver")?;
        drivers.by_name.insert(name("slurm"), Arc::new(slurm));
        #[cfg(feature = "aws")]
        {
            let aws = settings.clusters.iter();
            let aws = aws.filter_map(|cluster| Some((cluster.spec.name.clone(), cluster.aws.clone()?))).collect();
            let state = std::path::absolute(data.join("aws"))?;
            let aws =
                leeway_aws::AwsDriver::new(&installation, aws, &state).await.context("preparing the aws driver")?;
            drivers.by_name.insert(name("aws"), Arc::new(aws));
        }
        Ok(drivers)
    }

    /// Machines on this host alone.
    pub fn local(driver: LocalDriver) -> Self {
        Self {
            by_name: BTreeMap::from([(name("local"), Arc::new(driver.clone()) as Arc<dyn ClusterDriver>)]),
            taking: BTreeMap::from([(name("local"), Arc::new(driver) as Arc<dyn TakesBack>)]),
        }
    }
}
