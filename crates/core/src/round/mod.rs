//! A round: places jobs while there are places, in order of priority and then as the queue's order says, at most so
//! many a step.

mod deadline;
mod doubts;
pub(crate) mod ends;
pub mod filter;
pub mod fleet;
mod later;
mod lines;
pub(crate) mod moves;
mod outlook;
pub(crate) mod place;
pub mod queue;
pub mod score;
pub mod select;

use std::collections::BTreeMap;

use leeway_model::decision::Rule;
use leeway_model::job::{Job, JobState, Reason};
use leeway_model::market::OfferKey;
use leeway_model::{JobId, Name, Rate, Timestamp};

use crate::locality::Locality;
use crate::order::Waiting;
use crate::policy::{JobView, LastPlace, Policy};
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
        self.keep_ranks();
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
                match shape {
                    Some(shape) => self.queue.take(&job, shape),
                    None => self.queue.remove(&job),
                }
                true
            }
            Attempt::Ended => true,
            Attempt::Blocked(search) => {
                match shape {
                    Some(shape) => {
                        // Offers that changed and still do not fit change nothing of why the others do not.
                        let stands = self.queue.looks_again(shape) && !search.fits_later;
                        let reason = (!stands).then(|| self.blocked_reason(&job, &search));
                        self.queue.block(shape, reason);
                    }
                    // It left its budget's line for the queue of its shape, where capacity will wake it; the next in
                    // line may want another shape.
                    None => self.queue.add(Waiting::new(&self.config, &job), &self.fleet),
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
        if let Some(most) = self.most_together(job).filter(|most| (1..job.spec.nodes).contains(most)) {
            let nodes = job.spec.nodes;
            let message = format!(
                "the job needs {nodes} machines at once, and no offer that fits has more than {most} altogether; ask for \
                 fewer, or declare more of them"
            );
            return Reason::new("NO_OFFERS", message);
        }
        if search.fits_later {
            return no_capacity();
        }
        // Offers that are full or without a price stand in no open order, so the search never met them.
        let mut too_dear: Option<(Rate, &OfferKey)> = None;
        let mut refused: BTreeMap<Rule, u32> = BTreeMap::new();
        for (offer, slot) in self.fleet.iter() {
            let first = match filter::alternative(&job.spec, slot) {
                Ok(first) => first,
                Err(rule) => {
                    *refused.entry(rule).or_default() += 1;
                    continue;
                }
            };
            let answer = filter::alternative_from(first, &self.config, &self.fleet, offer, &job.spec, self.now);
            match (answer, &slot.offer.price) {
                (Err(Rule::MaxHourlyCost), Some(price)) => {
                    let dear = (price.rate, &slot.offer.key);
                    too_dear = Some(too_dear.map_or(dear, |known| known.min(dear)));
                }
                _ => return no_capacity(),
            }
        }
        match too_dear {
            Some((rate, offer)) => {
                let limits = job.spec.resources.iter().filter_map(|request| request.max_hourly_cost);
                let limit = limits.max().unwrap_or(Rate::ZERO);
                let message = format!(
                    "every machine that fits costs more than its max_hourly_cost of {limit}; the cheapest, {offer}, costs {rate} an hour"
                );
                Reason::new("MAX_HOURLY_COST", message)
            }
            None => {
                let counts: Vec<String> =
                    refused.iter().map(|(rule, count)| format!("{} {count}", rule.words())).collect();
                let message = format!(
                    "no offer fits what the job asks for; refused are by {}; 'leeway offers' lists what there is",
                    counts.join(", by ")
                );
                Reason::new("NO_OFFERS", message)
            }
        }
    }

    /// The most machines of one offer that a gang could ever have of what fits it; `None` where a cluster states no
    /// number, or nobody needs to know.
    fn most_together(&self, job: &Job) -> Option<u32> {
        if job.spec.nodes < 2 {
            return None;
        }
        let fitting = self.fleet.iter().filter(|(_, slot)| filter::alternative(&job.spec, slot).is_ok());
        fitting.map(|(offer, _)| self.fleet.declared(offer)).try_fold(0, |most, count| Some(most.max(count?)))
    }

    /// A job's policy: its own, that for deadlines where it has one, or the default. One that is no longer installed
    /// gives way to the next.
    pub(crate) fn policy_of(&self, job: &Job) -> (&Name, &std::sync::Arc<dyn Policy>) {
        let own = job.spec.policy.as_ref().and_then(|name| self.policies.get_named(name));
        let timed = self.config.deadline_policy.as_ref().filter(|_| self.deadline_of(job).is_some());
        let own = own.or_else(|| timed.and_then(|name| self.policies.get_named(name)));
        own.or_else(|| self.policies.get_named(&self.config.default_policy)).expect("the default policy is installed")
    }

    pub(crate) fn view<'a>(&'a self, job: &'a Job, economics: &Economics<'_>) -> JobView<'a> {
        JobView {
            now: self.now,
            job,
            last: self.last_place(job),
            work: score::work(&self.config, job),
            remaining: economics.remaining,
            changeover: score::changeover(&self.config, job),
            outlook: None,
        }
    }

    fn last_place(&self, job: &Job) -> Option<LastPlace<'_>> {
        let run = self.tables.runs.get(&job.newest_run()?)?;
        let cooling = self.fleet.find(&run.offer).and_then(|offer| self.fleet.slot(offer).offer.cooling_until);
        let set_back = self.setback(job).map(|(_, until)| until);
        let closed_until = cooling.max(set_back).unwrap_or(Timestamp::ZERO);
        Some(LastPlace { offer: &run.offer, ended: run.stopped?, closed_until })
    }

    pub(crate) fn locality(&self) -> Locality<'_> {
        Locality { prices: &self.config.egress, tables: &self.tables, now: self.now }
    }

    pub(crate) fn market<'a>(&'a self, job: &Job, policy: &'a dyn Policy) -> Market<'a> {
        Market {
            config: &self.config,
            fleet: &self.fleet,
            policy,
            locality: self.locality(),
            now: self.now,
            without_spot: false,
            setback: self.setback(job),
        }
    }

    /// Why a job stands where it stands: its own reason, or that of its shape; and who goes first there.
    pub fn reason(&self, job: &Job) -> Option<Reason> {
        if job.state != JobState::Pending || self.queue.parked(job.id).is_some() {
            return job.reason.clone();
        }
        let reason = self.queue.blocked(job).cloned().or_else(|| job.reason.clone())?;
        let Some((other, because)) = self.queue.ahead(job) else { return Some(reason) };
        let message = format!("{}; {other} goes first: {because}", reason.message);
        Some(Reason::new(&reason.code, message))
    }
}

fn no_capacity() -> Reason {
    Reason::new("NO_CAPACITY", "every machine that fits is taken, cooling down or without a usable price now")
}
