//! One job at one moment, in the terms of the plan: hours and money, the spot places as one market, what each choice is
//! expected to cost.

use leeway_core::policy::{JobView, Outlook, Prospect, Ranked, Scored};
use leeway_model::Term;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;

use super::Horizon;
use crate::deadline::horizon::belief::Belief;
use crate::deadline::horizon::plan::{Costs, Key};
use crate::deadline::horizon::zones::{self, Lives, Terms, Together};

/// A spot place, by what it would be to the job.
#[derive(Debug)]
pub(super) struct Spot<'a> {
    pub(super) offer: &'a OfferKey,
    /// Of an hour of work, saves included.
    pub(super) price: f64,
    /// What beginning there moves, beyond what is moved wherever it begins.
    pub(super) moved: f64,
    /// Position among the ranked places, where it can be had now.
    pub(super) position: Option<usize>,
    /// How likely it is to have capacity now.
    pub(super) chance: f64,
    /// Hours that capacity there is expected to go on, no longer than there is work.
    pub(super) life: f64,
    belief: Belief,
}

/// The job and its market. Times in hours, money in units; an hour of work is one at relative speed 1.
#[derive(Debug)]
pub(super) struct Situation<'a> {
    rule: &'a Horizon,
    pub(super) work: f64,
    /// Until the deadline, less what the safety net keeps back beyond what the plan knows of it.
    pub(super) hours: f64,
    pub(super) changeover: f64,
    /// An hour of work on capacity that nobody takes back, and what beginning there moves.
    pub(super) on_demand: f64,
    pub(super) calm_moved: f64,
    /// An hour of the job's time.
    value: f64,
    /// The dearest spot price that is taken for spot: half-way from the cheapest to on demand. What costs more is a kind of
    /// on-demand capacity.
    pub(super) limit: f64,
    /// The best first, as far as they are worth their price now.
    pub(super) spot: Vec<Spot<'a>>,
    lives: Lives,
    /// Of the places that are cheap enough, as one market.
    any: Belief,
}

/// What the choices cost, and what hours are worth by them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Valued {
    pub(super) costs: Costs,
    pub(super) terms: Terms,
}

impl<'a> Situation<'a> {
    pub(super) fn new(rule: &'a Horizon, job: &JobView<'_>, outlook: &'a Outlook<'a>, ranked: &[Ranked]) -> Self {
        let work = job.remaining.as_hours_f64().max(1.0 / 3600.0);
        let value = job.job.spec.money.value_per_hour.map_or(0.0, |rate| rate.as_units_f64());
        let price = |scored: &Scored| {
            let paid = scored.bill.get(Term::Compute).saturating_add(scored.bill.get(Term::Checkpoints));
            paid.as_units_f64() / work + value
        };
        let on_demand = price(&outlook.calm);
        let prices = outlook.spot.iter().map(|prospect| price(&prospect.scored));
        let cheapest = prices.fold(f64::INFINITY, f64::min);
        let limit = 0.5 * (cheapest + on_demand);
        let machines = job.job.spec.nodes;
        let cheap: Vec<&Prospect<'_>> =
            outlook.spot.iter().filter(|prospect| price(&prospect.scored) <= limit).collect();
        let any = rule.memory.belief(&cheap, machines, job.now);
        let lives = Lives::new(&rule.library, work);
        let places = outlook.spot.iter().map(|prospect| &prospect.scored).chain([&outlook.calm]);
        let least_moved = places.map(moved).fold(f64::INFINITY, f64::min);
        let spot = outlook.spot.iter().map(|prospect| {
            let belief = match &cheap[..] {
                [only] if only.offer == prospect.offer => any.clone(),
                _ => rule.memory.belief(&[prospect], machines, job.now),
            };
            // Each loss has some work done again, which makes all of it dearer.
            let again = prospect.at_stake.as_hours_f64() / lives.fresh(&belief).max(1e-3);
            Spot {
                offer: prospect.offer,
                price: price(&prospect.scored) * (1.0 + again.min(1.0)),
                moved: moved(&prospect.scored) - least_moved,
                position: ranked.iter().position(|place| place.offer == *prospect.offer),
                chance: if prospect.is_told { 1.0 } else { belief.chance() },
                life: lives.now(&belief),
                belief,
            }
        });
        let spot: Vec<Spot<'a>> = spot.collect();
        let changeover = job.changeover.as_hours_f64();
        Self {
            rule,
            work,
            hours: work + 2.0 * changeover + outlook.slack.as_hours_f64(),
            changeover,
            on_demand,
            calm_moved: moved(&outlook.calm) - least_moved,
            value,
            limit,
            spot,
            lives,
            any,
        }
    }
}

impl Situation<'_> {
    /// Places that can be had now and are cheap enough, by their number.
    pub(super) fn open(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.spot.len()).filter(|&number| {
            let spot = &self.spot[number];
            spot.position.is_some() && spot.price <= self.limit
        })
    }

    /// What the choices cost, and the best of the places that can be had now. A place that is not worth its move over the
    /// life that is expected of it is as good as none: tables know of no moves, so that they would put it off for ever.
    pub(super) fn weighed(&self) -> (Valued, Option<usize>) {
        if self.open().next().is_some() {
            let valued = self.valued(true);
            let worth = |number: usize| self.worth(number, false, &valued.terms);
            let open: Vec<usize> = self.open().collect();
            // The last of equals is the first from behind.
            let best = open.into_iter().rev().max_by(|&one, &other| worth(one).total_cmp(&worth(other)));
            if let Some(best) = best.filter(|&best| self.spot[best].moved <= 0.0 || worth(best) > 0.0) {
                return (valued, Some(best));
            }
        }
        (self.valued(false), None)
    }

    /// What the choices cost while there is capacity, or while there is none.
    pub(super) fn valued(&self, is_up: bool) -> Valued {
        let mut belief = self.any.clone();
        // Other jobs of ours may hold all that was seen to be there, and who nobody tells of may find some.
        belief.observe(is_up);
        let several = self.cheap().count() > 1;
        let mut valued = self.valued_at(&belief, is_up, 0.0);
        if several {
            // How several places are like one depends on what slack is worth, and that on how they are.
            valued = self.valued_at(&belief, is_up, valued.terms.slack);
        }
        let waits = self.lives.gap(&belief).min(self.hours);
        valued.costs.wait += (self.value * waits) as f32;
        valued
    }

    fn valued_at(&self, belief: &Belief, is_up: bool, slack: f64) -> Valued {
        let market = self.together(slack);
        let key = Key::shared(self.work, self.changeover, market.price / self.on_demand, market.losses);
        let plan = self.rule.plans.get(key, &self.rule.library);
        let costs = |hours: f64, work: f64| {
            plan.get().map_or(Costs::default(), |plan| plan.costs(belief, hours, work, is_up, self.on_demand))
        };
        let now = costs(self.hours, self.work);
        let least = |hours: f64, work: f64| costs(hours, work).least(is_up);
        let terms = zones::terms(now.least(is_up), least, (self.hours, self.work), self.changeover, self.on_demand);
        Valued { costs: now, terms }
    }

    fn cheap(&self) -> impl Iterator<Item = &Spot<'_>> + '_ {
        self.spot.iter().filter(|spot| spot.price <= self.limit)
    }

    /// The cheap places as one market.
    fn together(&self, slack: f64) -> Together {
        let places = self.cheap().count();
        let cheapest = self.cheap().map(|spot| spot.price).fold(f64::INFINITY, f64::min);
        let alone = Together { price: cheapest, losses: 0.0 };
        if places < 2 {
            return alone;
        }
        let moves = self.cheap().map(|spot| spot.moved).sum::<f64>() / places as f64;
        let each = self.cheap().map(|spot| (&spot.belief, spot.price));
        zones::together(&self.lives, each, moves, slack, self.changeover, self.work).unwrap_or(alone)
    }

    /// What it is worth to hold a place: after a launch there, or as it is held.
    pub(super) fn worth(&self, number: usize, is_held: bool, terms: &Terms) -> f64 {
        let spot = &self.spot[number];
        zones::worth(&self.lives, &spot.belief, spot.price, (!is_held).then_some(spot.moved), terms)
    }

    /// What a launch takes.
    pub(super) fn launch(&self, terms: &Terms) -> f64 {
        terms.changeover * (terms.rate + terms.slack)
    }
}

/// What beginning at a place moves.
fn moved(scored: &Scored) -> f64 {
    let terms = [Term::InputEgress, Term::CheckpointMove, Term::OutputEgress];
    terms.into_iter().map(|term| scored.bill.get(term).as_units_f64()).sum()
}

/// Position of the best of the ranked places that nobody takes back.
pub(super) fn calm(ranked: &[Ranked]) -> Option<usize> {
    ranked.iter().position(|place| place.scored.capacity != CapacityType::Spot)
}
