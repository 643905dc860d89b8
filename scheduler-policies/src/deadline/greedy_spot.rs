//! Spot whenever there is some, and nothing while there is none; the safety net buys on demand at the last moment.

use super::{Mode, Moment, Rule, Session, Task, Zone, places::Places};

/// `greedy-spot`.
#[derive(Clone, Copy, Debug)]
pub struct GreedySpot;

impl Rule for GreedySpot {
    fn name(&self) -> &str {
        "greedy-spot"
    }

    fn begin(&self, task: &Task, zones: &[Zone]) -> Box<dyn Session> {
        Box::new(Running { places: Places::new(task, zones) })
    }
}

struct Running {
    places: Places,
}

impl Session for Running {
    fn choose(&mut self, moment: &Moment<'_>) -> Mode {
        self.places.spot(moment).unwrap_or(Mode::Idle)
    }
}
