//! How much work each job really was.
//!
//! A run does work from the start of its program until it stops, or until the notice after which it only saved; pauses
//! to save are no work, and a machine of relative speed s does s times as much. Runs report steps; the time of one step,
//! over all of a job's runs, times the steps of the whole job is its work, so that what was lost and done again counts
//! once. A program that reports no steps did what its last run did, and where that went on from a checkpoint, what all did.

use leeway_core::Config;
use leeway_model::job::{Job, JobState};
use leeway_model::run::{EndReason, Run};
use leeway_model::{Bytes, Millis};

use super::super::setup::{ProgramFailure, speed_of};
use super::Past;
use super::pace::Pace;

/// The code by which a program says that it will never succeed.
const FOR_GOOD: i32 = 78;

/// What a job was, whoever had placed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// At relative speed 1.
    pub work: Millis,
    /// It never came to its end, so this is what was expected of it, and no less than what it did.
    pub is_estimated: bool,
    /// Done and lost, and done again.
    pub lost: Millis,
    pub save: Option<Millis>,
    pub restore: Option<Millis>,
    pub checkpoint: Option<Bytes>,
    pub failures: Vec<ProgramFailure>,
}

/// What the runs of a job tell together.
struct Seen {
    /// Milliseconds of work of all runs, and of the last one.
    time: f64,
    last: f64,
    steps: u64,
    /// The furthest step.
    reached: u64,
    went_on: bool,
}

impl Seen {
    /// Work of so many steps.
    fn of_steps(&self, steps: u64) -> Option<f64> {
        (self.steps > 0 && self.time > 0.0).then(|| self.time / self.steps as f64 * steps as f64)
    }

    /// Work of the whole job as far as it came.
    fn done(&self) -> f64 {
        self.of_steps(self.reached).unwrap_or(if self.went_on { self.time } else { self.last })
    }
}

impl Work {
    pub(super) fn of(past: &Past, job: &Job, config: &Config, pace: &Pace) -> Self {
        let runs: Vec<&Run> = past.runs_of(job.id).collect();
        let policy = job.spec.checkpoint.as_ref();
        let save = job.save_time.or(policy.and_then(|policy| policy.save_time));
        let mut seen = Seen { time: 0.0, last: 0.0, steps: 0, reached: 0, went_on: false };
        let (mut failures, mut redone) = (Vec::new(), 0);
        for run in &runs {
            let time = worked(past, run, save.unwrap_or(Millis::ZERO), config);
            let base = run.restored_from.as_ref().map_or(0, |from| from.step);
            (seen.time, seen.last) = (seen.time + time, time);
            seen.steps += run.progress.step.saturating_sub(base);
            seen.reached = seen.reached.max(run.progress.step);
            seen.went_on = run.restored_from.is_some();
            redone += run.steps_redone;
            // A person who had it tried again answered the failures before that.
            let is_answered = past.retries.get(&job.id).is_some_and(|at| run.stopped.is_some_and(|end| end <= *at));
            let exit_code = match run.end {
                Some(EndReason::Failed { exit_code }) => exit_code,
                Some(EndReason::FailedForGood) => FOR_GOOD,
                _ => continue,
            };
            if !is_answered {
                failures.push((run.progress.step, seen.done(), exit_code));
            }
        }
        let at = |(step, done, exit_code): (u64, f64, i32)| {
            let at = millis(seen.of_steps(step).unwrap_or(done));
            ProgramFailure { at, exit_code }
        };
        let failures: Vec<ProgramFailure> = failures.into_iter().map(at).collect();
        let done = seen.done();
        let ended_by_itself = job.state == JobState::Failed && runs.last().is_some_and(|run| is_failure(run));
        let is_estimated = job.state != JobState::Succeeded && !ended_by_itself;
        let work = if job.state == JobState::Succeeded {
            done
        } else {
            let whole = job.progress.total.and_then(|total| seen.of_steps(total));
            let stated = job.spec.time.estimate.unwrap_or(config.estimates.running_time);
            whole.unwrap_or(stated.as_millis() as f64).max(done)
        };
        let newest = runs.iter().rev().find_map(|run| run.restored_from.as_ref()).map(|from| from.size);
        Self {
            work: millis(work).max(Millis::new(1)),
            is_estimated,
            lost: millis(seen.of_steps(redone).unwrap_or(0.0)),
            save,
            restore: pace.restore(runs.iter().copied()),
            checkpoint: job.checkpoint.as_ref().map(|checkpoint| checkpoint.size).or(newest),
            failures,
        }
    }
}

const fn is_failure(run: &Run) -> bool {
    matches!(run.end, Some(EndReason::Failed { .. } | EndReason::FailedForGood))
}

/// Milliseconds of work that a run did.
fn worked(past: &Past, run: &Run, save: Millis, config: &Config) -> f64 {
    let Some(started) = run.started else { return 0.0 };
    let stopped = run.stopped.unwrap_or(past.to);
    let notice = run.notice.as_ref().filter(|notice| notice.saved);
    let until = notice.map_or(stopped, |notice| notice.received.min(stopped));
    // The last save, after a notice, is behind that already.
    let saves = run.checkpoint_seq.saturating_sub(u64::from(notice.is_some()));
    let wall = until.since(started).saturating_sub(save.saturating_mul(saves));
    let machines = past.clusters.get(&run.offer.cluster).map(|spec| &spec.machines);
    let machines = machines.and_then(|all| all.iter().find(|machines| machines.shape.name == run.offer.shape));
    wall.as_millis() as f64 * machines.map_or(1.0, |machines| speed_of(config, machines))
}

fn millis(value: f64) -> Millis {
    Millis::new(value.max(0.0).round() as u64)
}
