//! The driver itself: clusters, clients, and the promises of the contract.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_runtime::env_config::file::{EnvConfigFileKind, EnvConfigFiles};
use aws_sdk_ec2::Client;
use aws_smithy_http_client::tls;
use leeway_drivers::errors::{classify, other_call};
use leeway_drivers::{ClusterDriver, DriverError, DriverErrorClass, InstanceState, Launch, LaunchError, Observation};
use leeway_model::cluster::ClusterSpec;
use leeway_model::market::PriceObservation;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{InstallationId, Millis, Name, RunId};

use crate::closed::Closed;
use crate::config::AwsConfig;
use crate::errors;
use crate::instances::{CallError, Ours};
use crate::market::Feed;
use crate::visibility::Visibility;

/// Time that agents have after their program's kill for their last reports.
const LAST_REPORTS: Duration = Duration::from_secs(5);

/// EC2 in any number of clusters.
#[derive(Clone)]
pub struct AwsDriver {
    clusters: BTreeMap<Name, Arc<Cluster>>,
}

impl fmt::Debug for AwsDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsDriver").field("clusters", &self.clusters.keys()).finish()
    }
}

pub(crate) struct Cluster {
    pub name: Name,
    pub installation: InstallationId,
    pub config: AwsConfig,
    pub client: Client,
    pub closed: Closed,
    pub feed: Feed,
    visibility: Mutex<Visibility>,
    /// One launch of a run at a time.
    turns: Mutex<BTreeMap<RunId, Weak<tokio::sync::Mutex<()>>>>,
}

impl AwsDriver {
    /// Reads credentials in the usual way of AWS. `state` is a folder of this driver's own.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub async fn new(
        installation: &InstallationId,
        clusters: BTreeMap<Name, AwsConfig>,
        state: &Path,
    ) -> io::Result<Self> {
        let mut made = BTreeMap::new();
        for (name, config) in clusters {
            let cluster = Cluster {
                name: name.clone(),
                installation: installation.clone(),
                client: client(&config).await,
                closed: Closed::new(state, &name)?,
                feed: Feed::default(),
                visibility: Mutex::new(Visibility::new(
                    Duration::from_millis(config.visibility.as_millis()),
                    Instant::now(),
                )),
                turns: Mutex::default(),
                config,
            };
            made.insert(name, Arc::new(cluster));
        }
        Ok(Self { clusters: made })
    }

    fn cluster(&self, name: &Name) -> Result<&Arc<Cluster>, String> {
        self.clusters.get(name).ok_or_else(|| {
            format!("cluster {name} has no [clusters.aws] in the configuration; say there how it is reached")
        })
    }

    fn known(&self, name: &Name) -> Result<&Arc<Cluster>, DriverError> {
        self.cluster(name).map_err(|message| DriverError::new(DriverErrorClass::Invalid, message))
    }
}

async fn client(config: &AwsConfig) -> Client {
    // The SDK would bring a second implementation of TLS.
    let http = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
        .build_https();
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(Duration::from_secs(15))
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .region(aws_config::Region::new(config.region.clone()))
        .timeout_config(timeouts)
        // Throttling and errors that pass are tried again with growing, jittered pauses.
        .retry_config(RetryConfig::standard().with_max_attempts(4));
    if let Some(endpoint) = &config.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if let Some(file) = &config.credentials {
        let files = EnvConfigFiles::builder().include_default_config_file(true);
        loader = loader.profile_files(files.with_file(EnvConfigFileKind::Credentials, file).build());
    }
    if let Some(profile) = &config.profile {
        loader = loader.profile_name(profile);
    }
    Client::new(&loader.load().await)
}

impl Cluster {
    pub fn ours(&self) -> Ours<'_> {
        Ours { installation: &self.installation, cluster: &self.name }
    }

    pub fn visibility(&self) -> MutexGuard<'_, Visibility> {
        self.visibility.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub const fn window(&self) -> Duration {
        Duration::from_millis(self.config.visibility.as_millis())
    }

    fn turn(&self, run: RunId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(&run).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(run, Arc::downgrade(&turn));
            turn
        })
    }

    /// Terminates the instances of a run: those whose tags say so now, and those that this process launched and that no
    /// listing shows yet.
    pub async fn terminate(&self, run: RunId) -> Result<(), CallError> {
        let (listed, _) = self.ours().list(&self.client, Some(run)).await?;
        let mut ids: Vec<Box<str>> = self.visibility().of(run);
        ids.retain(|id| listed.iter().all(|instance| instance.id != *id));
        let open = listed.into_iter().filter(|instance| instance.state != InstanceState::Gone);
        ids.extend(open.map(|instance| instance.id));
        // One at a time: an instance that is not visible yet must not keep the others alive.
        let mut failed = Ok(());
        for id in ids {
            let ended = self.client.terminate_instances().instance_ids(&*id).send().await;
            match ended.map_err(CallError::from) {
                Ok(_) => {}
                Err(error) if error.code().starts_with("InvalidInstanceID") => {
                    tracing::debug!(%run, %id, "an instance that is not visible yet; it is ended once it is");
                }
                Err(error) => failed = Err(error),
            }
        }
        failed
    }

    async fn observe(&self) -> Result<Observation, CallError> {
        let (mut instances, is_whole) = self.ours().list(&self.client, None).await?;
        let complete = self.visibility().complete(&mut instances, is_whole, Instant::now());
        let runs: std::collections::BTreeSet<RunId> =
            instances.iter().filter(|instance| instance.state == InstanceState::Running).map(|one| one.run).collect();
        for instance in &mut instances {
            if instance.state == InstanceState::Running && self.closed.is_closed(instance.run) {
                instance.state = InstanceState::Stopping;
            }
        }
        for run in runs {
            let overdue = self.closed.is_overdue(run);
            if overdue.unwrap_or(false)
                && let Err(error) = self.terminate(run).await
            {
                tracing::warn!(%run, %error, "cannot end a run; the next observation tries again");
            }
        }
        Ok(Observation { instances, complete })
    }
}

fn driver_error(error: &CallError) -> DriverError {
    let class = match error {
        CallError::Refused { .. } => other_call(classify("aws", errors::CODES, &error.said())),
        CallError::Lost(_) => DriverErrorClass::Unreachable,
    };
    DriverError::new(class, error.to_string())
}

fn disk(error: &io::Error) -> DriverError {
    DriverError::new(DriverErrorClass::Unreachable, format!("the driver's own folder: {error}"))
}

#[async_trait]
impl ClusterDriver for AwsDriver {
    async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        let invalid = |message: String| LaunchError::new(LaunchErrorClass::Invalid, message);
        let cluster = self.cluster(&launch.cluster.name).map_err(invalid)?.clone();
        let turn = cluster.turn(launch.run).lock_owned().await;
        let launch = launch.clone();
        // A task of its own, so that a caller that goes away leaves no half-made gang.
        let launching = tokio::spawn(async move {
            let _turn = turn;
            cluster.launch(&launch).await
        });
        let failed = |error: tokio::task::JoinError| LaunchError::new(LaunchErrorClass::Transient, error.to_string());
        launching.await.map_err(failed)?
    }

    async fn observe(&self, cluster: &Name) -> Result<Observation, DriverError> {
        self.known(cluster)?.observe().await.map_err(|error| driver_error(&error))
    }

    async fn stop(&self, cluster: &Name, run: RunId, grace: Millis) -> Result<(), DriverError> {
        let cluster = self.known(cluster)?.clone();
        let grace = Duration::from_millis(grace.as_millis());
        // Agents hear of it from the server, and an instance ends itself after its agent.
        let grace = if grace.is_zero() { grace } else { grace.saturating_add(LAST_REPORTS) };
        let left = cluster.closed.close(run, grace).map_err(|error| disk(&error))?;
        if left.is_zero() {
            return cluster.terminate(run).await.map_err(|error| driver_error(&error));
        }
        tokio::spawn(async move {
            tokio::time::sleep(left).await;
            if let Err(error) = cluster.terminate(run).await {
                tracing::warn!(%run, %error, "cannot end a run; the next observation tries again");
            }
        });
        Ok(())
    }

    async fn addresses(&self, cluster: &Name, run: RunId, nodes: u32) -> Result<Vec<String>, DriverError> {
        let cluster = self.known(cluster)?;
        let found = cluster.ours().addresses(&cluster.client, run).await.map_err(|error| driver_error(&error))?;
        if found.len() == nodes as usize {
            return Ok(found);
        }
        let message = format!("{} of {nodes} instances of run {run} are listed with an address", found.len());
        Err(DriverError::new(DriverErrorClass::Unreachable, message))
    }

    fn check(&self, spec: &ClusterSpec) -> Result<(), String> {
        self.cluster(&spec.name).map(drop)
    }

    fn poll_every(&self, cluster: &Name) -> Option<Millis> {
        self.clusters.get(cluster).map(|cluster| cluster.config.poll)
    }

    async fn prices(&self, cluster: &ClusterSpec) -> Result<Vec<PriceObservation>, DriverError> {
        let known = self.known(&cluster.name)?;
        known.feed.news(&known.client, &known.config, cluster).await.map_err(|error| driver_error(&error))
    }

    async fn forget(&self, cluster: &Name, run: RunId) -> Result<(), DriverError> {
        let cluster = self.known(cluster)?;
        let open = cluster.visibility().of(run);
        if !open.is_empty() {
            let message = format!("instances of run {run} were not seen to end ({}); stop it first", open.join(", "));
            return Err(DriverError::new(DriverErrorClass::Invalid, message));
        }
        cluster.closed.forget(run).map_err(|error| disk(&error))
    }
}
