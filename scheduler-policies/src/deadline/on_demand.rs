//! On demand from the first tick to the last: what the deadline costs without spot.

use super::{Memoryless, Mode, Moment, Places};

/// `on-demand`: the cheapest on-demand capacity, held until the job is done.
#[derive(Clone, Copy, Debug)]
pub struct OnDemand;

impl Memoryless for OnDemand {
    fn name(&self) -> &str {
        "on-demand"
    }

    fn choose(&self, places: &Places, moment: &Moment<'_>) -> Mode {
        places.on_demand(moment)
    }
}
