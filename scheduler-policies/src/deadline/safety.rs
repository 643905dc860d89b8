//! The safety net: on-demand capacity in time for the deadline, whatever a rule says. It is the same for every rule, and
//! whoever drives one holds it.
//!
//! Two limits count, in whole ticks: the rest of the work after one changeover, and after two. While spot is held, one is
//! enough, since its loss can be answered with one launch; so it is kept, because spot in another zone would need a launch
//! of its own first. Without spot the net acts a changeover earlier. At the first limit spot that already works may go on,
//! because a tick of it shortens the rest as much as the time.

use super::{Mode, Moment, NEGLIGIBLE, Places, Task};

/// Whether there is no more time than the rest of the work needs after two changeovers, so that not everything may be
/// held any more.
pub fn is_near(moment: &Moment<'_>, task: &Task) -> bool {
    is_within(moment, task, 2.0)
}

fn is_within(moment: &Moment<'_>, task: &Task, changeovers: f64) -> bool {
    let left = (task.ticks() as f64 - moment.tick as f64) * task.tick;
    task.time_for(task.work - moment.done, changeovers) >= left
}

/// What is held instead of `wanted`, which may be `wanted` itself. A zone that does not exist is none.
pub fn enforce(wanted: Mode, moment: &Moment<'_>, places: &Places) -> Mode {
    let task = places.task();
    let wanted = match wanted {
        Mode::Spot(zone) | Mode::OnDemand(zone) if zone >= moment.zones.len() => Mode::Idle,
        known => known,
    };
    let on_spot = matches!(moment.mode, Mode::Spot(_));
    if is_within(moment, task, 1.0) {
        if on_spot && moment.changeover_left < NEGLIGIBLE {
            return moment.mode;
        }
        if task.changeover == 0.0
            && let Some(spot) = free_spot(wanted, moment)
        {
            return spot;
        }
        return on_demand(wanted, moment, places);
    }
    match (moment.mode, wanted) {
        _ if !is_near(moment, task) => wanted,
        (Mode::Spot(_), Mode::Spot(_)) => moment.mode,
        (Mode::Spot(_), _) => wanted,
        _ => on_demand(wanted, moment, places),
    }
}

/// Spot that is known to be there: what the rule wants, else what is held, else the cheapest.
fn free_spot(wanted: Mode, moment: &Moment<'_>) -> Option<Mode> {
    let is_up = |zone: usize| moment.zones[zone].spot == Some(true);
    for mode in [wanted, moment.mode] {
        if let Mode::Spot(zone) = mode
            && is_up(zone)
        {
            return Some(mode);
        }
    }
    let up = (0..moment.zones.len()).filter(|&zone| is_up(zone));
    up.min_by(|&a, &b| moment.zones[a].spot_price.total_cmp(&moment.zones[b].spot_price)).map(Mode::Spot)
}

/// On-demand capacity: what is held, since there is no time for another launch; else what the rule wants, else the
/// cheapest for the rest of the work.
fn on_demand(wanted: Mode, moment: &Moment<'_>, places: &Places) -> Mode {
    match (moment.mode, wanted) {
        (Mode::OnDemand(_), _) => moment.mode,
        (_, Mode::OnDemand(_)) => wanted,
        _ => places.on_demand(moment),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Zone, ZoneNow};
    use super::*;

    const TASK: Task = Task { work: 6_000.0, deadline: 12_000.0, changeover: 300.0, tick: 600.0 };

    /// What is held instead of `wanted` when so many ticks are left for the whole of the work.
    fn held(mode: Mode, wanted: Mode, ticks_left: usize) -> Mode {
        let zones = vec![Zone { on_demand: 3.0, egress: vec![0.0; 2] }; 2];
        let now = [ZoneNow { spot: Some(true), spot_price: 1.0 }; 2];
        let tick = TASK.ticks() - ticks_left;
        let moment = Moment { tick, done: 0.0, mode, changeover_left: 0.0, checkpoint: None, zones: &now };
        enforce(wanted, &moment, &Places::new(&TASK, &zones))
    }

    #[test]
    fn between_the_limits_spot_is_kept_and_no_other_zone_is_tried() {
        let (here, there) = (Mode::Spot(0), Mode::Spot(1));
        // Ten ticks of work: eleven with one changeover, and with two.
        assert_eq!(held(here, there, 12), there, "time for a move and for the loss of the new place");
        let longer = Task { changeover: 500.0, ..TASK };
        assert_eq!((longer.time_for(6_000.0, 1.0), longer.time_for(6_000.0, 2.0)), (6_600.0, 7_200.0));
        let zones = vec![Zone { on_demand: 3.0, egress: vec![0.0; 2] }; 2];
        let now = [ZoneNow { spot: Some(true), spot_price: 1.0 }; 2];
        let moment = Moment {
            tick: longer.ticks() - 12,
            done: 0.0,
            mode: here,
            changeover_left: 0.0,
            checkpoint: Some(0),
            zones: &now,
        };
        let places = Places::new(&longer, &zones);
        assert_eq!(enforce(there, &moment, &places), here, "a loss there would need a third changeover");
        assert_eq!(enforce(Mode::OnDemand(1), &moment, &places), Mode::OnDemand(1));
        assert_eq!(enforce(there, &Moment { mode: Mode::Idle, ..moment }, &places), Mode::OnDemand(0));
    }

    #[test]
    fn at_the_last_moment_spot_that_works_goes_on_and_everything_else_is_on_demand() {
        assert_eq!(held(Mode::Spot(1), Mode::Idle, 11), Mode::Spot(1));
        assert_eq!(held(Mode::Idle, Mode::Spot(1), 11), Mode::OnDemand(0));
        assert_eq!(held(Mode::OnDemand(1), Mode::Idle, 11), Mode::OnDemand(1));
    }

    #[test]
    fn a_zone_that_does_not_exist_is_none() {
        assert_eq!(held(Mode::Idle, Mode::Spot(7), 20), Mode::Idle);
        assert_eq!(held(Mode::Idle, Mode::OnDemand(7), 20), Mode::Idle);
    }
}
