//! The laws of recorded markets, for a yardstick: what the rule would pay if it were told them beforehand.
//!
//! A recording is counted out into the phases of age that the library has: spells that ended in a phase, over the hours that
//! spells were of that age. The last spell of a recording is censored: it adds hours and no end.

use super::market::{Hazard, LEAST_HAZARD, Market, PHASES, phase_of};

/// Hours at the mean rate that are added to each phase, so that one which was hardly seen does not say much.
const BORROWED: f64 = 1.0;

/// What was seen of one kind of spell.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ends: [f64; PHASES],
    hours: [f64; PHASES],
}

impl Seen {
    fn hazard(&self) -> Hazard {
        let (ends, hours) = (self.ends.iter().sum::<f64>(), self.hours.iter().sum::<f64>());
        // Half an end more than there were: none seen is not none ever.
        let mean = (ends + 0.5) / (hours + BORROWED);
        Hazard::of_rates(std::array::from_fn(|phase| {
            let rate = (self.ends[phase] + BORROWED * mean) / (self.hours[phase] + BORROWED);
            rate.max(LEAST_HAZARD)
        }))
    }
}

/// The law of one zone, from whether it had capacity in each tick of a recording.
pub(super) fn law(is_up: &[bool], tick_hours: f64) -> Market {
    let (mut up, mut down) = (Seen::default(), Seen::default());
    let mut spells = is_up.chunk_by(|one, next| one == next).peekable();
    while let Some(spell) = spells.next() {
        let seen = if spell[0] { &mut up } else { &mut down };
        let phase = |tick: usize| phase_of(tick as f64 * tick_hours);
        (0..spell.len()).for_each(|tick| seen.hours[phase(tick)] += tick_hours);
        if spells.peek().is_some() {
            seen.ends[phase(spell.len() - 1)] += 1.0;
        }
    }
    Market { up: up.hazard(), down: down.hazard() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: f64 = 1.0 / 6.0;

    #[test]
    fn a_zone_that_flickers_lives_as_long_as_its_spells() {
        let flicker: Vec<bool> = (0..6_000).map(|tick| tick % 12 < 9).collect();
        let law = law(&flicker, TICK);
        let (up, down) = (law.up.life(1e9)[0], law.down.life(1e9)[0]);
        assert!((1.0..2.2).contains(&up) && (0.3..0.8).contains(&down), "{up} {down}");
    }

    #[test]
    fn a_zone_that_never_went_is_told_to_go_some_day_and_an_empty_recording_tells_nothing_odd() {
        let always = law(&[true; 1_000], TICK);
        assert!(always.up.life(1e9)[0] > 50.0);
        let nothing = law(&[], TICK);
        for life in [nothing.up.life(1e9), nothing.down.life(1e9), always.down.life(1e9)] {
            assert!(life.iter().all(|life| life.is_finite() && *life > 0.0), "{life:?}");
        }
    }
}
