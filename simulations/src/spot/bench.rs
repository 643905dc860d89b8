//! Many windows, every rule, and the optimum beside them, on all cores. The result does not depend on how many there are.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leeway_model::Bytes;
use leeway_model::egress::EgressTable;
use leeway_policies::deadline::{Horizon, OnDemand, Rule, Task, Zone};

use super::model::{self, Outcome, Path, Sight};
use super::optimum;
use super::set::{self, Market};
use super::windows::{overlap, starts};
use crate::parallel;

/// A folder of the set, and how many nodes the job needs at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub name: String,
    pub gang: u32,
}

/// How many windows, and of which tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    Full,
    /// A first look: a few windows, two deadlines, two changeovers.
    Small,
}

/// Which ticks of each trace windows are cut from. What was learnt or chosen on one half is judged on the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    #[default]
    Whole,
    FirstHalf,
    SecondHalf,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    pub set: PathBuf,
    pub families: Vec<Family>,
    /// Whether the zones of a family are one market; otherwise each is one of its own.
    pub multi_region: bool,
    pub work_hours: f64,
    pub deadline_hours: Vec<f64>,
    pub changeover_hours: Vec<f64>,
    /// Most windows of one market for each deadline.
    pub windows: usize,
    pub part: Part,
    pub sight: Sight,
    /// What a move takes to the other region.
    pub checkpoint: Bytes,
    pub egress: EgressTable,
    /// Also measure [`Horizon::told`] the laws of the very markets, each by itself and all as one, as the last rule.
    pub told: bool,
    /// Threads; as many as there are cores when `None`.
    pub threads: Option<usize>,
}

/// Why nothing is measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Set(#[from] set::Error),
    #[error("{market}: {error}")]
    Optimum { market: String, error: optimum::Error },
    #[error(
        "{market}: {work_hours} h of work and {changeover_hours} h of changeover do not fit in {deadline_hours} h, even \
         on demand; choose a later deadline"
    )]
    Hopeless { market: String, work_hours: f64, deadline_hours: f64, changeover_hours: f64 },
    #[error("no trace is as long as the shortest deadline, {0} h")]
    NoWindow(f64),
}

/// One window with one task.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// `one-zone`, `multi-region-3-zones` or `multi-region-all-zones`.
    pub setting: &'static str,
    /// As it was asked for.
    pub family: String,
    /// The trace, or the zones together.
    pub market: String,
    /// Number of the window within its market; windows of one number begin near each other whatever the deadline.
    pub window: usize,
    /// First tick of the window.
    pub start: usize,
    pub deadline_hours: f64,
    pub changeover_hours: f64,
    /// Share of the window in which spot could be had in at least one zone.
    pub availability: f64,
    /// Dollars of the best schedule.
    pub optimum: f64,
    /// Dollars on demand in the cheapest zone.
    pub on_demand: f64,
    /// In the order of the rules.
    pub outcomes: Vec<Outcome>,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub rules: Vec<String>,
    pub cases: Vec<Case>,
    /// What a reader should know of the windows.
    pub warnings: Vec<String>,
}

impl Family {
    /// The families of the single-zone setting.
    pub fn of_one_zone() -> Vec<Self> {
        ["aws-2022-1node:1", "aws-2023-v100:1", "gcp-2025-h100:1", "gcp-2025-h100:16", "aws-2023-v100-16node:16"]
            .into_iter()
            .filter_map(|text| text.parse().ok())
            .collect()
    }

    /// The families whose zones are aligned in time.
    pub fn of_multi_region() -> Vec<Self> {
        ["gcp-2025-h100:1", "gcp-2025-h100:16", "aws-2023-v100:1"]
            .into_iter()
            .filter_map(|text| text.parse().ok())
            .collect()
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.gang)
    }
}

impl FromStr for Family {
    type Err = String;

    /// `NAME:GANG`, or `NAME` for a gang of one.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, gang) = text.rsplit_once(':').unwrap_or((text, "1"));
        match gang.parse() {
            Ok(gang) if gang > 0 && !name.is_empty() => Ok(Self { name: name.to_owned(), gang }),
            _ => Err(format!("'{}' is not FAMILY:GANG; write for example gcp-2025-h100:16", text.escape_debug())),
        }
    }
}

impl Part {
    /// The ticks of a trace that belong to it.
    pub const fn of(self, ticks: usize) -> std::ops::Range<usize> {
        match self {
            Self::Whole => 0..ticks,
            Self::FirstHalf => 0..ticks / 2,
            Self::SecondHalf => ticks / 2..ticks,
        }
    }
}

impl Plan {
    /// The usual measurement of a set.
    pub fn new(set: PathBuf, grid: Grid, multi_region: bool, egress: EgressTable) -> Self {
        let (deadline_hours, changeover_hours, windows) = match (grid, multi_region) {
            (Grid::Full, false) => (vec![52.0, 60.0, 70.0, 92.0], vec![0.05, 0.1, 0.2, 0.4], 8),
            (Grid::Small, false) => (vec![52.0, 70.0], vec![0.1, 0.4], 4),
            (Grid::Full, true) => (vec![44.0, 50.0, 60.0, 80.0], vec![0.2], 40),
            (Grid::Small, true) => (vec![50.0, 80.0], vec![0.2], 6),
        };
        Self {
            set,
            families: if multi_region { Family::of_multi_region() } else { Family::of_one_zone() },
            multi_region,
            work_hours: if multi_region { 40.0 } else { 48.0 },
            deadline_hours,
            changeover_hours,
            windows,
            part: Part::Whole,
            sight: Sight::Free,
            checkpoint: Bytes::from_gb(50),
            egress,
            told: false,
            threads: None,
        }
    }

    fn task(&self, tick: f64, deadline_hours: f64, changeover_hours: f64) -> Task {
        Task {
            work: self.work_hours * 3600.0,
            deadline: deadline_hours * 3600.0,
            changeover: changeover_hours * 3600.0,
            tick,
        }
    }
}

/// Zones that one job may use, with what does not change between windows.
struct Group {
    setting: &'static str,
    family: String,
    name: String,
    markets: Vec<Market>,
    zones: Vec<Zone>,
    told: Option<Horizon>,
}

impl Group {
    fn new(setting: &'static str, family: &Family, markets: Vec<Market>, plan: &Plan) -> Result<Self, Error> {
        set::agree(&markets)?;
        Ok(Self {
            setting,
            family: family.to_string(),
            name: markets.iter().map(|market| market.name.as_str()).collect::<Vec<_>>().join("+"),
            zones: set::zones(&markets, &plan.egress, plan.checkpoint),
            told: plan.told.then(|| told(&markets)),
            markets,
        })
    }

    fn ticks(&self) -> usize {
        self.markets.iter().map(Market::ticks).min().unwrap_or(0)
    }
}

/// The rule that was told the laws of these markets; of several also that of having capacity anywhere, as it is what the
/// rule plans with.
fn told(markets: &[Market]) -> Horizon {
    let ticks = markets.iter().map(Market::ticks).min().unwrap_or(0);
    let anywhere: Vec<bool> = (0..ticks).map(|tick| markets.iter().any(|market| market.available[tick])).collect();
    let each = markets.iter().map(|market| (&market.available[..], market.tick / 3600.0));
    let all = markets.iter().take(usize::from(markets.len() > 1)).map(|first| (&anywhere[..], first.tick / 3600.0));
    Horizon::told(each.chain(all))
}

/// One window of a group.
struct Piece {
    group: usize,
    window: usize,
    start: usize,
    deadline_hours: f64,
    changeover_hours: f64,
}

/// Runs every rule over every window. `progress` is told how many of all windows are done, from any thread.
///
/// # Errors
/// Traces that cannot be read, tasks that cannot be done even on demand, or nothing to measure.
pub fn run(plan: &Plan, rules: &[Arc<dyn Rule>], progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Measured, Error> {
    let groups = groups(plan)?;
    let (pieces, warnings) = pieces(plan, &groups)?;
    let done = AtomicUsize::new(0);
    let work = |index: usize| {
        let piece: &Piece = &pieces[index];
        let case = measure(plan, &groups[piece.group], piece, rules);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, pieces.len());
        case
    };
    let threads = plan.threads.unwrap_or_else(parallel::cores);
    let cases = parallel::map(pieces.len(), threads, &work).into_iter().collect::<Result<_, _>>()?;
    let names = rules.iter().map(|rule| rule.name().to_owned());
    let rules = names.chain(plan.told.then(|| Horizon::TOLD.to_owned())).collect();
    Ok(Measured { rules, cases, warnings })
}

fn groups(plan: &Plan) -> Result<Vec<Group>, Error> {
    let mut groups = Vec::new();
    for family in &plan.families {
        let markets = set::read_family(&plan.set, &family.name, family.gang)?;
        if !plan.multi_region {
            for market in markets {
                groups.push(Group::new("one-zone", family, vec![market], plan)?);
            }
            continue;
        }
        let three = of_three_regions(&markets);
        if three.len() == 3 && markets.len() > 3 {
            groups.push(Group::new("multi-region-3-zones", family, three, plan)?);
        }
        groups.push(Group::new("multi-region-all-zones", family, markets, plan)?);
    }
    Ok(groups)
}

/// The first zone of each of the first three regions.
fn of_three_regions(markets: &[Market]) -> Vec<Market> {
    let mut chosen: Vec<Market> = Vec::new();
    for market in markets {
        if chosen.len() < 3 && chosen.iter().all(|one| one.region != market.region) {
            chosen.push(market.clone());
        }
    }
    chosen
}

fn pieces(plan: &Plan, groups: &[Group]) -> Result<(Vec<Piece>, Vec<String>), Error> {
    let (mut pieces, mut overlapping, mut short) = (Vec::new(), 0, Vec::new());
    for (index, group) in groups.iter().enumerate() {
        let before = pieces.len();
        for &deadline_hours in &plan.deadline_hours {
            let length = plan.task(group.markets[0].tick, deadline_hours, 0.0).ticks();
            let part = plan.part.of(group.ticks());
            let starts: Vec<usize> =
                starts(part.len(), length, plan.windows).iter().map(|start| part.start + start).collect();
            overlapping += usize::from(overlap(&starts, length));
            for &changeover_hours in &plan.changeover_hours {
                if !plan.task(group.markets[0].tick, deadline_hours, changeover_hours).can_finish() {
                    let (market, work_hours) = (group.name.clone(), plan.work_hours);
                    return Err(Error::Hopeless { market, work_hours, deadline_hours, changeover_hours });
                }
                let piece = |(window, &start)| Piece { group: index, window, start, deadline_hours, changeover_hours };
                pieces.extend(starts.iter().enumerate().map(piece));
            }
        }
        if pieces.len() == before {
            short.push(format!("{} {}", group.family, group.name));
        }
    }
    if pieces.is_empty() {
        return Err(Error::NoWindow(plan.deadline_hours.iter().copied().fold(f64::INFINITY, f64::min)));
    }
    let mut warnings = Vec::new();
    if overlapping > 0 {
        warnings.push(format!(
            "windows overlap in {overlapping} of {} pairs of market and deadline, so the intervals are too narrow there",
            groups.len() * plan.deadline_hours.len()
        ));
    }
    if !short.is_empty() {
        warnings.push(format!("too short for any window: {}", short.join(", ")));
    }
    Ok((pieces, warnings))
}

fn measure(plan: &Plan, group: &Group, piece: &Piece, rules: &[Arc<dyn Rule>]) -> Result<Case, Error> {
    let task = plan.task(group.markets[0].tick, piece.deadline_hours, piece.changeover_hours);
    let window = piece.start..piece.start + task.ticks();
    let paths: Vec<Path<'_>> = group.markets.iter().map(|market| market.window(window.clone())).collect();
    let ticks = window.len();
    let any = (0..ticks).filter(|&tick| paths.iter().any(|path| path.available[tick])).count();
    let optimum = optimum::optimum(&task, &group.zones, &paths)
        .map_err(|error| Error::Optimum { market: group.name.clone(), error })?;
    let outcome = |rule: &dyn Rule| model::run(rule, &task, &group.zones, &paths, plan.sight);
    let told = group.told.iter().map(|told| told as &dyn Rule);
    Ok(Case {
        setting: group.setting,
        family: group.family.clone(),
        market: group.name.clone(),
        window: piece.window,
        start: piece.start,
        deadline_hours: piece.deadline_hours,
        changeover_hours: piece.changeover_hours,
        availability: any as f64 / ticks.max(1) as f64,
        optimum,
        on_demand: outcome(&OnDemand).cost,
        outcomes: rules.iter().map(|rule| &**rule).chain(told).map(outcome).collect(),
    })
}
