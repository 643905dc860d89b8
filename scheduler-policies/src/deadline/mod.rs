//! Rules for one job with a deadline on machines that can be taken away: which zone and which kind of capacity to hold
//! from one instant to the next.
//!
//! A rule sees what a scheduler would see at that instant and no more. What must hold whatever a rule says (spot only
//! where there is some, on-demand in time for the deadline) is enforced by who drives it. Floating point is fine here:
//! it ranks, and no figure of it enters a ledger.

use std::fmt::Debug;

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
    /// Where the newest checkpoint lies; `None` before the first work.
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
    /// What to hold during the tick that begins now.
    fn choose(&mut self, moment: &Moment<'_>) -> Mode;
}
