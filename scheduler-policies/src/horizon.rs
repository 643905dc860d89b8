//! `horizon`: for jobs with a deadline, a plan to the end under uncertainty about how long spot lives and stays away.
//!
//! It is the rule of `deadline::horizon` on what a scheduler knows. The core remembers when each spot place was seen to have
//! capacity and to have none (`leeway_core::spells`); [`memory`] makes a belief of it over generic markets, and
//! [`situation`] asks the tables of expected cost, which are computed by backward induction over time left, work left, what
//! is held and the market, what waiting, spot and on-demand capacity would come to. The least is chosen, and of several
//! places the one whose hours are worth most over the life that is expected of it, the move counted. Nothing is kept from
//! one decision to the next but what could be computed again: tables and beliefs.

mod memory;
mod situation;

use std::num::NonZeroUsize;

use leeway_core::policy::{JobView, Outlook, Policy, Ranked, Scored, Verdict};
use leeway_model::resources::CapacityType;
use leeway_model::{Micros, Millis, Timestamp};

use self::memory::Memory;
use self::situation::{Situation, Valued, calm};
use crate::deadline::horizon::market::{Market, library};
use crate::deadline::horizon::plan::Plans;
use crate::deadline::horizon::zones::Terms;

/// How long it waits at most before it looks again: every tick of what is learnt has a few looks, and a spell of spot that
/// begins is not missed for long.
const LOOK_AGAIN: Millis = Millis::from_mins(2);

/// Tables that are kept, of about two megabytes each.
const TABLES: NonZeroUsize = NonZeroUsize::new(32).expect("32 is not 0");

#[derive(Debug)]
pub struct Horizon {
    library: Vec<Market>,
    plans: Plans,
    memory: Memory,
}

impl Horizon {
    /// Without anything computed yet.
    pub fn new() -> Self {
        let library = library();
        Self { plans: Plans::at_most(TABLES), memory: Memory::new(&library), library }
    }
}

impl Default for Horizon {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for Horizon {
    fn name(&self) -> &'static str {
        "horizon"
    }

    fn about(&self) -> &'static str {
        "for deadlines: the least expected cost to the end, by a plan that learns how long spot lives and stays away"
    }

    fn rank(&self, _job: &JobView<'_>, place: &Scored) -> Micros {
        place.bill.total()
    }

    fn plans(&self) -> bool {
        true
    }

    fn decide(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Verdict {
        let first = |why: &str| Verdict::Place { position: 0, why: why.into() };
        let Some(outlook) = job.outlook else {
            return first(if job.job.spec.time.deadline.is_none() {
                "lowest expected bill; there is no deadline to plan for"
            } else {
                "lowest expected bill; nothing that the market cannot take back can be had, so nothing guards the deadline"
            });
        };
        if job.job.spec.checkpoint.is_none() {
            return first(
                "lowest expected bill; it keeps no checkpoints, so that there is no plan that a loss would leave",
            );
        }
        if outlook.slack.is_zero() {
            return first("there is no time to wait");
        }
        let situation = Situation::new(self, job, outlook, ranked);
        if situation.spot.iter().all(|spot| spot.price >= situation.on_demand) {
            return first("no spot is cheaper than capacity that nobody takes back");
        }
        let (valued, spot) = situation.weighed();
        let costs = Costs::of(&valued, spot.is_some());
        let least = costs.wait.min(costs.on_demand);
        match spot.map(|number| &situation.spot[number]) {
            Some(place) if costs.spot <= least => Verdict::Place {
                position: place.position.unwrap_or(0),
                why: format!("spot there is expected to last {}; {costs}", hours(place.life)).into(),
            },
            _ if costs.wait <= costs.on_demand => Verdict::WaitUntil {
                at: again(job.now, outlook),
                why: format!("{costs}; {} may still pass", outlook.slack).into(),
            },
            _ => substitute(&situation, &valued.terms, ranked, &costs),
        }
    }

    fn review(&self, job: &JobView<'_>, ranked: &[Ranked]) -> Option<Box<str>> {
        let outlook = job.outlook.filter(|outlook| !outlook.slack.is_zero())?;
        let held = outlook.held?;
        job.job.spec.checkpoint.as_ref()?;
        let situation = Situation::new(self, job, outlook, ranked);
        if held.offer.capacity == CapacityType::Spot {
            return leave_spot(&situation, outlook);
        }
        leave_on_demand(&situation)
    }
}

/// When to look again: when a place has cooled down, and now and then, for what else may have come.
fn again(now: Timestamp, outlook: &Outlook<'_>) -> Timestamp {
    let opens = outlook.spot.iter().filter_map(|place| place.opens).min();
    let latest = now.after(LOOK_AGAIN.min(outlook.slack).max(Millis::from_secs(1)));
    opens.map_or(latest, |opens| opens.min(latest))
}

/// What each choice is expected to cost from here to the end, moves included; spot is infinite where there is none.
#[derive(Clone, Copy, Debug)]
struct Costs {
    wait: f64,
    spot: f64,
    on_demand: f64,
}

impl Costs {
    fn of(valued: &Valued, is_up: bool) -> Self {
        let costs = valued.costs;
        Self {
            wait: costs.wait.into(),
            spot: if is_up { costs.spot[1].into() } else { f64::INFINITY },
            on_demand: costs.on_demand[1].into(),
        }
    }
}

impl std::fmt::Display for Costs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("expected cost to the end: ")?;
        if self.spot.is_finite() {
            write!(f, "{} with it, ", money(self.spot))?;
        }
        write!(f, "{} waiting for spot, {} on demand", money(self.wait), money(self.on_demand))
    }
}

/// On-demand capacity, or spot that is dear but cheaper than that.
fn substitute(situation: &Situation<'_>, terms: &Terms, ranked: &[Ranked], costs: &Costs) -> Verdict {
    let terms = Terms { rate: situation.on_demand, ..*terms };
    let calm = calm(ranked).unwrap_or(0);
    // Against itself, on demand is worth no more than the move to it.
    let mut best = (-situation.calm_moved - situation.launch(&terms), calm);
    for (number, spot) in situation.spot.iter().enumerate() {
        let Some(position) = spot.position.filter(|_| spot.price < situation.on_demand) else { continue };
        let worth = situation.worth(number, false, &terms);
        if spot.price > situation.limit && worth > best.0 {
            best = (worth, position);
        }
    }
    let what = if best.1 == calm { "" } else { "dear spot instead of on demand; " };
    Verdict::Place { position: best.1, why: format!("{what}{costs}").into() }
}

/// Whether a run on spot should go to another place: where what is expected to be saved there, as likely as it is to be had,
/// is more than the move.
fn leave_spot(situation: &Situation<'_>, outlook: &Outlook<'_>) -> Option<Box<str>> {
    let held = outlook.held?;
    let here = situation.spot.iter().position(|spot| spot.offer == held.offer)?;
    let terms = situation.valued(true).terms;
    let keep = situation.worth(here, true, &terms);
    let back = keep - situation.launch(&terms);
    let gain = |number: usize| {
        let chance = situation.spot[number].chance;
        chance * situation.worth(number, false, &terms) + (1.0 - chance) * back - keep
    };
    let open: Vec<usize> = situation.open().filter(|&number| number != here).collect();
    let best = open.into_iter().rev().max_by(|&one, &other| gain(one).total_cmp(&gain(other)))?;
    let place = &situation.spot[best];
    (gain(best) > 0.0).then(|| {
        let (gain, offer) = (money(gain(best)), place.offer);
        format!("{offer} is expected to save {gain} more than the move over the {} it may last", hours(place.life))
            .into()
    })
}

/// Whether a run on demand should be given up for spot, or to wait for it.
fn leave_on_demand(situation: &Situation<'_>) -> Option<Box<str>> {
    let (valued, spot) = situation.weighed();
    let costs = Costs::of(&valued, spot.is_some());
    let keep = f64::from(valued.costs.on_demand[0]);
    let Some(place) = spot.map(|number| &situation.spot[number]) else {
        return (costs.wait < keep).then(|| Costs { on_demand: keep, ..costs }.to_string().into());
    };
    // Where nobody tells, it may find nothing once it has let go.
    let spot = place.chance * costs.spot + (1.0 - place.chance) * costs.wait.min(costs.on_demand);
    let why = || format!("spot is back; expected cost to the end: {} with it, {} on demand", money(spot), money(keep));
    (spot < keep).then(|| why().into())
}

fn money(units: f64) -> Micros {
    let cents = (units * 100.0).round().clamp(-1e15, 1e15);
    Micros::new(cents as i64 * 10_000)
}

fn hours(hours: f64) -> Millis {
    Millis::from_secs_f64((hours * 60.0).round() * 60.0)
}
