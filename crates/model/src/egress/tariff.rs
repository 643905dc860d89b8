//! A price for moved bytes: so much per GB or GiB, in tiers that count what an account has moved in a month.
//!
//! The cost of a transfer is the difference of one cumulative function, rounded up to a micro-unit. So it never falls
//! when bytes are added, has no jump at the edge of a tier, and splitting a transfer changes its cost by no more than
//! the rounding: one micro-unit a part.

use crate::{Bytes, Micros};
use serde::{Deserialize, Serialize};

/// What a provider bills by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// 10^9 bytes.
    #[serde(rename = "GB")]
    Gb,
    /// 2^30 bytes.
    #[serde(rename = "GiB")]
    Gib,
}

impl Unit {
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Gb => Bytes::GB,
            Self::Gib => Bytes::GIB,
        }
    }
}

/// From this many units a month on, a unit costs this many nano-units of the currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    pub from_units: u64,
    pub nanos_per_unit: u64,
}

/// Tiers in rising order, the first from zero on, the last without an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tariff {
    unit: Unit,
    tiers: Vec<Tier>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TariffError {
    #[error("a tariff needs at least one tier; write one with price 0 for a free path")]
    Empty,
    #[error("the first tier must begin at 0, not at {0}")]
    FirstTier(u64),
    #[error("a tier at {0} must come after the tier at {1}")]
    Order(u64, u64),
    #[error("at most {max} tiers are taken, this tariff has {0}", max = Tariff::TIERS_MAX)]
    TooMany(usize),
    #[error("a price of {0} nano-units is beyond the highest, 1000 a unit")]
    Price(u64),
}

impl Tariff {
    pub const TIERS_MAX: usize = 32;
    /// 1,000 currency units per GB: far above any price, and low enough that no sum can overflow.
    pub const NANOS_MAX: u64 = 1_000_000_000_000;

    pub fn new(unit: Unit, tiers: Vec<Tier>) -> Result<Self, TariffError> {
        let first = tiers.first().ok_or(TariffError::Empty)?;
        if first.from_units != 0 {
            return Err(TariffError::FirstTier(first.from_units));
        }
        if tiers.len() > Self::TIERS_MAX {
            return Err(TariffError::TooMany(tiers.len()));
        }
        if let Some(pair) = tiers.windows(2).find(|pair| pair[1].from_units <= pair[0].from_units) {
            return Err(TariffError::Order(pair[1].from_units, pair[0].from_units));
        }
        match tiers.iter().find(|tier| tier.nanos_per_unit > Self::NANOS_MAX) {
            Some(tier) => Err(TariffError::Price(tier.nanos_per_unit)),
            None => Ok(Self { unit, tiers }),
        }
    }

    /// One price for any amount.
    pub fn flat(unit: Unit, nanos_per_unit: u64) -> Result<Self, TariffError> {
        Self::new(unit, vec![Tier { from_units: 0, nanos_per_unit }])
    }

    pub fn unit(&self) -> Unit {
        self.unit
    }

    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// The highest price of a unit in any tier, in nano-units.
    pub fn highest(&self) -> u64 {
        self.tiers.iter().map(|tier| tier.nanos_per_unit).max().unwrap_or(0)
    }

    /// Cost of `bytes` more when `used` have been moved this month, rounded up to a micro-unit; saturates.
    pub fn cost(&self, bytes: Bytes, used: Bytes) -> Micros {
        let used = u128::from(used.get());
        let exact = self.exact(used + u128::from(bytes.get())) - self.exact(used);
        let micros = exact.div_ceil(u128::from(self.unit.bytes()) * 1_000);
        Micros::new(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// Nano-units times bytes of a unit for the first `bytes` of a month. At most 2^65 bytes x 10^12 nano-units, which
    /// is below 2^105.
    fn exact(&self, bytes: u128) -> u128 {
        let unit = u128::from(self.unit.bytes());
        let ends = self.tiers.iter().skip(1).map(|tier| u128::from(tier.from_units) * unit).chain([u128::MAX]);
        self.tiers
            .iter()
            .zip(ends)
            .map(|(tier, end)| {
                let within = bytes.min(end).saturating_sub(u128::from(tier.from_units) * unit);
                within * u128::from(tier.nanos_per_unit)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tiered() -> Tariff {
        let tier = |from_units, nanos_per_unit| Tier { from_units, nanos_per_unit };
        let tiers = vec![tier(0, 0), tier(100, 90_000_000), tier(10_240, 85_000_000), tier(51_200, 70_000_000)];
        Tariff::new(Unit::Gb, tiers).unwrap()
    }

    #[test]
    fn tiers_are_charged_by_what_the_month_has_used() {
        let tariff = tiered();
        for (gb, used_gb, micros) in [
            (100, 0, 0),
            (101, 0, 90_000),
            (1, 100, 90_000),
            (10_140, 100, 912_600_000),
            (1, 10_240, 85_000),
            (2, 10_239, 175_000),
        ] {
            assert_eq!(tariff.cost(Bytes::from_gb(gb), Bytes::from_gb(used_gb)), Micros::new(micros), "{gb} {used_gb}");
        }
        assert_eq!(tariff.cost(Bytes::ZERO, Bytes::from_gb(500)), Micros::ZERO);
        assert_eq!(tariff.cost(Bytes::new(1), Bytes::from_gb(500)), Micros::new(1));
    }

    #[test]
    fn a_gib_is_not_a_gb() {
        let gib = Tariff::flat(Unit::Gib, 120_000_000).unwrap();
        assert_eq!(gib.cost(Bytes::from_gib(10), Bytes::ZERO), Micros::new(1_200_000));
        assert!(gib.cost(Bytes::from_gb(10), Bytes::ZERO) < Micros::new(1_200_000));
    }

    #[test]
    fn a_malformed_tariff_is_refused() {
        let tier = |from_units, nanos_per_unit| Tier { from_units, nanos_per_unit };
        let check = |tiers: Vec<Tier>, error| assert_eq!(Tariff::new(Unit::Gb, tiers), Err(error));
        check(vec![], TariffError::Empty);
        check(vec![tier(5, 1)], TariffError::FirstTier(5));
        check(vec![tier(0, 1), tier(9, 1), tier(9, 2)], TariffError::Order(9, 9));
        check(vec![tier(0, 1 << 50)], TariffError::Price(1 << 50));
    }

    fn any_tariff() -> impl Strategy<Value = Tariff> {
        let steps = proptest::collection::vec((1_u64..1_000_000, 0_u64..=Tariff::NANOS_MAX), 1..8);
        (steps, any::<bool>()).prop_map(|(steps, gib)| {
            let mut from_units = 0;
            let tiers = steps.iter().enumerate().map(|(index, (step, nanos_per_unit))| {
                from_units += if index == 0 { 0 } else { *step };
                Tier { from_units, nanos_per_unit: *nanos_per_unit }
            });
            Tariff::new(if gib { Unit::Gib } else { Unit::Gb }, tiers.collect()).unwrap()
        })
    }

    proptest! {
        #[test]
        fn cost_never_falls_when_bytes_are_added(
            tariff in any_tariff(), used in any::<u64>(), bytes in any::<u64>(), more in any::<u64>()
        ) {
            let least = tariff.cost(Bytes::new(bytes), Bytes::new(used));
            let most = tariff.cost(Bytes::new(bytes).saturating_add(Bytes::new(more)), Bytes::new(used));
            prop_assert!(!least.is_negative() && least <= most);
        }

        #[test]
        fn a_split_transfer_costs_the_same_up_to_one_micro(
            tariff in any_tariff(), used in 0_u64..1 << 60, a in 0_u64..1 << 50, b in 0_u64..1 << 50
        ) {
            let (used, first, second) = (Bytes::new(used), Bytes::new(a), Bytes::new(b));
            let parts = tariff.cost(first, used).get() + tariff.cost(second, used.saturating_add(first)).get();
            let whole = tariff.cost(first.saturating_add(second), used).get();
            prop_assert!((whole..=whole + 1).contains(&parts), "{} {}", parts, whole);
        }

        #[test]
        fn there_is_no_jump_at_the_edge_of_a_tier(tariff in any_tariff(), pick in any::<prop::sample::Index>()) {
            let edge = tariff.tiers()[pick.index(tariff.tiers().len())].from_units * tariff.unit().bytes();
            let below = tariff.cost(Bytes::new(edge), Bytes::ZERO).get();
            let above = tariff.cost(Bytes::new(edge + 1), Bytes::ZERO).get();
            // One byte costs at most 1,000 units / 10^9 bytes = 1 micro, and rounding adds one more.
            prop_assert!((0..=2).contains(&(above - below)), "{} {}", below, above);
        }
    }
}
