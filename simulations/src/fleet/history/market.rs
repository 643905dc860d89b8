//! When spot machines were there, and at which price: a market made of what was recorded.
//!
//! Where capacity was observed, it was what the last observation said. Where nobody observed any, only losses and refused
//! launches tell: after one of them there is no more than what was then held, until the next launch that succeeded, and
//! no longer than an hour. Otherwise there is as much as the cluster has.

use std::collections::BTreeMap;

use leeway_core::Event;
use leeway_market::trace::{Kind, NODES_MAX, Notice, PriceChange, SpotTrace};
use leeway_model::cluster::ClusterSpec;
use leeway_model::market::OfferKey;
use leeway_model::resources::CapacityType;
use leeway_model::run::{EndReason, LaunchErrorClass, Run};
use leeway_model::{Millis, Rate, Timestamp};

use super::Past;

/// Longest time for which a loss speaks when nothing was tried after it: the longest cool-down of an offer.
const SILENCE: Millis = Millis::from_hours(1);
/// Most ticks of a market.
const TICKS: u64 = 200_000;
/// A notice and the loss that it told of are this close at the most.
const NEAR: Millis = Millis::from_secs(30);

/// From when, how long, and in which steps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub from: Timestamp,
    pub length: Millis,
    pub gap: Millis,
}

impl Frame {
    /// Ticks of whole seconds, as short as the length allows.
    pub fn new(from: Timestamp, length: Millis) -> Self {
        let seconds = length.as_millis().div_ceil(1_000).div_ceil(TICKS).max(1);
        Self { from, length, gap: Millis::from_secs(seconds) }
    }

    fn ticks(&self) -> u32 {
        // At most TICKS and one, by the choice of the gap.
        (self.length.as_millis() / self.gap.as_millis() + 1) as u32
    }

    /// The tick in which an instant lies.
    fn tick(&self, at: Timestamp) -> u32 {
        u32::try_from(at.since(self.from).as_millis() / self.gap.as_millis()).unwrap_or(u32::MAX)
    }

    /// The first tick that begins at or after an instant.
    fn tick_after(&self, at: Timestamp) -> u32 {
        u32::try_from(at.since(self.from).as_millis().div_ceil(self.gap.as_millis())).unwrap_or(u32::MAX)
    }
}

/// The market of a shape's spot machines; `None` where it has none.
pub(super) fn market(past: &Past, spec: &ClusterSpec, shape: usize, frame: Frame) -> Option<SpotTrace> {
    let machines = spec.machines.get(shape)?;
    let offer =
        OfferKey { cluster: spec.name.clone(), shape: machines.shape.name.clone(), capacity: CapacityType::Spot };
    let prices = prices(past, &offer);
    let spot = machines.spot.or(prices.first().map(|(_, rate)| *rate))?;
    let runs: Vec<&Run> = past.runs.values().filter(|run| run.offer == offer).collect();
    let most = machines.count.unwrap_or(NODES_MAX).min(NODES_MAX);
    let observed = losing(observed(past, &offer, most), &runs);
    let steps = if observed.is_empty() { inferred(&runs, most) } else { observed };
    let data = filled(&steps, most, frame);
    Some(SpotTrace {
        family: "recorded".into(),
        region: spec.region.clone(),
        zone: spec.zone.clone().unwrap_or_else(|| spec.name.as_str().into()),
        instance_type: machines.shape.instance_type.clone(),
        accelerators: machines.shape.accelerators.clone(),
        nodes_requested: data.iter().copied().max().unwrap_or(0),
        kind: Kind::AvailabilityProbe,
        gap: frame.gap,
        start: Some(frame.from),
        on_demand: machines.on_demand.unwrap_or(Rate::ZERO),
        spot,
        price_changes: changes(&prices, frame),
        notices: notices(&runs, &data, frame),
        missing_ticks: Vec::new(),
        data,
    })
}

fn prices(past: &Past, offer: &OfferKey) -> Vec<(Timestamp, Rate)> {
    let told = past.news.iter().filter_map(|(at, event)| match event {
        Event::PricesObserved { prices } => Some((*at, prices)),
        _ => None,
    });
    told.flat_map(|(at, prices)| prices.iter().map(move |one| (at, one)))
        .filter(|(_, one)| one.offer == *offer && !one.price.rate.is_zero())
        .map(|(at, one)| (at, one.price.rate))
        .collect()
}

fn changes(prices: &[(Timestamp, Rate)], frame: Frame) -> Vec<PriceChange> {
    let by_tick: BTreeMap<u32, Rate> = prices.iter().map(|(at, rate)| (frame.tick(*at), *rate)).collect();
    by_tick
        .into_iter()
        .filter(|(tick, _)| *tick < frame.ticks())
        .map(|(tick, rate)| PriceChange { tick, rate })
        .collect()
}

/// Machines that there were from an instant on.
type Step = (Timestamp, u32);

fn observed(past: &Past, offer: &OfferKey, most: u32) -> Vec<Step> {
    let told = past.news.iter().filter_map(|(at, event)| match event {
        Event::CapacityObserved { capacities } => Some((*at, capacities)),
        _ => None,
    });
    let own = told.flat_map(|(at, all)| all.iter().map(move |one| (at, one))).filter(|(_, one)| one.offer == *offer);
    let steps: Vec<Step> = own.map(|(at, one)| (at, one.available.unwrap_or(most).min(NODES_MAX))).collect();
    // Whoever is only told that nothing is known has observed nothing.
    if steps.iter().all(|(_, nodes)| *nodes == most) { Vec::new() } else { steps }
}

/// An observation that came with a warning is of a loss that comes at the end of the warning.
fn losing(mut steps: Vec<Step>, runs: &[&Run]) -> Vec<Step> {
    let notices = || runs.iter().filter_map(|run| run.notice.as_ref());
    for number in 0..steps.len() {
        let (at, nodes) = steps[number];
        let falls = number.checked_sub(1).is_none_or(|before| nodes < steps[before].1);
        let told = notices().filter(|notice| near(notice.received, at) <= NEAR && notice.deadline > at);
        if let Some(end) = told.map(|notice| notice.deadline).max().filter(|_| falls) {
            let next = steps.get(number + 1).map_or(end, |next| next.0);
            steps[number].0 = end.min(next);
        }
    }
    steps
}

/// How far two instants are from each other.
fn near(one: Timestamp, other: Timestamp) -> Millis {
    one.since(other).max(other.since(one))
}

/// When a run told that there were no more machines: with the loss of its own, or with a refusal.
fn told(run: &Run) -> Option<Timestamp> {
    match (&run.end, run.launched, &run.notice) {
        (Some(EndReason::Interrupted), Some(_), Some(notice)) => Some(notice.deadline),
        (Some(EndReason::Interrupted | EndReason::Lost), Some(_), _) => run.stopped,
        (Some(EndReason::LaunchFailed { class: LaunchErrorClass::Capacity }), None, _) => run.stopped.or(run.released),
        _ => None,
    }
}

fn inferred(runs: &[&Run], most: u32) -> Vec<Step> {
    let holds = |run: &Run, at: Timestamp| {
        let end = told(run).or(run.stopped);
        run.launched.is_some() && run.placed <= at && end.is_none_or(|end| end > at)
    };
    let mut ends: Vec<(Timestamp, Timestamp)> = runs
        .iter()
        .filter_map(|run| told(run).map(|at| (at, run.notice.as_ref().map_or(at, |notice| notice.received.min(at)))))
        .collect();
    ends.sort_unstable();
    let mut steps = Vec::new();
    for (number, (at, known)) in ends.iter().enumerate() {
        let held: u32 = runs.iter().filter(|run| holds(run, *at)).map(|run| run.nodes).fold(0, u32::saturating_add);
        steps.push((*at, held));
        let again =
            runs.iter().filter(|run| run.launched.is_some() && run.placed >= *known).map(|run| run.placed).min();
        let after = at.after(Millis::from_secs(1));
        let rise = again.map_or(at.after(SILENCE), |again| again.max(after).min(at.after(SILENCE)));
        if ends.get(number + 1).is_none_or(|(next, _)| *next > rise) {
            steps.push((rise, most));
        }
    }
    steps
}

/// Steps as ticks: what rises is there a little early rather than late, and what falls goes late.
fn filled(steps: &[Step], most: u32, frame: Frame) -> Vec<u32> {
    let mut data = vec![most; frame.ticks() as usize];
    let mut before = most;
    for (at, nodes) in steps {
        let tick = if *nodes < before { frame.tick_after(*at) } else { frame.tick(*at) };
        if let Some(rest) = data.get_mut(tick as usize..) {
            rest.fill(*nodes);
        }
        before = *nodes;
    }
    data
}

/// How long before each loss those who stood there were told; not at all where somebody lost machines without a word.
fn notices(runs: &[&Run], data: &[u32], frame: Frame) -> Vec<Notice> {
    let drops = (1..data.len()).filter(|tick| data[*tick] < data[tick - 1]);
    let most = NEAR.max(frame.gap.saturating_mul(2));
    let of = |tick: usize| {
        let at = frame.from.after(frame.gap.saturating_mul(tick as u64));
        let is_near = |other: Timestamp| near(other, at) <= most;
        let told = runs.iter().filter_map(|run| run.notice.as_ref()).filter(|notice| is_near(notice.deadline));
        let longest = told.map(|notice| notice.deadline.since(notice.received)).max();
        let is_lost =
            |run: &&&Run| matches!(run.end, Some(EndReason::Interrupted | EndReason::Lost)) && run.notice.is_none();
        let unwarned = || runs.iter().filter(is_lost).any(|run| run.stopped.is_some_and(is_near));
        let length = longest.or_else(|| unwarned().then_some(Millis::ZERO))?;
        Some(Notice { tick: tick as u32, length })
    };
    drops.filter_map(of).collect()
}
