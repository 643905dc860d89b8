//! When jobs arrive: a Poisson process whose rate may follow the hours of the week.

use leeway_model::Millis;
use serde::{Deserialize, Serialize};

use super::spread::unit;
use crate::random::Stream;

/// Hours of a week, and so entries of a weekly rhythm.
pub const WEEK: usize = 168;
const HOUR_MS: f64 = 3_600_000.0;
/// Arrivals end here: a century.
const LAST_MS: f64 = 876_600.0 * HOUR_MS;

/// A rate of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// Mean over a whole week.
    pub per_hour: f64,
    /// A factor on the mean for each hour of the week, the first one being the first hour of the trace; empty when the
    /// rate is the same at all hours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weekly: Vec<f64>,
}

impl Arrivals {
    /// The same rate at all hours.
    pub const fn constant(per_hour: f64) -> Self {
        Self { per_hour, weekly: Vec::new() }
    }

    /// A rate that swings over each day by this share of its mean, with its peak at this hour, and that is at weekends,
    /// days 6 and 7, this share of what it is otherwise. The mean over the week stays `per_hour`.
    pub fn diurnal(per_hour: f64, swing: f64, peak_hour: f64, weekend: f64) -> Self {
        let factor = |hour: usize| {
            let angle = std::f64::consts::TAU * ((hour % 24) as f64 + 0.5 - peak_hour) / 24.0;
            (1.0 + swing.clamp(0.0, 1.0) * angle.cos()) * if hour >= 120 { weekend.max(0.0) } else { 1.0 }
        };
        let mut weekly: Vec<f64> = (0..WEEK).map(factor).collect();
        let mean = weekly.iter().sum::<f64>() / WEEK as f64;
        weekly.iter_mut().for_each(|factor| *factor /= mean);
        Self { per_hour, weekly }
    }

    /// What is wrong with the parameters, if anything is.
    pub fn fault(&self) -> Option<String> {
        if !(self.per_hour > 0.0 && self.per_hour <= 1e9) {
            return Some(format!("per_hour is {}; it must be a number above 0 and at most 1e9", self.per_hour));
        }
        if !self.weekly.is_empty() && self.weekly.len() != WEEK {
            return Some(format!("weekly has {} entries; it must have 168, or none", self.weekly.len()));
        }
        if let Some(wrong) = self.weekly.iter().find(|factor| !(0.0..=1e6).contains(*factor)) {
            return Some(format!("weekly has the factor {wrong}; factors are from 0 to 1e6"));
        }
        let is_silent = !self.weekly.is_empty() && self.weekly.iter().sum::<f64>() < 1e-6;
        is_silent.then(|| "weekly has no hour with arrivals".to_owned())
    }

    /// The moments of arrival from time zero on, in order, without an end but the end of a century.
    ///
    /// Parameters with a [`fault`](Self::fault) give no arrivals.
    pub fn times(&self, stream: Stream) -> Times {
        let is_good = self.fault().is_none();
        Times { arrivals: self.clone(), stream, at_ms: if is_good { 0.0 } else { f64::INFINITY } }
    }

    /// How many arrivals are expected from time zero to this moment.
    pub fn expected(&self, at: Millis) -> f64 {
        let at = at.as_millis() as f64 / HOUR_MS;
        if self.weekly.is_empty() {
            return self.per_hour * at;
        }
        let (whole, part) = (at as u64, at.fract());
        let weeks = (whole / WEEK as u64) as f64 * self.weekly.iter().sum::<f64>();
        let hour = (whole % WEEK as u64) as usize;
        self.per_hour * (weeks + self.weekly[..hour].iter().sum::<f64>() + part * self.weekly[hour])
    }

    /// Arrivals a millisecond in the hour with this number.
    fn rate(&self, hour: u64) -> f64 {
        let factor = if self.weekly.is_empty() { 1.0 } else { self.weekly[(hour % WEEK as u64) as usize] };
        self.per_hour * factor / HOUR_MS
    }
}

/// See [`Arrivals::times`].
#[derive(Clone, Debug)]
pub struct Times {
    arrivals: Arrivals,
    stream: Stream,
    at_ms: f64,
}

impl Iterator for Times {
    type Item = Millis;

    /// One draw for each arrival: the amount of expected arrivals until it, spent hour by hour.
    fn next(&mut self) -> Option<Millis> {
        let mut amount = -unit(&mut self.stream).ln();
        while self.at_ms < LAST_MS {
            let hour = (self.at_ms / HOUR_MS).floor();
            let end = (hour + 1.0) * HOUR_MS;
            let rate = self.arrivals.rate(hour as u64);
            let in_hour = rate * (end - self.at_ms);
            if amount < in_hour {
                self.at_ms += amount / rate;
                return Some(Millis::new(self.at_ms as u64));
            }
            amount -= in_hour;
            self.at_ms = end;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn arrivals_come_in_order_at_the_rate_of_their_hour() {
        let arrivals = Arrivals::diurnal(50.0, 0.8, 14.0, 0.4);
        let weeks = 20;
        let mut seen = [0.0; WEEK];
        let mut last = Millis::ZERO;
        for at in arrivals.times(stream(1, "arrivals")).take_while(|at| *at < Millis::from_hours(weeks * 168)) {
            assert!(at >= last);
            last = at;
            seen[(at.as_millis() / 3_600_000) as usize % WEEK] += 1.0;
        }
        for (hour, seen) in seen.iter().enumerate() {
            let expected = 50.0 * arrivals.weekly[hour] * weeks as f64;
            assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "hour {hour}: {seen} of {expected}");
        }
        assert!((arrivals.weekly.iter().sum::<f64>() - 168.0).abs() < 1e-9);
    }

    #[test]
    fn hours_without_arrivals_are_passed_over_and_wrong_rates_give_none() {
        let mut weekly = vec![0.0; WEEK];
        weekly[5] = 168.0;
        let arrivals = Arrivals { per_hour: 1.0, weekly };
        for at in arrivals.times(stream(1, "arrivals")).take(500) {
            assert_eq!(at.as_millis() / 3_600_000 % 168, 5);
        }
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let arrivals = Arrivals::constant(wrong);
            assert!(arrivals.fault().is_some());
            assert_eq!(arrivals.times(stream(1, "arrivals")).next(), None, "{wrong}");
        }
        let silent = Arrivals { per_hour: 1.0, weekly: vec![0.0; WEEK] };
        assert!(silent.fault().unwrap().contains("no hour"));
    }
}
