//! Uniform Progress: keep the work done on the straight line from nothing at the start to all of it at the deadline.
//!
//! Z. Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines", NSDI 2024, with the hysteresis of two
//! changeovers before on-demand capacity is given back.

use super::{Memoryless, Mode, Moment, Places, Task};

/// `uniform-progress`.
#[derive(Clone, Copy, Debug)]
pub struct UniformProgress;

impl Memoryless for UniformProgress {
    fn name(&self) -> &str {
        "uniform-progress"
    }

    fn choose(&self, places: &Places, moment: &Moment<'_>) -> Mode {
        let Task { work, deadline, changeover, tick } = *places.task();
        let now = moment.tick as f64 * tick;
        let spot = places.spot(moment);
        let is_behind = moment.done < now * work / deadline;
        let leads_by_two_changeovers = (now + 2.0 * changeover) * work / deadline - moment.done < 0.0;
        match spot {
            // On demand, and not far enough ahead to pay for going back to spot.
            _ if matches!(moment.mode, Mode::OnDemand(_)) && (spot.is_none() || !leads_by_two_changeovers) => {
                places.on_demand(moment)
            }
            Some(spot) => spot,
            None if is_behind => places.on_demand(moment),
            None => Mode::Idle,
        }
    }
}
