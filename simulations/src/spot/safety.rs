//! The safety net: on-demand capacity in time for the deadline, whatever a rule says. It is the same for every rule.
//!
//! Two limits count, in whole ticks: the rest of the work after one changeover, and after two. While spot is held, one is
//! enough, since its loss can be answered with one launch. Without it the net acts a changeover earlier. At the first
//! limit spot that already works may go on, because a tick of it shortens the rest as much as the time.

use leeway_policies::deadline::{Mode, Moment, NEGLIGIBLE, Places, Task, Zone, whole_ticks};

/// Seconds, in whole ticks, that `rest` seconds of work need after so many changeovers.
pub fn needed(task: &Task, rest: f64, changeovers: f64) -> f64 {
    whole_ticks(rest + changeovers * task.changeover, task.tick)
}

/// Whether a mode names a zone that exists.
pub fn is_known(mode: Mode, zones: usize) -> bool {
    match mode {
        Mode::Idle => true,
        Mode::Spot(zone) | Mode::OnDemand(zone) => zone < zones,
    }
}

/// What is held instead of `wanted`, which may be `wanted` itself.
pub fn enforce(wanted: Mode, moment: &Moment<'_>, task: &Task, zones: &[Zone]) -> Mode {
    let ticks = (task.deadline / task.tick).floor();
    let left = (ticks - moment.tick as f64) * task.tick;
    let rest = task.work - moment.done;
    let on_spot = matches!(moment.mode, Mode::Spot(_));
    if needed(task, rest, 1.0) >= left {
        if on_spot && moment.changeover_left < NEGLIGIBLE {
            return moment.mode;
        }
        if task.changeover == 0.0
            && let Some(spot) = free_spot(wanted, moment)
        {
            return spot;
        }
        return on_demand(wanted, moment, task, zones);
    }
    if needed(task, rest, 2.0) >= left && !on_spot {
        return on_demand(wanted, moment, task, zones);
    }
    wanted
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
fn on_demand(wanted: Mode, moment: &Moment<'_>, task: &Task, zones: &[Zone]) -> Mode {
    match (moment.mode, wanted) {
        (Mode::OnDemand(_), _) => moment.mode,
        (_, Mode::OnDemand(_)) => wanted,
        _ => Places::new(task, zones).on_demand(moment),
    }
}
