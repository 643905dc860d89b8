//! Looking at the clusters: what is still there, what is gone, and what is nobody's.
//!
//! Only a complete listing proves that something is gone, and never of a launch whose outcome is not with the scheduler
//! yet. What was asked is taken down before looking, so that a machine that comes meanwhile is not missed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leeway_core::{Event, Reply};
use leeway_drivers::{ClusterDriver, InstanceState, Observation};
use leeway_model::cluster::{ClusterSpec, ClusterState};
use leeway_model::market::CapacityObservation;
use leeway_model::{Millis, Name, RunId, Timestamp};

use super::Executor;
use crate::driver_loop::View;

/// A cluster that fails so often in a row is taken for unreachable.
const FAILURES: u32 = 2;
/// An unknown machine is ended when it was seen so often (P-10).
const SIGHTINGS: u32 = 2;
const OBSERVE_WITHIN: Duration = Duration::from_secs(30);

/// What the scheduler expects of a cluster.
#[derive(Debug)]
struct Expected {
    spec: ClusterSpec,
    reached: bool,
    /// Runs that are not released and whose launch was not given up, with the number of ranks whose loss would be news:
    /// one for a run that is being stopped, of which only the end matters.
    runs: Vec<(RunId, u32)>,
    /// Every run that is not released.
    ours: BTreeSet<RunId>,
}

/// What is remembered between looks at one cluster.
#[derive(Debug, Default)]
struct Memory {
    failures: u32,
    strangers: BTreeMap<RunId, u32>,
    /// What was last told of the cluster's room.
    room: Vec<CapacityObservation>,
}

/// What providers say of runs: why one waits, or what state it is in. Only for people.
#[derive(Debug, Default)]
pub struct Said(Mutex<BTreeMap<Name, BTreeMap<RunId, Box<str>>>>);

impl Said {
    pub fn of(&self, cluster: &Name, run: RunId) -> Option<Box<str>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(cluster)?.get(&run).cloned()
    }

    fn note(&self, cluster: &Name, observation: &Observation) {
        let said = observation.instances.iter().filter(|instance| instance.state != InstanceState::Gone);
        let said = said.filter_map(|instance| Some((instance.run, instance.detail.clone()?))).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cluster.clone(), said);
    }
}

/// Looks at every cluster, each on its own, about every `every` of real time.
pub async fn run(executor: Executor, every: Duration) {
    let mut watched: BTreeSet<Name> = BTreeSet::new();
    let (done, mut ended) = tokio::sync::mpsc::unbounded_channel();
    loop {
        let names = |view: &mut View<'_>| {
            view.scheduler.tables().clusters.values().map(|cluster| cluster.spec.name.clone()).collect::<Vec<_>>()
        };
        if let Ok(names) = executor.shared.handle.read(names).await {
            for name in names {
                if watched.insert(name.clone()) {
                    let (executor, done) = (executor.clone(), done.clone());
                    tokio::spawn(async move {
                        watch(&executor, &name, every).await;
                        // The receiver lives as long as the server.
                        let _ = done.send(name);
                    });
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = executor.shared.stopping.cancelled() => return,
        }
        while let Ok(name) = ended.try_recv() {
            watched.remove(&name);
        }
    }
}

/// Looks at one cluster until it is removed.
async fn watch(executor: &Executor, name: &Name, every: Duration) {
    let mut memory = Memory::default();
    loop {
        let wait = match look(executor, name, &mut memory).await {
            Ok(Some(bears)) => bears.map_or(every, |bears| Duration::from_millis(bears.as_millis()).max(every)),
            Ok(None) => return,
            Err(failure) => {
                tracing::debug!(cluster = %name, %failure, "a look was left out");
                every
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = executor.shared.stopping.cancelled() => return,
        }
    }
}

/// How often the cluster bears to be looked at, should that be seldom; `None` when the cluster is gone.
async fn look(
    executor: &Executor,
    name: &Name,
    memory: &mut Memory,
) -> Result<Option<Option<Millis>>, crate::driver_loop::Failure> {
    let handle = &executor.shared.handle;
    let wanted = name.clone();
    let Some(expected) = handle.read(move |view| expect(view, &wanted)).await? else { return Ok(None) };
    let Some(driver) = executor.shared.drivers.get(&expected.spec.driver).cloned() else { return Ok(Some(None)) };
    let bears = driver.poll_every(name);
    let in_flight = executor.in_flight.clone();
    let settled: Vec<(RunId, u32)> =
        expected.runs.iter().copied().filter(|(run, _)| !in_flight.contains(*run)).collect();
    let observed = tokio::time::timeout(OBSERVE_WITHIN, driver.observe(name)).await;
    let observation = match observed {
        Ok(Ok(observation)) => observation,
        failed => {
            memory.failures = memory.failures.saturating_add(1);
            let error = match failed {
                Ok(Err(error)) => error.to_string(),
                _ => "no answer".to_owned(),
            };
            tracing::warn!(cluster = %name, failures = memory.failures, %error, "cluster cannot be observed");
            if memory.failures >= FAILURES && expected.reached {
                handle.bring(Event::ClusterReached { cluster: name.clone(), reached: false }).await?;
            }
            return Ok(Some(bears));
        }
    };
    memory.failures = 0;
    executor.shared.said.note(name, &observation);
    if !expected.reached {
        handle.bring(Event::ClusterReached { cluster: name.clone(), reached: true }).await?;
    }
    for event in judge(&observation, &settled) {
        handle.bring(event).await?;
    }
    let clock = &executor.shared.clock;
    let warnings = warnings(&observation, &settled, |left| clock.now().after(clock.from_agent(left)));
    for event in warnings {
        handle.bring(event).await?;
    }
    see_room(executor, &driver, &expected.spec, memory).await?;
    see_prices(executor, &driver, &expected.spec).await?;
    end_strangers(executor, name, &driver, &observation, &expected, memory).await;
    Ok(Some(bears))
}

/// Passes on how many machines could be held, when that has changed.
async fn see_room(
    executor: &Executor,
    driver: &Arc<dyn ClusterDriver>,
    spec: &ClusterSpec,
    memory: &mut Memory,
) -> Result<(), crate::driver_loop::Failure> {
    match tokio::time::timeout(OBSERVE_WITHIN, driver.capacity(spec)).await {
        Ok(Ok(room)) if room != memory.room => {
            executor.shared.handle.bring(Event::CapacityObserved { capacities: room.clone() }).await?;
            memory.room = room;
        }
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::warn!(cluster = %spec.name, %error, "how much room there is was not told"),
        Err(_) => tracing::warn!(cluster = %spec.name, "how much room there is was not told in time"),
    }
    Ok(())
}

/// Passes on what the provider asks for its machines now.
async fn see_prices(
    executor: &Executor,
    driver: &Arc<dyn ClusterDriver>,
    spec: &ClusterSpec,
) -> Result<(), crate::driver_loop::Failure> {
    let prices = match tokio::time::timeout(OBSERVE_WITHIN, driver.prices(spec)).await {
        Ok(Ok(prices)) => prices,
        Ok(Err(error)) => {
            tracing::warn!(cluster = %spec.name, %error, "prices were not told");
            return Ok(());
        }
        Err(_) => {
            tracing::warn!(cluster = %spec.name, "prices were not told in time");
            return Ok(());
        }
    };
    if prices.is_empty() {
        return Ok(());
    }
    let told = prices.len();
    if let Reply::Observed { rejected, .. } = executor.shared.handle.bring(Event::PricesObserved { prices }).await? {
        for (place, fault) in rejected {
            tracing::warn!(cluster = %spec.name, place, fault = fault.code(), "a price of the provider is not used");
        }
    }
    tracing::debug!(cluster = %spec.name, told, "prices were told");
    Ok(())
}

fn expect(view: &View<'_>, name: &Name) -> Option<Expected> {
    let tables = view.scheduler.tables();
    let cluster = tables.clusters.get(name)?;
    let ours: BTreeSet<RunId> = view.scheduler.runs_on(name).into_iter().collect();
    let settled = ours.iter().filter_map(|id| view.scheduler.run(*id));
    let settled = settled.filter(|run| run.state != leeway_model::run::RunState::Launching);
    let runs = settled.map(|run| (run.id, if run.state.is_active() { run.nodes } else { 1 })).collect();
    let reached = cluster.state != ClusterState::Unreachable;
    Some(Expected { spec: cluster.spec.clone(), reached, runs, ours })
}

/// What a listing says of machines that will be taken. Said again with each listing, which is harmless.
fn warnings(observation: &Observation, runs: &[(RunId, u32)], at: impl Fn(Millis) -> Timestamp) -> Vec<Event> {
    let warned = |&(run, _): &(RunId, u32)| {
        let warnings = observation.of(run).filter(|instance| instance.state == InstanceState::Running);
        let first = warnings.filter_map(|instance| instance.warning.as_ref()).min_by_key(|warning| warning.left)?;
        Some(Event::InterruptionNoticed { run, deadline: at(first.left), source: first.source.clone() })
    };
    runs.iter().filter_map(warned).collect()
}

/// What a listing proves.
fn judge(observation: &Observation, runs: &[(RunId, u32)]) -> Vec<Event> {
    let mut events = Vec::new();
    for &(run, nodes) in runs {
        if observation.proves_gone(run) {
            events.push(Event::InstancesGone { run });
            continue;
        }
        if nodes > 1 {
            let missing = |rank: u32| {
                let mut found = observation.of(run).filter(|instance| instance.rank == rank).peekable();
                if found.peek().is_none() {
                    observation.complete
                } else {
                    found.all(|instance| instance.state == InstanceState::Gone)
                }
            };
            events.extend((0..nodes).filter(|rank| missing(*rank)).map(|rank| Event::InstanceLost { run, rank }));
        }
    }
    events
}

/// Ends machines that bear our mark and belong to no run: of a launch that was given up, or of a run long settled.
async fn end_strangers(
    executor: &Executor,
    name: &Name,
    driver: &Arc<dyn ClusterDriver>,
    observation: &Observation,
    expected: &Expected,
    memory: &mut Memory,
) {
    let living = observation.instances.iter().filter(|instance| instance.state == InstanceState::Running);
    let strangers: BTreeSet<RunId> = living
        .map(|instance| instance.run)
        .filter(|run| !expected.ours.contains(run) && !executor.in_flight.contains(*run))
        .collect();
    memory.strangers.retain(|run, _| strangers.contains(run));
    for run in strangers {
        // A run may have been placed between the question and the listing.
        let known = move |view: &mut View<'_>| view.scheduler.run(run).is_some_and(|run| !run.state.is_over());
        if executor.shared.handle.read(known).await.unwrap_or(true) {
            memory.strangers.remove(&run);
            continue;
        }
        let seen = memory.strangers.entry(run).or_default();
        *seen += 1;
        if executor.shared.report_only {
            if *seen == SIGHTINGS {
                tracing::warn!(cluster = %name, %run, "a machine of ours belongs to no run; the store was restored, so it is only reported");
            }
        } else if *seen >= SIGHTINGS {
            tracing::warn!(cluster = %name, %run, "a machine of ours belongs to no run; it is stopped");
            if let Err(error) = driver.stop(name, run, Millis::ZERO).await {
                tracing::warn!(cluster = %name, %run, %error, "stop failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use leeway_drivers::{Instance, Warning};
    use leeway_model::JobId;

    use super::*;

    fn run(job: u64) -> RunId {
        RunId { job: JobId(job), epoch: 1 }
    }

    fn seen(job: u64, rank: u32, state: InstanceState) -> Instance {
        Instance::new(run(job), rank, format!("i-{job}-{rank}").into(), state)
    }

    #[test]
    fn p_14_an_incomplete_listing_proves_nothing() {
        let partial = Observation { instances: vec![], complete: false };
        assert_eq!(judge(&partial, &[(run(1), 1), (run(2), 4)]), []);
        let whole = Observation { instances: vec![], complete: true };
        assert_eq!(judge(&whole, &[(run(1), 1)]), [Event::InstancesGone { run: run(1) }]);
    }

    #[test]
    fn p_13_an_unknown_state_is_no_proof() {
        let instances = vec![seen(1, 0, InstanceState::Unknown), seen(2, 0, InstanceState::Stopping)];
        let whole = Observation { instances, complete: true };
        assert_eq!(judge(&whole, &[(run(1), 1), (run(2), 1)]), []);
    }

    #[test]
    fn i_01_the_earliest_warning_of_a_gang_is_passed_on() {
        let warned = |rank, left| {
            let warning = Some(Warning { left: Millis::from_secs(left), source: "slurm".into() });
            Instance { warning, ..seen(1, rank, InstanceState::Running) }
        };
        let instances = vec![warned(0, 20), warned(1, 10), seen(2, 0, InstanceState::Running)];
        let whole = Observation { instances, complete: true };
        let at = |left| Timestamp::ZERO.after(left);
        let deadline = Timestamp::ZERO.after(Millis::from_secs(10));
        let event = Event::InterruptionNoticed { run: run(1), deadline, source: "slurm".into() };
        assert_eq!(warnings(&whole, &[(run(1), 2), (run(2), 1)], at), [event]);
    }

    #[test]
    fn a_lost_member_of_a_gang_is_named() {
        let instances = vec![seen(1, 0, InstanceState::Running), seen(1, 2, InstanceState::Gone)];
        let whole = Observation { instances, complete: true };
        let lost = |rank| Event::InstanceLost { run: run(1), rank };
        assert_eq!(judge(&whole, &[(run(1), 3)]), [lost(1), lost(2)]);
        let gone = Observation { instances: vec![seen(1, 0, InstanceState::Gone)], complete: true };
        assert_eq!(judge(&gone, &[(run(1), 3)]), [Event::InstancesGone { run: run(1) }]);
    }
}
