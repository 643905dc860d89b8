//! Which zone, or none for now, while there is slack: each first step is followed through many drawn futures of all zones.
//!
//! A zone is weighed against the others by what happens next in all of them, which no table over one market can hold: a
//! cheaper zone that comes back within the hour, a move that the rest of the work does not repay, a place from which the
//! next move is dear. So futures are drawn from the beliefs, and every first step is carried on in each of them by simple
//! rules that do not look ahead; the best rule counts (parallel rollout: D. P. Bertsekas and D. A. Castañon, "Rollout
//! Algorithms for Stochastic Scheduling Problems", 1999; H. S. Chang, R. Givan and E. K. P. Chong, "Parallel Rollout for
//! Online Solution of Partially Observable Markov Decision Processes", 2004). The draws are the same for every step and at
//! every tick (A. Y. Ng and M. Jordan, "PEGASUS", 2000), steps that are clearly worse are given up early, and what is held
//! is kept unless another step is better by more than the error of the comparison.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::belief::Belief;
use super::market::{Hazard, Market, PHASES};

/// Futures that are drawn at once, and how many times at most.
const BATCH: usize = 64;
const BATCHES: usize = 4;

/// A step is given up when it is worse by so many standard errors.
const CLEARLY: f64 = 2.5;

/// Lives of new spells that are drawn once for each model and picked from.
const POOL: usize = 1024;

/// Work of less than this many hours counts as none.
const CRUMB: f64 = 1e-6;

/// Spells of the library, with capacity first, then without.
#[derive(Debug)]
pub(super) struct Spells(Vec<[Spell; 2]>);

#[derive(Debug)]
struct Spell {
    hazard: Hazard,
    /// Hours of new ones.
    pool: Vec<f32>,
}

impl Spells {
    pub(super) fn new(library: &[Market]) -> Self {
        let mut luck = Pcg64Mcg::seed_from_u64(0);
        let mut spell =
            |hazard: Hazard| Spell { pool: (0..POOL).map(|_| draw(&hazard, 0, &mut luck)).collect(), hazard };
        Self(library.iter().map(|market| [spell(market.up), spell(market.down)]).collect())
    }
}

/// Hours that a spell in a phase goes on.
fn draw(hazard: &Hazard, mut phase: usize, luck: &mut Pcg64Mcg) -> f32 {
    let mut hours = 0.0;
    loop {
        let (ends, ages) = hazard.rates(phase);
        let chance: f64 = luck.random();
        hours -= (1.0 - chance).ln() / (ends + ages);
        if luck.random::<f64>() * (ends + ages) < ends {
            return hours as f32;
        }
        phase = (phase + 1).min(PHASES - 1);
    }
}

/// A zone whose price makes it worth a thought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Dollars an hour.
    pub(super) price: f64,
    /// Hours that a new spell of it is expected to last.
    pub(super) life: f64,
}

/// The job and its market at this moment; times in hours, prices in dollars.
pub(super) struct Scene<'a> {
    pub(super) hours: f64,
    pub(super) work: f64,
    pub(super) changeover: f64,
    pub(super) tick: f64,
    /// An hour of on-demand capacity.
    pub(super) on_demand: f64,
    pub(super) checkpoint: Option<usize>,
    /// A move from a zone to a zone.
    pub(super) egress: &'a dyn Fn(usize, usize) -> f64,
    pub(super) offers: Vec<Option<Offer>>,
    pub(super) beliefs: &'a [Belief],
}

impl Scene<'_> {
    fn moved(&self, from: Option<usize>, to: usize) -> f64 {
        from.filter(|&from| from != to).map_or(0.0, |from| (self.egress)(from, to))
    }

    /// What an hour of work costs in a zone that lasts so long, the launch included.
    pub(super) fn rate(&self, zone: usize, life: f64) -> f64 {
        let Some(offer) = self.offers[zone] else { return f64::INFINITY };
        let works = life.min(self.work) - self.changeover;
        if works <= 0.0 {
            return f64::INFINITY;
        }
        (offer.price * (works + self.changeover) + self.moved(self.checkpoint, zone)) / works
    }

    /// Whether it saves anything to leave capacity at `price` for a zone that is held for so long.
    pub(super) fn repays(&self, from: Option<usize>, price: f64, zone: usize, life: f64) -> bool {
        let Some(offer) = self.offers[zone] else { return false };
        (price - offer.price) * life > self.moved(from, zone) + self.changeover * offer.price
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum First {
    Wait,
    /// Spot that is held, with so many hours of changeover to come.
    Keep(usize, f64),
    Launch(usize),
}

/// How to go on: so many of the best zones are taken while there is much slack, and from so much slack on all of them.
#[derive(Clone, Copy, Debug)]
struct Way {
    best: usize,
    widens: f64,
}

/// The first step that costs least. Where something is held it comes first, and is left only for what is clearly better.
pub(super) fn choose(spells: &Spells, scene: &Scene<'_>, firsts: &[First]) -> Option<First> {
    let mut order: Vec<usize> = (0..scene.offers.len()).filter(|&zone| scene.offers[zone].is_some()).collect();
    let rate = |zone: usize| scene.rate(zone, scene.offers[zone].map_or(0.0, |offer| offer.life));
    order.sort_by(|&one, &other| rate(one).total_cmp(&rate(other)));
    let mut widths = [1, 2, 4, order.len()].map(|width| width.min(order.len())).to_vec();
    widths.dedup();
    let widens = 0.5 * (scene.hours - scene.work);
    let mut runs: Vec<(usize, Way, Vec<f64>)> = Vec::new();
    for batch in 0..BATCHES {
        let futures = Futures::draw(spells, scene, batch);
        let run = |first: First, way: Way| -> Vec<f64> {
            (0..BATCH).map(|one| futures.follow(one, scene, first, &order, way)).collect()
        };
        if batch == 0 {
            for (number, &first) in firsts.iter().enumerate() {
                let all = widths.iter().map(|&best| Way { best, widens }).map(|way| (number, way, run(first, way)));
                runs.extend(all.min_by(|one, other| mean(&one.2).total_cmp(&mean(&other.2))));
            }
        } else {
            for (number, way, costs) in &mut runs {
                costs.extend(run(firsts[*number], *way));
            }
        }
        runs.sort_by(|one, other| mean(&one.2).total_cmp(&mean(&other.2)));
        let least = runs.first()?.2.clone();
        let close = |costs: &[f64]| {
            let (difference, error) = difference(costs, &least);
            difference <= CLEARLY * error
        };
        runs.retain(|(_, _, costs)| close(costs));
        if runs.len() < 2 {
            break;
        }
    }
    let (best, _, least) = runs.first()?;
    let held = runs.iter().find(|(number, _, _)| matches!(firsts[*number], First::Keep(..)));
    if let Some((number, _, costs)) = held {
        let (difference, error) = difference(costs, least);
        if difference <= error {
            return Some(firsts[*number]);
        }
    }
    Some(firsts[*best])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean of the differences in pairs, and its standard error.
fn difference(costs: &[f64], least: &[f64]) -> (f64, f64) {
    let pairs = || costs.iter().zip(least).map(|(cost, least)| cost - least);
    let count = costs.len() as f64;
    let mean = pairs().sum::<f64>() / count;
    let variance = pairs().map(|pair| pair * pair).sum::<f64>() / count - mean * mean;
    (mean, (variance.max(0.0) / count).sqrt())
}

/// Drawn futures of the zones.
struct Futures {
    /// By future, then zone: whether there is capacity at first, and which of the changes are its own.
    paths: Vec<(bool, std::ops::Range<usize>)>,
    zones: usize,
    /// Hours from now.
    changes: Vec<f32>,
}

impl Futures {
    fn draw(spells: &Spells, scene: &Scene<'_>, batch: usize) -> Self {
        let zones = scene.beliefs.len();
        let mut futures = Self { paths: Vec::with_capacity(BATCH * zones), zones, changes: Vec::new() };
        for one in 0..BATCH {
            for (zone, belief) in scene.beliefs.iter().enumerate() {
                let begin = futures.changes.len();
                if scene.offers[zone].is_none() {
                    futures.paths.push((false, begin..begin));
                    continue;
                }
                let mut luck = Pcg64Mcg::seed_from_u64(((batch * zones + zone) * BATCH + one) as u64);
                // Spread evenly over the belief, in an order of its own for each zone.
                let stratum = (one * (2 * zone + 1) + 7 * zone) % BATCH;
                let (model, is_up, phase) = pick(belief, (stratum as f64 + luck.random::<f64>()) / BATCH as f64);
                let of = |is_up: bool| &spells.0[model][usize::from(!is_up)];
                let (mut now, mut time) = (is_up, draw(&of(is_up).hazard, phase, &mut luck));
                while f64::from(time) < scene.hours {
                    futures.changes.push(time);
                    now = !now;
                    time += of(now).pool[luck.random::<u32>() as usize % POOL];
                }
                futures.paths.push((is_up, begin..futures.changes.len()));
            }
        }
        futures
    }

    /// Whether a zone has capacity, and until when that stays so.
    fn at(&self, one: usize, zone: usize, time: f64) -> (bool, f64) {
        let (is_up, changes) = &self.paths[one * self.zones + zone];
        let changes = &self.changes[changes.clone()];
        let passed = changes.partition_point(|&change| f64::from(change) <= time);
        (is_up ^ (passed % 2 == 1), changes.get(passed).map_or(f64::INFINITY, |&change| change.into()))
    }

    /// Dollars to the end in one future. Spot is kept until it is lost or a cheaper zone comes that repays the move, and
    /// the best zone of those that may be taken follows; when no slack is left, on demand is bought for the rest.
    fn follow(&self, one: usize, scene: &Scene<'_>, first: First, order: &[usize], way: Way) -> f64 {
        let reserve = 2.0 * scene.changeover + scene.tick;
        let price = |zone: usize| scene.offers[zone].map_or(scene.on_demand, |offer| offer.price);
        let (mut time, mut work, mut cost, mut at) = (0.0, scene.work, 0.0, scene.checkpoint);
        // A zone, and the changeover to come.
        let mut held = match first {
            First::Wait => {
                time = scene.tick;
                None
            }
            First::Keep(zone, to_come) => Some((zone, to_come)),
            First::Launch(zone) => self.at(one, zone, 0.0).0.then_some((zone, scene.changeover)),
        };
        if let (First::Launch(zone), Some(_)) = (first, held) {
            cost += scene.moved(at, zone);
        }
        // Each turn works, or lets time pass, so that slack or work comes to an end.
        loop {
            if let Some((zone, to_come)) = held {
                at = Some(zone);
                let mut end = self.at(one, zone, time).1.min(time + to_come + work);
                let mut next = None;
                for &other in order.iter().filter(|&&other| price(other) < price(zone)) {
                    let (is_up, until) = self.at(one, other, time);
                    let rest = (work - (until - time - to_come).max(0.0)).max(0.0);
                    let life = scene.offers[other].map_or(0.0, |offer| offer.life).min(rest);
                    if !is_up && until < end && scene.repays(at, price(zone), other, life) {
                        let slack = scene.hours - until - rest;
                        (end, next) = (until, (slack > reserve).then_some(other));
                    }
                }
                cost += price(zone) * (end - time);
                work -= (end - time - to_come).max(0.0);
                let to_come = (to_come - (end - time)).max(0.0);
                time = end;
                if work <= CRUMB {
                    return cost;
                }
                held = match next {
                    Some(other) => {
                        cost += scene.moved(at, other);
                        Some((other, scene.changeover))
                    }
                    None if self.at(one, zone, time).0 => Some((zone, to_come)),
                    None => None,
                };
                continue;
            }
            let slack = scene.hours - time - work;
            if slack <= reserve {
                return cost + (work + scene.changeover) * scene.on_demand;
            }
            let is_wide = slack <= way.widens;
            let mut later = time + slack - if is_wide { reserve } else { way.widens.max(reserve) };
            for &zone in if is_wide { order } else { &order[..way.best] } {
                let (is_up, until) = self.at(one, zone, time);
                if is_up {
                    cost += scene.moved(at, zone);
                    held = Some((zone, scene.changeover));
                    break;
                }
                later = later.min(until);
            }
            if held.is_none() {
                time = later.max(time + CRUMB);
            }
        }
    }
}

/// A model, whether there is capacity, and the phase of the spell, at a quantile of the belief.
fn pick(belief: &Belief, quantile: f64) -> (usize, bool, usize) {
    let mut rest = quantile;
    let mut found = (0, true, 0);
    for (model, (&weight, phases)) in belief.weights().iter().zip(belief.phases()).enumerate() {
        for (is_up, shares) in [(true, &phases.up), (false, &phases.down)] {
            for (phase, &share) in shares.iter().enumerate() {
                let share = weight * f64::from(share);
                if share > 0.0 {
                    found = (model, is_up, phase);
                }
                rest -= share;
                if rest < 0.0 {
                    return found;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::belief::Rhythm;
    use super::super::market::library;
    use super::*;

    const TICK: f64 = 1.0 / 6.0;

    /// Zones that were seen for a day, `#` with capacity and `.` without, repeated.
    fn beliefs(seen: &[&str]) -> Vec<Belief> {
        let rhythm = Rhythm::new(&library(), TICK);
        let belief = |seen: &&str| {
            let mut belief = Belief::new(&rhythm);
            for tick in seen.chars().cycle().take(144) {
                belief.advance(&rhythm);
                belief.observe(tick == '#');
            }
            belief
        };
        seen.iter().map(belief).collect()
    }

    fn chosen(seen: &[&str], prices: &[f64], hours: f64, egress: f64, firsts: &[First]) -> First {
        let beliefs = beliefs(seen);
        let offers = prices.iter().map(|&price| Some(Offer { price, life: 4.0 })).collect();
        let scene = Scene {
            hours,
            work: 10.0,
            changeover: 0.2,
            tick: TICK,
            on_demand: 10.0,
            checkpoint: Some(0),
            egress: &|from, to| if from == to { 0.0 } else { egress },
            offers,
            beliefs: &beliefs,
        };
        choose(&Spells::new(&library()), &scene, firsts).unwrap()
    }

    #[test]
    fn a_cheaper_zone_is_moved_to_only_where_the_move_is_repaid() {
        let firsts = [First::Keep(0, 0.0), First::Launch(1)];
        assert_eq!(chosen(&["#", "#"], &[3.0, 1.0], 40.0, 1.0, &firsts), First::Launch(1));
        assert_eq!(chosen(&["#", "#"], &[3.0, 1.0], 40.0, 30.0, &firsts), First::Keep(0, 0.0));
        assert_eq!(chosen(&["#", "#"], &[1.0, 1.0], 40.0, 0.0, &firsts), First::Keep(0, 0.0));
    }

    #[test]
    fn with_slack_a_cheap_zone_that_comes_back_is_waited_for() {
        let firsts = [First::Wait, First::Launch(1)];
        assert_eq!(chosen(&["##########.", "#"], &[1.0, 6.0], 40.0, 1.0, &firsts[..]), First::Wait);
        assert_eq!(chosen(&[".", "#"], &[1.0, 2.0], 12.0, 1.0, &firsts[..]), First::Launch(1));
    }

    #[test]
    fn nothing_to_choose_from_is_no_choice() {
        let scene = Scene {
            hours: 1.0,
            work: 1.0,
            changeover: 0.0,
            tick: TICK,
            on_demand: 1.0,
            checkpoint: None,
            egress: &|_, _| 0.0,
            offers: Vec::new(),
            beliefs: &[],
        };
        assert_eq!(choose(&Spells::new(&library()), &scene, &[]), None);
    }
}
