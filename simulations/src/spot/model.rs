//! One rule, one job, one stretch of recorded markets.
//!
//! Time is cut into ticks. At the start of each the rule chooses what to hold; the safety net may overrule it; what is
//! held is paid for the whole tick, also the last one. A launch works only after the changeover. A loss is seen at the
//! start of the tick in which the trace has no capacity any more, and costs no work beyond the next changeover.

use leeway_policies::deadline::safety;
use leeway_policies::deadline::{Mode, Moment, NEGLIGIBLE, Places, Rule, Task, Zone, ZoneNow};

/// A zone during the window, tick by tick. Both slices have one entry for each tick of the window, or more.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// Whether spot capacity for the whole job could be had.
    pub available: &'a [bool],
    /// Its price in dollars an hour.
    pub spot_price: &'a [f64],
}

/// What a rule may see of the zones in which it holds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    /// All availability, for nothing.
    #[default]
    Free,
    /// Nothing, unless it tries: a launch, or a probe that is paid for like the shortest launch.
    Tried,
}

/// The shortest time that a machine is billed for, in seconds: what a successful probe costs.
pub const PROBE_SECONDS: f64 = 60.0;

/// How one job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Dollars in all, moves and probes included.
    pub cost: f64,
    /// Dollars of `cost` for moving checkpoints.
    pub egress: f64,
    /// Dollars of `cost` for probes that found capacity.
    pub probes: f64,
    /// Ticks until it was done, or all of them.
    pub ticks: usize,
    /// Not done by the deadline.
    pub missed: bool,
    pub launches: u32,
    /// Launches in another zone than the checkpoint's.
    pub moves: u32,
    pub spot_ticks: u32,
    pub on_demand_ticks: u32,
}

/// Runs the job under a rule. The window must have at least `task.ticks()` ticks in every zone; what is missing counts as
/// not available.
pub fn run(rule: &dyn Rule, task: &Task, zones: &[Zone], paths: &[Path<'_>], sight: Sight) -> Outcome {
    let mut session = rule.begin(task, zones);
    let places = Places::new(task, zones);
    let mut job = Job { task, zones, mode: Mode::Idle, changeover_left: 0.0, done: 0.0, checkpoint: None };
    let mut outcome = Outcome::default();
    let mut now: Vec<ZoneNow> = Vec::with_capacity(zones.len());
    let mut probes = Vec::new();
    for tick in 0..task.ticks() {
        let has = |zone: usize| paths.get(zone).and_then(|path| path.available.get(tick)).is_some_and(|&up| up);
        let spot_price = |zone: usize| paths[zone].spot_price.get(tick).copied().unwrap_or(0.0);
        if let Mode::Spot(zone) = job.mode
            && !has(zone)
        {
            job.mode = Mode::Idle;
            job.changeover_left = 0.0;
        }
        now.clear();
        now.extend((0..zones.len()).map(|zone| {
            let seen = sight == Sight::Free || job.mode == Mode::Spot(zone);
            ZoneNow { spot: seen.then(|| has(zone)), spot_price: spot_price(zone) }
        }));
        if sight == Sight::Tried {
            probes.clear();
            session.probe(&job.moment(tick, &now), &mut probes);
            for &zone in &probes {
                let Some(unseen) = now.get_mut(zone).filter(|zone| zone.spot.is_none()) else { continue };
                unseen.spot = Some(has(zone));
                if has(zone) {
                    outcome.probes += unseen.spot_price * PROBE_SECONDS / 3600.0;
                }
            }
        }
        // Each refused try marks one zone, so this ends.
        let chosen = loop {
            let moment = job.moment(tick, &now);
            match safety::enforce(session.choose(&moment), &moment, &places) {
                Mode::Spot(zone) if !has(zone) => {
                    if now[zone].spot == Some(false) {
                        break Mode::Idle;
                    }
                    now[zone].spot = Some(false);
                }
                chosen => break chosen,
            }
        };
        job.hold(chosen, &mut outcome);
        match chosen {
            Mode::Idle => {}
            Mode::Spot(zone) => {
                outcome.cost += spot_price(zone) * task.tick / 3600.0;
                outcome.spot_ticks += 1;
            }
            Mode::OnDemand(zone) => {
                outcome.cost += zones[zone].on_demand * task.tick / 3600.0;
                outcome.on_demand_ticks += 1;
            }
        }
        outcome.ticks = tick + 1;
        if chosen != Mode::Idle && job.work() {
            outcome.cost += outcome.egress + outcome.probes;
            return outcome;
        }
    }
    outcome.missed = true;
    outcome.cost += outcome.egress + outcome.probes;
    outcome
}

/// The state of a job within a run.
struct Job<'a> {
    task: &'a Task,
    zones: &'a [Zone],
    mode: Mode,
    changeover_left: f64,
    done: f64,
    checkpoint: Option<usize>,
}

impl Job<'_> {
    fn moment<'z>(&self, tick: usize, zones: &'z [ZoneNow]) -> Moment<'z> {
        let Self { done, mode, changeover_left, checkpoint, .. } = *self;
        Moment { tick, done, mode, changeover_left, checkpoint, zones }
    }

    /// Launches what is not held yet.
    fn hold(&mut self, mode: Mode, outcome: &mut Outcome) {
        if let (Mode::Spot(zone) | Mode::OnDemand(zone), true) = (mode, mode != self.mode) {
            self.changeover_left = self.task.changeover;
            outcome.launches += 1;
            if let Some(from) = self.checkpoint.filter(|&from| from != zone) {
                outcome.egress += self.zones[from].egress.get(zone).copied().unwrap_or(0.0);
                outcome.moves += 1;
            }
            self.checkpoint = Some(zone);
        }
        if mode == Mode::Idle {
            self.changeover_left = 0.0;
        }
        self.mode = mode;
    }

    /// One tick of a machine; whether the job is done.
    fn work(&mut self) -> bool {
        let Task { work, tick, .. } = *self.task;
        let useful = (tick - self.changeover_left).max(0.0);
        self.changeover_left -= tick - useful;
        if self.changeover_left < NEGLIGIBLE {
            self.changeover_left = 0.0;
        }
        self.done += useful.min(work - self.done);
        work - self.done <= NEGLIGIBLE
    }
}
