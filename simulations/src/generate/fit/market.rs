//! One market from recordings of one or more zones that are taken for alike.

use std::collections::BTreeMap;

use leeway_market::trace::SpotTrace;

use super::spells::{self, Spells};
use super::{Error, Row, price, shown, tidy};
use crate::generate::params::{Level, Market};

/// Fits a market and says how well.
pub fn fit(traces: &[SpotTrace]) -> Result<(Market, Vec<Row>), Error> {
    let traces: Vec<&SpotTrace> = traces.iter().collect();
    let Some(first) = traces.first() else { return Err(Error::Nothing) };
    let differs = |trace: &&&SpotTrace| (trace.gap, trace.nodes_requested) != (first.gap, first.nodes_requested);
    if let Some(other) = traces.iter().find(differs) {
        let say = |trace: &SpotTrace| {
            format!("{} has ticks of {} and {} nodes", trace.zone, trace.gap, trace.nodes_requested)
        };
        return Err(Error::Unlike(say(other), say(first)));
    }
    if let Some(never) = traces.iter().find(|trace| trace.data.iter().all(|nodes| *nodes == 0)) {
        return Err(Error::NeverUp(never.zone.to_string()));
    }
    let gap_s = (first.gap.as_millis() / 1_000) as u32;
    let on_demand = tidy(traces.iter().map(|trace| trace.on_demand.as_units_f64()).sum::<f64>() / traces.len() as f64);
    let mut rows = Vec::new();

    // Hours of traces that do not say when they began cannot be laid over each other.
    let are_hours_known = traces.len() == 1 || traces.iter().all(|trace| trace.start.is_some());
    let rhythm = if are_hours_known { spells::rhythm(&traces) } else { None };
    let mut all = Spells::default();
    traces.iter().for_each(|trace| all.add(trace, rhythm));
    let (up, down) = (spells::fit(&all.up), spells::fit(&all.down));
    for (what, fit) in [("spells of capacity", up), ("spells without", down)] {
        rows.push(match fit {
            Some(fit) => Row {
                what: what.to_owned(),
                found: shown(&fit.spread),
                seen: fit.ended,
                censored: fit.censored,
                distance: Some(fit.distance),
            },
            None => Row::new(what, "none was seen to end".to_owned(), 0),
        });
    }
    let losses = all.up.iter().filter(|spell| spell.to.is_some()).count() as u64;
    rows.push(Row::new(
        "rhythm of losses",
        rhythm.map_or("none that chance would not show".to_owned(), |rhythm| {
            format!("swing {:.2} with its peak at {:.1} h", rhythm.swing, rhythm.peak_hour)
        }),
        losses,
    ));
    // Without an end seen on either side there is no renewal; a market that was nearly always there is always there.
    let (up, down) = match (up, down) {
        (Some(up), Some(down)) => (Some(up.spread), Some(down.spread)),
        _ => (None, None),
    };
    let (levels, level_s) = levels(&traces);
    if !levels.is_empty() {
        let full =
            levels.iter().filter(|level| level.nodes == first.nodes_requested).map(|level| level.weight).sum::<f64>();
        rows.push(Row::new(
            "nodes while there are any",
            format!("all of them {:.0} % of the time", full.abs() * 100.0),
            levels.len() as u64,
        ));
    }
    let price = price::fit(&traces, gap_s, on_demand);
    let found = price.price;
    let text = if found.deviation > 0.0 {
        format!(
            "mean {:.4}, deviation of the log {:.3}, reversion {:.4}/h, moves in {:.0} % of the hours",
            found.mean_usd_per_h,
            found.deviation,
            found.reversion_per_h,
            found.moves * 100.0
        )
    } else {
        format!("{:.4}, does not move", found.mean_usd_per_h)
    };
    rows.push(Row { distance: price.distance, ..Row::new("price in USD an hour", text, price.moves) });
    let market = Market {
        gap_s,
        nodes: first.nodes_requested,
        on_demand_usd_per_h: on_demand,
        level_s,
        up,
        down,
        rhythm: rhythm.filter(|_| up.is_some()),
        price: found,
        levels,
    };
    market.check().map_err(|(field, problem)| Error::Impossible { field, problem })?;
    Ok((market, rows))
}

/// Shares of time of each number of nodes while there are any, and for how long a number stays: a draw may give the same
/// number again, so draws are more frequent than changes.
fn levels(traces: &[&SpotTrace]) -> (Vec<Level>, f64) {
    let mut ticks: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut changes, mut pairs) = (0_u64, 0_u64);
    for trace in traces {
        for nodes in trace.data.iter().filter(|nodes| **nodes > 0) {
            *ticks.entry(*nodes).or_default() += 1;
        }
        for pair in trace.data.windows(2).filter(|pair| pair[0] > 0 && pair[1] > 0) {
            pairs += 1;
            changes += u64::from(pair[0] != pair[1]);
        }
    }
    let most = traces.first().map_or(1, |trace| trace.nodes_requested);
    if ticks.keys().all(|nodes| *nodes == most) {
        return (Vec::new(), 0.0);
    }
    let total = ticks.values().sum::<u64>() as f64;
    let levels: Vec<Level> =
        ticks.iter().map(|(nodes, ticks)| Level { nodes: *nodes, weight: tidy(*ticks as f64 / total) }).collect();
    let same: f64 = levels.iter().map(|level| level.weight * level.weight).sum();
    let change = (changes as f64 / pairs.max(1) as f64 / (1.0 - same).max(1e-9)).clamp(1e-6, 0.999);
    let gap_s = traces.first().map_or(1.0, |trace| trace.gap.as_secs_f64());
    (levels, tidy(gap_s / -(-change).ln_1p()))
}
