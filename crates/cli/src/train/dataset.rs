//! Two spirals that wind around each other: a small task that a straight line cannot solve.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

/// Points in each of the two spirals.
const POINTS_PER_ARM: usize = 256;
/// A turn of 0.025 rad, so that an arm winds a little more than once. Written out instead of computed, because sine and
/// cosine of the platform may differ in the last bit.
const COS: f32 = 0.999_687_5;
const SIN: f32 = 0.024_997_396;

/// A point of the plane and its arm, -1 or 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Example {
    pub point: [f32; 2],
    pub arm: f32,
}

/// Draws a number of [-1, 1) in steps of 2^-23; one number of the generator each, so that draws can be counted.
pub(super) fn draw(random: &mut Pcg32) -> f32 {
    const HALF: f32 = 8_388_608.0;
    (random.next_u32() >> 8) as f32 / HALF - 1.0
}

/// The examples of a seed, always in the same order.
pub(super) fn spirals(random: &mut Pcg32) -> Vec<Example> {
    let mut examples = Vec::with_capacity(2 * POINTS_PER_ARM);
    let (mut x, mut y) = (1.0_f32, 0.0_f32);
    for index in 0..POINTS_PER_ARM {
        let radius = 0.1 + 0.9 * (index as f32 / POINTS_PER_ARM as f32);
        for arm in [-1.0, 1.0] {
            let point = [arm * radius * x + 0.01 * draw(random), arm * radius * y + 0.01 * draw(random)];
            examples.push(Example { point, arm });
        }
        (x, y) = (x * COS - y * SIN, x * SIN + y * COS);
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_points_within_the_unit_disc() {
        let of = |seed| spirals(&mut Pcg32::new(seed, 1));
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
        let examples = of(3);
        assert_eq!(examples.len(), 2 * POINTS_PER_ARM);
        assert_eq!(examples.iter().map(|example| example.arm).sum::<f32>(), 0.0);
        assert!(examples.iter().all(|example| example.point.iter().all(|c| c.abs() < 1.1)));
    }

    #[test]
    fn draws_lie_between_minus_one_and_one_on_both_sides_of_zero() {
        let mut random = Pcg32::new(1, 1);
        let draws: Vec<f32> = (0..1_000).map(|_| draw(&mut random)).collect();
        assert!(draws.iter().all(|d| (-1.0..1.0).contains(d)));
        assert!(draws.iter().any(|d| *d < -0.9) && draws.iter().any(|d| *d > 0.9));
    }
}
