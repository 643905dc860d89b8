//! How far each job with a deadline was from the least it could have cost, had it been alone in the world and known its
//! markets beforehand: the optimum of `spot`, from its submission to its deadline, over all clusters that it could use.
//!
//! Each start is paid for as long as the shortest boot, a move pays the list price of its egress; saves, restores and the
//! way back are not in the optimum. Time is cut into parts of the market's ticks, a minute at least, so that it is exact
//! to one such part. Jobs for which this says nothing, because one of its conditions does not hold, are counted by why.

use std::collections::BTreeMap;

use leeway_core::round::filter::is_shape;
use leeway_model::cluster::Machines;
use leeway_model::egress::EgressTable;
use leeway_model::job::{JobSpec, JobState};
use leeway_model::resources::{Infra, ResourceRequest, SpotPolicy};
use leeway_model::{Bytes, Millis, Timestamp};
use leeway_policies::deadline::{Task, Zone};

use super::outcome::Ended;
use super::setup::{ClusterPlan, Setup};
use crate::spot::model::Path;
use crate::spot::optimum::optimum;
use crate::spot::set::Market;
use crate::stats;

/// Most jobs of a run that are measured; each takes some milliseconds.
const MOST: u32 = 2_000;
/// Parts into which the time of a job is cut, at least, where a minute is not shorter.
const PARTS: u64 = 2_000;
const MINUTE: u64 = 60;

/// Why nothing can be said.
pub type Why = &'static str;

const NOT_DONE: Why = "missed the deadline or did not succeed";
const SHOCKS: Why = "shocks change the markets";
const HISTORY: Why = "the markets of a history are not known at every moment";
const CLUSTERS: Why = "clusters without an on-demand price, with reserved machines or with several kinds of machine";
const SPEEDS: Why = "machines of different speed";
const TICKS: Why = "ticks of the markets that are not equal, or no whole minutes";
const NO_SAVES: Why = "no checkpoints, so that work is lost";
const ASKS: Why = "asks for a certain kind of capacity, place or price";
const NOWHERE: Why = "no cluster has its machines";
const MANY: Why = "more than 2000 jobs with a deadline in one run";
const UNSOLVED: Why = "too long, or too little time for the optimum";

/// What is known of the world before its run.
#[derive(Debug)]
pub(super) struct Yardstick {
    places: Vec<Place>,
    /// Holds for all jobs.
    why_not: Option<Why>,
    egress: EgressTable,
    boot: Millis,
    start: Timestamp,
    left: u32,
    /// Markets by place and machines at once.
    markets: BTreeMap<(usize, u32), Market>,
}

#[derive(Debug)]
struct Place {
    plan: ClusterPlan,
    machines: Machines,
    speed: f64,
}

impl Yardstick {
    pub fn new(setup: &Setup) -> Self {
        let place = |plan: &ClusterPlan| {
            let machines = plan.machines()?.clone();
            Some(Place { machines, speed: plan.speed(&setup.config), plan: plan.clone() })
        };
        let places: Vec<Place> = setup.clusters.iter().filter_map(place).collect();
        let is_odd = |place: &Place| {
            place.plan.spec.machines.len() != 1
                || place.machines.on_demand.is_none()
                || place.machines.reserved.is_some()
        };
        let why_not = if !setup.shocks.is_empty() {
            Some(SHOCKS)
        } else if places.iter().any(|place| place.plan.is_told) {
            Some(HISTORY)
        } else if places.iter().any(is_odd) {
            Some(CLUSTERS)
        } else {
            None
        };
        Self {
            // Plans hold markets, which nobody needs to keep twice where nothing can be said.
            places: if why_not.is_some() { Vec::new() } else { places },
            why_not,
            egress: setup.config.egress.clone(),
            boot: setup.terms.boot.low,
            start: setup.start,
            left: MOST,
            markets: BTreeMap::new(),
        }
    }

    /// Cost over optimum of a job with a deadline, or why there is none; `None` for a job without a deadline.
    pub fn measure(&mut self, spec: &JobSpec, ended: &Ended) -> Option<Result<f64, Why>> {
        let deadline = ended.deadline?;
        Some(self.over(spec, ended, deadline))
    }

    fn over(&mut self, spec: &JobSpec, ended: &Ended, deadline: Timestamp) -> Result<f64, Why> {
        if let Some(why) = self.why_not {
            return Err(why);
        }
        if ended.state != JobState::Succeeded || ended.missed_deadline() {
            return Err(NOT_DONE);
        }
        let Some(policy) = &spec.checkpoint else { return Err(NO_SAVES) };
        if spec.resources.iter().any(is_particular) || spec.money.max_cost.is_some() {
            return Err(ASKS);
        }
        let usable = |place: &Place| {
            place.machines.count.is_none_or(|count| count >= spec.nodes)
                && spec.resources.iter().any(|request| is_shape(request, &place.machines.shape).is_ok())
        };
        let chosen: Vec<usize> = (0..self.places.len()).filter(|number| usable(&self.places[*number])).collect();
        let Some(&first) = chosen.first() else { return Err(NOWHERE) };
        let speed = self.places[first].speed;
        if chosen.iter().any(|place| self.places[*place].speed != speed) {
            return Err(SPEEDS);
        }
        let gap = self.gap(&chosen)?;
        self.left = self.left.checked_sub(1).ok_or(MANY)?;
        let size = policy.size.unwrap_or(Bytes::ZERO);
        let best = self.best(ended, deadline, &chosen, gap, speed, size);
        // A job that cost nothing at best could only be divided by nothing.
        best.filter(|best| best.is_finite() && *best > 0.0).map(|best| ended.cost.as_units_f64() / best).ok_or(UNSOLVED)
    }

    /// Seconds of a tick, where the markets agree; any where none of the places has a market.
    fn gap(&self, chosen: &[usize]) -> Result<u64, Why> {
        let gaps: Vec<u64> = chosen
            .iter()
            .filter_map(|place| self.places[*place].plan.market.as_ref())
            .map(|market| market.gap.as_millis())
            .collect();
        let Some(&first) = gaps.first() else { return Ok(60 * MINUTE) };
        let is_fit = gaps.iter().all(|gap| *gap == first) && first > 0 && first.is_multiple_of(MINUTE * 1_000);
        if is_fit { Ok(first / 1_000) } else { Err(TICKS) }
    }

    /// Dollars for all machines of the job.
    fn best(
        &mut self,
        ended: &Ended,
        deadline: Timestamp,
        chosen: &[usize],
        gap: u64,
        speed: f64,
        size: Bytes,
    ) -> Option<f64> {
        let nodes = ended.nodes.max(1);
        let span = deadline.since(ended.submitted).as_millis() / 1_000;
        let minutes = gap / MINUTE;
        let fits = |part: &u64| minutes.is_multiple_of(*part) && part * MINUTE <= (span / PARTS).max(MINUTE);
        let part = (1..=minutes).rev().find(fits).unwrap_or(1) * MINUTE;
        // A little more time and a little less work than there was, never the other way.
        let from = ended.submitted.since(self.start).as_millis() / (part * 1_000);
        let to = deadline.since(self.start).as_millis().div_ceil(part * 1_000);
        let floor = |millis: f64| (millis / 1_000.0 / MINUTE as f64).floor() * MINUTE as f64;
        let task = Task {
            work: floor(ended.work.as_millis() as f64 / speed).max(MINUTE as f64),
            deadline: (to.saturating_sub(from) * part) as f64,
            changeover: floor(self.boot.as_millis() as f64),
            tick: part as f64,
        };
        for place in chosen {
            let of = &self.places[*place];
            self.markets.entry((*place, nodes)).or_insert_with(|| market(of, nodes, gap));
        }
        let markets: Vec<&Market> = chosen.iter().map(|place| &self.markets[&(*place, nodes)]).collect();
        let window = |market: &&Market| -> (Vec<bool>, Vec<f64>) {
            let tick = |at: u64| (at * part / gap) as usize % market.ticks().max(1);
            (from..to).map(|at| (market.available[tick(at)], market.spot_price[tick(at)])).unzip()
        };
        let windows: Vec<_> = markets.iter().map(window).collect();
        let paths: Vec<Path<'_>> =
            windows.iter().map(|(available, spot_price)| Path { available, spot_price }).collect();
        let zone = |from: &&Market| {
            let egress = markets.iter().map(|to| self.egress_between(from, to, size) / f64::from(nodes)).collect();
            Zone { on_demand: from.on_demand, egress }
        };
        let zones: Vec<Zone> = markets.iter().map(zone).collect();
        optimum(&task, &zones, &paths).ok().map(|best| best * f64::from(nodes))
    }

    fn egress_between(&self, from: &Market, to: &Market, size: Bytes) -> f64 {
        let known = self.egress.cost(&from.region, &to.region, size, Bytes::ZERO).ok();
        let most = || self.egress.upper_bound().map(|tariff| tariff.cost(size, Bytes::ZERO));
        known.or_else(most).unwrap_or_default().as_units_f64()
    }
}

/// Whether a request limits more than the kind of machine.
fn is_particular(request: &ResourceRequest) -> bool {
    request.spot != SpotPolicy::Auto || request.infra != Infra::default() || request.max_hourly_cost.is_some()
}

/// The prices of a place for one machine; without a market the declared ones hold for ever.
fn market(place: &Place, nodes: u32, gap: u64) -> Market {
    let on_demand = place.machines.on_demand.map_or(f64::INFINITY, |rate| rate.as_units_f64());
    match &place.plan.market {
        Some(trace) => Market { on_demand, ..Market::new(place.plan.spec.name.as_str(), trace, nodes) },
        None => Market {
            name: place.plan.spec.name.to_string(),
            region: place.plan.spec.region.clone(),
            tick: gap as f64,
            on_demand,
            available: vec![place.machines.spot.is_some()],
            spot_price: vec![place.machines.spot.map_or(on_demand, |rate| rate.as_units_f64())],
        },
    }
}

/// Cost over optimum of the jobs of a run that have a deadline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverOptimum {
    ratios: Vec<f64>,
    /// Jobs of which nothing can be said, by why.
    pub left_out: BTreeMap<Why, u64>,
}

impl OverOptimum {
    pub(super) fn add(&mut self, measured: Result<f64, Why>) {
        match measured {
            Ok(ratio) => self.ratios.push(ratio),
            Err(why) => *self.left_out.entry(why).or_default() += 1,
        }
    }

    /// Jobs that were measured.
    pub fn jobs(&self) -> u64 {
        self.ratios.len() as u64
    }

    /// A quantile of the ratios; none of none.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        (!self.ratios.is_empty()).then(|| stats::quantile(&self.ratios, share))
    }
}

/// "1.02, 1.05, 1.20": half of the jobs, nine of ten, the worst. A dash where none was measured.
pub fn shown(p50: Option<f64>, p90: Option<f64>, worst: Option<f64>) -> String {
    match (p50, p90, worst) {
        (Some(p50), Some(p90), Some(worst)) => format!("{p50:.3} {p90:.3} {worst:.3}"),
        _ => "-".into(),
    }
}

/// Why jobs are not in the figures, for a footnote; none where all are.
pub fn footnote<'a>(of: impl Iterator<Item = &'a OverOptimum>) -> Option<String> {
    let mut all: BTreeMap<Why, u64> = BTreeMap::new();
    for (why, count) in of.flat_map(|of| &of.left_out) {
        *all.entry(why).or_default() += count;
    }
    let parts: Vec<String> = all.iter().map(|(why, count)| format!("{count}: {why}")).collect();
    (!parts.is_empty())
        .then(|| format!("jobs of all runs that are not in the cost over the optimum: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_jobs_and_none_of_none() {
        let mut of = OverOptimum::default();
        assert_eq!((of.quantile(0.5), shown(None, None, None).as_str()), (None, "-"));
        (1..=10).rev().for_each(|number| of.add(Ok(f64::from(number))));
        assert_eq!([0.5, 0.9, 1.0].map(|share| of.quantile(share)), [Some(5.5), Some(9.1), Some(10.0)]);
        of.add(Err(SHOCKS));
        of.add(Err(SHOCKS));
        let says = footnote([&of, &of].into_iter()).unwrap();
        assert!(says.ends_with("4: shocks change the markets"), "{says}");
        assert_eq!((of.jobs(), footnote(std::iter::empty())), (10, None));
    }
}
