//! Which zone a rule means that only decides between spot, on demand and waiting: the cheapest for the rest of the work,
//! the move of the checkpoint included, and no move while what is held can be kept.

use super::{Mode, Moment, Task, Zone};

/// Prices that do not change while a job runs.
#[derive(Clone, Debug)]
pub struct Places {
    task: Task,
    zones: Vec<Zone>,
}

impl Places {
    pub fn new(task: &Task, zones: &[Zone]) -> Self {
        Self { task: *task, zones: zones.to_vec() }
    }

    pub const fn task(&self) -> &Task {
        &self.task
    }

    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Spot capacity: what is held, else the cheapest zone that has some or where nobody tried. Ties go to the first.
    pub fn spot(&self, moment: &Moment<'_>) -> Option<Mode> {
        if let Mode::Spot(_) = moment.mode {
            return Some(moment.mode);
        }
        let offers = moment.zones.iter().enumerate().filter(|(_, zone)| zone.spot != Some(false));
        let priced = offers.map(|(zone, now)| (zone, self.rest(moment, zone, now.spot_price)));
        cheapest(priced).map(Mode::Spot)
    }

    /// On-demand capacity: what is held, else the cheapest zone. Ties go to the first.
    pub fn on_demand(&self, moment: &Moment<'_>) -> Mode {
        if let Mode::OnDemand(_) = moment.mode {
            return moment.mode;
        }
        let priced = self.zones.iter().enumerate().map(|(zone, at)| (zone, self.rest(moment, zone, at.on_demand)));
        cheapest(priced).map_or(Mode::Idle, Mode::OnDemand)
    }

    /// Dollars to move the checkpoint to a zone.
    pub fn egress(&self, moment: &Moment<'_>, zone: usize) -> f64 {
        let from = moment.checkpoint.filter(|&from| from != zone).and_then(|from| self.zones.get(from));
        from.and_then(|from| from.egress.get(zone)).copied().unwrap_or(0.0)
    }

    /// Dollars for the rest of the work in a zone at this price an hour, if nothing comes between.
    fn rest(&self, moment: &Moment<'_>, zone: usize, price: f64) -> f64 {
        price * (self.task.work - moment.done + self.task.changeover) / 3600.0 + self.egress(moment, zone)
    }
}

fn cheapest(priced: impl Iterator<Item = (usize, f64)>) -> Option<usize> {
    priced.min_by(|one, other| one.1.total_cmp(&other.1).then(one.0.cmp(&other.0))).map(|(zone, _)| zone)
}
