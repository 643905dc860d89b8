//! When to attempt again after a failure. Pure: the caller keeps the clock, the outbox and the count of attempts.

use leeway_model::Millis;

/// Waits before the second to the tenth attempt; together about 75 hours.
const WAITS: [Millis; 9] = [
    Millis::from_secs(5),
    Millis::from_mins(5),
    Millis::from_mins(30),
    Millis::from_hours(2),
    Millis::from_hours(5),
    Millis::from_hours(10),
    Millis::from_hours(14),
    Millis::from_hours(20),
    Millis::from_hours(24),
];

/// Attempts in all, the first included.
#[cfg(test)]
const ATTEMPTS_MAX: u32 = WAITS.len() as u32 + 1;

/// How long to wait after `attempt` attempts have failed, or `None` when that was the last. Zero attempts wait not at
/// all. The wait is spread by 20 % either way, so that a receiver that was down is not met by everything at once; the
/// same seed gives the same wait. Derive the seed from event and endpoint.
pub(crate) fn next_attempt(attempt: u32, jitter_seed: u64) -> Option<Millis> {
    let Some(index) = attempt.checked_sub(1) else { return Some(Millis::ZERO) };
    let wait = WAITS.get(usize::try_from(index).ok()?)?;
    // In ten-thousandths: 8,000 to 12,000.
    let factor = 8_000 + mix(jitter_seed, u64::from(attempt)) % 4_001;
    Some(Millis::new(wait.as_millis() * factor / 10_000))
}

/// SplitMix64's finaliser: spreads neighbouring seeds and attempts over all values.
fn mix(seed: u64, attempt: u64) -> u64 {
    let mut z = seed.wrapping_add(attempt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn w_01_ten_attempts_spread_over_three_days() {
        let total: u64 = WAITS.iter().map(|wait| wait.as_millis()).sum();
        assert!((75.0..76.0).contains(&Millis::new(total).as_hours_f64()));
        assert_eq!(next_attempt(0, 1), Some(Millis::ZERO));
        assert!((1..ATTEMPTS_MAX).all(|attempt| next_attempt(attempt, 1).is_some()));
        for attempt in [ATTEMPTS_MAX, ATTEMPTS_MAX + 1, u32::MAX] {
            assert_eq!(next_attempt(attempt, 1), None, "{attempt}");
        }
    }

    #[test]
    fn receivers_are_not_met_by_everything_at_once() {
        let waits: BTreeSet<_> = (0..100).map(|seed| next_attempt(2, seed)).collect();
        assert!(waits.len() > 80, "{}", waits.len());
        let mean = (0..1_000).filter_map(|seed| next_attempt(2, seed)).map(Millis::as_millis).sum::<u64>() / 1_000;
        assert!((295_000..305_000).contains(&mean), "{mean}");
    }

    proptest! {
        #[test]
        fn a_wait_stays_within_twenty_percent_and_repeats(attempt in 1u32..10, seed: u64) {
            let wait = next_attempt(attempt, seed).unwrap().as_millis();
            let nominal = WAITS[attempt as usize - 1].as_millis();
            prop_assert!(wait >= nominal * 8 / 10 && wait <= nominal * 12 / 10);
            prop_assert_eq!(next_attempt(attempt, seed).unwrap().as_millis(), wait);
        }
    }
}
