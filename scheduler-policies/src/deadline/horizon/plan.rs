//! Tables of what each choice costs from now to the end of the job: kept, shared between jobs, and read at any time left
//! and any work left. `induction` computes them.
//!
//! The values depend on nothing but time and work left, so one table serves every job of the same changeover and price, at
//! every tick. They are computed on an even grid and kept on an uneven one, fine where little is left; between two points
//! they are interpolated.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lru::LruCache;

use super::belief::Belief;
use super::induction::Induction;
use super::market::{Market, PHASES};
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

/// Work is rounded up to this many steps, so that jobs of nearly the same size share a table.
const WORK_ROUNDING: usize = 16;

/// Tables of [`Plans`] at most, unless said.
const TABLES: NonZeroUsize = NonZeroUsize::new(64).expect("64 is not 0");

/// Models with less weight than this do not count in a choice.
const LEAST_WEIGHT: f64 = 1e-3;

/// Work, and slack beyond it, of tables for many jobs, in steps.
const SHARED_WORK: f64 = 96.0;
const SHARED_SLACK: usize = 192;

/// The least changeover there, as a share of a step, and the shortest step in seconds.
const SHARED_CHANGEOVER: f64 = 1.0 / 16.0;
const SHORTEST: f64 = 60.0;

/// Spot prices, by that of on-demand capacity, are rounded to one part in so many; the dearest that is planned for is one
/// part short of on demand.
pub(crate) const PRICES: f64 = 20.0;

/// Highest level of losses: twice an hour.
const MOST_LOSSES: f64 = 7.0;

/// Choices in a phase with capacity: wait, spot that works, spot launched, on-demand that works, on-demand launched.
pub(crate) const WITH: usize = 5;
/// Choices in a phase without: wait, on-demand that works, on-demand launched.
pub(crate) const WITHOUT: usize = 3;
/// Figures of one model at one grid point.
const FIGURES: usize = PHASES * (WITH + WITHOUT);

/// What a table is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) step_ms: u64,
    pub(crate) changeover_ms: u64,
    pub(crate) work_steps: usize,
    /// Time that the plan reaches ahead.
    pub(crate) steps: usize,
    /// Spot price in parts of [`PRICES`].
    pub(crate) price: u32,
    /// How often spot that is held is lost while there is other spot: level `k > 0` is `2^k / 64` times an hour.
    losses: u32,
}

impl Key {
    /// For a job, a spot price as a share of the on-demand price, and how many times an hour spot that is held is lost while
    /// there is other spot.
    pub(crate) fn new(task: &Task, price: f64, losses: f64) -> Self {
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
            price: rounded_price(price),
            losses: rounded_losses(losses),
        }
    }

    /// For one of many jobs with so many hours of work left: few tables, each soon made, serve them all, so that prices and
    /// losses are rounded more coarsely, and changeovers to powers of the root of two. More slack than twice the longest
    /// work of a table counts no more than that.
    pub(crate) fn shared(work: f64, changeover: f64, price: f64, losses: f64) -> Self {
        let (work, changeover) = (work * 3600.0, changeover * 3600.0);
        let fits = |step: f64| work / step <= SHARED_WORK && changeover / step <= CHANGEOVER;
        let mut step = STEP;
        while !fits(step) {
            step *= LADDER;
        }
        while fits(step / LADDER) && step / LADDER >= SHORTEST {
            step /= LADDER;
        }
        let halves = (2.0 * (changeover / step).max(SHARED_CHANGEOVER).log2()).round() / 2.0;
        Self {
            step_ms: (step * 1000.0) as u64,
            changeover_ms: (halves.exp2() * step * 1000.0) as u64,
            work_steps: SHARED_WORK as usize,
            steps: SHARED_WORK as usize + SHARED_SLACK,
            price: ((price * PRICES / 2.0).round() * 2.0).clamp(1.0, PRICES - 2.0) as u32,
            losses: rounded_losses(losses).next_multiple_of(2),
        }
    }

    pub(crate) fn losses_per_hour(&self) -> f64 {
        if self.losses > 0 { f64::from(self.losses).exp2() / 64.0 } else { 0.0 }
    }

    pub(crate) fn step_hours(&self) -> f64 {
        self.step_ms as f64 / 3_600_000.0
    }
}

fn rounded_price(price: f64) -> u32 {
    (price * PRICES).round().clamp(0.0, PRICES - 1.0) as u32
}

fn rounded_losses(losses: f64) -> u32 {
    if losses > 0.0 { ((losses * 64.0).log2().round()).clamp(0.0, MOST_LOSSES) as u32 } else { 0 }
}

/// Tables that were needed so far, shared by all jobs of a rule; the ones that nobody needed for longest are given up
/// first.
#[derive(Debug)]
pub(crate) struct Plans(Mutex<LruCache<Key, Arc<OnceLock<Plan>>>>);

impl Default for Plans {
    fn default() -> Self {
        Self::at_most(TABLES)
    }
}

impl Plans {
    /// None yet, and never more than so many.
    pub(crate) fn at_most(most: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::new(most)))
    }

    /// The plan for a key, computed if it is not there; who comes while it is computed waits.
    pub(crate) fn get(&self, key: Key, library: &[Market]) -> Arc<OnceLock<Plan>> {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = tables.get_or_insert(key, Arc::default).clone();
        drop(tables);
        cell.get_or_init(|| Plan::new(key, library));
        cell
    }
}

/// Expected costs of the choices in one situation, in steps of on-demand capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    pub(crate) wait: f32,
    /// Spot that works already, and spot launched now; of no meaning without capacity.
    pub(crate) spot: [f32; 2],
    /// On-demand capacity that works already, and launched now.
    pub(crate) on_demand: [f32; 2],
}

impl Costs {
    fn scale(self, by: f32) -> Self {
        Self {
            wait: self.wait * by,
            spot: self.spot.map(|cost| cost * by),
            on_demand: self.on_demand.map(|cost| cost * by),
        }
    }

    /// The least of what a job that holds nothing may do.
    pub(crate) fn least(&self, is_up: bool) -> f32 {
        let least = self.wait.min(self.on_demand[1]);
        if is_up { least.min(self.spot[1]) } else { least }
    }
}

/// The tables of all models for one key.
#[derive(Debug)]
pub(crate) struct Plan {
    step_hours: f64,
    works: Vec<usize>,
    slacks: Vec<usize>,
    models: usize,
    figures: Vec<f32>,
}

/// A situation on the grid: four corners and their shares.
#[derive(Clone, Copy, Debug)]
struct Place([(usize, f32); 4]);

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

    /// The situation with so many hours and so much work left.
    fn place(&self, hours: f64, work_hours: f64) -> Place {
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

    /// What the choices cost with so many hours and so much work left, averaged over what is believed while there is
    /// capacity, or while there is none; in the money in which an hour of on-demand capacity costs `on_demand`.
    pub(crate) fn costs(&self, belief: &Belief, hours: f64, work_hours: f64, is_up: bool, on_demand: f64) -> Costs {
        let place = self.place(hours, work_hours);
        let mut costs = Costs::default();
        let mut all = 0.0;
        for (model, (&weight, phases)) in belief.weights().iter().zip(belief.phases()).enumerate() {
            if weight < LEAST_WEIGHT {
                continue;
            }
            let shares = if is_up { &phases.up } else { &phases.down };
            all += weight as f32 * shares.iter().sum::<f32>();
            if is_up {
                self.add_with(&place, model, shares, weight as f32, &mut costs);
            } else {
                self.add_without(&place, model, shares, weight as f32, &mut costs);
            }
        }
        let unit = self.step_hours as f32 * on_demand as f32;
        costs.scale(unit / all.max(f32::MIN_POSITIVE))
    }

    /// Adds the costs under one model while there is capacity, by shares of the phases.
    fn add_with(&self, place: &Place, model: usize, shares: &[f32; PHASES], weight: f32, costs: &mut Costs) {
        let [wait, working, launched, on_demand, on_demand_launched] =
            self.mean::<WITH>(place, model * FIGURES, shares, weight);
        costs.wait += wait;
        costs.spot[0] += working;
        costs.spot[1] += launched;
        costs.on_demand[0] += on_demand;
        costs.on_demand[1] += on_demand_launched;
    }

    /// Adds the costs under one model while there is no capacity.
    fn add_without(&self, place: &Place, model: usize, shares: &[f32; PHASES], weight: f32, costs: &mut Costs) {
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
pub(crate) struct Points<'a> {
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
    pub(crate) fn at(&self, time: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
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
        for changeover in 0..2 * TABLES.get() {
            plans.get(Key::new(&Task { changeover: changeover as f64, ..small }, 0.3, 0.0), models);
        }
        assert_eq!(plans.0.lock().unwrap().len(), TABLES.get());
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
