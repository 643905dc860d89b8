//! Means in which the past fades, in integers: the same on every machine, and the same after a restart.

use leeway_model::Millis;
use serde::{Deserialize, Serialize};

/// All of a part, as a fraction of 2^64.
const ALL: u128 = 1 << 64;
/// Binary places of a half-life that are told apart: a millisecond of ten years is more than one.
const PLACES: usize = 40;
/// Binary places of a mean behind its unit.
const FINE: u32 = 40;

/// 2^64 x 2^(-1/2), 2^(-1/4), 2^(-1/8) and so on.
const ROOTS: [u128; PLACES] = {
    let mut roots = [0; PLACES];
    let mut last: u128 = ALL / 2;
    let mut place = 0;
    while place < PLACES {
        last = (last << 64).isqrt();
        roots[place] = last;
        place += 1;
    }
    roots
};

/// The part of something that is left after a while, `2^(-length / half_life)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left(u128);

impl Left {
    pub fn after(length: Millis, half_life: Millis) -> Self {
        let half_life = half_life.as_millis().max(1);
        let (whole, rest) = (length.as_millis() / half_life, length.as_millis() % half_life);
        if whole >= 64 {
            return Self(0);
        }
        let rest = (u128::from(rest) << PLACES) / u128::from(half_life);
        let mut left = ALL;
        for (place, root) in ROOTS.iter().enumerate() {
            if rest >> (PLACES - 1 - place) & 1 == 1 {
                left = (left * root) >> 64;
            }
        }
        Self(left >> whole)
    }

    /// This part of an amount, rounded down.
    fn of(self, amount: u128) -> u128 {
        const LOW: u128 = ALL - 1;
        // A mean has at most 64 + 40 places, so that neither product passes 128.
        (amount >> 64) * self.0 + (((amount & LOW) * self.0) >> 64)
    }
}

/// The mean of an amount over all of the past, a moment counting half as much for every half-life that it lies back: in
/// parts of 2^-40 of the amount's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mean(u128);

impl Mean {
    /// The mean at the end of a stretch of time in which the amount was `held`, of which `left` is how much the time
    /// before it still counts.
    pub fn moved(self, held: u64, left: Left) -> Self {
        let held = u128::from(held) << FINE;
        match self.0.checked_sub(held) {
            Some(above) => Self(held + left.of(above)),
            None => Self(held - left.of(held - self.0)),
        }
    }

    /// The mean with what is held now on top, for ranking only.
    pub fn beside(self, held: u64) -> f64 {
        held as f64 + self.0 as f64 / (1_u64 << FINE) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WEEK: Millis = Millis::from_hours(24 * 7);

    fn float(left: Left) -> f64 {
        left.0 as f64 / ALL as f64
    }

    #[test]
    fn after_a_half_life_half_is_left_and_after_none_all() {
        assert_eq!(Left::after(Millis::ZERO, WEEK), Left(ALL));
        assert_eq!(Left::after(WEEK, WEEK), Left(ALL / 2));
        assert_eq!(Left::after(WEEK.saturating_mul(3), WEEK), Left(ALL / 8));
        assert_eq!(Left::after(Millis::MAX, WEEK), Left(0));
        assert_eq!(Mean::default().moved(8, Left(ALL / 2)).beside(0), 4.0);
    }

    proptest! {
        #[test]
        fn what_is_left_is_the_power_of_two(length in 0_u64..10_000_000_000, half_life in 1_000_u64..400_000_000_000) {
            let left = float(Left::after(Millis::new(length), Millis::new(half_life)));
            let exact = (-(length as f64) / half_life as f64).exp2();
            prop_assert!((left - exact).abs() < 1e-11, "{left} is not {exact}");
        }

        #[test]
        fn a_longer_while_leaves_no_more(length in 0_u64..10_000_000_000, more in 0_u64..1_000_000_000) {
            let left = |length| Left::after(Millis::new(length), WEEK);
            prop_assert!(left(length + more) <= left(length));
        }

        /// How often it is metered must not change what an owner is said to use.
        #[test]
        fn many_short_stretches_are_one_long_one(steps in proptest::collection::vec(1_u64..5_000, 1..400), held in 1_u64..1 << 50) {
            let moved = |mean: Mean, length| mean.moved(held, Left::after(Millis::new(length), WEEK));
            let many = steps.iter().fold(Mean::default(), |mean, step| moved(mean, *step));
            let one = moved(Mean::default(), steps.iter().sum());
            prop_assert!((many.beside(0) - one.beside(0)).abs() <= 1e-5 * one.beside(0) + 1e-9);
        }

        #[test]
        fn a_mean_lies_between_what_it_was_and_what_is_held(
            before in any::<u64>(), held in any::<u64>(), length in any::<u64>()
        ) {
            let mean = Mean(u128::from(before) << FINE);
            let after = mean.moved(held, Left::after(Millis::new(length), WEEK)).0 >> FINE;
            prop_assert!((u128::from(before.min(held))..=u128::from(before.max(held))).contains(&after));
        }
    }
}
