//! Offers and what is observed about them: prices, capacity and how often machines are taken back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::resources::CapacityType;
use crate::{Currency, Millis, Name, Rate, Timestamp};

/// Names one offer: a cluster's machine shape under one capacity type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OfferKey {
    pub cluster: Name,
    pub shape: Name,
    pub capacity: CapacityType,
}

impl OfferKey {
    /// A key that no offer of the cluster sorts before.
    pub fn first_of(cluster: &Name) -> Self {
        let smallest = "0".parse().expect("'0' is a name, and none sorts before it");
        Self { cluster: cluster.clone(), shape: smallest, capacity: CapacityType::Spot }
    }
}

impl fmt::Display for OfferKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}/{}", self.cluster, self.shape, self.capacity))
    }
}

/// One machine's price, with where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    pub rate: Rate,
    pub currency: Currency,
    pub observed: Timestamp,
    pub source: Source,
}

/// Where a number came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// Declared by the operator; does not grow stale.
    Declared,
    Catalog,
    Feed,
    Trace,
}

impl Source {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Catalog => "catalog",
            Self::Feed => "feed",
            Self::Trace => "trace",
        }
    }
}

/// A price as a feed reports it, before it is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriceObservation {
    pub offer: OfferKey,
    pub price: Price,
}

/// How many machines of an offer the market lets us hold at a moment, those we already hold included; `None` when the
/// provider does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityObservation {
    pub offer: OfferKey,
    pub available: Option<u32>,
}

/// Why an observed price is not used. The offer keeps its last good price until that grows stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PriceFault {
    Zero,
    OutOfRange,
    UnknownCurrency,
    UnknownOffer,
    OlderThanKnown,
}

impl PriceFault {
    pub const fn code(self) -> &'static str {
        match self {
            Self::Zero => "ZERO_PRICE",
            Self::OutOfRange => "PRICE_OUT_OF_RANGE",
            Self::UnknownCurrency => "UNKNOWN_CURRENCY",
            Self::UnknownOffer => "UNKNOWN_OFFER",
            Self::OlderThanKnown => "OLDER_THAN_KNOWN",
        }
    }
}

/// What we have seen of an offer's interruptions: time under way and how often it was cut short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptionBelief {
    /// Machine time observed.
    pub exposure: Millis,
    pub interruptions: u32,
    /// Interruptions that came with a notice whose final checkpoint succeeded.
    pub saved: u32,
}

impl InterruptionBelief {
    /// Prior: a mean of 20 hours between interruptions, worth two events (so that a quiet first hour moves little).
    const PRIOR_EVENTS: f64 = 2.0;
    const PRIOR_HOURS: f64 = 40.0;

    /// Interruptions an hour of one spot machine.
    pub fn per_hour(&self) -> f64 {
        (f64::from(self.interruptions) + Self::PRIOR_EVENTS) / (self.exposure.as_hours_f64() + Self::PRIOR_HOURS)
    }

    /// Lower 90 % bound (Wilson) of the share of interruptions whose final checkpoint succeeded; 0 without history.
    pub fn saved_share(&self) -> f64 {
        if self.interruptions == 0 {
            return 0.0;
        }
        const Z: f64 = 1.281_551_565_545;
        let n = f64::from(self.interruptions);
        let p = f64::from(self.saved.min(self.interruptions)) / n;
        let centre = p + Z * Z / (2.0 * n);
        let margin = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
        ((centre - margin) / (1.0 + Z * Z / n)).clamp(0.0, 1.0)
    }
}

/// An offer as the market stands now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    pub key: OfferKey,
    /// The last good price; `None` until one is known.
    pub price: Option<Price>,
    /// The last fault seen on a price of this offer, with how many there were.
    pub price_fault: Option<(PriceFault, u32)>,
    /// Machines that can be held at once, those we hold included, when known.
    pub available: Option<u32>,
    /// No launch before this instant, after a refusal or a loss.
    pub cooling_until: Option<Timestamp>,
    /// Length of the last cool-down; doubles up to an hour.
    pub cooldown: Millis,
    pub belief: InterruptionBelief,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiet_first_hour_hardly_moves_the_interruption_rate() {
        let quiet = InterruptionBelief { exposure: Millis::from_hours(1), ..Default::default() };
        assert!((quiet.per_hour() - 2.0 / 41.0).abs() < 1e-12);
        let busy = InterruptionBelief { exposure: Millis::from_hours(60), interruptions: 48, saved: 0 };
        assert!((busy.per_hour() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_saved_share_starts_at_zero_and_stays_below_what_was_seen() {
        assert_eq!(InterruptionBelief::default().saved_share(), 0.0);
        let seen = InterruptionBelief { interruptions: 10, saved: 8, ..Default::default() };
        assert!(seen.saved_share() > 0.5 && seen.saved_share() < 0.8);
    }
}
