//! The deadline cut into slices, each with its share of the work: greedy within a slice, and on demand where the rest of
//! the slice only just holds the rest of its share. Progress is forced several times instead of once at the end.

use super::{Memoryless, Mode, Moment, NEGLIGIBLE, Places, Task};

/// `time-sliced-N`.
#[derive(Clone, Debug)]
pub struct TimeSliced {
    slices: u32,
    name: String,
}

impl TimeSliced {
    /// `slices` parts of equal length; fewer than one are taken as one.
    pub fn new(slices: u32) -> Self {
        let slices = slices.max(1);
        Self { slices, name: format!("time-sliced-{slices}") }
    }

    /// Whether the share of the present slice can only be met on demand.
    fn is_pressed(&self, task: &Task, moment: &Moment<'_>) -> bool {
        let Task { work, deadline, tick, .. } = *task;
        let slices = f64::from(self.slices);
        let now = moment.tick as f64 * tick;
        let length = deadline / slices;
        let slice = (now / length).floor().min(slices - 1.0) + 1.0;
        let rest = work * slice / slices - moment.done;
        if rest <= NEGLIGIBLE {
            return false;
        }
        let left = ((slice * length - now) / tick + 1e-9).floor() * tick;
        let on_spot = matches!(moment.mode, Mode::Spot(_));
        let at_work = on_spot && moment.changeover_left < NEGLIGIBLE;
        let on_demand = matches!(moment.mode, Mode::OnDemand(_));
        (task.time_for(rest, 2.0) >= left && !on_spot) || (task.time_for(rest, 1.0) >= left && !at_work) || on_demand
    }
}

impl Memoryless for TimeSliced {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose(&self, places: &Places, moment: &Moment<'_>) -> Mode {
        if self.is_pressed(places.task(), moment) {
            return places.on_demand(moment);
        }
        places.spot(moment).unwrap_or(Mode::Idle)
    }
}
