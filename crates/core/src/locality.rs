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

impl Locality<'_> {
    /// Cost of moving `bytes`, rounded up; zero where nothing moves; `None` when no price is known.
    pub fn cost(&self, from: &Region, to: &Region, bytes: Bytes) -> Option<Micros> {
        if from == to || bytes.is_zero() {
            return Some(Micros::ZERO);
        }
        let priced = self.prices.price(from, Destination::Region(to)).ok()?;
        let key = PathKey { provider: from.provider().into(), class: priced.class };
        let moved = self.tables.moved.get(&key).filter(|moved| moved.month == self.now.month());
        Some(priced.tariff.cost(bytes, moved.map_or(Bytes::ZERO, |moved| moved.bytes)))
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
