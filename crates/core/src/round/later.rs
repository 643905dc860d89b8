//! Waiting for a cheaper place that cannot be had now: one that cools down, or one that our own runs fill.
//!
//! The cheapest place that can be had this minute may cost a thousand times what the best one costs a few minutes later, and
//! spot machines that our own jobs hold come back when those end. The core finds such places, says when each is expected to
//! take the job, and asks the policy whether that is worth waiting for ([`Policy::awaits`]). It names none that has proved
//! gone: where a launch was refused again after a cool-down, or the job's own was.
//!
//! Machines that others wait for ahead of a job are theirs. Whoever waits is looked at again when the place gives machines
//! back, and every few minutes.

use leeway_model::decision::Rule;
use leeway_model::job::{Job, Reason};
use leeway_model::market::OfferKey;
use leeway_model::run::EndReason;
use leeway_model::{JobId, Micros, Millis, Timestamp};

use super::filter;
use super::fleet::{GroupId, OfferId};
use super::queue;
use super::score::Economics;
use super::select::{self, Market, Place};
use crate::policy::{JobView, Later, Policy, Scored};
use crate::scheduler::Scheduler;
use crate::timers::Timer;

/// Most offers of a group that are looked at, from the cheapest on.
const LOOK_AT: usize = 16;

/// A cheaper place to wait for, and the dear one that is not taken meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Soon {
    pub offer: OfferId,
    pub until: Timestamp,
    key: OfferKey,
    bill: Micros,
    is_full: bool,
    instead_of: OfferKey,
    dear: Micros,
    is_weighed: bool,
}

impl Soon {
    /// Why the job waits, and until when.
    pub fn reason(&self) -> Reason {
        let Self { until, key, bill, instead_of, dear, is_weighed, .. } = self;
        let (code, what) = if self.is_full {
            ("WAITS_FOR_MACHINES", format!("waits for {key}, where runs of ours are expected to end at {until}"))
        } else {
            ("WAITS_FOR_CHEAPER", format!("waits until {until} for {key}, which cools down"))
        };
        let so =
            if *is_weighed { "the wait costs less than it saves" } else { "value_per_hour says what waiting costs" };
        let message = format!(
            "{what}, and is expected to cost {bill} there; the best place that can be had now, {instead_of}, is expected to \
             cost {dear}; {so}"
        );
        Reason::new(code, message)
    }
}

impl Scheduler {
    /// The place that the job's policy would rather wait for than take this one: where its value of time is known the one
    /// that costs least with the wait, otherwise the first to take runs again.
    pub(crate) fn better_soon(
        &self,
        job: &Job,
        view: &JobView<'_>,
        economics: &Economics<'_>,
        place: &Place,
    ) -> Option<Soon> {
        if self.weighs_waiting(job) {
            return None;
        }
        let (_, policy) = self.policy_of(job);
        let value = job.spec.money.value_per_hour;
        let best = &place.ranked.scored;
        let market = self.market(job, policy.as_ref());
        let search = Looking { scheduler: self, job, view, policy: policy.as_ref(), best };
        let mut found: Option<((Micros, Timestamp), Soon)> = None;
        let mut look = |offer: OfferId, opens: Timestamp, is_full: bool, scored: Scored, alternative: usize| {
            let later = search.later(opens, is_full, scored);
            let is_allowed = !job.spec.ordered || alternative <= place.alternative;
            let wait = opens.since(self.now);
            let cost = value.map_or(Micros::ZERO, |value| scored.bill.total().saturating_add(value.cost(wait)));
            let is_sooner = found.as_ref().is_none_or(|(known, _)| (cost, opens) < *known);
            if is_allowed && is_sooner && policy.awaits(view, best, &later) {
                let key = |offer| self.fleet.slot(offer).offer.key.clone();
                let soon = Soon {
                    offer,
                    until: opens,
                    key: key(offer),
                    bill: select::money(&scored),
                    is_full,
                    instead_of: key(place.offer),
                    dear: select::money(best),
                    is_weighed: value.is_some(),
                };
                found = Some(((cost, opens), soon));
            }
        };
        let mut cooling = |offer: OfferId, until: Timestamp| {
            // As it will be judged then, as far as can be known.
            let then = Market { now: until, setback: None, ..market };
            if !self.is_gone(job, offer)
                && let Ok((priced, alternative)) = select::consider(then, view, economics, offer, None)
            {
                look(offer, until, false, priced.scored, alternative);
            }
        };
        if let Some((offer, until)) = market.setback {
            cooling(offer, until);
        }
        for group in self.cooling_groups(job).iter().flat_map(|groups| groups.iter()) {
            let least = economics.least(&self.config, self.fleet.group(*group));
            for (rate, offer) in self.fleet.cooling(*group).take(LOOK_AT) {
                if !search.could_be_worth(&economics.floor(&self.config, &least, rate)) {
                    break;
                }
                if let Some(until) = self.fleet.slot(offer).offer.cooling_until.filter(|until| self.now < *until) {
                    cooling(offer, until);
                }
            }
        }
        if policy.queues() {
            // Where the cheapest of its kind is the place itself, nothing is to be gained by waiting.
            let is_cheapest = |group| self.fleet.priced(group).next().is_none_or(|(_, offer)| offer == place.offer);
            for (group, of) in queue::answering(&job.spec.resources, &self.fleet) {
                if is_cheapest(group) {
                    continue;
                }
                let least = economics.least(&self.config, of);
                for (rate, offer) in self.fleet.priced(group).take(LOOK_AT) {
                    if !search.could_be_worth(&economics.floor(&self.config, &least, rate)) {
                        break;
                    }
                    let Some(opens) = self.opens(job, offer) else { continue };
                    // Whatever else it fails comes before that it is full.
                    let considered = select::consider(market, view, economics, offer, None);
                    let slot = self.fleet.slot(offer);
                    if considered.is_err_and(|rule| rule == Rule::NoCapacity)
                        && let Ok(alternative) = filter::alternative(&job.spec, slot)
                    {
                        let scored = economics.price(&self.config, market.locality, slot, rate).scored;
                        let spent = job.posted.total().saturating_add(select::money(&scored));
                        if job.spec.money.max_cost.is_none_or(|cap| spent <= cap) {
                            look(offer, opens, true, scored, alternative);
                        }
                    }
                }
            }
        }
        found.map(|(_, soon)| soon)
    }

    /// When an offer that our own runs fill is expected to have room for a job, after those who wait for it ahead of it.
    fn opens(&self, job: &Job, offer: OfferId) -> Option<Timestamp> {
        let lacking = self.fleet.lacking(offer, job.spec.nodes).filter(|lacking| *lacking > 0)?;
        let machines = lacking.saturating_add(self.queue.awaited_before(offer, job));
        self.ends.given_back(offer, machines, self.now)
    }

    /// Machines were given back: the first of those that wait for them are looked at.
    pub(crate) fn wake_awaiting(&mut self, offer: OfferId, machines: u32) {
        let first: Vec<JobId> = self.queue.awaiting(offer).take(machines as usize).collect();
        for job in first {
            self.timers.set(Timer::Job(job), self.now);
        }
    }

    /// Groups of offers that could answer a job, when any offer cools down at all.
    pub(super) fn cooling_groups(&self, job: &Job) -> Option<Vec<GroupId>> {
        let any = self.fleet.has_cooling();
        any.then(|| queue::groups_for(&job.spec.resources, &self.fleet).to_vec())
    }

    fn weighs_waiting(&self, job: &Job) -> bool {
        self.deadline_of(job).is_some() && self.config.deadline_policy.as_ref() == Some(self.policy_of(job).0)
    }

    /// Whether waiting for an offer has come to nothing: it took no run after it had cooled down, or none of this job.
    fn is_gone(&self, job: &Job, offer: OfferId) -> bool {
        let slot = self.fleet.slot(offer);
        let refused_again = slot.probes.was_refused() && slot.offer.cooldown > self.config.launch.cooldown;
        let failed = |end: &Option<EndReason>| matches!(end, Some(EndReason::LaunchFailed { .. }));
        let own = self.runs_of(job.id).rev().take_while(|run| failed(&run.end)).take(LOOK_AT);
        refused_again || own.into_iter().any(|run| run.offer == slot.offer.key)
    }
}

/// A search for places to wait for.
struct Looking<'a> {
    scheduler: &'a Scheduler,
    job: &'a Job,
    view: &'a JobView<'a>,
    policy: &'a dyn Policy,
    best: &'a Scored,
}

impl Looking<'_> {
    fn later(&self, opens: Timestamp, is_full: bool, scored: Scored) -> Later {
        let factor = self.scheduler.config.wait_for_cheaper_factor;
        let (money, dear) = (select::money(&scored), select::money(self.best));
        Later {
            scored,
            opens,
            is_full,
            is_far_cheaper: money.as_units_f64() * factor < dear.as_units_f64(),
            waited: self.scheduler.now.since(self.job.since),
        }
    }

    /// Whether a place that costs no less than this could be worth any wait.
    fn could_be_worth(&self, floor: &Scored) -> bool {
        let at_once = Later { waited: Millis::ZERO, ..self.later(self.scheduler.now, false, *floor) };
        self.policy.awaits(self.view, self.best, &at_once)
    }
}
