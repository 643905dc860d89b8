//! Named streams of luck from one seed: one more draw here does not change the luck over there, so every policy meets
//! the same weather.

use leeway_model::Millis;
use rand::Rng;
use rand_pcg::Pcg64;

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream(Pcg64);

/// The stream of a name under a seed.
pub fn stream(seed: u64, name: &str) -> Stream {
    let mut state = seed ^ 0x6c65_6577_6179_0001;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state)
    };
    let (a, b) = (word(), word());
    let named = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let state = u128::from(a) << 64 | u128::from(b ^ mix(named));
    Stream(Pcg64::new(state, u128::from(mix(named ^ seed)) << 64 | u128::from(named)))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True in so many of a million cases. Draws nothing when it can only be false, so that a fault that is off does
    /// not move the luck of one that is on.
    pub fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < u64::from(per_million)
    }

    pub fn millis(&mut self, low: Millis, high: Millis) -> Millis {
        Millis::new(self.between(low.as_millis(), high.as_millis()))
    }

    /// An exponentially distributed length with this mean.
    pub fn exponential(&mut self, mean: Millis) -> Millis {
        let unit = (self.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        Millis::from_secs_f64(mean.as_secs_f64() * -unit.ln())
    }
}

/// Luck that belongs to a thing and not to an order of events: the same for the same seed and key, however often and
/// whenever it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Lot(u64);

impl Lot {
    pub fn new(seed: u64, key: [u64; 3]) -> Self {
        Self(key.into_iter().fold(mix(seed), |state, part| mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ part)))
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(self, bound: u64) -> u64 {
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }

    /// A length from `low` to `high`, both included.
    pub fn millis(self, low: Millis, high: Millis) -> Millis {
        let (low, high) = (low.as_millis(), high.as_millis());
        Millis::new(low + self.below(high.saturating_sub(low).saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_are_independent_and_repeat() {
        let draw = |seed, name| {
            let mut stream = stream(seed, name);
            (0..4).map(|_| stream.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, "faults"), draw(7, "faults"));
        assert_ne!(draw(7, "faults"), draw(7, "prices"));
        assert_ne!(draw(7, "faults"), draw(8, "faults"));
    }

    #[test]
    fn a_lot_is_spread_evenly_and_depends_on_its_whole_key() {
        let sum: u64 = (0..10_000).map(|job| Lot::new(1, [job, 1, 2]).below(1_000)).sum();
        assert!((490..510).contains(&(sum / 10_000)), "{}", sum / 10_000);
        let draw = |key| Lot::new(1, key).below(u64::MAX);
        assert!(draw([1, 2, 3]) != draw([2, 1, 3]) && draw([1, 2, 3]) != draw([1, 2, 4]));
        assert_eq!(draw([1, 2, 3]), draw([1, 2, 3]));
    }

    #[test]
    fn an_exponential_length_has_its_mean() {
        let mut stream = stream(1, "test");
        let sum: u64 = (0..20_000).map(|_| stream.exponential(Millis::from_secs(100)).as_millis()).sum();
        assert!((95_000..105_000).contains(&(sum / 20_000)), "{}", sum / 20_000);
    }
}
