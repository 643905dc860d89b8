//! Prices: how many steps of an hour move the price at all, and over those the logarithm as an autoregression of order
//! one, by least squares within each trace, the coefficient corrected for its bias in short series (Kendall, 1954).

use leeway_market::trace::SpotTrace;
use leeway_model::Rate;

use super::{distance, tidy};
use crate::generate::params::Price;
use crate::generate::spread::normal_survival;

/// Fitted prices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub price: Price,
    /// Steps in which the price moved.
    pub moves: u64,
    /// Distance of the shocks from a normal distribution; `None` for a price that does not move.
    pub distance: Option<f64>,
}

/// The price parameters of one market from traces of it or of others like it. Prices are taken relative to on demand, of
/// which `on_demand` is the market's.
pub fn fit(traces: &[&SpotTrace], gap_s: u32, on_demand: f64) -> Fit {
    let step = (3_600 / gap_s).max(1);
    let series: Vec<Vec<f64>> = traces.iter().map(|trace| logarithms(trace, step as usize)).collect();
    let means: Vec<f64> = series.iter().map(|series| series.iter().sum::<f64>() / series.len() as f64).collect();
    let mean = means.iter().sum::<f64>() / means.len().max(1) as f64;
    let pairs = || {
        let centred = series.iter().zip(&means);
        let pairs =
            centred.flat_map(|(series, mean)| series.windows(2).map(move |pair| (pair[0] - mean, pair[1] - mean)));
        pairs.filter(|(x, y)| x != y)
    };
    let steps: usize = series.iter().map(|series| series.len() - 1).sum();
    let count = pairs().count() as f64;
    let (products, squares) =
        pairs().fold((0.0, 0.0), |(products, squares), (x, y)| (products + x * y, squares + x * x));
    let (low, high) = range(traces);
    let mut price = Price {
        mean_usd_per_h: tidy(mean.exp() * on_demand).max(0.0001),
        deviation: 0.0,
        reversion_per_h: tidy(1.0 / 24.0),
        moves: 1.0,
        step_s: step * gap_s,
        floor_usd_per_h: tidy(low * on_demand).max(0.0001),
        // A little more, so that rounding puts no price above it.
        cap_of_on_demand: tidy(high * 1.000_02).max(0.0001),
    };
    if count < 3.0 || squares <= 0.0 {
        return Fit { price, moves: count as u64, distance: None };
    }
    let found = products / squares;
    // A return that is slower than the longest trace is long cannot be told from none.
    let longest = series.iter().map(Vec::len).max().unwrap_or(1) as f64 * count / steps as f64;
    let slowest = (-1.0 / longest.max(1.0)).exp();
    let keeps = (found + (1.0 + 3.0 * found) / count).clamp(0.01, slowest.max(0.01));
    let mut shocks: Vec<f64> = pairs().map(|(x, y)| y - keeps * x).collect();
    let shock = (shocks.iter().map(|shock| shock * shock).sum::<f64>() / count).sqrt();
    price.deviation = tidy(shock / (1.0 - keeps * keeps).sqrt()).min(10.0);
    price.moves = tidy(count / steps as f64).min(1.0);
    price.reversion_per_h = tidy(-keeps.ln() * price.moves * 3_600.0 / f64::from(price.step_s));
    shocks.sort_by(f64::total_cmp);
    let distance = distance::of_draws(&shocks, |x| normal_survival(x / shock.max(f64::MIN_POSITIVE)));
    Fit { price, moves: count as u64, distance: Some(distance) }
}

/// The logarithm of the share of the on-demand price at each step.
fn logarithms(trace: &SpotTrace, step: usize) -> Vec<f64> {
    let on_demand = trace.on_demand.as_units_f64();
    let mut changes = trace.price_changes.iter().peekable();
    let mut rate = trace.spot;
    let mut logarithms = Vec::with_capacity(trace.data.len() / step + 1);
    for tick in (0..trace.data.len()).step_by(step) {
        while let Some(change) = changes.next_if(|change| change.tick as usize <= tick) {
            rate = change.rate;
        }
        logarithms.push((rate.as_units_f64() / on_demand).ln());
    }
    logarithms
}

/// The lowest and the highest price as shares of the on-demand price.
fn range(traces: &[&SpotTrace]) -> (f64, f64) {
    let share = |trace: &SpotTrace, rate: Rate| rate.as_units_f64() / trace.on_demand.as_units_f64();
    let of = |trace: &&SpotTrace| {
        let summary = trace.summary();
        (share(trace, summary.price_low), share(trace, summary.price_high))
    };
    traces.iter().map(of).fold((f64::INFINITY, 0.0), |(low, high), (lower, higher)| (low.min(lower), high.max(higher)))
}
