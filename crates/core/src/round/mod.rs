//! A round: places jobs while there are places, in order of priority, at most so many a step.

pub mod filter;
pub mod fleet;
mod place;
pub mod queue;
pub mod score;
pub mod select;

use leeway_model::job::{Job, JobState, Reason};
use leeway_model::{JobId, Name};

use crate::locality::Locality;
use crate::policy::JobView;
use crate::scheduler::Scheduler;
use queue::{Park, Scope, ShapeId};
use score::Economics;
use select::{Market, Search};

/// How an attempt to place a job went.
enum Attempt {
    Placed,
    /// Nothing can take its shape now.
    Blocked(Search),
    /// It stands aside for its own reasons.
    Parked(Park, Reason),
    /// It ended instead.
    Ended,
}

impl Scheduler {
    pub(crate) fn round(&mut self) {
        if self.volatile.short_of_space {
            self.unfinished = false;
            return;
        }
        let mut tries = self.config.placements_per_step;
        self.try_roomier_budgets(&mut tries);
        while tries > 0 {
            let Some((job, shape)) = self.queue.next() else { break };
            tries -= 1;
            self.try_job(job, Some(shape));
        }
        self.unfinished = tries == 0 && (self.queue.next().is_some() || !self.roomier.is_empty());
    }

    /// Jobs that wait for room in a budget are tried one by one, until one still does not fit.
    fn try_roomier_budgets(&mut self, tries: &mut usize) {
        for budget in std::mem::take(&mut self.roomier) {
            while *tries > 0 {
                let Some(job) = self.queue.first_for_budget(&budget) else { break };
                *tries -= 1;
                if !self.try_job(job, None) {
                    break;
                }
            }
            if *tries == 0 {
                self.roomier.insert(budget);
            }
        }
    }

    /// Tries to place one job; says whether the next of its kind is worth a try.
    fn try_job(&mut self, id: JobId, shape: Option<ShapeId>) -> bool {
        let Some(job) = self.tables.jobs.get(&id).filter(|job| job.state == JobState::Pending).cloned() else {
            debug_assert!(false, "{id} is queued but not pending");
            return false;
        };
        let scope = match shape {
            Some(shape) => self.queue.scope(shape),
            None => Scope::Everywhere(queue::groups_for(&job.spec.resources, &self.fleet)),
        };
        match self.attempt_job(&job, &scope) {
            Attempt::Placed => {
                self.queue.remove(&job);
                true
            }
            Attempt::Ended => true,
            Attempt::Blocked(search) => {
                let reason = self.blocked_reason(&job, &search);
                match shape {
                    Some(shape) => self.queue.block(shape, || reason),
                    // It left its budget's line for the queue of its shape, where capacity will wake it; the next in
                    // line may want another shape.
                    None => self.queue.add(&job, &self.fleet),
                }
                shape.is_none()
            }
            Attempt::Parked(park, reason) => {
                // Still without room in the same budget: then so are those behind it.
                let moved = self.queue.parked(id) != Some(&park);
                self.queue.park(&job, park);
                if job.reason.as_ref() != Some(&reason) {
                    self.set_state(id, JobState::Pending, Some(reason));
                }
                shape.is_some() || moved
            }
        }
    }

    fn blocked_reason(&self, job: &Job, search: &Search) -> Reason {
        if self.fleet.is_empty() {
            return Reason::new("NO_OFFERS", "no cluster offers any machine; register one with 'leeway clusters add'");
        }
        let mut fits_later = search.fits_later;
        if search.visited == 0 || !fits_later {
            // Offers without a price stand in no price order, so the search never met them.
            fits_later = self.fleet.iter().any(|(_, slot)| filter::alternative(&job.spec, slot).is_ok());
        }
        if fits_later {
            Reason::new("NO_CAPACITY", "every machine that fits is taken, cooling down or without a usable price now")
        } else {
            Reason::new("NO_OFFERS", "no offer fits what the job asks for; 'leeway jobs explain' counts why")
        }
    }

    /// A job's policy. One that is no longer installed gives way to the default.
    pub(crate) fn policy_of(&self, job: &Job) -> (&Name, &std::sync::Arc<dyn crate::policy::Policy>) {
        let own = job.spec.policy.as_ref().and_then(|name| self.policies.get_named(name));
        own.or_else(|| self.policies.get_named(&self.config.default_policy)).expect("the default policy is installed")
    }

    pub(crate) fn view<'a>(&'a self, job: &'a Job, economics: &Economics<'_>) -> JobView<'a> {
        let last = job.newest_run().and_then(|run| self.tables.runs.get(&run));
        JobView {
            now: self.now,
            job,
            last_offer: last.and_then(|run| Some((&run.offer, run.stopped?))),
            remaining: economics.remaining,
        }
    }

    pub(crate) fn locality(&self) -> Locality<'_> {
        Locality { prices: &self.config.egress, tables: &self.tables, now: self.now }
    }

    pub(crate) fn market<'a>(&'a self, policy: &'a dyn crate::policy::Policy) -> Market<'a> {
        let locality = self.locality();
        Market { config: &self.config, fleet: &self.fleet, policy, locality, now: self.now, without_spot: false }
    }

    /// Why a job stands where it stands: its own reason, or that of its shape.
    pub fn reason(&self, job: &Job) -> Option<Reason> {
        if job.state == JobState::Pending && self.queue.parked(job.id).is_none() {
            return self.queue.blocked(job).cloned().or_else(|| job.reason.clone());
        }
        job.reason.clone()
    }
}
