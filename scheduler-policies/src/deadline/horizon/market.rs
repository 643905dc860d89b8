//! Models of a spot market: how long capacity stays and how long it stays away.
//!
//! A market alternates between spells in which spot capacity can be had and spells in which it cannot (an alternating
//! renewal process). Spells are heavy-tailed: the longer one has lasted, the longer it will go on. Their hazard (rate of
//! ending, per hour) therefore depends on age. The shape is that of a Pareto law of the second kind (K. S. Lomax,
//! "Business Failures", 1954), with survival `S(a) = (1 + a / scale)^-shape` and hazard `shape / (a + scale)`; few
//! parameters span everything from flicker to weeks.
//!
//! To plan with it, age is cut into phases that double in length. A spell in phase `k` ends at rate `h[k]` and enters
//! phase `k + 1` at rate `1 / LENGTH[k]`, so the market is a small Markov chain (a Coxian phase-type law, D. R. Cox 1955)
//! and one and the same chain serves the belief and the plan.

/// Phases of age that a spell may be in.
pub(crate) const PHASES: usize = 8;

/// Mean length of each phase, in hours; the last has no end.
const LENGTH: [f64; PHASES] =
    [1.0 / 6.0, 1.0 / 6.0, 1.0 / 3.0, 2.0 / 3.0, 4.0 / 3.0, 8.0 / 3.0, 16.0 / 3.0, f64::INFINITY];

/// Age at which the averaging of the hazard over the last phase stops, in hours.
const OLDEST: f64 = 96.0;

/// Every spell ends some day: this is added to each hazard, per hour.
pub(super) const LEAST_HAZARD: f64 = 1.0 / 400.0;

/// Shapes of spells in the library: one so heavy-tailed that the mean does not exist, one for which it does.
const SHAPES: [f64; 2] = [0.5, 1.5];

/// Scales of spells in the library, in hours: about the shortest that a scheduler can use, and a working shift.
const SCALES: [f64; 2] = [0.2, 3.0];

/// Rates of ending by phase, per hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Hazard([f64; PHASES]);

/// What may happen to a spell within a step: probabilities that sum to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) stays: f32,
    pub(crate) ages: f32,
    pub(crate) ends: f32,
}

/// The phase that a spell of so many hours is in on average.
pub(super) fn phase_of(hours: f64) -> usize {
    let ends = LENGTH.iter().scan(0.0, |end, length| {
        *end += length;
        Some(*end)
    });
    // A tick that begins where a phase ends belongs to the next, however the sums were rounded.
    ends.take_while(|end| *end <= hours + 1e-9).count().min(PHASES - 1)
}

impl Hazard {
    /// Rates of ending in each phase, per hour.
    pub(super) const fn of_rates(rates: [f64; PHASES]) -> Self {
        Self(rates)
    }

    /// Hazard of a Lomax law, averaged over each phase: the integral of `shape / (a + scale)` over the phase by its length.
    pub(crate) fn lomax(shape: f64, scale: f64) -> Self {
        let mut from = 0.0;
        Self(LENGTH.map(|length| {
            let to = if length.is_finite() { from + length } else { OLDEST };
            let mean = shape * ((to + scale) / (from + scale)).ln() / (to - from);
            from = to;
            mean + LEAST_HAZARD
        }))
    }

    /// Rates of ending and of entering the next phase, per hour.
    pub(crate) fn rates(&self, phase: usize) -> (f64, f64) {
        (self.0[phase], 1.0 / LENGTH[phase])
    }

    /// What happens in each phase within `hours`.
    pub(crate) fn steps(&self, hours: f64) -> [Step; PHASES] {
        std::array::from_fn(|phase| {
            let (ends, ages) = (self.0[phase], 1.0 / LENGTH[phase]);
            let changes = -(-(ends + ages) * hours).exp_m1();
            Step {
                stays: (1.0 - changes) as f32,
                ages: (changes * ages / (ends + ages)) as f32,
                ends: (changes * ends / (ends + ages)) as f32,
            }
        })
    }

    /// Mean hours that a new spell spends in each phase.
    pub(crate) fn sojourns(&self) -> [f64; PHASES] {
        let mut reached = 1.0;
        std::array::from_fn(|phase| {
            let (ends, ages) = (self.0[phase], 1.0 / LENGTH[phase]);
            let hours = reached / (ends + ages);
            reached *= ages / (ends + ages);
            hours
        })
    }

    /// Mean hours that a spell in each phase goes on, where it is of use for `useful` hours on average and no longer:
    /// `life[k] = (1 + life[k + 1] / LENGTH[k]) / (h[k] + 1 / LENGTH[k] + 1 / useful)`.
    pub(crate) fn life(&self, useful: f64) -> [f64; PHASES] {
        let mut life = [0.0; PHASES];
        let mut later = 0.0;
        for phase in (0..PHASES).rev() {
            let ages = 1.0 / LENGTH[phase];
            later = (1.0 + ages * later) / (self.0[phase] + ages + 1.0 / useful);
            life[phase] = later;
        }
        life
    }
}

/// One model of a market.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Market {
    /// Of spells with capacity.
    pub(crate) up: Hazard,
    /// Of spells without.
    pub(crate) down: Hazard,
}

/// The models between which the belief decides: each kind of spell with capacity beside each kind without. They come from
/// no recorded market; together they span availabilities from 3 % to 97 % and rhythms from minutes to days.
pub(crate) fn library() -> Vec<Market> {
    let kinds = || SHAPES.into_iter().flat_map(|shape| SCALES.map(|scale| Hazard::lomax(shape, scale)));
    kinds().flat_map(|up| kinds().map(move |down| Market { up, down })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spell_is_the_less_likely_to_end_the_older_it_is() {
        for market in library() {
            for hazard in [market.up, market.down] {
                assert!(hazard.0.windows(2).all(|pair| pair[0] > pair[1]), "{hazard:?}");
                let life = hazard.life(1e6);
                assert!(life.windows(2).all(|pair| pair[0] < pair[1]), "{life:?}");
            }
        }
    }

    #[test]
    fn steps_are_probabilities_and_two_short_ones_are_about_one_long() {
        let hazard = Hazard::lomax(1.5, 0.2);
        let (long, short) = (hazard.steps(0.01), hazard.steps(0.005));
        for (long, short) in long.iter().zip(&short) {
            assert!((long.stays + long.ages + long.ends - 1.0).abs() < 1e-6);
            assert!((long.stays - short.stays * short.stays).abs() < 1e-6);
        }
    }

    #[test]
    fn a_new_spell_lives_as_long_as_it_stays_in_all_phases() {
        let hazard = Hazard::lomax(1.5, 3.0);
        let total: f64 = hazard.sojourns().iter().sum();
        assert!((hazard.life(1e12)[0] - total).abs() < 1e-3 * total);
    }

    #[test]
    fn use_bounds_life() {
        for hours in [0.1, 1.0, 10.0] {
            assert!(Hazard::lomax(0.5, 3.0).life(hours).iter().all(|&life| life > 0.0 && life <= hours));
        }
    }

    #[test]
    fn the_library_spans_scarce_and_plentiful_markets() {
        let share = |market: &Market| {
            let (up, down): (f64, f64) = (market.up.sojourns().iter().sum(), market.down.sojourns().iter().sum());
            up / (up + down)
        };
        let shares: Vec<f64> = library().iter().map(share).collect();
        assert!(shares.iter().any(|&share| share < 0.03) && shares.iter().any(|&share| share > 0.97), "{shares:?}");
    }
}
