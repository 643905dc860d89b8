//! Placing one job: search, the policy's word, the hold, the run.

use leeway_model::budget::Refusal;
use leeway_model::decision::{Decision, RejectionCount};
use leeway_model::job::{Job, JobState, Reason};
use leeway_model::resources::CapacityType;
use leeway_model::run::{Run, RunState};
use leeway_model::{Bill, HoldId, Micros, Millis, Name, Rate, RunId, Term, Timestamp};

use super::fleet::OfferId;
use super::queue::{Park, Scope};
use super::score::{self, Belief, Economics};
use super::select::{self, Place};
use super::{Attempt, filter};
use crate::action::Action;
use crate::ledger;
use crate::policy::{JobView, Verdict};
use crate::scheduler::Scheduler;
use crate::timers::Timer;

/// A job that its own cost cap or a budget stops is looked at again after this.
const OVER_COST_AGAIN: Millis = Millis::from_mins(10);

/// A job that waits for a cheaper place is looked at again after this, if not before.
const WAITS_AGAIN: Millis = Millis::from_mins(5);

/// So many jobs that wait for one budget are each looked at that often; twice as many half as often.
const FEW: u64 = 64;

/// What the search and the policy agreed on.
struct Choice {
    place: Place,
    why: Box<str>,
    others: Vec<Place>,
}

/// What is to be done with a job that could have a place.
pub(crate) enum Decided {
    Wait {
        until: Timestamp,
        /// The offer whose machines it waits for, where it does.
        awaited: Option<OfferId>,
        reason: Reason,
    },
    /// The place at `position`, or where it cannot be paid for the others in their order.
    Place { places: Vec<Place>, position: usize, why: Box<str> },
}

impl Scheduler {
    pub(super) fn attempt_job(&mut self, job: &Job, scope: &Scope) -> Attempt {
        if self.lacks_checkpoint(job.id) {
            let reason = Reason::new("NO_VALID_CHECKPOINT", "no committed checkpoint is left; retry to start afresh");
            self.finish(job.id, JobState::Failed, Some(reason));
            return Attempt::Ended;
        }
        let economics = Economics::of(&self.config, &self.tables.datasets, job);
        if let Some(url) = economics.moves.unreachable() {
            return Attempt::Parked(Park::Data, Reason::new("DATA_UNREACHABLE", select::unreachable(url)));
        }
        let view = self.view(job, &economics);
        let (_, policy) = self.policy_of(job);
        let market = self.market(job, policy.as_ref());
        let found = select::search(market, &view, &economics, scope);
        if found.places.is_empty() {
            if found.over_cost {
                let at = self.now.after(OVER_COST_AGAIN);
                self.timers.set(Timer::Job(job.id), at);
                let reason = Reason::new("MAX_COST", "every place that can be had would pass the job's max_cost");
                return Attempt::Parked(Park::Timer, reason);
            }
            if let Some((_, until)) = self.setback(job).filter(|_| found.set_back) {
                self.timers.set(Timer::Job(job.id), until);
                let message =
                    "the only place that can be had lost its last run a moment ago; it is tried there again soon";
                return Attempt::Parked(Park::Timer, Reason::new("COOLING_DOWN", message));
            }
            return Attempt::Blocked(found);
        }
        match self.decided(job, view, &economics, found.places) {
            Decided::Wait { until, awaited, reason } => {
                self.timers.set(Timer::Job(job.id), until);
                Attempt::Parked(awaited.map_or(Park::Timer, Park::Offer), reason)
            }
            Decided::Place { places, position, why } => self.reserve(job, places, position, &why),
        }
    }

    /// What its policy makes of the places that a job could have, of which there are some, and what its deadline makes of
    /// that.
    pub(crate) fn decided(
        &self,
        job: &Job,
        view: JobView<'_>,
        economics: &Economics<'_>,
        mut places: Vec<Place>,
    ) -> Decided {
        let (_, policy) = self.policy_of(job);
        // Capacity that nobody takes back goes first where spot took the job too often, or where the deadline leaves no time
        // for another loss; where the budget cannot pay for it, the rest follows.
        let hounded = self.is_hounded(job);
        let timed = self.deadline_of(job).is_some();
        let mut calm = if hounded || timed { self.calm_places(job, &view, economics) } else { Vec::new() };
        let last_call = self.last_call(job, &calm);
        let plans = timed && policy.plans();
        if plans && let Some(best) = calm.first().filter(|best| places.iter().all(|one| one.offer != best.offer)) {
            // Whatever spot there is, the plan may prefer what nobody takes back.
            places.push(best.clone());
        }
        let market = self.market(job, policy.as_ref());
        let spot = if plans { self.prospects(market, &view, economics, &places, None) } else { Vec::new() };
        let outlook = if plans { self.outlook(job, &calm, &spot, None) } else { None };
        let view = JobView { outlook: outlook.as_ref(), ..view };
        let pressed = last_call.is_some_and(|last| self.now.after(self.spot_reserve(job)) >= last);
        let aside = (hounded || pressed) && !calm.is_empty();
        let offered = if aside { &calm } else { &places };
        let ranked: Vec<_> = offered.iter().map(|place| place.ranked.clone()).collect();
        let verdict = match policy.decide(&view, &ranked) {
            Verdict::WaitUntil { .. } if pressed => Verdict::Place { position: 0, why: "cheapest".into() },
            verdict => verdict,
        };
        let until = |at: Timestamp| last_call.map_or(at, |last| at.min(last)).max(self.now.after(Millis::from_secs(1)));
        match verdict {
            Verdict::WaitUntil { at, why } => {
                Decided::Wait { until: until(at), awaited: None, reason: Reason::new("POLICY_WAITS", why) }
            }
            Verdict::Place { position, why } if aside => {
                let position = position.min(calm.len() - 1);
                let rest = places.into_iter().filter(|place| calm.iter().all(|one| one.offer != place.offer));
                let rest: Vec<_> = rest.collect();
                calm.extend(rest);
                let because = if pressed {
                    "its deadline leaves no time for a loss"
                } else {
                    "spot took it too often within the last hour"
                };
                Decided::Place { places: calm, position, why: format!("{why}; {because}").into() }
            }
            Verdict::Place { position, why } => {
                let position = position.min(places.len() - 1);
                if let Some(soon) = self.better_soon(job, &view, economics, &places[position]).filter(|_| !pressed) {
                    // A new place may be as good before that.
                    let at = soon.until.min(self.now.after(WAITS_AGAIN));
                    return Decided::Wait { until: until(at), awaited: Some(soon.offer), reason: soon.reason() };
                }
                Decided::Place { places, position, why }
            }
        }
    }

    /// Opens the hold at the chosen place, or at the next best that the budget can pay for.
    fn reserve(&mut self, job: &Job, places: Vec<Place>, first: usize, why: &str) -> Attempt {
        let order = std::iter::once(first).chain((0..places.len()).filter(|position| *position != first));
        let mut refusal = None;
        for position in order {
            match self.hold_for(job, &places[position]) {
                Ok(held) => {
                    let mut others = places;
                    let place = others.remove(position);
                    let why = match refusal {
                        None => why.into(),
                        Some(Refusal::JobCap { .. }) => "the best place that the job's max_cost can pay for".into(),
                        Some(_) => "the best place that the budget can pay for".into(),
                    };
                    self.start(job, Choice { place, why, others }, held);
                    return Attempt::Placed;
                }
                Err(refused) => refusal = refusal.or(Some(refused)),
            }
        }
        let refusal = refusal.expect("there is at least one place, and every one was refused");
        self.tell_denied(job.id, &refusal);
        let reason = Reason::new(refusal.code(), refusal.to_string());
        if let Some(again) = self.look_again(&refusal) {
            self.timers.set(Timer::Job(job.id), again);
        }
        match refusal.budget() {
            Some(budget) => Attempt::Parked(Park::Budget(budget.clone()), reason),
            None => Attempt::Parked(Park::Timer, reason),
        }
    }

    /// When a job that was refused money is looked at again without being asked to. Room is not all that can help: a
    /// cheaper place may come back, and a smaller job may stand behind a larger one. Where many wait for one budget, each
    /// is looked at less often, so that they cost no more than a few would; nothing but an operator thaws a budget.
    fn look_again(&self, refusal: &Refusal) -> Option<Timestamp> {
        if matches!(refusal, Refusal::BudgetFrozen { .. }) {
            return None;
        }
        let waiting = refusal.budget().map_or(0, |budget| self.queue.waiting_for(budget));
        Some(self.now.after(OVER_COST_AGAIN.saturating_mul(1 + waiting as u64 / FEW)))
    }

    fn next_run(&self, job: &Job) -> RunId {
        RunId { job: job.id, epoch: (job.epoch + 1).max(self.tables.meta.epoch_floor) }
    }

    /// What would be set aside for a run of a job at a place.
    ///
    /// # Errors
    /// When the job's own cap leaves no room for it.
    fn hold_amount(&self, job: &Job, place: &Place) -> Result<Micros, Refusal> {
        let money = self.config.money;
        let work = place.ranked.scored.expected_time.min(money.horizon);
        let length = work.saturating_add(money.stop_reserve);
        let gang = self.rate_max(job, place).checked_mul(u64::from(job.spec.nodes)).ok_or(Refusal::Overflow)?;
        let now = place.ranked.scored.rate.checked_mul(u64::from(job.spec.nodes)).ok_or(Refusal::Overflow)?;
        let bill = &place.ranked.scored.bill;
        let once = bill.get(Term::CheckpointMove).saturating_add(bill.get(Term::Disk));
        // What is kept back to save and stop is reckoned at the worst price all the same.
        let end = gang.cost(money.stop_reserve.saturating_add(money.extend_before));
        let likely = [end, once].iter().try_fold(now.cost(work), |sum, more| sum.checked_add(*more));
        let likely = likely.ok_or(Refusal::Overflow)?;
        let worst = gang.cost(length).checked_add(once).ok_or(Refusal::Overflow)?;
        let amount = match self.room_under_cap(job) {
            // At today's price it can be paid to the end. Should the price rise, the hold is used up early, cannot be
            // extended, and the run is drained: the cap holds, and a cheap spot place is not passed over for it.
            Some((_, room)) if likely <= room => worst.min(room),
            _ => worst,
        };
        self.check_job_cap(job, amount)?;
        Ok(amount)
    }

    fn budget_of(&self, job: &Job) -> Result<Name, Refusal> {
        job.spec.money.budget.clone().or_else(|| self.config.default_budget.clone()).ok_or(Refusal::NoBudget)
    }

    fn hold_for(&mut self, job: &Job, place: &Place) -> Result<Micros, Refusal> {
        let amount = self.hold_amount(job, place)?;
        let (run, budget) = (self.next_run(job), self.budget_of(job)?);
        ledger::open_hold(&mut self.tables, self.now, run, &budget, amount)?;
        Ok(amount)
    }

    /// What would be set aside for a run of a job at a place now, or why it would be refused.
    pub(crate) fn hold_now(&self, job: &Job, place: &Place) -> Result<Micros, Refusal> {
        let amount = self.hold_amount(job, place)?;
        ledger::has_room(&self.tables, &self.budget_of(job)?, amount)?;
        Ok(amount)
    }

    /// The most that one machine may come to cost an hour while the run lasts: a spot price moves, up to the job's own
    /// limit or else the on-demand price.
    fn rate_max(&self, job: &Job, place: &Place) -> Rate {
        let slot = self.fleet.slot(place.offer);
        let now = place.ranked.scored.rate;
        if slot.offer.key.capacity != CapacityType::Spot {
            return now;
        }
        let limit = job.spec.resources[place.alternative].max_hourly_cost.or(slot.on_demand);
        limit.map_or(now, |limit| limit.max(now))
    }

    /// Writes the run and its decision, and orders the launch.
    fn start(&mut self, job: &Job, choice: Choice, held: Micros) {
        let Choice { place, why, others } = choice;
        let id = self.next_run(job);
        let slot = self.fleet.slot(place.offer);
        let price = slot.offer.price.clone().expect("a place has a price: the filter saw to it");
        let interval =
            score::saving(&self.config, &job.spec, slot.offer.key.capacity, Belief::from(&slot.offer.belief))
                .map(|saving| score::checkpoint_interval(&job.spec, saving));
        let nodes = job.spec.nodes;
        let run = Run {
            id,
            offer: slot.offer.key.clone(),
            nodes,
            state: RunState::Launching,
            end: None,
            start_reason: job.start_reason,
            placed: self.now,
            launched: None,
            started: None,
            stopped: None,
            released: None,
            price,
            meter: None,
            disk: None,
            posted: Bill::default(),
            posted_until: self.now,
            rate_max: self.rate_max(job, &place),
            restored_from: job.checkpoint.clone(),
            progress: Default::default(),
            checkpoint_seq: 0,
            notice: None,
            instances: Vec::new(),
            steps_redone: 0,
            exits: vec![None; nodes as usize],
            agents: vec![None; nodes as usize],
            drain_by: None,
            save_on_drain: false,
            stop_ordered: None,
            stuck_told: false,
            restored_at: None,
            interval,
        };
        let decision = self.decision(job, id, &place, &others, &why, held);
        self.stand(run.offer.clone(), nodes, id);
        self.ends.expect(id, place.offer, nodes, self.now.after(place.ranked.scored.expected_time));
        let order = self.launch_order(&run);
        self.tables.runs.insert(id, run);
        self.tables.decisions.insert(id, decision);
        self.meter_run(id);
        if let Some(row) = self.tables.jobs.change(&job.id) {
            row.epoch = id.epoch;
        }
        self.set_state(job.id, JobState::Starting, None);
        self.actions.push(Action::Launch(order));
        self.set_run_timer(id);
        if let Some(path) = self.tables.holds.get(&HoldId(id)).map(|hold| hold.path.clone()) {
            for budget in path {
                self.watch_thresholds(&budget);
            }
        }
    }

    fn decision(&self, job: &Job, run: RunId, place: &Place, others: &[Place], why: &str, held: Micros) -> Decision {
        let (policy, _) = self.policy_of(job);
        Decision {
            run,
            at: self.now,
            policy: policy.clone(),
            chosen: place.candidate(&self.fleet).expect("a place has a price: the filter saw to it"),
            others: others.iter().filter_map(|place| place.candidate(&self.fleet)).collect(),
            rejected: self.cheaper_rejections(job, place),
            why: why.into(),
            held,
        }
    }

    /// Offers that would have been cheaper an hour and were passed over, counted by the rule they failed: of the place's
    /// own kind of machine, and those of other kinds that only cool down. The fleet lists them in order of price, so this
    /// looks at few.
    fn cheaper_rejections(&self, job: &Job, place: &Place) -> Vec<RejectionCount> {
        const LOOK_AT: usize = 16;
        let rate = place.ranked.scored.rate;
        let own = self.fleet.slot(place.offer).group;
        let cheaper = self.fleet.priced(own).take_while(|(other, _)| *other < rate).take(LOOK_AT);
        let elsewhere = self.cooling_groups(job).into_iter().flatten().filter(|group| *group != own);
        let elsewhere = elsewhere.flat_map(|group| self.fleet.cooling(group)).filter(|(other, _)| *other < rate);
        let mut counts: Vec<RejectionCount> = Vec::new();
        for (_, offer) in cheaper.chain(elsewhere.take(LOOK_AT)) {
            let answer = filter::alternative_now(&self.config, &self.fleet, offer, &job.spec, self.now);
            let Err(rule) = answer else { continue };
            match counts.iter_mut().find(|count| count.rule == rule) {
                Some(count) => count.count += 1,
                None => {
                    let example = filter::explain(rule, &job.spec, &self.fleet, offer, self.now);
                    counts.push(RejectionCount { rule, count: 1, example });
                }
            }
        }
        counts.sort_by_key(|count| count.rule);
        counts
    }
}
