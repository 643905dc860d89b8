//! Recorded markets that clusters follow, and price lists that are read at start.
//!
//! A market's time begins when the data directory first sees it and goes on through restarts. Prices and capacity come as
//! observations like those of any feed. When the market takes machines back, the runs that must go are told (when there
//! is a notice) and then their machines vanish: the scheduler learns of that only as it would of any loss.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use leeway_core::Event;
use leeway_market::replay::{EventKind, Options, Replay};
use leeway_market::{catalog, demo, trace};
use leeway_model::cluster::ClusterSpec;
use leeway_model::market::{CapacityObservation, OfferKey, Price, PriceObservation, Source};
use leeway_model::resources::CapacityType;
use leeway_model::{Name, RunId, Timestamp};

use crate::clock::wall;
use crate::driver_loop::View;
use crate::drivers::Drivers;
use crate::files;
use crate::grpc::Shared;
use crate::settings::{CatalogSettings, MarketSettings, Problems, Settings, SettingsError};

/// Between a notice and its loss, new runs are looked for this often: who launches there meanwhile is told, too.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A market that is ready to be followed.
#[derive(Clone, Debug)]
pub struct Market {
    pub offer: OfferKey,
    replay: Replay,
}

/// Opens the market that a cluster follows.
pub fn open(cluster: &Name, settings: &MarketSettings) -> anyhow::Result<Market> {
    let recorded = match settings.trace.strip_prefix("builtin:") {
        Some(name) => {
            let found = demo::FILES.iter().find(|(known, _)| *known == name);
            let names: Vec<&str> = demo::FILES.iter().map(|(name, _)| *name).collect();
            let (name, json) = found.with_context(|| {
                format!("no trace '{name}' is built in; use one of builtin:{}", names.join(", builtin:"))
            })?;
            trace::parse(name, json.as_bytes())?
        }
        None => trace::read(Path::new(&settings.trace))?,
    };
    let offer = OfferKey { cluster: cluster.clone(), shape: settings.shape.clone(), capacity: CapacityType::Spot };
    let options = Options { default_notice: settings.notice, end: settings.end };
    Ok(Market { offer, replay: Replay::new(&recorded, options) })
}

/// When this market began, which a restart must not change: kept in a file of the data directory.
pub fn begun(folder: &Path, cluster: &Name, now: Timestamp) -> anyhow::Result<Timestamp> {
    files::create_private_dir(folder)?;
    let path = folder.join(format!("{cluster}.begun"));
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let millis = text.trim().parse().with_context(|| format!("{} is damaged; remove it", path.display()))?;
            Ok(Timestamp::from_millis(millis))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let written = files::replace(&path, now.as_millis().to_string().as_bytes());
            written.with_context(|| format!("cannot write {}", path.display()))?;
            Ok(now)
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// A loss that is announced and not yet there.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Timestamp,
    alive: u32,
    noticed: bool,
}

/// Follows a market until the server stops.
pub async fn follow(shared: Shared, drivers: Drivers, mut market: Market, begun: Timestamp) {
    let follower = Follower { shared, drivers, offer: market.offer.clone() };
    let now = follower.shared.clock.now();
    let passed = now.since(begun);
    // What holds now, whatever happened while nobody looked.
    let state = market.replay.state_at(passed);
    follower.price(state.price, now).await;
    follower.capacity(state.available).await;
    market.replay.seek(passed);
    let mut coming: Vec<Coming> = Vec::new();
    loop {
        let next = market.replay.peek().map(|event| begun.after(event.at));
        let loss = coming.iter().map(|loss| loss.at).min();
        let Some(at) = next.into_iter().chain(loss).min() else {
            follower.shared.stopping.cancelled().await;
            return;
        };
        let mut wait = follower.shared.clock.until(at);
        if coming.iter().any(|loss| loss.noticed) {
            wait = wait.min(LOOK_EVERY);
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = follower.shared.stopping.cancelled() => return,
        }
        let now = follower.shared.clock.now();
        while let Some(event) = market.replay.next_if_due(begun, now) {
            match event.kind {
                EventKind::Price(rate) => follower.price(rate, begun.after(event.at)).await,
                EventKind::Available(nodes) => follower.capacity(nodes).await,
                EventKind::Reclaim { alive, notice, lost_at } => {
                    coming.push(Coming { at: begun.after(lost_at), alive, noticed: !notice.is_zero() });
                }
            }
        }
        for loss in coming.iter().filter(|loss| loss.noticed && loss.at > now) {
            follower.warn(*loss).await;
        }
        let due: Vec<Coming> = coming.iter().copied().filter(|loss| loss.at <= now).collect();
        coming.retain(|loss| loss.at > now);
        for loss in due {
            follower.take(loss.alive).await;
        }
    }
}

/// Takes the next event when its instant has come.
trait Due {
    fn next_if_due(&mut self, begun: Timestamp, now: Timestamp) -> Option<leeway_market::replay::MarketEvent>;
}

impl Due for Replay {
    fn next_if_due(&mut self, begun: Timestamp, now: Timestamp) -> Option<leeway_market::replay::MarketEvent> {
        let due = self.peek().is_some_and(|event| begun.after(event.at) <= now);
        if due { self.next() } else { None }
    }
}

struct Follower {
    shared: Shared,
    drivers: Drivers,
    offer: OfferKey,
}

impl Follower {
    async fn price(&self, rate: leeway_model::Rate, observed: Timestamp) {
        // Traces are in USD.
        let price = Price { rate, currency: leeway_model::Currency::USD, observed, source: Source::Trace };
        let prices = vec![PriceObservation { offer: self.offer.clone(), price }];
        self.bring(Event::PricesObserved { prices }).await;
    }

    async fn capacity(&self, nodes: u32) {
        let capacities = vec![CapacityObservation { offer: self.offer.clone(), available: Some(nodes) }];
        self.bring(Event::CapacityObserved { capacities }).await;
    }

    /// Down: the market goes on after the next start.
    async fn bring(&self, event: Event) {
        if let Ok(leeway_core::Reply::Observed { rejected, .. }) = self.shared.handle.bring(event).await {
            for (_, fault) in rejected {
                tracing::warn!(offer = %self.offer, fault = fault.code(), "an observation of the market is not used");
            }
        }
    }

    /// Tells those that would have to go.
    async fn warn(&self, loss: Coming) {
        for (run, told) in self.victims(loss.alive).await {
            if !told {
                tracing::info!(%run, deadline = %loss.at, "the market gives notice");
                let event = Event::InterruptionNoticed { run, deadline: loss.at, source: "trace".into() };
                let _ = self.shared.handle.bring(event).await;
            }
        }
    }

    /// The machines beyond what may stay vanish.
    async fn take(&self, alive: u32) {
        let driver = self.shared.handle.read({
            let cluster = self.offer.cluster.clone();
            move |view| view.scheduler.tables().clusters.get(&cluster).map(|cluster| cluster.spec.driver.clone())
        });
        let Ok(Some(driver)) = driver.await else { return };
        let Some(taking) = self.drivers.taking.get(&driver) else {
            tracing::warn!(%driver, offer = %self.offer, "machines of this driver cannot be taken by a recorded market");
            return;
        };
        for (run, _) in self.victims(alive).await {
            tracing::info!(%run, "the market takes its machines");
            if let Err(error) = taking.take_back(&self.offer.cluster, run).await {
                tracing::warn!(%run, %error, "machines could not be taken");
            }
        }
    }

    /// Runs beyond what may stay, and whether each has had its notice: the newest first, but those that were told
    /// before those that were not.
    async fn victims(&self, alive: u32) -> Vec<(RunId, bool)> {
        let offer = self.offer.clone();
        let standing = move |view: &mut View<'_>| {
            let runs = view.scheduler.runs_on(&offer.cluster).into_iter().filter_map(|id| view.scheduler.run(id));
            let there = runs.filter(|run| run.offer == offer && run.launched.is_some() && !run.state.is_over());
            there.map(|run| (run.id, run.nodes, run.notice.is_some(), run.placed)).collect::<Vec<_>>()
        };
        choose(self.shared.handle.read(standing).await.unwrap_or_default(), alive)
    }
}

fn choose(mut standing: Vec<(RunId, u32, bool, Timestamp)>, alive: u32) -> Vec<(RunId, bool)> {
    standing.sort_by_key(|(run, _, told, placed)| (!told, std::cmp::Reverse((*placed, *run))));
    let mut held: u32 = standing.iter().map(|(_, nodes, ..)| *nodes).fold(0, u32::saturating_add);
    let mut victims = Vec::new();
    for (run, nodes, told, _) in standing {
        if held <= alive {
            break;
        }
        held = held.saturating_sub(nodes);
        victims.push((run, told));
    }
    victims
}

/// Price lists with what they are about.
#[derive(Debug, Default)]
pub struct Catalogs {
    rows: Vec<catalog::CatalogRow>,
}

impl Catalogs {
    /// Reads every list that can be read. What is set aside in one is counted and said.
    pub fn open(settings: &Settings, problems: &mut Problems) -> Self {
        let mut rows = Vec::new();
        for list in &settings.catalogs {
            let found = read(list, settings).map_err(|error| {
                SettingsError::new(format!("{}.file", list.key), format!("{error:#}; check the path"))
            });
            rows.extend(problems.or_default(found));
        }
        Self { rows }
    }

    /// Machines of a cluster that lists none itself.
    pub fn complete(&self, spec: &ClusterSpec, settings: &Settings) -> ClusterSpec {
        let mut spec = spec.clone();
        if spec.machines.is_empty() {
            spec.machines = catalog::machines_in(&self.rows, &spec.region, spec.zone.as_deref(), settings.currency);
        }
        spec
    }

    /// Prices for the machines that a cluster lists, by the provider's name of the machine. In a region with several
    /// zones and a cluster without one, the dearest holds, since the provider chooses the zone.
    pub fn prices(&self, spec: &ClusterSpec) -> Vec<PriceObservation> {
        let mut found: BTreeMap<OfferKey, Price> = BTreeMap::new();
        let there = self.rows.iter().filter(|row| {
            row.region == spec.region
                && match (&spec.zone, &row.zone) {
                    (Some(zone), Some(there)) => zone == there,
                    _ => true,
                }
        });
        for row in there {
            let same = |machines: &&leeway_model::cluster::Machines| {
                machines.shape.instance_type == row.shape.instance_type
                    && machines.shape.accelerators == row.shape.accelerators
            };
            for machines in spec.machines.iter().filter(same) {
                let key =
                    OfferKey { cluster: spec.name.clone(), shape: machines.shape.name.clone(), capacity: row.capacity };
                match found.get(&key) {
                    Some(known) if known.rate >= row.price.rate => {}
                    _ => {
                        found.insert(key, row.price.clone());
                    }
                }
            }
        }
        found.into_iter().map(|(offer, price)| PriceObservation { offer, price }).collect()
    }
}

fn read(list: &CatalogSettings, settings: &Settings) -> anyhow::Result<Vec<catalog::CatalogRow>> {
    let path = list.file.display();
    let file = std::fs::File::open(&list.file).with_context(|| format!("'{path}'"))?;
    let modified = file.metadata()?.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let modified = modified.map(|since| Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)));
    let as_of = list.as_of.or(modified).unwrap_or_else(wall);
    let options = catalog::Options { provider: list.provider.clone(), as_of, currencies: vec![settings.currency] };
    let mut read = catalog::read(std::io::BufReader::new(file), &options).with_context(|| format!("'{path}'"))?;
    for (rule, count) in &read.counts {
        tracing::warn!(%path, ?rule, count, "values of a price list are set aside");
    }
    if let Some(max_age) = list.max_age {
        let before = read.rows.len();
        let now = wall();
        read.rows.retain(|row| now.since(row.price.observed) <= max_age);
        let old = before - read.rows.len();
        if old > 0 {
            tracing::warn!(%path, old, %max_age, "prices of a price list are too old");
        }
    }
    tracing::info!(%path, rows = read.rows.len(), "price list read");
    Ok(read.rows)
}

#[cfg(test)]
mod tests {
    use leeway_model::JobId;

    use super::*;

    fn standing(job: u64, nodes: u32, told: bool, placed: i64) -> (RunId, u32, bool, Timestamp) {
        (RunId { job: JobId(job), epoch: 1 }, nodes, told, Timestamp::from_millis(placed))
    }

    #[test]
    fn only_as_many_runs_go_as_must_and_those_that_were_told_go_first() {
        let all = vec![standing(1, 1, false, 10), standing(2, 1, true, 5), standing(3, 2, false, 20)];
        let jobs = |alive| choose(all.clone(), alive).iter().map(|(run, _)| run.job.0).collect::<Vec<_>>();
        assert_eq!(jobs(4), [0_u64; 0]);
        assert_eq!(jobs(3), [2]);
        assert_eq!(jobs(2), [2, 3]);
        assert_eq!(jobs(0), [2, 3, 1]);
    }

    #[test]
    fn a_market_goes_on_where_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let cluster: Name = "here".parse().unwrap();
        let first = begun(folder.path(), &cluster, Timestamp::from_millis(5)).unwrap();
        let again = begun(folder.path(), &cluster, Timestamp::from_millis(99)).unwrap();
        assert_eq!((first.as_millis(), again.as_millis()), (5, 5));
    }
}
