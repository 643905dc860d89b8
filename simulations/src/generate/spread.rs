//! Distributions of lengths of time, by their survival function; a draw inverts it.

use serde::{Deserialize, Serialize};

use crate::random::Stream;

/// A distribution of positive lengths in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Spread {
    /// The logarithm of the seconds is normal with this mean and deviation.
    LogNormal { mu: f64, sigma: f64 },
    /// Survival `exp(-(t / scale)^shape)`: lengths that have lasted long last longer when the shape is below 1.
    Weibull { shape: f64, scale_s: f64 },
    /// Survival `(1 + t / scale)^-shape`, the Pareto distribution that begins at zero: a tail as heavy as the shape is small.
    Lomax { shape: f64, scale_s: f64 },
}

impl Spread {
    /// The parameter that no distribution can have, if there is one.
    pub fn fault(&self) -> Option<String> {
        let above = |name: &str, value: f64| {
            let is_good = value.is_finite() && value > 0.0;
            (!is_good).then(|| format!("{name} is {value}; it must be a number above 0"))
        };
        match *self {
            Self::LogNormal { mu, sigma } if !mu.is_finite() || !(0.0..=100.0).contains(&sigma) => {
                Some(format!("mu is {mu} and sigma {sigma}; they must be numbers, sigma from 0 to 100"))
            }
            Self::LogNormal { .. } => None,
            Self::Weibull { shape, scale_s } | Self::Lomax { shape, scale_s } => {
                above("shape", shape).or_else(|| above("scale_s", scale_s))
            }
        }
    }

    /// The probability of lasting longer than so many seconds.
    pub fn survival(&self, secs: f64) -> f64 {
        if secs <= 0.0 {
            return 1.0;
        }
        match *self {
            Self::LogNormal { mu, sigma: 0.0 } => f64::from(secs.ln() < mu),
            Self::LogNormal { mu, sigma } => normal_survival((secs.ln() - mu) / sigma),
            Self::Weibull { shape, scale_s } => (-(secs / scale_s).powf(shape)).exp(),
            Self::Lomax { shape, scale_s } => (-shape * (secs / scale_s).ln_1p()).exp(),
        }
    }

    /// Half of all lengths are longer, in seconds.
    pub fn median(&self) -> f64 {
        match *self {
            Self::LogNormal { mu, .. } => mu.exp(),
            Self::Weibull { shape, scale_s } => scale_s * std::f64::consts::LN_2.powf(shape.recip()),
            Self::Lomax { shape, scale_s } => scale_s * (std::f64::consts::LN_2 / shape).exp_m1(),
        }
    }

    /// One length in seconds. It may be larger than any limit of the caller's, since tails are heavy.
    pub fn draw(&self, stream: &mut Stream) -> f64 {
        match *self {
            Self::LogNormal { mu, sigma } => (mu + sigma * normal(stream)).exp(),
            Self::Weibull { shape, scale_s } => scale_s * (-unit(stream).ln()).powf(shape.recip()),
            Self::Lomax { shape, scale_s } => scale_s * (-unit(stream).ln() / shape).exp_m1(),
        }
    }
}

/// A number strictly between 0 and 1.
pub fn unit(stream: &mut Stream) -> f64 {
    ((stream.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// A standard normal number, by the transform of Box and Muller; each takes two draws, so that streams stay in step.
pub fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * unit(stream).ln()).sqrt();
    radius * (std::f64::consts::TAU * unit(stream)).cos()
}

/// The probability that a standard normal number is above `z`: the rational approximation 26.2.17 of Abramowitz and
/// Stegun, off by less than 1e-7.
pub fn normal_survival(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let polynomial = t * series.iter().rev().fold(0.0, |sum, term| sum * t + term);
    let tail = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * polynomial;
    if z >= 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::stream;

    #[test]
    fn draws_follow_their_survival_function() {
        for (name, spread) in [
            ("log-normal", Spread::LogNormal { mu: 7.0, sigma: 1.5 }),
            ("weibull", Spread::Weibull { shape: 0.6, scale_s: 4_000.0 }),
            ("lomax", Spread::Lomax { shape: 1.4, scale_s: 3_000.0 }),
        ] {
            let mut stream = stream(3, name);
            let mut draws: Vec<f64> = (0..20_000).map(|_| spread.draw(&mut stream)).collect();
            draws.sort_by(f64::total_cmp);
            let far = |(index, secs): (usize, &f64)| {
                (1.0 - spread.survival(*secs) - (index as f64 + 0.5) / draws.len() as f64).abs()
            };
            let distance = draws.iter().enumerate().map(far).fold(0.0, f64::max);
            // The Kolmogorov bound for 20,000 draws at one in ten thousand.
            assert!(distance < 0.0158, "{name}: {distance}");
            assert!((spread.survival(spread.median()) - 0.5).abs() < 1e-6, "{name}");
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        assert!(Spread::Lomax { shape: 0.0, scale_s: 1.0 }.fault().unwrap().contains("shape"));
        assert!(Spread::Weibull { shape: 1.0, scale_s: f64::NAN }.fault().unwrap().contains("scale_s"));
        assert!(Spread::LogNormal { mu: 1.0, sigma: -1.0 }.fault().unwrap().contains("sigma"));
        assert_eq!(Spread::LogNormal { mu: 1.0, sigma: 0.0 }.fault(), None);
    }
}
