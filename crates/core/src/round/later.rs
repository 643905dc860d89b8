//! Waiting for a cheaper place that cannot be had now: one that cools down, or one that our own runs fill.
//!
//! The cheapest place that can be had this minute may cost a thousand times what the best one costs a few minutes later, and
//! spot machines that our own jobs hold come back when those end. The core finds such places, says when each is expected to
//! take the job, and asks the policy whether that is worth waiting for
//! ([`Policy::awaits`](crate::policy::Policy::awaits)). It names none that has proved
//! gone: where a launch was refused again after a cool-down, or the job's own was.
//!
//! Machines that others wait for ahead of a job are theirs. Whoever waits is looked at again when the place gives machines
//! back, and every few minutes.

use leeway_model::decision::Rule;
use leeway_model::job::{Job, Reason};
use leeway_model::market::OfferKey;
use leeway_model::run::EndReason;
use leeway_model::{JobId, Micros, Millis, Rate, Timestamp};

use super::filter;
use super::fleet::{GroupId, OfferId};
use super::queue;
use super::score::Economics;
use super::select::{self, Market, Place};
use crate::policy::{JobView, Later, Scored};
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
        let market = self.market(job, policy.as_ref());
        let mut search = Search { scheduler: self, job, view, economics, market, place, found: None };
        search.cooling();
        if policy.queues() {
            search.full();
        }
        search.found.map(|(_, soon)| soon)
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

/// A search for places to wait for, instead of taking `place`.
struct Search<'a> {
    scheduler: &'a Scheduler,
    job: &'a Job,
    view: &'a JobView<'a>,
    economics: &'a Economics<'a>,
    market: Market<'a>,
    place: &'a Place,
    /// The best so far, with what it costs in all and when.
    found: Option<((Micros, Timestamp), Soon)>,
}

impl Search<'_> {
    /// Looks at the places that cool down.
    fn cooling(&mut self) {
        let Scheduler { config, fleet, now, .. } = self.scheduler;
        if let Some((offer, until)) = self.market.setback {
            self.at_cooling(offer, until);
        }
        for group in self.scheduler.cooling_groups(self.job).into_iter().flatten() {
            let least = self.economics.least(config, fleet.group(group));
            for (rate, offer) in fleet.cooling(group).take(LOOK_AT) {
                if !self.could_be_worth(&self.economics.floor(config, &least, rate)) {
                    break;
                }
                if let Some(until) = fleet.slot(offer).offer.cooling_until.filter(|until| now < until) {
                    self.at_cooling(offer, until);
                }
            }
        }
    }

    fn at_cooling(&mut self, offer: OfferId, until: Timestamp) {
        // As it will be judged then, as far as can be known.
        let then = Market { now: until, setback: None, ..self.market };
        if !self.scheduler.is_gone(self.job, offer)
            && let Ok((priced, alternative)) = select::consider(then, self.view, self.economics, offer, None)
        {
            self.weigh(offer, until, false, priced.scored, alternative);
        }
    }

    /// Looks at the places that our own runs fill.
    fn full(&mut self) {
        let Scheduler { config, fleet, .. } = self.scheduler;
        for (group, of) in queue::answering(&self.job.spec.resources, fleet) {
            // Where the cheapest of its kind is the place itself, nothing is to be gained by waiting.
            if fleet.priced(group).next().is_none_or(|(_, offer)| offer == self.place.offer) {
                continue;
            }
            let least = self.economics.least(config, of);
            for (rate, offer) in fleet.priced(group).take(LOOK_AT) {
                if !self.could_be_worth(&self.economics.floor(config, &least, rate)) {
                    break;
                }
                if let Some(opens) = self.scheduler.opens(self.job, offer) {
                    self.at_full(offer, opens, rate);
                }
            }
        }
    }

    fn at_full(&mut self, offer: OfferId, opens: Timestamp, rate: Rate) {
        // That it is full is the last of all rules, but for what the whole job may cost.
        let fails = select::consider(self.market, self.view, self.economics, offer, None).err();
        let slot = self.scheduler.fleet.slot(offer);
        let Ok(alternative) = filter::alternative(&self.job.spec, slot) else { return };
        if fails != Some(Rule::NoCapacity) {
            return;
        }
        let scored = self.economics.price(&self.scheduler.config, self.market.locality, slot, rate).scored;
        let spent = self.job.posted.total().saturating_add(select::money(&scored));
        if self.job.spec.money.max_cost.is_none_or(|cap| spent <= cap) {
            self.weigh(offer, opens, true, scored, alternative);
        }
    }

    /// Takes note of a place that the policy would wait for, where it is better than the one known so far.
    fn weigh(&mut self, offer: OfferId, opens: Timestamp, is_full: bool, scored: Scored, alternative: usize) {
        let value = self.job.spec.money.value_per_hour;
        let wait = opens.since(self.scheduler.now);
        let cost = value.map_or(Micros::ZERO, |value| scored.bill.total().saturating_add(value.cost(wait)));
        let is_better = self.found.as_ref().is_none_or(|(known, _)| (cost, opens) < *known);
        let is_allowed = !self.job.spec.ordered || alternative <= self.place.alternative;
        let best = &self.place.ranked.scored;
        let later = self.later(opens, is_full, scored);
        if is_allowed && is_better && self.market.policy.awaits(self.view, best, &later) {
            let soon = Soon {
                offer,
                until: opens,
                key: self.scheduler.fleet.slot(offer).offer.key.clone(),
                bill: select::money(&scored),
                is_full,
                instead_of: self.place.ranked.offer.clone(),
                dear: select::money(best),
                is_weighed: value.is_some(),
            };
            self.found = Some(((cost, opens), soon));
        }
    }

    fn later(&self, opens: Timestamp, is_full: bool, scored: Scored) -> Later {
        let factor = self.scheduler.config.wait_for_cheaper_factor;
        let (money, dear) = (select::money(&scored), select::money(&self.place.ranked.scored));
        let is_far_cheaper = money.as_units_f64() * factor < dear.as_units_f64();
        Later { scored, opens, is_full, is_far_cheaper, waited: self.scheduler.now.since(self.job.since) }
    }

    /// Whether a place that costs no less than this could be worth any wait.
    fn could_be_worth(&self, floor: &Scored) -> bool {
        let at_once = Later { waited: Millis::ZERO, ..self.later(self.scheduler.now, false, *floor) };
        self.market.policy.awaits(self.view, &self.place.ranked.scored, &at_once)
    }
}
