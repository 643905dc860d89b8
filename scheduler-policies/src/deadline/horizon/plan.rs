//! What each choice costs from now to the end, by backward induction over time left, work left, what is held and the phase
//! of the market, for each model of the library.
//!
//! Money is in units of one step of on-demand capacity, time and work in steps of the plan. With `t` steps left, work `w`,
//! phase `x` of the market and `E` the expectation over its next phase,
//!
//! ```text
//! wait(t, w, x)    =         E V(idle,         t - 1, w,               x')
//! spot(o, t, w, x) = price + E V(spot(o'),     t - 1, w - max(0, 1-o), x')     o' = max(0, o - 1)
//! on-demand(o, ..) = 1     + E V(on-demand(o'), ...)
//! V(held, t, w, x) = least of: going on, wait, spot(d) while there is capacity, on-demand(d)
//! ```
//!
//! where `o` is the changeover still to come and `d` the whole of it; spot that is lost leaves the job idle. Work between
//! two grid points is interpolated. Where the slack `t - w` is at most `2 d`, only on-demand capacity may be begun or kept,
//! and spot that is held may go on, as the safety net has it; work that is left at the end costs `OVERTIME` a step. What is
//! not worth its changeover, how much slack to keep in hand and when to give on-demand capacity back follow from this.
//!
//! The values depend on nothing but time and work left, so one table serves every job of the same changeover and price, at
//! every tick. They are computed on an even grid and kept on an uneven one, fine where little is left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::market::{Market, PHASES, Step};
use crate::deadline::Task;

/// Steps that a plan reaches ahead at most. Jobs with less time share plans of a half or a quarter of that.
const STEPS: usize = 560;

/// The usual step in seconds. Longer and shorter jobs have this times a power of [`LADDER`].
const STEP: f64 = 600.0;
const LADDER: f64 = 4.0;

/// Steps that a changeover may take at most.
const CHANGEOVER: f64 = 4.0;

/// Fewest steps of a plan before a finer step is taken.
const FEWEST: f64 = STEPS as f64 / LADDER / 2.0;

/// Price of work after the deadline, so that the plan keeps clear of it as the safety net does.
const OVERTIME: f32 = 3.0;

/// Work is rounded up to this many steps, so that jobs of nearly the same size share a table.
const WORK_ROUNDING: usize = 16;

/// Tables of [`Plans`] at most.
const TABLES: usize = 64;

/// Spot prices, by that of on-demand capacity, are rounded to one part in so many; the dearest that is planned for is one
/// part short of on demand.
const PRICES: f64 = 20.0;

/// Highest level of losses: twice an hour.
const MOST_LOSSES: f64 = 7.0;

/// Choices in a phase with capacity: wait, spot that works, spot launched, on-demand that works, on-demand launched.
const WITH: usize = 5;
/// Choices in a phase without: wait, on-demand that works, on-demand launched.
const WITHOUT: usize = 3;
/// Figures of one model at one grid point.
const FIGURES: usize = PHASES * (WITH + WITHOUT);

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    step_ms: u64,
    changeover_ms: u64,
    work_steps: usize,
    /// Time that the plan reaches ahead.
    steps: usize,
    /// Spot price in parts of [`PRICES`].
    price: u32,
    /// How often spot that is held is lost while there is other spot: level `k > 0` is `2^k / 64` times an hour.
    losses: u32,
}

impl Key {
    /// For a job, a spot price as a share of the on-demand price, and how many times an hour spot that is held is lost while
    /// there is other spot.
    pub(super) fn new(task: &Task, price: f64, losses: f64) -> Self {
        let mut step = STEP;
        while task.deadline / step > STEPS as f64 || task.changeover / step > CHANGEOVER {
            step *= LADDER;
        }
        while task.deadline / step < FEWEST && task.changeover / step * LADDER <= CHANGEOVER && step > 1.0 {
            step /= LADDER;
        }
        let work = (task.work / step).ceil() as usize;
        let steps =
            [STEPS / 4, STEPS / 2].into_iter().find(|&steps| task.deadline / step <= steps as f64).unwrap_or(STEPS);
        Self {
            step_ms: (step * 1000.0) as u64,
            changeover_ms: (task.changeover * 1000.0) as u64,
            work_steps: work.clamp(1, steps).next_multiple_of(WORK_ROUNDING),
            steps,
            price: (price * PRICES).round().clamp(0.0, PRICES - 1.0) as u32,
            losses: if losses > 0.0 { ((losses * 64.0).log2().round()).clamp(0.0, MOST_LOSSES) as u32 } else { 0 },
        }
    }

    fn losses_per_hour(&self) -> f64 {
        if self.losses > 0 { f64::from(self.losses).exp2() / 64.0 } else { 0.0 }
    }

    fn step_hours(&self) -> f64 {
        self.step_ms as f64 / 3_600_000.0
    }
}

/// Tables that were needed so far, shared by all jobs of a rule; the ones needed first are given up first.
#[derive(Debug, Default)]
pub(super) struct Plans(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    tables: BTreeMap<Key, (u64, Arc<OnceLock<Plan>>)>,
    added: u64,
}

impl Plans {
    /// The plan for a key, computed if it is not there; who comes while it is computed waits.
    pub(super) fn get(&self, key: Key, library: &[Market]) -> Arc<OnceLock<Plan>> {
        let cell = {
            let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if cache.tables.len() >= TABLES && !cache.tables.contains_key(&key) {
                let oldest = cache.tables.iter().min_by_key(|(_, (added, _))| *added).map(|(key, _)| *key);
                oldest.and_then(|oldest| cache.tables.remove(&oldest));
            }
            cache.added += 1;
            let added = cache.added;
            cache.tables.entry(key).or_insert_with(|| (added, Arc::default())).1.clone()
        };
        cell.get_or_init(|| Plan::new(key, library));
        cell
    }
}

/// Expected costs of the choices in one situation, in steps of on-demand capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    pub(super) wait: f32,
    /// Spot that works already, and spot launched now; of no meaning without capacity.
    pub(super) spot: [f32; 2],
    /// On-demand capacity that works already, and launched now.
    pub(super) on_demand: [f32; 2],
}

impl Costs {
    pub(super) fn scale(self, by: f32) -> Self {
        Self {
            wait: self.wait * by,
            spot: self.spot.map(|cost| cost * by),
            on_demand: self.on_demand.map(|cost| cost * by),
        }
    }

    /// The least of what a job that holds nothing may do.
    pub(super) fn least(&self, is_up: bool) -> f32 {
        let least = self.wait.min(self.on_demand[1]);
        if is_up { least.min(self.spot[1]) } else { least }
    }
}

/// The tables of all models for one key.
#[derive(Debug)]
pub(super) struct Plan {
    step_hours: f64,
    works: Vec<usize>,
    slacks: Vec<usize>,
    models: usize,
    figures: Vec<f32>,
}

/// A situation on the grid: four corners and their shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place([(usize, f32); 4]);

impl Plan {
    fn new(key: Key, library: &[Market]) -> Self {
        let works = uneven(key.work_steps, 6);
        let slacks = uneven(key.steps.saturating_sub(key.work_steps).max(1), 8);
        let points = Points::new(&works, &slacks, library.len());
        let mut figures = vec![0.0; works.len() * slacks.len() * library.len() * FIGURES];
        for (model, market) in library.iter().enumerate() {
            Induction::new(key, market).run(&points, model * FIGURES, &mut figures);
        }
        Self { step_hours: key.step_hours(), works, slacks, models: library.len(), figures }
    }

    /// Hours of a step, by which the costs are to be read.
    pub(super) fn step_hours(&self) -> f64 {
        self.step_hours
    }

    /// The situation with so many hours and so much work left.
    pub(super) fn place(&self, hours: f64, work_hours: f64) -> Place {
        let (work, b) = between(&self.works, work_hours / self.step_hours);
        let (slack, d) = between(&self.slacks, (hours - work_hours) / self.step_hours);
        let (a, c) = (1.0 - b, 1.0 - d);
        let at = |work: usize, slack: usize| (work * self.slacks.len() + slack) * self.models * FIGURES;
        Place([
            (at(work, slack), a * c),
            (at(work, slack + 1), a * d),
            (at(work + 1, slack), b * c),
            (at(work + 1, slack + 1), b * d),
        ])
    }

    /// Adds the costs under one model while there is capacity, by shares of the phases.
    pub(super) fn add_with(&self, place: &Place, model: usize, shares: &[f32; PHASES], weight: f32, costs: &mut Costs) {
        let [wait, working, launched, on_demand, on_demand_launched] =
            self.mean::<WITH>(place, model * FIGURES, shares, weight);
        costs.wait += wait;
        costs.spot[0] += working;
        costs.spot[1] += launched;
        costs.on_demand[0] += on_demand;
        costs.on_demand[1] += on_demand_launched;
    }

    /// Adds the costs under one model while there is no capacity.
    pub(super) fn add_without(
        &self,
        place: &Place,
        model: usize,
        shares: &[f32; PHASES],
        weight: f32,
        costs: &mut Costs,
    ) {
        let [wait, on_demand, launched] = self.mean::<WITHOUT>(place, model * FIGURES + PHASES * WITH, shares, weight);
        costs.wait += wait;
        costs.on_demand[0] += on_demand;
        costs.on_demand[1] += launched;
    }

    fn mean<const N: usize>(&self, place: &Place, offset: usize, shares: &[f32; PHASES], weight: f32) -> [f32; N] {
        let mut mean = [0.0; N];
        for (corner, corner_share) in place.0 {
            let share = corner_share * weight;
            if share == 0.0 {
                continue;
            }
            let (phases, _) = self.figures[corner + offset..][..N * PHASES].as_chunks::<N>();
            for (figures, phase_share) in phases.iter().zip(shares) {
                for (mean, figure) in mean.iter_mut().zip(figures) {
                    *mean += share * phase_share * figure;
                }
            }
        }
        mean
    }
}

/// Which values of the induction are kept, and where.
struct Points<'a> {
    works: &'a [usize],
    /// Number of each slack among those that are kept.
    slacks: BTreeMap<usize, usize>,
    models: usize,
}

impl<'a> Points<'a> {
    fn new(works: &'a [usize], slacks: &[usize], models: usize) -> Self {
        Self { works, slacks: slacks.iter().enumerate().map(|(number, &slack)| (slack, number)).collect(), models }
    }

    /// Work, and where its figures begin, for each point with so much time left.
    fn at(&self, time: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.works.iter().enumerate().filter_map(move |(number, &work)| {
            let slack = self.slacks.get(&time.checked_sub(work)?)?;
            Some((work, (number * self.slacks.len() + slack) * self.models * FIGURES))
        })
    }
}

/// Grid points from zero to `most`: each at first, then at distances that grow.
fn uneven(most: usize, fine: usize) -> Vec<usize> {
    let mut points = Vec::new();
    let mut point = 0;
    while point < most {
        points.push(point);
        point += match point / fine {
            0 => 1,
            1 => 2,
            2 | 3 => 4,
            4..=7 => 8,
            wide => 12 * (1 + wide / 24),
        };
    }
    points.push(most);
    points
}

/// The grid point below, and how far on the way to the next; beyond the ends, the ends.
fn between(points: &[usize], at: f64) -> (usize, f32) {
    let last = points.len().saturating_sub(2);
    let below = points.partition_point(|&point| point as f64 <= at).saturating_sub(1).min(last);
    let (from, to) = (points[below] as f64, points[below + 1] as f64);
    (below, ((at - from) / (to - from)).clamp(0.0, 1.0) as f32)
}

/// The backward induction for one model. Values are rows over work, one for each state of market and machine.
struct Induction {
    price: f32,
    /// Probability that spot that is held is lost within a step while there is other spot.
    lost: f32,
    /// Changeover in steps.
    changeover: f64,
    /// Changeover still to come in the first steps of a launch, the whole of it first.
    rests: Vec<f64>,
    up: [Step; PHASES],
    down: [Step; PHASES],
    /// Entries of a row.
    row: usize,
    /// Time to plan for.
    steps: usize,
}

/// What is held, as a state of the induction. Of what is held, the number is 0 when it works, else which of the rests is
/// still to come; the first rest is no state, since every launch leads beyond it.
#[derive(Clone, Copy)]
enum Held {
    Idle,
    Spot(usize),
    OnDemand(usize),
}

impl Induction {
    fn new(key: Key, market: &Market) -> Self {
        // A changeover of nothing is planned as next to nothing, so that a launch is a choice of its own.
        let changeover = (key.changeover_ms.max(1) as f64) / key.step_ms as f64;
        let mut rests = vec![changeover];
        while rests[rests.len() - 1] > 1.0 + 1e-9 {
            rests.push(rests[rests.len() - 1] - 1.0);
        }
        Self {
            price: (f64::from(key.price) / PRICES) as f32,
            lost: -(-key.losses_per_hour() * key.step_hours()).exp_m1() as f32,
            changeover,
            rests,
            up: market.up.steps(key.step_hours()),
            down: market.down.steps(key.step_hours()),
            row: key.work_steps + 1,
            steps: key.steps,
        }
    }

    /// States with capacity, and without, by phase.
    fn states(&self) -> (usize, usize) {
        (1 + 2 * self.rests.len(), 1 + self.rests.len())
    }

    /// Where the row of a state begins.
    fn at(&self, is_up: bool, phase: usize, held: Held) -> usize {
        let (with, without) = self.states();
        let state = match held {
            Held::Idle => 0,
            Held::Spot(rest) => 1 + rest,
            Held::OnDemand(rest) if is_up => 1 + self.rests.len() + rest,
            Held::OnDemand(rest) => 1 + rest,
        };
        let before = if is_up { phase * with } else { PHASES * with + phase * without };
        (before + state) * self.row
    }

    fn run(&self, points: &Points<'_>, offset: usize, figures: &mut [f32]) {
        let row = self.row;
        let (with, without) = self.states();
        let mut values = vec![0.0_f32; PHASES * (with + without) * row];
        for values in values.chunks_exact_mut(row) {
            values.iter_mut().enumerate().for_each(|(work, value)| *value = OVERTIME * work as f32);
        }
        let mut next = values.clone();
        let mut expected = values.clone();
        let launches = self.rests.len();
        let mut wait = vec![0.0; row];
        // Index 0 works already, index k has the k-th rest to come.
        let mut spot = vec![vec![0.0; row]; launches + 1];
        let mut on_demand = spot.clone();
        let mut kept = Vec::new();
        for time in 1..=self.steps {
            let most = time.min(row - 1);
            let used = most + 1;
            kept.clear();
            kept.extend(points.at(time));
            self.expect(&values, &mut expected, used);
            for (is_up, phase) in [true, false].into_iter().flat_map(|is_up| (0..PHASES).map(move |x| (is_up, x))) {
                let idle = self.at(is_up, phase, Held::Idle);
                wait[..used].copy_from_slice(&expected[idle..idle + used]);
                for launch in 0..=launches {
                    let rest = if launch == 0 { 0.0 } else { self.rests[launch - 1] };
                    let after = if launch == 0 || launch == launches { 0 } else { launch };
                    let useful = (1.0 - rest).clamp(0.0, 1.0) as f32;
                    if is_up {
                        let from = &expected[self.at(is_up, phase, Held::Spot(after))..][..used];
                        work_on(&mut spot[launch], from, self.price, useful);
                    }
                    let from = &expected[self.at(is_up, phase, Held::OnDemand(after))..][..used];
                    work_on(&mut on_demand[launch], from, 1.0, useful);
                }
                self.choose(time, is_up, phase, &wait, &spot, &on_demand, &mut next);
                for &(work, at) in &kept {
                    let at = at + offset;
                    if is_up {
                        let choices =
                            [wait[work], spot[0][work], spot[1][work], on_demand[0][work], on_demand[1][work]];
                        figures[at + phase * WITH..][..WITH].copy_from_slice(&choices);
                    } else {
                        let choices = [wait[work], on_demand[0][work], on_demand[1][work]];
                        figures[at + PHASES * WITH + phase * WITHOUT..][..WITHOUT].copy_from_slice(&choices);
                    }
                }
            }
            std::mem::swap(&mut values, &mut next);
        }
    }

    /// Means over the next phase of the market.
    fn expect(&self, values: &[f32], expected: &mut [f32], used: usize) {
        let launches = self.rests.len();
        let mix = |expected: &mut [f32], to: usize, step: &Step, same: usize, older: usize, other: usize| {
            let (same, older, other) = (&values[same..][..used], &values[older..][..used], &values[other..][..used]);
            let from = same.iter().zip(older).zip(other);
            for (expected, ((same, older), other)) in expected[to..][..used].iter_mut().zip(from) {
                *expected = step.stays * same + step.ages * older + step.ends * other;
            }
        };
        for phase in 0..PHASES {
            let older = (phase + 1).min(PHASES - 1);
            let states =
                std::iter::once(Held::Idle).chain((0..launches).flat_map(|k| [Held::Spot(k), Held::OnDemand(k)]));
            for held in states {
                let lost = if let Held::Spot(_) = held { Held::Idle } else { held };
                let at = self.at(true, phase, held);
                mix(expected, at, &self.up[phase], at, self.at(true, older, held), self.at(false, 0, lost));
                if matches!(held, Held::Spot(_)) && self.lost > 0.0 {
                    // States of one phase follow each other, and idle comes first.
                    let (idle, spot) = expected.split_at_mut(at);
                    let idle = &idle[self.at(true, phase, Held::Idle)..][..used];
                    for (spot, idle) in spot[..used].iter_mut().zip(idle) {
                        *spot += self.lost * (idle - *spot);
                    }
                }
                if !matches!(held, Held::Spot(_)) {
                    let at = self.at(false, phase, held);
                    mix(expected, at, &self.down[phase], at, self.at(false, older, held), self.at(true, 0, held));
                }
            }
        }
    }

    /// The least of the choices, for each state of the machine.
    #[expect(clippy::too_many_arguments, reason = "rows of one computation, not a concept of their own")]
    fn choose(
        &self,
        time: usize,
        is_up: bool,
        phase: usize,
        wait: &[f32],
        spot: &[Vec<f32>],
        on_demand: &[Vec<f32>],
        next: &mut [f32],
    ) {
        let most = time.min(self.row - 1);
        // Below this much work there is slack for a choice; from there on the safety net decides.
        let free = (time as f64 - 2.0 * self.changeover).ceil().max(0.0) as usize;
        let free = free.min(most + 1);
        let late = |work: usize| OVERTIME * work as f32 + time as f32 * (1.0 - OVERTIME);
        let finish = |row: &mut [f32]| {
            row[0] = 0.0;
            if let Some(beyond) = row.get_mut(most + 1) {
                *beyond = late(most + 1);
            }
        };
        let fresh = |work: usize| {
            let least = wait[work].min(on_demand[1][work]);
            if is_up { least.min(spot[1][work]) } else { least }
        };
        let idle = &mut next[self.at(is_up, phase, Held::Idle)..][..self.row];
        (0..free).for_each(|work| idle[work] = fresh(work));
        idle[free..=most].copy_from_slice(&on_demand[1][free..=most]);
        finish(idle);
        for rest in 0..self.rests.len() {
            let launch = if rest == 0 { 0 } else { rest + 1 };
            let row = &mut next[self.at(is_up, phase, Held::OnDemand(rest))..][..self.row];
            (0..free).for_each(|work| row[work] = on_demand[launch][work].min(fresh(work)));
            row[free..=most].copy_from_slice(&on_demand[launch][free..=most]);
            finish(row);
            if is_up {
                let row = &mut next[self.at(is_up, phase, Held::Spot(rest))..][..self.row];
                (0..free).for_each(|work| row[work] = spot[launch][work].min(wait[work]).min(on_demand[1][work]));
                (free..=most).for_each(|work| row[work] = spot[launch][work].min(on_demand[1][work]));
                finish(row);
            }
        }
    }
}

/// Cost of a step in which `useful` of it is work.
fn work_on(costs: &mut [f32], expected: &[f32], price: f32, useful: f32) {
    costs[0] = 0.0;
    for (cost, pair) in costs[1..].iter_mut().zip(expected.windows(2)) {
        *cost = price + (1.0 - useful) * pair[1] + useful * pair[0];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::market::library;
    use super::*;

    /// A job of four hours at ten-minute steps of the plan, so that debug builds are quick.
    const TASK: Task = Task { work: 4.0 * 3600.0, deadline: 60.0 * 3600.0, changeover: 720.0, tick: 600.0 };

    fn plan(task: &Task, price: f64, losses: f64) -> Plan {
        Plan::new(Key::new(task, price, losses), &library()[5..6])
    }

    fn costs(plan: &Plan, hours: f64, work: f64, phase: usize, is_up: bool) -> Costs {
        let mut shares = [0.0; PHASES];
        shares[phase] = 1.0;
        let mut costs = Costs::default();
        let place = plan.place(hours, work);
        if is_up {
            plan.add_with(&place, 0, &shares, 1.0, &mut costs);
        } else {
            plan.add_without(&place, 0, &shares, 1.0, &mut costs);
        }
        costs
    }

    #[test]
    fn steps_follow_the_length_of_the_job() {
        let step = |hours: f64, changeover: f64| {
            Key::new(&Task { deadline: hours * 3600.0, changeover, ..TASK }, 0.3, 0.0).step_ms / 1000
        };
        assert_eq!([step(92.0, 180.0), step(44.0, 1440.0), step(24.0 * 14.0, 720.0)], [600, 600, 2400]);
        assert_eq!(step(2.0, 30.0), 37, "short jobs have short steps");
        assert_eq!(step(2.0, 600.0), 150, "but a changeover is at most four of them");
        assert_eq!(step(92.0, 3600.0), 2400);
    }

    #[test]
    fn without_slack_the_rest_is_on_demand_at_its_price() {
        let plan = plan(&TASK, 0.3, 0.0);
        let costs = costs(&plan, 3.0, 3.0, 0, false);
        assert!((costs.on_demand[0] - 18.0).abs() < 0.01, "{costs:?}");
        assert!(costs.wait > costs.on_demand[0] + 1.0, "{costs:?}");
    }

    #[test]
    fn with_time_to_spare_and_a_steady_spell_the_rest_is_nearly_all_spot() {
        let plan = plan(&TASK, 0.3, 0.0);
        let costs = costs(&plan, 40.0, 3.0, PHASES - 1, true);
        let all_spot = 18.0 * 0.3;
        assert!(costs.spot[0] > all_spot - 0.01 && costs.spot[0] < 1.2 * all_spot, "{costs:?}");
        assert!(costs.spot[0] < costs.spot[1] && costs.spot[1] < costs.wait, "{costs:?}");
    }

    #[test]
    fn a_new_spell_does_not_repay_a_long_changeover() {
        let long = Task { changeover: 2400.0, ..TASK };
        let flicker = Plan::new(Key::new(&long, 0.6, 0.0), &library()[10..11]);
        let costs = costs(&flicker, 5.0, 3.5, 0, true);
        assert!(costs.on_demand[0] < costs.spot[1], "on demand is not given back for it: {costs:?}");
    }

    #[test]
    fn losses_make_spot_dearer() {
        let spot = |losses: f64| costs(&plan(&TASK, 0.3, losses), 10.0, 3.0, 5, true).spot[0];
        assert!(spot(0.0) < spot(0.25) && spot(0.25) < spot(2.0));
    }

    #[test]
    fn tables_are_shared_and_bounded() {
        let plans = Plans::default();
        let small = Task { work: 600.0, ..TASK };
        let models = &library()[..1];
        let one = plans.get(Key::new(&small, 0.3, 0.0), models);
        assert!(Arc::ptr_eq(&one, &plans.get(Key::new(&small, 0.31, 0.0), models)), "the same price when rounded");
        for changeover in 0..2 * TABLES {
            plans.get(Key::new(&Task { changeover: changeover as f64, ..small }, 0.3, 0.0), models);
        }
        assert_eq!(plans.0.lock().unwrap().tables.len(), TABLES);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn cost_falls_with_time_and_rises_with_work(
            hours in 0.5..50.0_f64, work in 0.2..3.5_f64, phase in 0..PHASES, is_up: bool,
        ) {
            static PLAN: OnceLock<Plan> = OnceLock::new();
            let plan = PLAN.get_or_init(|| plan(&TASK, 0.3, 0.0));
            prop_assume!(hours > work + 0.5);
            let at = |hours: f64, work: f64| costs(plan, hours, work, phase, is_up).least(is_up);
            let now = at(hours, work);
            prop_assert!(at(hours + 1.0, work) <= now + 0.02, "{now} {}", at(hours + 1.0, work));
            prop_assert!(at(hours + 0.2, work + 0.2) >= now - 0.02, "{now} {}", at(hours + 0.2, work + 0.2));
            prop_assert!(now >= work as f32 * 6.0 * 0.3 - 0.01 && now <= (work as f32 + 0.4) * 6.0 + 1.0, "{now}");
        }
    }
}
