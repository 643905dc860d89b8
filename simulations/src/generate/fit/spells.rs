//! Lengths of spells, by maximum likelihood over what a tick can tell.
//!
//! A spell of n ticks ended within its last tick, so its length lies in an interval: the likelihood is the probability of
//! that interval (Turnbull, 1976). The last spell of a trace had not ended and counts with the probability of lasting
//! longer (censored on the right). The first one began before the trace; its age is not known and it is left out, unless it
//! is the only one. Weibull and Lomax are both fitted and the likelier is kept; both have two parameters, so this is also
//! what Akaike's criterion says.

use leeway_market::trace::SpotTrace;

use super::distance;
use super::minimise::minimise;
use super::{tidy, tidy_spread};
use crate::generate::market::Clock;
use crate::generate::params::Rhythm;
use crate::generate::spread::Spread;

/// A spell: it lasted longer than `from` seconds and, if its end was seen, no longer than `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spell {
    pub from: f64,
    pub to: Option<f64>,
}

/// Spells of capacity and of none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spells {
    pub up: Vec<Spell>,
    pub down: Vec<Spell>,
}

impl Spells {
    /// Adds the spells of a trace; those of capacity in the time that runs with the risk of the hour.
    pub fn add(&mut self, trace: &SpotTrace, rhythm: Option<Rhythm>) {
        let gap_s = (trace.gap.as_millis() / 1_000) as u32;
        let clock = Clock::new(gap_s, trace.start, rhythm);
        let mut age = 0.0;
        let mut is_first = true;
        let last = trace.data.len() - 1;
        for (tick, nodes) in trace.data.iter().enumerate() {
            let is_up = *nodes > 0;
            let before = age;
            age += if is_up { clock.risk(tick as i64) } else { f64::from(gap_s) };
            let of = if is_up { &mut self.up } else { &mut self.down };
            let ends = tick < last && (trace.data[tick + 1] > 0) != is_up;
            if ends {
                if !is_first {
                    of.push(Spell { from: before, to: Some(age) });
                }
                (is_first, age) = (false, 0.0);
            } else if tick == last {
                of.push(Spell { from: age, to: None });
            }
        }
    }
}

/// A fitted distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub spread: Spread,
    /// Spells whose end was seen, and those that had not ended.
    pub ended: u64,
    pub censored: u64,
    /// Distance of Kolmogorov and Smirnov.
    pub distance: f64,
}

/// The likeliest distribution of the spells; `None` when no spell was seen to end.
pub fn fit(spells: &[Spell]) -> Option<Fit> {
    let ended = spells.iter().filter(|spell| spell.to.is_some()).count();
    if ended == 0 {
        return None;
    }
    let total: f64 = spells.iter().map(|spell| spell.to.unwrap_or(spell.from)).sum();
    let mean = (total / ended as f64).max(1.0);
    let bounds = |shape: f64, most: f64, scale: f64| {
        let is_in = (0.05..=most).contains(&shape) && (1e-3..=1e12).contains(&scale);
        is_in.then_some((shape, scale))
    };
    let weibull = |[shape, scale]: [f64; 2]| {
        bounds(shape.exp(), 20.0, scale.exp()).map(|(shape, scale_s)| Spread::Weibull { shape, scale_s })
    };
    // Beyond a shape of 50 the distribution is the exponential one, which Weibull has as well.
    let lomax = |[shape, scale]: [f64; 2]| {
        bounds(shape.exp(), 50.0, scale.exp()).map(|(shape, scale_s)| Spread::Lomax { shape, scale_s })
    };
    let cost = |spread: Option<Spread>| spread.map_or(f64::INFINITY, |spread| -likelihood(spells, spread));
    let candidates = [
        weibull(minimise([0.0, mean.ln()], |at| cost(weibull(at)))),
        lomax(minimise([0.7, mean.ln()], |at| cost(lomax(at)))),
    ];
    let likeliest = candidates.into_iter().flatten().min_by(|a, b| cost(Some(*a)).total_cmp(&cost(Some(*b))))?;
    let spread = tidy_spread(likeliest);
    let below = |secs: f64| 1.0 - spread.survival(secs);
    let intervals: Vec<(f64, f64)> =
        spells.iter().map(|spell| (below(spell.from), spell.to.map_or(1.0, below))).collect();
    let distance = distance::of_intervals(&intervals);
    Some(Fit { spread, ended: ended as u64, censored: (spells.len() - ended) as u64, distance })
}

fn likelihood(spells: &[Spell], spread: Spread) -> f64 {
    let of = |spell: &Spell| {
        let longer = spread.survival(spell.from);
        let probability = longer - spell.to.map_or(0.0, |to| spread.survival(to));
        probability.max(f64::MIN_POSITIVE).ln()
    };
    spells.iter().map(of).sum()
}

/// The rhythm of losses, by the hours of the day in which they were seen and how long there was capacity in each; least
/// squares on a wave of one day. A swing that chance alone would often show (below 2.5 standard errors) is none.
pub fn rhythm(traces: &[&SpotTrace]) -> Option<Rhythm> {
    let (mut there, mut lost) = ([0.0_f64; 24], [0.0_f64; 24]);
    for trace in traces {
        let clock = Clock::new((trace.gap.as_millis() / 1_000) as u32, trace.start, None);
        for (tick, pair) in trace.data.windows(2).enumerate() {
            if pair[0] > 0 {
                let hour = clock.hour(tick as i64) as usize % 24;
                there[hour] += 1.0;
                lost[hour] += f64::from(u8::from(pair[1] == 0));
            }
        }
    }
    let (exposure, losses): (f64, f64) = (there.iter().sum(), lost.iter().sum());
    if losses < 20.0 {
        return None;
    }
    // Weighted normal equations of 1 + a cos + b sin against the relative risk of each hour.
    let (mut cc, mut ss, mut cs, mut cy, mut sy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for hour in 0..24 {
        let (sin, cos) = (std::f64::consts::TAU * (hour as f64 + 0.5) / 24.0).sin_cos();
        let weight = there[hour] / exposure;
        let excess = lost[hour] / losses - weight;
        (cc, ss, cs) = (cc + weight * cos * cos, ss + weight * sin * sin, cs + weight * sin * cos);
        (cy, sy) = (cy + excess * cos, sy + excess * sin);
    }
    let determinant = cc * ss - cs * cs;
    if determinant < 1e-6 {
        return None;
    }
    let (a, b) = ((cy * ss - sy * cs) / determinant, (sy * cc - cy * cs) / determinant);
    let swing = a.hypot(b);
    let error = (2.0 / losses).sqrt();
    let peak_hour = (b.atan2(a) / std::f64::consts::TAU * 24.0).rem_euclid(24.0);
    (swing > 2.5 * error).then_some(Rhythm { swing: tidy(swing.min(0.95)), peak_hour: tidy(peak_hour) })
}
