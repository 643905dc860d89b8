//! Rules for one job with a deadline on machines that can be taken away: which zone and which kind of capacity to hold
//! from one instant to the next.
//!
//! A rule sees what a scheduler would see at that instant and no more. What must hold whatever a rule says (spot only
//! where there is some, on-demand in time for the deadline: [`safety`]) is enforced by who drives it. Floating point is
//! fine here: it ranks, and no figure of it enters a ledger.

use std::fmt::Debug;
use std::sync::Arc;

mod greedy_spot;
pub(crate) mod horizon;
mod memoryless;
mod on_demand;
mod places;
pub mod safety;
mod time_sliced;
mod uniform_progress;

pub use greedy_spot::GreedySpot;
pub use horizon::Horizon;
pub use memoryless::Memoryless;
pub use on_demand::OnDemand;
pub use places::Places;
pub use time_sliced::TimeSliced;
pub use uniform_progress::UniformProgress;

/// Less than this many seconds of work or changeover counts as none, so that sums of parts do not leave crumbs.
pub const NEGLIGIBLE: f64 = 1e-3;

/// Every rule. A new one is one more line here.
pub fn rules() -> Vec<Arc<dyn Rule>> {
    vec![
        Arc::new(OnDemand),
        Arc::new(GreedySpot),
        Arc::new(TimeSliced::new(4)),
        Arc::new(TimeSliced::new(12)),
        Arc::new(TimeSliced::new(24)),
        Arc::new(UniformProgress),
        Arc::new(Horizon::new()),
    ]
}

/// One job and its deadline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Useful work in all, in seconds of machine time.
    pub work: f64,
    /// Time from the start to the deadline, in seconds.
    pub deadline: f64,
    /// What each launch takes before work begins, in seconds; it is paid for like any other time.
    pub changeover: f64,
    /// Distance between two decisions, in seconds.
    pub tick: f64,
}

impl Task {
    /// Ticks that the job may use.
    pub fn ticks(&self) -> usize {
        (self.deadline / self.tick).floor() as usize
    }

    /// Seconds, in whole ticks, that `rest` seconds of work need after so many changeovers.
    pub fn time_for(&self, rest: f64, changeovers: f64) -> f64 {
        ((rest + changeovers * self.changeover) / self.tick - 1e-9).ceil() * self.tick
    }

    /// Whether on-demand capacity from the first tick on would be done by the deadline. Nothing can promise more.
    pub fn can_finish(&self) -> bool {
        self.time_for(self.work, 1.0) <= self.ticks() as f64 * self.tick
    }
}

/// What is known of a zone from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// Price of on-demand capacity for the whole job, in dollars an hour.
    pub on_demand: f64,
    /// Price of moving the checkpoint from this zone to each zone, in dollars, in the order of the zones.
    pub egress: Vec<f64>,
}

/// A zone at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneNow {
    /// Whether spot capacity can be had; `None` where nobody tried.
    pub spot: Option<bool>,
    /// Price of spot capacity for the whole job, in dollars an hour.
    pub spot_price: f64,
}

/// What the job holds; the number is the place of the zone in the list that `Rule::begin` was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Idle,
    Spot(usize),
    OnDemand(usize),
}

/// The job at the start of a tick.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Ticks since the start.
    pub tick: usize,
    /// Work done, in seconds.
    pub done: f64,
    /// What it holds; what was taken away just now is not held any more.
    pub mode: Mode,
    /// Changeover of the present launch that is still to come, in seconds.
    pub changeover_left: f64,
    /// Where the newest checkpoint lies: the zone of the last launch, `None` before the first.
    pub checkpoint: Option<usize>,
    pub zones: &'a [ZoneNow],
}

/// A rule.
pub trait Rule: Send + Sync + Debug {
    /// Lower case, as tables and scenarios spell it.
    fn name(&self) -> &str;

    /// Begins one job. What a rule learns on the way stays in the session.
    fn begin(&self, task: &Task, zones: &[Zone]) -> Box<dyn Session>;
}

/// One job under a rule.
pub trait Session {
    /// Zones to probe before the choice, where nothing is seen without trying: a probe asks for capacity and gives it
    /// back at once, and one that succeeds costs a started minute. It is not called where everything is seen.
    fn probe(&mut self, _moment: &Moment<'_>, _zones: &mut Vec<usize>) {}

    /// What to hold during the tick that begins now. Spot in a zone where nobody tried is a try: where there turns out
    /// to be none, the rule is asked again for the same tick, with that zone's `spot` at `Some(false)`.
    fn choose(&mut self, moment: &Moment<'_>) -> Mode;
}
