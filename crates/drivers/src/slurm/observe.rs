//! What lives of our runs in Slurm: one listing for all of them, held against the runs' directories.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leeway_model::{Millis, Name, RunId};

use super::calls::Job;
use super::jobs::has_ended;
use super::launch::instance_id;
use super::{Cluster, LAST_REPORTS, disk, driver_error};
use crate::contract::{DriverError, Instance, InstanceState, Observation, Warning};
use crate::run_dir::StopOrder;

/// A job that no listing shows any more is gone when it was missing for so long, and accounting does not say otherwise.
const ABSENT_FOR: Duration = Duration::from_secs(60);
/// A node that Slurm lost may still run what was on it: a job that failed with its node is gone so long after its end, by
/// when its agents' leases are over too.
const NODE_LOST_FOR: i64 = 120;

/// What is remembered of a run between looks.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<RunId, Known>);

#[derive(Clone, Debug, Default)]
struct Known {
    shape: Option<Name>,
    nodes: u32,
    /// The job's number, once it was submitted.
    job: Option<u32>,
    gone: bool,
    /// Since when no listing shows it.
    missing: Option<Instant>,
}

impl Cluster {
    pub(super) async fn observe(&self) -> Result<Observation, DriverError> {
        // The directories first: what is launched meanwhile is then in the listing at most, and not taken for gone.
        let runs = self.runs.list(&self.name).map_err(|error| disk(&error))?;
        let jobs = self.listings.fresh().await.map_err(|error| driver_error(&error))?;
        let mut of_run: BTreeMap<RunId, Vec<&Job>> = BTreeMap::new();
        for job in &*jobs {
            if let Some(run) = self.owner(job) {
                of_run.entry(run).or_default().push(job);
            }
        }
        let mut observation = Observation { instances: Vec::new(), complete: true };
        let mut missing = Vec::new();
        self.seen().0.retain(|run, _| runs.binary_search(run).is_ok());
        for run in runs {
            let known = match self.known_of(run) {
                Ok(known) => known,
                Err(error) => {
                    tracing::warn!(%run, %error, "cannot read a run; the observation is incomplete");
                    observation.complete = false;
                    continue;
                }
            };
            let jobs = of_run.remove(&run).unwrap_or_default();
            if known.gone {
                add(&mut observation, run, &known, known.job.unwrap_or(0), InstanceState::Gone, None);
                continue;
            }
            let stop = self.stop_order(run);
            self.enforce(run, &jobs, stop.as_ref()).await;
            match judge(&jobs, stop.is_some(), now()) {
                Some((job, state)) => {
                    if state == InstanceState::Gone {
                        self.remember_gone(run, known.nodes);
                    }
                    self.seen().0.entry(run).and_modify(|known| known.missing = None);
                    add(&mut observation, run, &known, job.id, state, Some(job));
                }
                None if known.job.is_some() => missing.push((run, known)),
                // Never submitted, as far as anybody knows.
                None => {}
            }
        }
        // Jobs that bear our mark though their directory is gone: somebody must end them.
        for (run, jobs) in of_run {
            for job in jobs.into_iter().filter(|job| !job.has_ended()) {
                let known = Known { nodes: 1, ..Known::default() };
                add(&mut observation, run, &known, job.id, InstanceState::Running, Some(job));
            }
        }
        self.look_for(&mut observation, missing).await;
        observation.instances.sort_by_key(|instance| (instance.run, instance.rank));
        Ok(observation)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether an earlier look proved it.
    pub(super) fn was_seen_gone(&self, run: RunId) -> bool {
        self.seen().0.get(&run).is_some_and(|known| known.gone)
    }

    /// What the directory of a run says; read again only while something of it can change.
    fn known_of(&self, run: RunId) -> std::io::Result<Known> {
        let known = self.seen().0.get(&run).cloned().unwrap_or_default();
        if known.gone || known.job.is_some() {
            return Ok(known);
        }
        let launched = self.runs.launched(&self.name, run)?;
        let (shape, nodes) = launched.map_or((None, 0), |launched| (Some(launched.shape), launched.nodes));
        let job = self.submitted(run)?.map(|submitted| submitted.job);
        let gone = nodes > 0 && self.runs.rank_dir(&self.name, run, 0).is_gone();
        let known = Known { shape, nodes, job, gone, ..known };
        self.seen().0.insert(run, known.clone());
        Ok(known)
    }

    fn stop_order(&self, run: RunId) -> Option<StopOrder> {
        let order = self.runs.rank_dir(&self.name, run, 0).stop_order();
        order.inspect_err(|error| tracing::warn!(%run, %error, "cannot read an order to stop")).ok().flatten()
    }

    /// Ends what outlived its stop, and jobs that a repeated submission left behind the first one.
    async fn enforce(&self, run: RunId, jobs: &[&Job], stop: Option<&StopOrder>) {
        let overdue = stop.is_some_and(|stop| stop.overdue().is_ok_and(|overdue| overdue > LAST_REPORTS));
        let first = jobs.iter().filter(|job| !job.has_ended()).map(|job| job.id).min();
        for job in jobs.iter().filter(|job| !job.has_ended() && !job.is_ending()) {
            let never_needed = Some(job.id) != first && job.waits();
            if overdue || never_needed || (stop.is_some() && job.waits()) {
                tracing::info!(%run, job = job.id, overdue, "ending a job");
                if let Err(error) = self.calls.cancel(job.id, &job.name).await {
                    tracing::warn!(%run, job = job.id, %error, "cannot end a job; the next observation tries again");
                }
            }
        }
    }

    /// Jobs that were submitted and are not listed: asked for in Slurm's accounting, or waited for.
    async fn look_for(&self, observation: &mut Observation, missing: Vec<(RunId, Known)>) {
        if missing.is_empty() {
            return;
        }
        let ids: Vec<u32> = missing.iter().filter_map(|(_, known)| known.job).collect();
        let accounted = match self.calls.accounted(&ids).await {
            Ok(accounted) => accounted.unwrap_or_default(),
            Err(error) => {
                tracing::debug!(%error, "accounting was not heard");
                Vec::new()
            }
        };
        for (run, known) in missing {
            let job = known.job.unwrap_or(0);
            let ended = accounted.iter().any(|(id, state)| *id == job && has_ended(state));
            let since = *self.seen().0.entry(run).or_default().missing.get_or_insert_with(Instant::now);
            let state = if ended || since.elapsed() >= ABSENT_FOR {
                self.remember_gone(run, known.nodes);
                InstanceState::Gone
            } else {
                InstanceState::Unknown
            };
            add(observation, run, &known, job, state, None);
        }
    }

    /// Machines of ours that run in a partition, of one shape.
    pub(super) fn held(&self, jobs: &[Job], partition: &str, shape: &Name) -> u32 {
        let ours = jobs.iter().filter(|job| job.partition == partition && job.takes_nodes());
        let of_shape = ours.filter(|job| {
            let run = self.owner(job);
            run.is_some_and(|run| self.known_of(run).is_ok_and(|known| known.shape.as_ref() == Some(shape)))
        });
        of_shape.map(|job| job.nodes).sum()
    }

    fn remember_gone(&self, run: RunId, nodes: u32) {
        for rank in 0..nodes {
            if let Err(error) = self.runs.rank_dir(&self.name, run, rank).mark_gone() {
                tracing::warn!(%run, %error, "cannot write down that a run is gone");
                return;
            }
        }
        self.seen().0.entry(run).and_modify(|known| known.gone = true);
    }
}

/// The job that stands for a run, and its state; `None` when there is none.
fn judge<'a>(jobs: &[&'a Job], is_stopped: bool, now: i64) -> Option<(&'a Job, InstanceState)> {
    let living = jobs.iter().filter(|job| !job.has_ended()).min_by_key(|job| job.id);
    if let Some(job) = living {
        let state = match job {
            job if !job.is_known() => {
                tracing::warn!(job = job.id, state = job.state, "a state that this driver does not know");
                InstanceState::Unknown
            }
            job if is_stopped || job.is_ending() => InstanceState::Stopping,
            _ => InstanceState::Running,
        };
        return Some((job, state));
    }
    let last = jobs.iter().max_by_key(|job| job.end)?;
    let lost = last.state == "NODE_FAIL" && now - last.end < NODE_LOST_FOR;
    Some((last, if lost { InstanceState::Unknown } else { InstanceState::Gone }))
}

fn add(observation: &mut Observation, run: RunId, known: &Known, id: u32, state: InstanceState, job: Option<&Job>) {
    let warning = job.filter(|job| job.preempted > 0 && job.runs()).map(|job| {
        let left = u64::try_from(job.end - now()).unwrap_or(0);
        Warning { left: Millis::from_secs(left), source: "slurm".into() }
    });
    let detail = job.map(|job| -> Box<str> {
        let waits = job.waits() && !job.reason.is_empty();
        if waits { format!("{}: {}", job.state, job.reason).into() } else { job.state.as_str().into() }
    });
    for rank in 0..known.nodes.max(1) {
        let instance = Instance::new(run, rank, instance_id(id, rank), state);
        observation.instances.push(Instance { warning: warning.clone(), detail: detail.clone(), ..instance });
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: u32, state: &str, end: i64) -> Job {
        Job { id, state: state.into(), end, ..Job::default() }
    }

    fn judged(jobs: &[Job], is_stopped: bool) -> Option<InstanceState> {
        judge(&jobs.iter().collect::<Vec<_>>(), is_stopped, 1_000).map(|(_, state)| state)
    }

    #[test]
    fn p_13_only_an_end_that_is_known_is_an_end() {
        assert_eq!(judged(&[], false), None);
        assert_eq!(judged(&[job(1, "RUNNING", 0)], false), Some(InstanceState::Running));
        assert_eq!(judged(&[job(1, "RUNNING", 0)], true), Some(InstanceState::Stopping));
        assert_eq!(judged(&[job(1, "COMPLETING", 0)], false), Some(InstanceState::Stopping));
        assert_eq!(judged(&[job(1, "ASCENDED", 0)], true), Some(InstanceState::Unknown));
        assert_eq!(judged(&[job(1, "PREEMPTED", 900)], false), Some(InstanceState::Gone));
    }

    #[test]
    fn n_02_a_lost_node_is_no_proof_before_its_leases_are_over() {
        assert_eq!(judged(&[job(1, "NODE_FAIL", 900)], false), Some(InstanceState::Unknown));
        assert_eq!(judged(&[job(1, "NODE_FAIL", 880)], false), Some(InstanceState::Gone));
    }

    #[test]
    fn p_01_of_two_submissions_the_living_one_stands_for_the_run() {
        let two = [job(1, "FAILED", 900), job(2, "PENDING", 0)];
        assert_eq!(judged(&two, false), Some(InstanceState::Running));
    }
}
