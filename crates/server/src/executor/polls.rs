//! Looking at the clusters: what is still there, what is gone, and what is nobody's.
//!
//! Only a complete listing proves that something is gone, and never of a launch whose outcome is not with the scheduler
//! yet. What was asked is taken down before looking, so that a machine that comes meanwhile is not missed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leeway_core::Event;
use leeway_drivers::{ClusterDriver, InstanceState, Observation};
use leeway_model::cluster::ClusterState;
use leeway_model::{Millis, Name, RunId};

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
    driver: Name,
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
        match look(executor, name, &mut memory).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(failure) => tracing::debug!(cluster = %name, %failure, "a look was left out"),
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = executor.shared.stopping.cancelled() => return,
        }
    }
}

/// `false` when the cluster is gone.
async fn look(executor: &Executor, name: &Name, memory: &mut Memory) -> Result<bool, crate::driver_loop::Failure> {
    let handle = &executor.shared.handle;
    let wanted = name.clone();
    let Some(expected) = handle.read(move |view| expect(view, &wanted)).await? else { return Ok(false) };
    let Some(driver) = executor.shared.drivers.get(&expected.driver).cloned() else { return Ok(true) };
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
            return Ok(true);
        }
    };
    memory.failures = 0;
    if !expected.reached {
        handle.bring(Event::ClusterReached { cluster: name.clone(), reached: true }).await?;
    }
    for event in judge(&observation, &settled) {
        handle.bring(event).await?;
    }
    end_strangers(executor, name, &driver, &observation, &expected, memory).await;
    Ok(true)
}

fn expect(view: &View<'_>, name: &Name) -> Option<Expected> {
    let tables = view.scheduler.tables();
    let cluster = tables.clusters.get(name)?;
    let ours: BTreeSet<RunId> = view.scheduler.runs_on(name).into_iter().collect();
    let settled = ours.iter().filter_map(|id| view.scheduler.run(*id));
    let settled = settled.filter(|run| run.state != leeway_model::run::RunState::Launching);
    let runs = settled.map(|run| (run.id, if run.state.is_active() { run.nodes } else { 1 })).collect();
    let reached = cluster.state != ClusterState::Unreachable;
    Some(Expected { driver: cluster.spec.driver.clone(), reached, runs, ours })
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
    use leeway_drivers::Instance;
    use leeway_model::JobId;

    use super::*;

    fn run(job: u64) -> RunId {
        RunId { job: JobId(job), epoch: 1 }
    }

    fn seen(job: u64, rank: u32, state: InstanceState) -> Instance {
        Instance { run: run(job), rank, id: format!("i-{job}-{rank}").into(), state }
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
    fn a_lost_member_of_a_gang_is_named() {
        let instances = vec![seen(1, 0, InstanceState::Running), seen(1, 2, InstanceState::Gone)];
        let whole = Observation { instances, complete: true };
        let lost = |rank| Event::InstanceLost { run: run(1), rank };
        assert_eq!(judge(&whole, &[(run(1), 3)]), [lost(1), lost(2)]);
        let gone = Observation { instances: vec![seen(1, 0, InstanceState::Gone)], complete: true };
        assert_eq!(judge(&gone, &[(run(1), 3)]), [Event::InstancesGone { run: run(1) }]);
    }
}
