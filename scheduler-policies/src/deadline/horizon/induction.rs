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

use super::market::{Market, PHASES, Step};
use super::plan::{Key, PRICES, Points, WITH, WITHOUT};

/// Price of work after the deadline, so that the plan keeps clear of it as the safety net does.
const OVERTIME: f32 = 3.0;

/// The backward induction for one model. Values are rows over work, one for each state of market and machine.
pub(crate) struct Induction {
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
    pub(crate) fn new(key: Key, market: &Market) -> Self {
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

    pub(crate) fn run(&self, points: &Points<'_>, offset: usize, figures: &mut [f32]) {
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
