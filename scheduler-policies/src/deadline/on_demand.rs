//! On demand from the first tick to the last: what the deadline costs without spot.

use super::{Mode, Moment, Rule, Session, Task, Zone, places::Places};

/// `on-demand`: the cheapest on-demand capacity, held until the job is done.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

impl Rule for OnDemand {
    fn name(&self) -> &str {
        "on-demand"
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
        self.places.on_demand(moment)
    }
}
