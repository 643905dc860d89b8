//! What it costs to move bytes between regions at the account's marginal tier.

use leeway_model::cluster::Region;
use leeway_model::egress::{Destination, EgressTable, PathClass};
use leeway_model::{Bytes, Micros, Timestamp};
use serde::{Deserialize, Serialize};

use crate::state::Tables;
use crate::state::table::RowKey;

/// Tiers count per sending provider and kind of path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathKey {
    pub provider: Box<str>,
    pub class: PathClass,
}

/// What was moved in a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub key: PathKey,
    /// As [`Timestamp::month`] counts.
    pub month: i32,
    pub bytes: Bytes,
}

impl RowKey for PathKey {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(match self.class {
            PathClass::SameRegion => 0,
            PathClass::InterRegion => 1,
            PathClass::Internet => 2,
        });
        out.extend_from_slice(self.provider.as_bytes());
    }
}

/// Egress prices together with what this month has used of their tiers.
#[derive(Clone, Copy, Debug)]
pub struct Locality<'a> {
    pub prices: &'a EgressTable,
    pub tables: &'a Tables,
    pub now: Timestamp,
}

/// The transfers of one bill, in their order: each begins in the tier that those before it have reached.
#[derive(Clone, Debug)]
pub struct Transfers<'a> {
    locality: Locality<'a>,
    /// What this bill moves so far, by who sends it over which kind of path.
    moved: Vec<(&'a str, PathClass, Bytes)>,
}

impl<'a> Locality<'a> {
    /// A bill without transfers.
    pub fn transfers(self) -> Transfers<'a> {
        Transfers { locality: self, moved: Vec::new() }
    }

    /// Cost of moving `bytes` alone, rounded up; zero where nothing moves; `None` when no price is known.
    pub fn cost(self, from: &'a Region, to: &Region, bytes: Bytes) -> Option<Micros> {
        self.transfers().cost(from, to, bytes)
    }

    /// Bytes that this month has moved before.
    fn used(&self, provider: &str, class: PathClass) -> Bytes {
        let key = PathKey { provider: provider.into(), class };
        let moved = self.tables.moved.get(&key).filter(|moved| moved.month == self.now.month());
        moved.map_or(Bytes::ZERO, |moved| moved.bytes)
    }
}

impl<'a> Transfers<'a> {
    /// Cost of moving `bytes` after everything that was added; zero where nothing moves; `None` when no price is
    /// known. A difference of one cumulative function that is rounded up: parts cost together what their sum costs.
    pub fn cost(&self, from: &'a Region, to: &Region, bytes: Bytes) -> Option<Micros> {
        if from == to || bytes.is_zero() {
            return Some(Micros::ZERO);
        }
        let priced = self.locality.prices.price(from, Destination::Region(to)).ok()?;
        let used = self.locality.used(from.provider(), priced.class);
        let before = self.before(from.provider(), priced.class);
        let with = priced.tariff.cost(before.saturating_add(bytes), used);
        Some(with.saturating_sub(priced.tariff.cost(before, used)))
    }

    /// Adds a transfer to the bill.
    pub fn add(&mut self, from: &'a Region, to: &Region, bytes: Bytes) {
        if from == to || bytes.is_zero() {
            return;
        }
        let Ok(priced) = self.locality.prices.price(from, Destination::Region(to)) else { return };
        let provider = from.provider();
        match self.moved.iter_mut().find(|(sender, class, _)| *sender == provider && *class == priced.class) {
            Some((_, _, moved)) => *moved = moved.saturating_add(bytes),
            None => self.moved.push((provider, priced.class, bytes)),
        }
    }

    fn before(&self, provider: &str, class: PathClass) -> Bytes {
        let same = |(sender, of, _): &&(&str, PathClass, Bytes)| *sender == provider && *of == class;
        self.moved.iter().find(same).map_or(Bytes::ZERO, |(_, _, moved)| *moved)
    }
}

/// Counts bytes that were moved, so that the next transfer is priced at its tier.
pub fn count(prices: &EgressTable, tables: &mut Tables, now: Timestamp, from: &Region, to: &Region, bytes: Bytes) {
    if from == to || bytes.is_zero() {
        return;
    }
    let Ok(priced) = prices.price(from, Destination::Region(to)) else { return };
    let key = PathKey { provider: from.provider().into(), class: priced.class };
    let month = now.month();
    let before = tables.moved.get(&key).filter(|moved| moved.month == month).map_or(Bytes::ZERO, |moved| moved.bytes);
    let moved = Moved { key: key.clone(), month, bytes: before.saturating_add(bytes) };
    tables.moved.insert(key, moved);
}

#[cfg(test)]
mod tests {
    use leeway_model::egress::{EgressSpec, ProviderSpec, RuleSpec, TierSpec, Unit};

    use super::*;

    /// Between regions of a cloud: the first 10 GB of a month are free, then 0.02 a GB.
    fn prices() -> EgressTable {
        let tier = |from, price: &str| TierSpec { from, price: price.into() };
        let rule = RuleSpec { from: "*".into(), to: "*".into(), tiers: vec![tier(0, "0"), tier(10, "0.02")] };
        let provider = ProviderSpec {
            unit: Unit::Gb,
            same_region: vec![tier(0, "0")],
            groups: Default::default(),
            rules: vec![rule],
        };
        EgressSpec { providers: [("aws".into(), provider)].into(), pairs: vec![] }.table().unwrap()
    }

    #[test]
    fn a_transfer_is_priced_at_the_tier_that_the_month_has_reached() {
        let (prices, mut tables) = (prices(), Tables::default());
        let (east, west): (Region, Region) = ("aws/east".parse().unwrap(), "aws/west".parse().unwrap());
        let march: Timestamp = "2026-03-31T23:00:00Z".parse().unwrap();
        let april: Timestamp = "2026-04-01T00:00:00Z".parse().unwrap();
        let cost = |tables: &Tables, now, bytes| Locality { prices: &prices, tables, now }.cost(&east, &west, bytes);
        assert_eq!(cost(&tables, march, Bytes::from_gb(15)), Some(Micros::new(100_000)));
        count(&prices, &mut tables, march, &east, &west, Bytes::from_gb(15));
        assert_eq!(cost(&tables, march, Bytes::from_gb(15)), Some(Micros::new(300_000)));
        assert_eq!(cost(&tables, april, Bytes::from_gb(15)), Some(Micros::new(100_000)), "a new month begins");
        let elsewhere: Region = "onprem/berlin".parse().unwrap();
        let unknown = Locality { prices: &prices, tables: &tables, now: march }.cost(&elsewhere, &west, Bytes::new(1));
        assert_eq!(unknown, None);
    }
}
