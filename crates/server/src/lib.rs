//! The live shell: the engine on a thread, gRPC around it, and hands for what the scheduler orders.
//!
//! ```text
//! gRPC ─┐                                   ┌─> answers
//! polls ├─> bounded queue ─> scheduler ─────┼─> executor: drivers, webhooks, checkpoint stores
//! market┘                    (one thread)   └─> watchers, agents
//! ```
//!
//! [`start`] brings up a whole server inside the calling process; `leeway serve` and `leeway demo` are thin around it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use leeway_engine::Engine;
use leeway_model::InstallationId;
use leeway_store::{DiskStore, Identity, Options};
use leeway_webhook::Deliverer;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

mod check;
mod claim;
pub mod clock;
mod declare;
pub mod driver_loop;
pub mod drivers;
mod executor;
mod files;
mod flusher;
pub mod grpc;
mod health;
mod in_flight;
mod janitor;
pub mod ledger;
pub mod logs;
mod market;
pub mod metrics;
pub mod observability;
mod restored;
pub mod secrets;
pub mod settings;
mod signals;
pub mod uploads;

pub use check::{remarks as check_remarks, store as check_store};
pub use claim::{Claim, claim};
pub use drivers::Drivers;
pub use settings::{Problems, Settings, SettingsError, Sources};

use clock::Clock;
use driver_loop::{Bounds, Effects, Handle};
use executor::Executor;
use executor::polls::Said;
use grpc::{Paces, Parts, Shared};
use in_flight::InFlight;
use logs::Logs;
use metrics::Metrics;
use secrets::Keys;
use signals::Signals;
use uploads::Uploads;

/// Folder of the store below the data directory.
pub const STORE: &str = "store";
const KEY_FILE: &str = "secret.key";
/// The ledger's currency, written by the first start: amounts are integers and would silently change their meaning.
const CURRENCY_FILE: &str = "ledger-currency";
/// Between two looks at a cluster, in real time.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Calls under way get this long to end when the server stops; with the rest it makes the 10 s of O-01.
const DRAIN: Duration = Duration::from_secs(6);
const CLOSE: Duration = Duration::from_secs(3);

/// How a server differs from what its settings say; for tests and for programs that bring their own drivers.
#[derive(Debug, Default)]
pub struct Parameters {
    /// Instead of the drivers of this build.
    pub drivers: Option<Drivers>,
    /// Instead of the store's usual sizes.
    pub store: Option<Options>,
    /// Between two looks at a cluster.
    pub poll_every: Option<Duration>,
    /// More services on the same port, within its limits.
    pub services: Option<Services>,
}

/// Adds services of the program that starts the server to those of the server.
pub struct Services(pub Box<dyn FnOnce(Routes) -> Routes + Send>);

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Services")
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    /// Where gRPC listens.
    pub grpc_addr: SocketAddr,
    /// Where metrics and health listen.
    pub metrics_addr: SocketAddr,
    handle: Handle,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
    failure: watch::Receiver<Option<String>>,
    tasks: Vec<JoinHandle<()>>,
    grpc: JoinHandle<anyhow::Result<()>>,
    scheduler: std::thread::JoinHandle<Option<DiskStore>>,
    /// Held until the store is closed.
    _claim: Claim,
}

/// Refuses to open a ledger under another currency than it was kept in.
fn keep_currency(path: &Path, currency: leeway_model::Currency) -> anyhow::Result<()> {
    match std::fs::read_to_string(path) {
        Ok(kept) if kept.trim() == currency.as_str() => Ok(()),
        Ok(kept) => bail!(
            "currency: the ledger in {} is kept in {}, and the configuration says {currency}; set currency = \"{}\"",
            path.display(),
            kept.trim(),
            kept.trim()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let written = files::replace(path, format!("{currency}\n").as_bytes());
            written.with_context(|| format!("cannot write {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Starts a server. Returns when it answers.
pub async fn start(settings: Settings) -> anyhow::Result<Server> {
    Box::pin(start_with(settings, Parameters::default())).await
}

/// Starts a server with parts of the caller's own.
pub async fn start_with(settings: Settings, parameters: Parameters) -> anyhow::Result<Server> {
    let names = parameters.drivers.as_ref().map_or_else(drivers::names, |own| own.by_name.keys().cloned().collect());
    let declared = {
        let settings = settings.clone();
        tokio::task::spawn_blocking(move || check::clusters(&settings, &names)).await??
    };
    for remark in check::remarks(&settings) {
        tracing::warn!("{remark}");
    }
    // Ports before anything is made: a start that fails here leaves nothing behind, and disturbs no other server.
    let grpc_listener = listen("listen", settings.listen).await?;
    let metrics_listener = listen("metrics_listen", settings.metrics_listen).await?;
    let (grpc_addr, metrics_addr) = (grpc_listener.local_addr()?, metrics_listener.local_addr()?);
    // Output, uploads and journal are nobody else's business.
    files::create_private_dir(&settings.data_dir)
        .with_context(|| format!("data_dir: cannot make {}", settings.data_dir.display()))?;
    let installation = InstallationId(settings.installation.clone());
    let data = settings.data_dir.clone();
    let options = parameters.store.unwrap_or_default();
    let (store, claim) = {
        let (data, settings) = (data.clone(), settings.clone());
        tokio::task::spawn_blocking(move || open_store(&data, &settings, options)).await??
    };
    let incarnation = store.identity().incarnation.clone();
    let fresh = leeway_store::Store::head(&store).index == 0;
    let keys = Arc::new(Keys::open(&data.join(KEY_FILE), installation.clone(), fresh)?);
    let config = settings.core();
    keep_currency(&data.join(CURRENCY_FILE), config.currency)?;
    let report_only = restored::watch(&data, &incarnation, fresh, settings.confirm_restore.as_deref())?;
    let (engine, unfinished) =
        Engine::open(store, config.clone(), leeway_policies::all(), clock::wall()).context("opening the store")?;
    let clock = Clock::starting(engine.now(), settings.clock_speed);

    let metrics = Arc::new(Metrics::default());
    let (actions, orders) = mpsc::unbounded_channel();
    let (changes, _) = broadcast::channel(driver_loop::WATCH_BEHIND);
    let (signals, in_flight) = (Arc::<Signals>::default(), Arc::<InFlight>::default());
    // A loss of the receiving end cannot happen before the executor runs.
    for action in unfinished {
        if let leeway_core::Action::Launch(order) = &action {
            in_flight.begin(order.run);
        }
        let _ = actions.send(action);
    }
    let effects =
        Effects { actions, changes, signals: signals.clone(), in_flight: in_flight.clone(), metrics: metrics.clone() };
    let bounds = Bounds { queue: settings.limits.queue, group: settings.limits.group };

    let drivers = match parameters.drivers {
        Some(drivers) => drivers,
        None => Box::pin(Drivers::of(&settings, &data)).await?,
    };
    let webhook_settings = leeway_webhook::Settings {
        policy: settings.webhooks.policy.clone(),
        timeout: settings.webhooks.timeout,
        ..Default::default()
    };
    let stopping = CancellationToken::new();
    let uploads = Uploads::open(data.join("uploads"), settings.limits.upload_size.get())?;
    let deliverer = Deliverer::new(webhook_settings)?;
    let running = driver_loop::start(engine, clock.clone(), effects, bounds)?;
    let handle = running.handle.clone();
    // Before anybody is answered, for it may raise the numbers of runs to come.
    let digest: [u8; 32] = Sha256::digest(incarnation.as_bytes()).into();
    let life = digest.first_chunk().copied().map_or(1, u128::from_le_bytes);
    handle.bring(leeway_core::Event::Opened { incarnation: life }).await?;
    let shared = Shared::new(Parts {
        handle: handle.clone(),
        clock: clock.clone(),
        keys,
        config,
        logs: Logs::new(data.join("logs"), settings.limits.log_size.get()),
        uploads,
        paces: Paces::new(settings.limits.submissions_per_second),
        signals,
        metrics: metrics.clone(),
        deliverer,
        drivers: drivers.by_name.clone(),
        stopping: stopping.clone(),
        stores: settings.stores.clone(),
        agents_url: settings.advertise.clone().unwrap_or_else(|| format!("http://{grpc_addr}")),
        said: Said::default(),
        report_only,
    });
    let mut server = Server {
        grpc_addr,
        metrics_addr,
        handle: handle.clone(),
        metrics: metrics.clone(),
        stopping: stopping.clone(),
        failure: running.failure.clone(),
        tasks: Vec::new(),
        grpc: tokio::spawn(grpc::serve::serve(shared.clone(), grpc_listener, parameters.services)),
        scheduler: running.thread,
        _claim: claim,
    };
    let declaring = declare::Declaring { shared: &shared, drivers: &drivers, data: &data, incarnation };
    if let Err(error) = declaring.all(&settings.budgets, declared, &mut server.tasks).await {
        // What was opened is closed in order, and the first error is the one to show.
        let _ = server.shutdown().await;
        return Err(error);
    }
    let router = health::router(handle, metrics, running.failure, data.join(STORE));
    let stop_metrics = stopping.clone();
    server.tasks.push(tokio::spawn(async move {
        let serving = axum::serve(metrics_listener, router).with_graceful_shutdown(stop_metrics.cancelled_owned());
        if let Err(error) = serving.await {
            tracing::error!(%error, "the metrics port failed");
        }
    }));
    let executor = Executor { shared: shared.clone(), in_flight };
    server.tasks.push(tokio::spawn(executor.clone().run(orders)));
    server.tasks.push(tokio::spawn(executor::polls::run(executor, parameters.poll_every.unwrap_or(POLL_EVERY))));
    server.tasks.push(tokio::spawn(janitor::run(shared.clone())));
    let jumps = clock::watch_jumps(clock);
    server.tasks.push(tokio::spawn(async move {
        tokio::select! {
            () = jumps => {}
            () = stopping.cancelled() => {}
        }
    }));
    tracing::info!(installation = %settings.installation, grpc = %grpc_addr, metrics = %metrics_addr, "serving");
    Ok(server)
}

impl Server {
    /// What the server counts.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where the scheduler is asked, for programs that run a server inside themselves.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns when the server has failed and must be ended; never while it is well.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => "the scheduler has ended".to_owned(),
        }
    }

    /// Serves until SIGTERM or SIGINT, then stops in order; an error when the server fails by itself.
    pub async fn wait(self) -> anyhow::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let failure = tokio::select! {
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            reason = self.failed() => Some(reason),
        };
        match failure {
            None => {
                tracing::info!("stopping; running jobs go on");
                self.shutdown().await
            }
            Some(reason) => {
                self.stopping.cancel();
                bail!("{reason}; running jobs go on under their leases, and the next start takes them over")
            }
        }
    }

    /// Stops: no new calls, a moment for those under way, everything durable, the store closed. Jobs go on (O-01).
    pub async fn shutdown(self) -> anyhow::Result<()> {
        self.stopping.cancel();
        match tokio::time::timeout(DRAIN, self.grpc).await {
            Ok(served) => served??,
            Err(_) => tracing::warn!("some calls did not end in time; they are cut off"),
        }
        for task in self.tasks {
            task.abort();
        }
        self.handle.stop().await;
        let scheduler = self.scheduler;
        let closing = tokio::task::spawn_blocking(move || match scheduler.join() {
            Ok(Some(store)) => store.close().map(Some).map_err(anyhow::Error::from),
            Ok(None) => bail!("the store had failed"),
            Err(_) => bail!("an invariant of the scheduler was broken"),
        });
        let head = tokio::time::timeout(CLOSE, closing).await.context("the store took too long to close")???;
        tracing::info!(index = head.map_or(0, |head| head.index), "stopped");
        Ok(())
    }
}

async fn listen(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("{key}: cannot listen on {address}; choose another port or end what uses it"))
}

/// Opens the store, or makes one where there was none. Never makes one beside the key of a lost one.
fn open_store(data: &Path, settings: &Settings, options: Options) -> anyhow::Result<(DiskStore, Claim)> {
    let folder = data.join(STORE);
    let store = if leeway_store::is_vacant(&folder)? {
        if data.join(KEY_FILE).exists() {
            bail!(
                "STORE_IDENTITY_MISMATCH: {} holds no store, but {} shows that there was one; mount or restore it, or name another data_dir",
                folder.display(),
                data.join(KEY_FILE).display()
            );
        }
        let mut random = [0_u8; 16];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random)
            .map_err(|_| anyhow::anyhow!("the system gives no random bytes"))?;
        let identity = Identity { installation: settings.installation.to_string(), incarnation: uploads::hex(&random) };
        DiskStore::init(&folder, identity, options)?
    } else {
        leeway_store::refuse_copy(&folder).map_err(|error| anyhow::anyhow!("{}: {error}", error.code()))?;
        DiskStore::open(&folder, options)?
    };
    let claim = claim(store.identity())?;
    let known = &store.identity().installation;
    if *known != settings.installation.as_str() {
        bail!(
            "STORE_IDENTITY_MISMATCH: {} belongs to installation '{known}', but the configuration says '{}'; name the right data_dir",
            folder.display(),
            settings.installation
        );
    }
    let report = store.report();
    if report.cut_bytes > 0 || report.index_rebuilt.is_some() {
        tracing::warn!(cut_bytes = report.cut_bytes, index_rebuilt = ?report.index_rebuilt, "the store was put right");
    }
    Ok((store, claim))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_not_opened_under_another_currency() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CURRENCY_FILE);
        let (usd, eur) = ("USD".parse().unwrap(), "EUR".parse().unwrap());
        keep_currency(&path, usd).unwrap();
        keep_currency(&path, usd).unwrap();
        let refused = keep_currency(&path, eur).unwrap_err().to_string();
        assert!(refused.contains("kept in USD"), "{refused}");
    }
}
