//! The deadline cut into slices, each with its share of the work: greedy within a slice, and on demand where the rest of
//! the slice only just holds the rest of its share. Progress is forced several times instead of once at the end.

use super::{Mode, Moment, NEGLIGIBLE, Rule, Session, Task, Zone, places::Places, whole_ticks};

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
}

impl Rule for TimeSliced {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self, task: &Task, zones: &[Zone]) -> Box<dyn Session> {
        Box::new(Running { places: Places::new(task, zones), task: *task, slices: f64::from(self.slices) })
    }
}

struct Running {
    places: Places,
    task: Task,
    slices: f64,
}

impl Running {
    /// Whether the share of the present slice can only be met on demand.
    fn is_pressed(&self, moment: &Moment<'_>) -> bool {
        let Task { work, deadline, changeover, tick } = self.task;
        let now = moment.tick as f64 * tick;
        let length = deadline / self.slices;
        let slice = (now / length).floor().min(self.slices - 1.0) + 1.0;
        let rest = work * slice / self.slices - moment.done;
        if rest <= NEGLIGIBLE {
            return false;
        }
        let left = ((slice * length - now) / tick + 1e-9).floor() * tick;
        let on_spot = matches!(moment.mode, Mode::Spot(_));
        let at_work = on_spot && moment.changeover_left < NEGLIGIBLE;
        let on_demand = matches!(moment.mode, Mode::OnDemand(_));
        (whole_ticks(rest + 2.0 * changeover, tick) >= left && !on_spot)
            || (whole_ticks(rest + changeover, tick) >= left && !at_work)
            || on_demand
    }
}

impl Session for Running {
    fn choose(&mut self, moment: &Moment<'_>) -> Mode {
        if self.is_pressed(moment) {
            return self.places.on_demand(moment);
        }
        self.places.spot(moment).unwrap_or(Mode::Idle)
    }
}
