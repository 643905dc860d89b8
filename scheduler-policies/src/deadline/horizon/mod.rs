//! Horizon: a plan to the deadline under uncertainty about how long spot capacity lives.
//!
//! * [`market`]: a small library of generic market models with heavy-tailed spells, from no recorded market;
//! * [`belief`]: which of them a zone follows and how old its present spell is, learnt while the job runs;
//! * [`plan`]: what waiting, spot and on-demand capacity cost from here to the end under each model;
//! * [`rollout`]: in which zone, or whether to wait for another, while an hour of slack costs less than an hour of spot;
//! * [`zones`]: in which zone where slack is dear, and several zones as one market.
//!
//! The choice is the one with the least expected cost, averaged over models and ages by belief (the QMDP rule of
//! M. L. Littman, A. R. Cassandra and L. P. Kaelbling, "Learning Policies for Partially Observable Environments", ICML
//! 1995; what the belief tracks is seen whatever is held, so nothing is lost by not paying to learn). Several zones are
//! first one market that has capacity when any of them has some, at the price of an hour of work with the moves it takes;
//! once spot is chosen, the zone is.
//!
//! Zones that nobody tried are tried where the plan would launch if there were capacity: a refused try costs nothing, so
//! there is no need for probes that are paid for.

pub(crate) mod belief;
mod induction;
pub(crate) mod market;
pub(crate) mod plan;
mod rollout;
mod told;
pub(crate) mod zones;

use std::sync::{Arc, OnceLock};

use self::belief::{Belief, Rhythm};
use self::market::Market;
use self::plan::{Costs, Key, Plan, Plans};
use self::rollout::{First, Offer, Scene, Spells};
use self::zones::{Lives, Terms, Together};
use super::{Mode, Moment, Places, Rule, Session, Task, Zone, ZoneNow, safety};

/// How far the price of slack that orders the zones follows the plan in a tick. The plan in turn depends on that order, and
/// without damping the two could chase each other.
const SMOOTHING: f64 = 0.1;

/// Zones that are looked at closely for a launch, the best first.
const FIRSTS: usize = 4;

/// `horizon`.
#[derive(Clone, Debug)]
pub struct Horizon(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: &'static str,
    library: Vec<Market>,
    plans: Plans,
    /// Made when the first job with several zones begins.
    spells: OnceLock<Spells>,
}

impl Horizon {
    /// The rule without any plan computed yet. Clones share their plans.
    pub fn new() -> Self {
        Self::with("horizon", market::library())
    }

    /// The rule as it would be with the laws of recorded markets in place of its generic ones: for each market, whether there
    /// was capacity in each tick, and the hours of a tick. A yardstick of what knowing them is worth, and no rule that
    /// anybody could follow, where the recordings are those that it is then judged on.
    pub fn told<'a>(recordings: impl IntoIterator<Item = (&'a [bool], f64)>) -> Self {
        let laws = recordings.into_iter().map(|(is_up, tick_hours)| told::law(is_up, tick_hours));
        Self::with(Self::TOLD, laws.collect())
    }

    /// Name of [`told`](Self::told).
    pub const TOLD: &'static str = "horizon-told";

    fn with(name: &'static str, library: Vec<Market>) -> Self {
        Self(Arc::new(Shared { name, library, plans: Plans::default(), spells: OnceLock::new() }))
    }
}

impl Default for Horizon {
    fn default() -> Self {
        Self::new()
    }
}

impl Rule for Horizon {
    fn name(&self) -> &str {
        self.0.name
    }

    fn begin(&self, task: &Task, zones: &[Zone]) -> Box<dyn Session> {
        let rhythm = Rhythm::new(&self.0.library, task.tick / 3600.0);
        let fresh = Belief::new(&rhythm);
        Box::new(Running {
            shared: self.0.clone(),
            on_demand: zones.iter().map(|zone| zone.on_demand).fold(f64::INFINITY, f64::min),
            places: Places::new(task, zones),
            each: vec![fresh.clone(); if zones.len() > 1 { zones.len() } else { 0 }],
            any: fresh,
            rhythm,
            tick: None,
            seen: vec![None; zones.len()],
            any_seen: None,
            plan: None,
            slack_price: 0.0,
        })
    }
}

struct Running {
    shared: Arc<Shared>,
    places: Places,
    /// The lowest on-demand price, in dollars an hour.
    on_demand: f64,
    rhythm: Rhythm,
    /// Of each zone, where there are several.
    each: Vec<Belief>,
    /// Of the market as a whole: whether any zone has capacity that is worth its price.
    any: Belief,
    tick: Option<usize>,
    /// What was taken in of the present tick.
    seen: Vec<Option<bool>>,
    any_seen: Option<bool>,
    plan: Option<(Key, Arc<OnceLock<Plan>>)>,
    /// What an hour less until the deadline cost when last looked at, in dollars.
    slack_price: f64,
}

/// What the plan says to hold, whichever the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Wait,
    Spot,
    OnDemand,
}

impl Session for Running {
    fn choose(&mut self, moment: &Moment<'_>) -> Mode {
        if self.places.zones().is_empty() {
            return Mode::Idle;
        }
        // The dearest spot price that is still taken for spot: half-way from the cheapest to on demand. What costs more is
        // a kind of on-demand capacity.
        let cheapest = moment.zones.iter().map(|zone| zone.spot_price).fold(f64::INFINITY, f64::min);
        let limit = 0.5 * (cheapest + self.on_demand);
        let any = any_up(moment.zones, limit);
        self.learn(moment, any);
        if safety::is_near(moment, self.places.task()) {
            // There is no time for anything that would need a plan.
            return safety::enforce(moment.mode, moment, &self.places);
        }
        let hours = self.hours_left(moment);
        let work = (self.places.task().work - moment.done) / 3600.0;
        let lives = (self.places.zones().len() > 1).then(|| Lives::new(&self.shared.library, work.max(1e-3)));
        let market = lives.as_ref().and_then(|lives| self.together(lives, moment, limit));
        let market = market.unwrap_or(Together { price: cheapest, losses: 0.0 });
        let is_up = any != Some(false) && limit < self.on_demand;
        let costs = self.costs(&market, hours, work, is_up);
        let choice = self.best(&costs, moment, limit, is_up);
        let Some(lives) = lives else {
            return match choice {
                Choice::Wait => Mode::Idle,
                Choice::Spot => Mode::Spot(0),
                Choice::OnDemand => Mode::OnDemand(0),
            };
        };
        let terms = self.terms(&costs, &market, hours, work, is_up);
        self.slack_price += SMOOTHING * (terms.slack - self.slack_price);
        match choice {
            // The ways of a rollout do not know how to live with little slack, but the plan does.
            Choice::Wait | Choice::Spot if terms.slack < cheapest => self.roll_out(&lives, moment, limit, hours, work),
            Choice::Wait => Mode::Idle,
            Choice::Spot => self.best_zone(&lives, moment, limit, &terms),
            Choice::OnDemand => self.best_substitute(&lives, moment, limit),
        }
    }
}

/// Whether a zone with capacity at no more than `limit` is seen; `None` while some were not looked at and the others have
/// none.
fn any_up(zones: &[ZoneNow], limit: f64) -> Option<bool> {
    let mut cheap = zones.iter().filter(|zone| zone.spot_price <= limit);
    if cheap.clone().any(|zone| zone.spot == Some(true)) {
        return Some(true);
    }
    cheap.all(|zone| zone.spot == Some(false)).then_some(false)
}

impl Running {
    /// Takes in what is new since the last call.
    fn learn(&mut self, moment: &Moment<'_>, any: Option<bool>) {
        let first = self.tick.is_none();
        while self.tick.is_none_or(|tick| tick < moment.tick) {
            if !first {
                self.any.advance(&self.rhythm);
                self.each.iter_mut().for_each(|belief| belief.advance(&self.rhythm));
            }
            self.seen.fill(None);
            self.any_seen = None;
            self.tick = Some(if first { moment.tick } else { self.tick.map_or(0, |tick| tick + 1) });
        }
        if let (Some(any), None) = (any, self.any_seen) {
            self.any.observe(any);
            self.any_seen = Some(any);
        }
        for ((belief, seen), zone) in self.each.iter_mut().zip(&mut self.seen).zip(moment.zones) {
            if let (Some(is_up), None) = (zone.spot, *seen) {
                belief.observe(is_up);
                *seen = Some(is_up);
            }
        }
    }

    fn hours_left(&self, moment: &Moment<'_>) -> f64 {
        let task = self.places.task();
        (task.ticks() as f64 - moment.tick as f64) * task.tick / 3600.0
    }

    /// Several zones as one market.
    fn together(&self, lives: &Lives, moment: &Moment<'_>, limit: f64) -> Option<Together> {
        let cheap = self.each.iter().zip(moment.zones).filter(|(_, zone)| zone.spot_price <= limit);
        let priced = cheap.map(|(belief, zone)| (belief, zone.spot_price));
        let moves = (0..self.places.zones().len()).map(|zone| self.places.egress(moment, zone)).sum::<f64>();
        let egress = moves / (self.places.zones().len() - 1).max(1) as f64;
        zones::together(
            lives,
            priced,
            egress,
            self.slack_price,
            self.places.task().changeover / 3600.0,
            ((self.places.task().work - moment.done) / 3600.0).max(1e-3),
        )
    }

    /// Expected costs of the choices, in dollars.
    fn costs(&mut self, market: &Together, hours: f64, work: f64, is_up: bool) -> Costs {
        let key = Key::new(self.places.task(), market.price / self.on_demand, market.losses);
        if self.plan.as_ref().is_none_or(|(of, _)| *of != key) {
            self.plan = Some((key, self.shared.plans.get(key, &self.shared.library)));
        }
        let Some(plan) = self.plan.as_ref().and_then(|(_, plan)| plan.get()) else { return Costs::default() };
        plan.costs(&self.any, hours, work, is_up, self.on_demand)
    }

    /// What an hour of work and an hour of slack are worth.
    fn terms(&mut self, costs: &Costs, market: &Together, hours: f64, work: f64, is_up: bool) -> Terms {
        let changeover = self.places.task().changeover / 3600.0;
        let (now, on_demand) = (costs.least(is_up), self.on_demand);
        let least = |hours: f64, work: f64| self.costs(market, hours, work, is_up).least(is_up);
        zones::terms(now, least, (hours, work), changeover, on_demand)
    }

    /// The choice that costs least. What is held stays on a draw, then spot, then waiting.
    fn best(&self, costs: &Costs, moment: &Moment<'_>, limit: f64, is_up: bool) -> Choice {
        let to_come = (moment.changeover_left / self.places.task().changeover.max(1e-9)).clamp(0.0, 1.0) as f32;
        let held = |[working, launched]: [f32; 2]| working + (launched - working) * to_come;
        let mode = match moment.mode {
            Mode::Idle => Choice::Wait,
            Mode::Spot(zone) if moment.zones[zone].spot_price <= limit => Choice::Spot,
            Mode::Spot(_) | Mode::OnDemand(_) => Choice::OnDemand,
        };
        let cost = |choice: Choice| match choice {
            Choice::Wait => costs.wait,
            Choice::Spot if !is_up => f32::INFINITY,
            Choice::Spot if mode == Choice::Spot => held(costs.spot),
            Choice::Spot => costs.spot[1],
            Choice::OnDemand if mode == Choice::OnDemand => held(costs.on_demand),
            Choice::OnDemand => costs.on_demand[1],
        };
        let order =
            [if mode == Choice::Wait { Choice::Spot } else { mode }, Choice::Spot, Choice::Wait, Choice::OnDemand];
        // The first of equals.
        order.into_iter().min_by(|&one, &other| cost(one).total_cmp(&cost(other))).unwrap_or(Choice::OnDemand)
    }

    /// The zone, or none, by what comes of it in many drawn futures.
    fn roll_out(&self, lives: &Lives, moment: &Moment<'_>, limit: f64, hours: f64, work: f64) -> Mode {
        let task = self.places.task();
        let egress = |from: usize, to: usize| self.places.zones()[from].egress.get(to).copied().unwrap_or(0.0);
        let offer = |(belief, now): (&Belief, &ZoneNow)| {
            (now.spot_price <= limit).then(|| Offer { price: now.spot_price, life: lives.fresh(belief) })
        };
        let scene = Scene {
            hours,
            work,
            changeover: task.changeover / 3600.0,
            tick: task.tick / 3600.0,
            on_demand: self.on_demand,
            checkpoint: moment.checkpoint,
            egress: &egress,
            offers: self.each.iter().zip(moment.zones).map(offer).collect(),
            beliefs: &self.each,
        };
        let price = match moment.mode {
            Mode::Idle => None,
            Mode::Spot(zone) => Some(moment.zones[zone].spot_price),
            Mode::OnDemand(zone) => Some(self.places.zones()[zone].on_demand),
        };
        let life = |zone: usize| lives.now(&self.each[zone]).min(work);
        let mut open: Vec<usize> = (0..moment.zones.len())
            .filter(|&zone| moment.zones[zone].spot != Some(false) && scene.offers[zone].is_some())
            .filter(|&zone| moment.mode != Mode::Spot(zone))
            .filter(|&zone| price.is_none_or(|price| scene.repays(moment.checkpoint, price, zone, life(zone))))
            .collect();
        open.sort_by(|&one, &other| scene.rate(one, life(one)).total_cmp(&scene.rate(other, life(other))));
        open.truncate(FIRSTS);
        let mut firsts = vec![match moment.mode {
            Mode::Spot(zone) if open.is_empty() => return Mode::Spot(zone),
            Mode::Spot(zone) => First::Keep(zone, moment.changeover_left / 3600.0),
            _ if open.is_empty() => return Mode::Idle,
            _ => First::Wait,
        }];
        firsts.extend(open.into_iter().map(First::Launch));
        let spells = self.shared.spells.get_or_init(|| Spells::new(&self.shared.library));
        match rollout::choose(spells, &scene, &firsts) {
            Some(First::Keep(zone, _) | First::Launch(zone)) => Mode::Spot(zone),
            Some(First::Wait) | None => Mode::Idle,
        }
    }

    /// The zone whose spot capacity is worth most, among those that have some or were not looked at.
    fn best_zone(&self, lives: &Lives, moment: &Moment<'_>, limit: f64, terms: &Terms) -> Mode {
        let open = |zone: &usize| moment.zones[*zone].spot != Some(false) && moment.zones[*zone].spot_price <= limit;
        let worth = |zone: usize| {
            let egress = (moment.mode != Mode::Spot(zone)).then(|| self.places.egress(moment, zone));
            zones::worth(lives, &self.each[zone], moment.zones[zone].spot_price, egress, terms)
        };
        // The last of equals is the first from behind.
        let zones = (0..self.places.zones().len()).rev().filter(open);
        zones.max_by(|&one, &other| worth(one).total_cmp(&worth(other))).map_or(Mode::Idle, Mode::Spot)
    }

    /// On-demand capacity, or spot that is dear but cheaper than that.
    fn best_substitute(&self, lives: &Lives, moment: &Moment<'_>, limit: f64) -> Mode {
        let changeover = self.places.task().changeover / 3600.0;
        let on_demand = self.places.on_demand(moment);
        let Mode::OnDemand(zone) = on_demand else { return on_demand };
        let terms = Terms { rate: self.places.zones()[zone].on_demand, slack: self.slack_price, changeover };
        let moved = |zone: usize, mode: Mode| (moment.mode != mode).then(|| self.places.egress(moment, zone));
        // Against itself, on demand is worth no more than the move to it.
        let mut best =
            (moved(zone, on_demand).map_or(0.0, |egress| -egress - changeover * (terms.rate + terms.slack)), on_demand);
        for zone in 0..self.places.zones().len() {
            let price = moment.zones[zone].spot_price;
            if moment.zones[zone].spot != Some(true) || price <= limit || price >= self.on_demand {
                continue;
            }
            let egress = moved(zone, Mode::Spot(zone));
            let worth = zones::worth(lives, &self.each[zone], price, egress, &terms);
            if worth > best.0 {
                best = (worth, Mode::Spot(zone));
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TASK: Task = Task { work: 7200.0, deadline: 14_400.0, changeover: 300.0, tick: 600.0 };

    /// The rule with two models only, for the sake of tests without optimisation.
    fn few() -> Horizon {
        Horizon::with("horizon", market::library().into_iter().step_by(9).collect())
    }

    fn zones(count: usize) -> Vec<Zone> {
        vec![Zone { on_demand: 3.0, egress: vec![0.2; count] }; count]
    }

    fn moment<'a>(tick: usize, done: f64, mode: Mode, zones: &'a [ZoneNow]) -> Moment<'a> {
        Moment { tick, done, mode, changeover_left: 0.0, checkpoint: None, zones }
    }

    fn now(spot: bool, spot_price: f64) -> ZoneNow {
        ZoneNow { spot: Some(spot), spot_price }
    }

    #[test]
    fn spot_is_taken_when_it_is_there_and_waited_for_when_it_is_not() {
        let mut session = few().begin(&TASK, &zones(1));
        assert_eq!(session.choose(&moment(0, 0.0, Mode::Idle, &[now(false, 1.0)])), Mode::Idle);
        assert_eq!(session.choose(&moment(1, 0.0, Mode::Idle, &[now(true, 1.0)])), Mode::Spot(0));
    }

    #[test]
    fn spot_as_dear_as_on_demand_is_not_taken() {
        let mut session = few().begin(&TASK, &zones(1));
        assert_ne!(session.choose(&moment(0, 0.0, Mode::Idle, &[now(true, 3.5)])), Mode::Spot(0));
    }

    #[test]
    fn of_two_zones_the_cheaper_is_taken_and_an_unseen_one_is_tried() {
        let mut session = few().begin(&TASK, &zones(2));
        assert_eq!(session.choose(&moment(0, 0.0, Mode::Idle, &[now(true, 1.2), now(true, 0.9)])), Mode::Spot(1));
        let mut session = few().begin(&TASK, &zones(2));
        let unseen = ZoneNow { spot: None, spot_price: 1.0 };
        assert_eq!(session.choose(&moment(0, 0.0, Mode::Idle, &[now(false, 1.0), unseen])), Mode::Spot(1));
        assert_eq!(session.choose(&moment(0, 0.0, Mode::Idle, &[now(false, 1.0), now(false, 1.0)])), Mode::Idle);
    }

    #[test]
    fn no_zones_and_odd_prices_do_no_harm() {
        let mut none = few().begin(&TASK, &[]);
        assert_eq!(none.choose(&moment(0, 0.0, Mode::Idle, &[])), Mode::Idle);
        for price in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            for on_demand in [f64::NAN, 0.0, 3.0] {
                let mut odd = few().begin(&TASK, &[Zone { on_demand, egress: vec![0.0] }]);
                odd.choose(&moment(0, 0.0, Mode::Idle, &[now(true, price)]));
                odd.choose(&moment(20, 0.0, Mode::Idle, &[now(true, price)]));
            }
        }
    }

    /// Drives the rule over a market without any net below it; the ticks it waited at the line, and its choices.
    fn drive(rule: &Horizon, market: &[Vec<bool>], changeover: f64) -> (usize, bool, Vec<Mode>) {
        let task = Task { changeover, ..TASK };
        let count = market.first().map_or(1, Vec::len);
        let mut session = rule.begin(&task, &zones(count));
        let (mut mode, mut left, mut done, mut checkpoint) = (Mode::Idle, 0.0, 0.0, None);
        let (mut late, mut choices) = (0, Vec::new());
        let ticks = (task.deadline / task.tick) as usize;
        for tick in 0..ticks {
            let up = |zone: usize| market.get(tick).and_then(|zones| zones.get(zone)).is_some_and(|&up| up);
            if matches!(mode, Mode::Spot(zone) if !up(zone)) {
                (mode, left) = (Mode::Idle, 0.0);
            }
            let zones: Vec<_> = (0..count).map(|zone| now(up(zone), 1.0 + 0.1 * zone as f64)).collect();
            let moment = Moment { tick, done, mode, changeover_left: left, checkpoint, zones: &zones };
            let choice = session.choose(&moment);
            let need = task.time_for(task.work - done, 2.0);
            late += usize::from(choice == Mode::Idle && need >= (ticks - tick) as f64 * task.tick);
            if choice != mode && choice != Mode::Idle {
                left = changeover;
            }
            mode = choice;
            choices.push(choice);
            if let Mode::Spot(zone) | Mode::OnDemand(zone) = mode {
                assert!(mode == Mode::OnDemand(zone) || up(zone), "spot where there is none");
                checkpoint = Some(zone);
                let useful = (task.tick - left).max(0.0);
                left -= task.tick - useful;
                done += useful;
                if done >= task.work - 1e-3 {
                    return (late, true, choices);
                }
            }
        }
        (late, false, choices)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_never_waits_at_the_line_nor_misses_and_does_the_same_twice(
            market in (1..4_usize).prop_flat_map(|zones| prop::collection::vec(prop::collection::vec(any::<bool>(), zones), 24)),
            changeover in prop::sample::select(vec![0.0, 120.0, 300.0, 900.0]),
        ) {
            static RULE: OnceLock<Horizon> = OnceLock::new();
            let rule = RULE.get_or_init(few);
            let (late, finished, choices) = drive(rule, &market, changeover);
            prop_assert_eq!(late, 0);
            prop_assert!(finished);
            prop_assert_eq!(choices, drive(rule, &market, changeover).2);
        }
    }
}
