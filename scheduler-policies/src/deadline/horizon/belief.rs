//! What is believed of a zone: which model of the library it follows, and the age of its present spell.
//!
//! Each model carries a distribution over the phases of both kinds of spell, moved on by the model's chain and conditioned
//! on what was seen (the forward recursion of a hidden Markov model, L. E. Baum and T. Petrie 1966); the probability of
//! what was seen is the model's likelihood. A spell that still goes on is thereby a censored observation, a spell that was
//! there at the start has the age that such spells have on average, and a tick in which nobody looked adds nothing.
//! Between ticks a little weight flows back to the prior, as if the market could change its nature now and then (the fixed
//! share of M. Herbster and M. Warmuth 1998), so that no model is ever ruled out and drift is followed.

use super::market::{Hazard, Market, PHASES, Step};

/// Hours after which a market is expected to have changed its nature.
const MEMORY: f64 = 72.0;

/// Likelihoods are not taken for smaller than this, so that the impossible does not leave zero weights.
const LEAST_LIKELIHOOD: f64 = 1e-12;

/// A distribution over phases of spells with capacity and of spells without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phases {
    pub(crate) up: [f32; PHASES],
    pub(crate) down: [f32; PHASES],
}

/// The library at the rhythm of one job.
#[derive(Clone, Debug)]
pub(crate) struct Rhythm {
    models: Vec<Model>,
    /// Share of weight that flows back to the prior in a tick.
    forgets: f64,
}

#[derive(Clone, Debug)]
struct Model {
    up: [Step; PHASES],
    down: [Step; PHASES],
    /// Where a market is that nobody has looked at.
    start: Phases,
}

impl Rhythm {
    pub(crate) fn new(library: &[Market], tick_hours: f64) -> Self {
        let model = |market: &Market| Model {
            up: market.up.steps(tick_hours),
            down: market.down.steps(tick_hours),
            start: stationary(market),
        };
        Self { models: library.iter().map(model).collect(), forgets: -(-tick_hours / MEMORY).exp_m1() }
    }
}

/// The belief of one zone.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    /// Weights of the models; they sum to one.
    weights: Vec<f64>,
    phases: Vec<Phases>,
}

impl Belief {
    pub(crate) fn new(rhythm: &Rhythm) -> Self {
        let count = rhythm.models.len();
        Self {
            weights: vec![1.0 / count as f64; count],
            phases: rhythm.models.iter().map(|model| model.start).collect(),
        }
    }

    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }

    pub(crate) fn phases(&self) -> &[Phases] {
        &self.phases
    }

    /// How likely there is capacity now.
    pub(crate) fn chance(&self) -> f64 {
        self.weights.iter().zip(&self.phases).map(|(weight, phases)| weight * sum(&phases.up)).sum()
    }

    /// Moves on by one tick.
    pub(crate) fn advance(&mut self, rhythm: &Rhythm) {
        let prior = 1.0 / self.weights.len() as f64;
        for ((weight, phases), model) in self.weights.iter_mut().zip(&mut self.phases).zip(&rhythm.models) {
            *weight += rhythm.forgets * (prior - *weight);
            let (up, up_ends) = move_on(&phases.up, &model.up);
            let (down, down_ends) = move_on(&phases.down, &model.down);
            *phases = Phases { up, down };
            phases.up[0] += down_ends;
            phases.down[0] += up_ends;
        }
    }

    /// Takes in whether there is capacity in the present tick.
    pub(crate) fn observe(&mut self, is_up: bool) {
        let mut total = 0.0;
        for (weight, phases) in self.weights.iter_mut().zip(&mut self.phases) {
            let (seen, other) =
                if is_up { (&mut phases.up, &mut phases.down) } else { (&mut phases.down, &mut phases.up) };
            let likelihood = sum(seen);
            if likelihood > LEAST_LIKELIHOOD {
                seen.iter_mut().for_each(|share| *share /= likelihood as f32);
            } else {
                *seen = [0.0; PHASES];
                seen[0] = 1.0;
            }
            *other = [0.0; PHASES];
            *weight *= likelihood.max(LEAST_LIKELIHOOD);
            total += *weight;
        }
        self.weights.iter_mut().for_each(|weight| *weight /= total);
    }
}

fn sum(shares: &[f32; PHASES]) -> f64 {
    f64::from(shares.iter().sum::<f32>())
}

/// Shares after a step, and the share of spells that ended.
fn move_on(shares: &[f32; PHASES], steps: &[Step; PHASES]) -> ([f32; PHASES], f32) {
    let mut moved = [0.0; PHASES];
    let mut ended = 0.0;
    for (phase, (share, step)) in shares.iter().zip(steps).enumerate() {
        moved[phase] += share * step.stays;
        moved[(phase + 1).min(PHASES - 1)] += share * step.ages;
        ended += share * step.ends;
    }
    (moved, ended)
}

/// Shares of time that a market spends in each phase of each kind of spell.
fn stationary(market: &Market) -> Phases {
    let [up, down] = [market.up, market.down].map(|hazard: Hazard| hazard.sojourns());
    let all: f64 = up.iter().chain(&down).sum();
    Phases { up: up.map(|hours| (hours / all) as f32), down: down.map(|hours| (hours / all) as f32) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::market::library;
    use super::*;

    const TICK: f64 = 1.0 / 6.0;

    fn total(phases: &Phases) -> f64 {
        sum(&phases.up) + sum(&phases.down)
    }

    fn life_now(belief: &Belief, hours: f64) -> f64 {
        let lives = library().into_iter().map(|market| market.up.life(hours));
        let mean = |phases: &Phases, life: [f64; PHASES]| {
            phases.up.iter().zip(life).map(|(&share, life)| f64::from(share) * life).sum::<f64>()
        };
        let each = belief.weights.iter().zip(&belief.phases).zip(lives);
        each.map(|((weight, phases), life)| weight * mean(phases, life)).sum()
    }

    #[test]
    fn where_nobody_looks_little_changes() {
        let rhythm = Rhythm::new(&library(), TICK);
        let mut belief = Belief::new(&rhythm);
        let before: Vec<f64> = belief.phases.iter().map(|phases| sum(&phases.up)).collect();
        for _ in 0..100 {
            belief.advance(&rhythm);
        }
        for (phases, before) in belief.phases.iter().zip(before) {
            // A step has room for one change only, so the shares of the chain are not quite those of continuous time.
            assert!((sum(&phases.up) - before).abs() < 0.25 * before, "{phases:?} {before}");
        }
        assert!(belief.weights.iter().all(|&weight| (weight - 1.0 / 16.0).abs() < 1e-9));
    }

    #[test]
    fn a_long_spell_is_expected_to_go_on_and_flicker_is_not() {
        let rhythm = Rhythm::new(&library(), TICK);
        let (mut steady, mut flicker) = (Belief::new(&rhythm), Belief::new(&rhythm));
        for tick in 0..60 {
            for (belief, is_up) in [(&mut steady, true), (&mut flicker, tick % 2 == 1)] {
                belief.advance(&rhythm);
                belief.observe(is_up);
            }
        }
        let (long, short) = (life_now(&steady, 48.0), life_now(&flicker, 48.0));
        assert!(long > 10.0 && short < 1.5, "{long} {short}");
    }

    proptest! {
        #[test]
        fn shares_and_weights_stay_distributions(seen in prop::collection::vec(prop::option::of(any::<bool>()), 1..300)) {
            let rhythm = Rhythm::new(&library(), TICK);
            let mut belief = Belief::new(&rhythm);
            for seen in seen {
                belief.advance(&rhythm);
                if let Some(is_up) = seen {
                    belief.observe(is_up);
                }
                prop_assert!((belief.weights.iter().sum::<f64>() - 1.0).abs() < 1e-6);
                for phases in &belief.phases {
                    prop_assert!((total(phases) - 1.0).abs() < 1e-3);
                }
            }
        }
    }
}
