//! Deadlines, whatever a policy says: capacity that nobody takes back is ordered in time, and who runs on it is asked
//! now and then whether it could still afford to run for less.
//!
//! The last call of a job is the instant at which the best place without spot, with the whole expected time there and
//! one more changeover, would just meet the deadline from the newest checkpoint. A run on spot that could not be lost any
//! more saves and moves before it comes; nothing is placed on spot that could not save once before it comes; and no
//! policy may wait beyond it.

use leeway_model::job::{Job, Reason};
use leeway_model::market::InterruptionBelief;
use leeway_model::resources::CapacityType;
use leeway_model::run::{EndReason, Run, RunState};
use leeway_model::{Millis, RunId, Timestamp};

use super::queue::{self, Scope};
use super::score::{self, Belief, Economics};
use super::select::{self, Market, Place};
use crate::policy::JobView;
use crate::scheduler::Scheduler;

/// How often runs with a deadline are looked at: on spot, whether they may stay; elsewhere, whether they would rather be
/// on spot.
const REVIEW: Millis = Millis::from_mins(10);

impl Scheduler {
    /// A job's deadline as long as it binds: once it is past, nothing is gained any more by what it would cost to hurry.
    pub(crate) fn deadline_of(&self, job: &Job) -> Option<Timestamp> {
        job.spec.time.deadline.filter(|deadline| self.now < *deadline)
    }

    /// The best places for a job that the market cannot take back.
    pub(super) fn calm_places(&self, job: &Job, view: &JobView<'_>, economics: &Economics<'_>) -> Vec<Place> {
        let (_, policy) = self.policy_of(job);
        let calm = Market { without_spot: true, ..self.market(job, policy.as_ref()) };
        let everywhere = Scope::Everywhere(queue::groups_for(&job.spec.resources, &self.fleet));
        select::search(calm, view, economics, &everywhere).places
    }

    /// See the head of this file; `None` without a deadline, or without a place that would do.
    pub(super) fn last_call(&self, job: &Job, calm: &[Place]) -> Option<Timestamp> {
        let deadline = self.deadline_of(job)?;
        let least = calm.iter().map(|place| place.ranked.scored.expected_time).min()?;
        Some(deadline.before(least.saturating_add(score::changeover(&self.config, job))))
    }

    /// What must be left until the last call for a job to begin on spot: the first save, and the time until it is looked
    /// at. Work that is never saved is not at stake, since it is lost with any loss.
    pub(super) fn spot_reserve(&self, job: &Job) -> Millis {
        let belief = Belief::from(&InterruptionBelief::default());
        let saving = score::saving(&self.config, &job.spec, CapacityType::Spot, belief);
        let interval = saving.map(|saving| score::checkpoint_interval(&job.spec, saving));
        interval.unwrap_or_default().saturating_add(REVIEW)
    }

    /// Whether a run can move without a loss, and its deadline may ask for it.
    fn may_move(&self, run: &Run) -> bool {
        run.state == RunState::Running
            && run.end.is_none()
            && self.job(run.id.job).is_some_and(|job| self.deadline_of(job).is_some() && job.spec.checkpoint.is_some())
    }

    /// When a run is asked next.
    pub(crate) fn next_review(&self, run: &Run) -> Option<Timestamp> {
        let started = run.started.filter(|_| self.may_move(run))?;
        let turns = self.now.since(started).as_millis() / REVIEW.as_millis() + 1;
        Some(started.after(REVIEW.saturating_mul(turns)))
    }

    /// Whether a run should save and go: away from spot while a loss can still be made up for, or to where its policy
    /// finds that it costs less.
    pub(crate) fn review(&mut self, id: RunId) {
        let Some(run) = self.run(id).filter(|run| self.may_move(run)) else { return };
        let Some(job) = self.job(id.job) else { return };
        let economics = Economics::of(&self.config, &self.tables.datasets, job);
        let (_, policy) = self.policy_of(job);
        if run.offer.capacity == CapacityType::Spot {
            let calm = self.calm_places(job, &self.view(job, &economics), &economics);
            if self.last_call(job, &calm).is_some_and(|last| self.now.after(REVIEW) >= last) {
                self.make_move(id, "its deadline leaves no time for a loss of spot".into());
                return;
            }
            if !policy.plans() {
                return;
            }
        }
        // It saves before it goes, so that only what is left by now has to be done elsewhere.
        let economics = Economics { remaining: self.remaining_now(job, run, &economics), ..economics };
        let view = self.view(job, &economics);
        let everywhere = Scope::Everywhere(queue::groups_for(&job.spec.resources, &self.fleet));
        let market = self.market(job, policy.as_ref());
        let mut found = select::search(market, &view, &economics, &everywhere);
        let (mut spot, mut outlook) = (Vec::new(), None);
        if policy.plans() {
            let calm = self.calm_places(job, &view, &economics);
            let Some((offer, held)) = self.held(run, market, &economics) else { return };
            // Its own place is no place to go to.
            found.places.retain(|place| place.offer != offer);
            spot.extend(self.prospects(market, &view, &economics, &found.places, Some(offer)));
            outlook = self.outlook(job, &calm, &spot, Some(held));
        }
        let view = JobView { outlook: outlook.as_ref(), ..view };
        let ranked: Vec<_> = found.places.into_iter().map(|place| place.ranked).collect();
        let Some(why) = policy.review(&view, &ranked).filter(|_| !ranked.is_empty()) else { return };
        self.make_move(id, why);
    }

    fn make_move(&mut self, id: RunId, why: Box<str>) {
        self.remark(id, Reason::new("MOVES", why));
        self.drain(id, EndReason::Moved, self.config.launch.drain, true);
    }

    /// Work left of a program that runs: what it reported, else as far as its clock tells.
    fn remaining_now(&self, job: &Job, run: &Run, economics: &Economics<'_>) -> Millis {
        let total = score::work(&self.config, job);
        let share =
            |step: u64, all: u64| Millis::from_secs_f64(total.as_secs_f64() * (step.min(all) as f64 / all as f64));
        let of = job.progress.total.filter(|all| *all > 0);
        let reported = self
            .volatile
            .progress
            .get(&run.id)
            .and_then(|progress| progress.total.filter(|all| *all > 0).map(|all| share(progress.step, all)));
        let done = reported.unwrap_or_else(|| {
            let before = run.restored_from.as_ref().zip(of).map_or(Millis::ZERO, |(from, all)| share(from.step, all));
            let speed = self.fleet.find(&run.offer).map_or(1.0, |offer| self.fleet.slot(offer).speed);
            let ran = run.started.map_or(Millis::ZERO, |started| self.now.since(started));
            before.saturating_add(Millis::from_secs_f64(ran.as_secs_f64() * speed))
        });
        economics.remaining.min(total.saturating_sub(done)).max(Millis::from_secs(1))
    }
}
