//! Spot whenever there is some, and nothing while there is none; the safety net buys on demand at the last moment.

use super::{Memoryless, Mode, Moment, Places};

/// `greedy-spot`.
#[derive(Clone, Copy, Debug)]
pub struct GreedySpot;

impl Memoryless for GreedySpot {
    fn name(&self) -> &str {
        "greedy-spot"
    }

    fn choose(&self, places: &Places, moment: &Moment<'_>) -> Mode {
        places.spot(moment).unwrap_or(Mode::Idle)
    }
}
