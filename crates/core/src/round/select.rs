//! The search for the best places: cheapest offers first, and no further than a better one could be.

use leeway_model::budget::Refusal;
use leeway_model::decision::{Assumption, Candidate, Rejection, RejectionCount, Rule};
use leeway_model::job::Reason;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::{Micros, Term, Timestamp};

use super::filter;
use super::fleet::{Cheapest, Fleet, GroupId, OfferId};
use super::queue::Scope;
use super::score::{Economics, Least, Priced};
use crate::config::Config;
use crate::locality::Locality;
use crate::policy::{JobView, Policy, Ranked, Scored};

/// Best places that are kept: the chosen one and the runners-up that `explain` shows.
pub const KEEP: usize = 4;

/// Candidates of an evaluation whose holds are reckoned.
pub const HOLDS: usize = 16;

/// What the search needs beside the job.
#[derive(Clone, Copy, Debug)]
pub struct Market<'a> {
    pub config: &'a Config,
    pub fleet: &'a Fleet,
    pub policy: &'a dyn Policy,
    pub locality: Locality<'a>,
    pub now: Timestamp,
    /// Leaves out what the market may take back.
    pub without_spot: bool,
    /// Where the job's last run was lost a moment ago, and until when it is not tried there again.
    pub setback: Option<(OfferId, Timestamp)>,
}

impl Market<'_> {
    fn has(&self, capacity: CapacityType) -> bool {
        !self.without_spot || capacity != CapacityType::Spot
    }

    pub(super) fn set_back_until(&self, offer: OfferId) -> Option<Timestamp> {
        self.setback.filter(|(there, _)| *there == offer).map(|(_, until)| until)
    }
}

/// A place found.
#[derive(Clone, Debug)]
pub struct Place {
    pub offer: OfferId,
    pub ranked: Ranked,
    pub assumed: Vec<Assumption>,
    /// The alternative of the job's resources that it answers.
    pub alternative: usize,
}

/// Outcome of a search.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Best first, at most [`KEEP`], and after them the one that the policy asked for.
    pub places: Vec<Place>,
    /// Offers looked at.
    pub visited: u32,
    /// Some offer could take the job but for its own cost cap.
    pub over_cost: bool,
    /// Some offer fits and cannot now.
    pub fits_later: bool,
    /// Some offer could take the job but for its setback there.
    pub set_back: bool,
}

impl Search {
    fn note(&mut self, rule: Rule) {
        self.over_cost |= rule == Rule::MaxCost;
        self.fits_later |= rule.is_temporary();
    }

    /// Keeps a place of that rank and offer among the best, if it belongs there.
    fn keep(&mut self, rank: Micros, offer: &OfferKey, place: impl FnOnce() -> Place) {
        let before = |other: &Place| (other.ranked.rank, &other.ranked.offer) < (rank, offer);
        let position = self.places.iter().rposition(before).map_or(0, |last| last + 1);
        if position < KEEP {
            self.places.truncate(KEEP - 1);
            self.places.insert(position, place());
        }
    }
}

/// Finds the best places for a job, and the one that its policy also wants to hear of. With `ordered` alternatives the
/// first that has any place wins.
pub fn search(market: Market<'_>, view: &JobView<'_>, economics: &Economics<'_>, scope: &Scope) -> Search {
    let mut found = search_best(market, view, economics, scope);
    if let Some(offer) = market.policy.also(view).and_then(|key| market.fleet.find(key))
        && !found.places.is_empty()
        && found.places.iter().all(|place| place.offer != offer)
    {
        found.visited += 1;
        if let Ok((priced, alternative)) = consider(market, view, economics, offer, None) {
            found.places.push(place(market, view, offer, priced, alternative));
        }
    }
    found
}

fn place(market: Market<'_>, view: &JobView<'_>, offer: OfferId, priced: Priced, alternative: usize) -> Place {
    let rank = market.policy.rank(view, &priced.scored);
    let ranked = Ranked { offer: market.fleet.slot(offer).offer.key.clone(), scored: priced.scored, rank };
    Place { offer, ranked, assumed: priced.assumed, alternative }
}

fn search_best(market: Market<'_>, view: &JobView<'_>, economics: &Economics<'_>, scope: &Scope) -> Search {
    let spec = &view.job.spec;
    if !spec.ordered {
        return search_among(market, view, economics, scope, None);
    }
    let mut all = Search::default();
    for alternative in 0..spec.resources.len() {
        let found = search_among(market, view, economics, scope, Some(alternative));
        all.visited += found.visited;
        all.over_cost |= found.over_cost;
        all.fits_later |= found.fits_later;
        all.set_back |= found.set_back;
        if !found.places.is_empty() {
            all.places = found.places;
            break;
        }
    }
    all
}

fn search_among(
    market: Market<'_>,
    view: &JobView<'_>,
    economics: &Economics<'_>,
    scope: &Scope,
    alternative: Option<usize>,
) -> Search {
    let mut found = Search::default();
    match scope {
        Scope::Only(offers) => {
            for offer in offers {
                look_at(market, view, economics, *offer, alternative, &mut found);
            }
        }
        Scope::Everywhere(groups) => {
            let mut cheapest_first = Merge::new(market, view, economics, groups, alternative);
            while let Some((floor, offer)) = cheapest_first.next() {
                // Not `<=`: an offer that can only draw may still win the tie by its key.
                let enough = found.places.len() == KEEP && found.places[KEEP - 1].ranked.rank < floor;
                if enough {
                    break;
                }
                look_at(market, view, economics, offer, alternative, &mut found);
            }
        }
    }
    found
}

fn look_at(
    market: Market<'_>,
    view: &JobView<'_>,
    economics: &Economics<'_>,
    offer: OfferId,
    alternative: Option<usize>,
    found: &mut Search,
) {
    found.visited += 1;
    match consider(market, view, economics, offer, alternative) {
        Ok((priced, alternative)) => {
            let rank = market.policy.rank(view, &priced.scored);
            let key = &market.fleet.slot(offer).offer.key;
            found.keep(rank, key, || place(market, view, offer, priced, alternative));
        }
        Err(rule) => {
            found.note(rule);
            found.set_back |= rule == Rule::CoolingDown && market.set_back_until(offer).is_some();
        }
    }
}

/// Prices an offer for a job, or names the rule that it fails.
pub(super) fn consider(
    market: Market<'_>,
    view: &JobView<'_>,
    economics: &Economics<'_>,
    offer: OfferId,
    alternative: Option<usize>,
) -> Result<(Priced, usize), Rule> {
    let spec = &view.job.spec;
    let slot = market.fleet.slot(offer);
    let first = match alternative {
        Some(position) => filter::fits(&spec.resources[position], slot).map(|()| position)?,
        None => filter::alternative(spec, slot)?,
    };
    if !market.has(slot.offer.key.capacity) || !market.policy.admits(view, slot.offer.key.capacity) {
        return Err(Rule::Policy);
    }
    let position = match alternative {
        Some(position) => {
            let request = &spec.resources[position];
            filter::can_now(market.config, market.fleet, offer, request, spec.nodes, market.now).map(|()| position)?
        }
        None => filter::alternative_from(first, market.config, market.fleet, offer, spec, market.now)?,
    };
    if market.set_back_until(offer).is_some() {
        return Err(Rule::CoolingDown);
    }
    if economics.moves.unreachable().is_some() {
        return Err(Rule::DataUnreachable);
    }
    let rate = slot.offer.price.as_ref().map(|price| price.rate).ok_or(Rule::NoPrice)?;
    let priced = economics.price(market.config, market.locality, slot, rate);
    if let Some(cap) = spec.money.max_cost
        && view.job.posted.total().saturating_add(money(&priced.scored)) > cap
    {
        return Err(Rule::MaxCost);
    }
    Ok((priced, position))
}

/// What a bill costs in money: the price of waiting is nobody's expense.
pub(super) fn money(scored: &Scored) -> Micros {
    scored.bill.total().saturating_sub(scored.bill.get(Term::Waiting))
}

/// The rejection with what was asked and what is there, for people.
fn rejection(
    market: Market<'_>,
    view: &JobView<'_>,
    economics: &Economics<'_>,
    offer: OfferId,
    rule: Rule,
) -> Rejection {
    let mut rejection = filter::explain(rule, &view.job.spec, market.fleet, offer, market.now);
    let slot = market.fleet.slot(offer);
    match rule {
        Rule::MaxCost => {
            if let (Some(price), Some(cap)) = (&slot.offer.price, view.job.spec.money.max_cost) {
                let expected = money(&economics.price(market.config, market.locality, slot, price.rate).scored);
                let spent = view.job.posted.total();
                let spent = if spent == Micros::ZERO { String::new() } else { format!(" and {spent} was spent") };
                rejection.detail = format!("is expected to cost {expected}{spent}; max_cost is {cap}").into();
            }
        }
        Rule::CoolingDown => {
            if let Some(until) = market.set_back_until(offer) {
                let wait = until.since(market.now);
                rejection.detail =
                    format!("lost the job's last run; it is tried there again in {wait} (cools down until {until})")
                        .into();
            }
        }
        Rule::DataUnreachable => {
            if let Some(url) = economics.moves.unreachable() {
                rejection.detail = unreachable(url).into();
            }
        }
        _ => {}
    }
    rejection
}

/// Why an input can be brought nowhere, for people.
pub(super) fn unreachable(url: &str) -> String {
    format!("input {url} has no replica that could be reached; declare one with 'leeway data register'")
}

/// Offers of several groups in order of the least they can cost.
struct Merge<'a> {
    market: Market<'a>,
    view: &'a JobView<'a>,
    economics: &'a Economics<'a>,
    groups: Vec<Stream<'a>>,
}

struct Stream<'a> {
    least: Least,
    offers: Cheapest<'a>,
    next: Option<(Micros, OfferId)>,
}

impl<'a> Merge<'a> {
    /// Offers of these groups whose size of machine answers the alternative, or any.
    fn new(
        market: Market<'a>,
        view: &'a JobView<'a>,
        economics: &'a Economics<'a>,
        groups: &[GroupId],
        alternative: Option<usize>,
    ) -> Self {
        let all = &view.job.spec.resources;
        let requests = alternative.map_or(&all[..], |position| &all[position..=position]);
        let wanted = |cpus, memory| requests.iter().any(|request| filter::is_of_size(request, cpus, memory));
        let mut merge = Self { market, view, economics, groups: Vec::with_capacity(groups.len()) };
        for &group in groups {
            if !market.has(market.fleet.group(group).capacity) {
                continue;
            }
            let offers = market.fleet.open(group, wanted);
            let least = economics.least(market.config, market.fleet.group(group));
            let mut stream = Stream { least, offers, next: None };
            merge.advance(&mut stream);
            merge.groups.push(stream);
        }
        merge
    }

    fn advance(&self, stream: &mut Stream<'a>) {
        stream.next = stream.offers.next().map(|(rate, offer)| {
            let floor = self.economics.floor(self.market.config, &stream.least, rate);
            (self.market.policy.rank(self.view, &floor), offer)
        });
    }

    fn next(&mut self) -> Option<(Micros, OfferId)> {
        let cheapest = (0..self.groups.len())
            .filter(|&position| self.groups[position].next.is_some())
            .min_by_key(|&position| self.groups[position].next)?;
        let mut stream = self.groups.swap_remove(cheapest);
        let next = stream.next;
        self.advance(&mut stream);
        if stream.next.is_some() {
            self.groups.push(stream);
        }
        next
    }
}

/// Every offer judged: what `explain` and dry runs show.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// In the policy's order.
    pub candidates: Vec<Candidate>,
    /// What would be set aside for each of the best candidates, at most [`HOLDS`], or why it cannot be.
    pub holds: Vec<Result<Micros, Refusal>>,
    pub rejections: Vec<Rejection>,
    /// Why none of the candidates would be taken now, when there are any.
    pub reason: Option<Reason>,
    /// Why the first candidate would be taken, when the choice would not be to wait.
    pub why: Option<Box<str>>,
}

/// Judges every offer: the places that can be had now, in the policy's order, and the rejections.
pub fn judge(market: Market<'_>, view: &JobView<'_>, economics: &Economics<'_>) -> (Vec<Place>, Vec<Rejection>) {
    let spec = &view.job.spec;
    let mut ranked = Vec::new();
    let mut rejections = Vec::new();
    for (offer, _) in market.fleet.iter() {
        match consider(market, view, economics, offer, None) {
            Ok((priced, alternative)) => {
                let order = if spec.ordered { alternative } else { 0 };
                ranked.push((order, place(market, view, offer, priced, alternative)));
            }
            Err(rule) => rejections.push(rejection(market, view, economics, offer, rule)),
        }
    }
    ranked.sort_by(|(a, one): &(usize, Place), (b, other)| {
        (a, one.ranked.rank, &one.ranked.offer).cmp(&(b, other.ranked.rank, &other.ranked.offer))
    });
    (ranked.into_iter().map(|(_, place)| place).collect(), rejections)
}

fn candidate(fleet: &Fleet, offer: OfferId, priced: &Priced) -> Option<Candidate> {
    let slot = fleet.slot(offer);
    Some(Candidate {
        offer: slot.offer.key.clone(),
        price: slot.offer.price.clone()?,
        bill: priced.scored.bill,
        expected_time: priced.scored.expected_time,
        assumed: priced.assumed.clone(),
    })
}

impl Place {
    /// The place as it is kept with a decision.
    pub fn candidate(&self, fleet: &Fleet) -> Option<Candidate> {
        let priced = Priced { scored: self.ranked.scored, assumed: self.assumed.clone() };
        candidate(fleet, self.offer, &priced)
    }
}

impl Evaluation {
    /// Rejections by rule, in the order of the rules.
    pub fn counts(&self) -> Vec<RejectionCount> {
        let mut counts: Vec<RejectionCount> = Vec::new();
        for rejection in &self.rejections {
            match counts.iter_mut().find(|count| count.rule == rejection.rule) {
                Some(count) => count.count += 1,
                None => counts.push(RejectionCount { rule: rejection.rule, count: 1, example: rejection.clone() }),
            }
        }
        counts.sort_by_key(|count| count.rule);
        counts
    }
}
