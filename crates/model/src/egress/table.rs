//! Which tariff holds between two places.
//!
//! The order of looking: a price stated for this very pair of regions; the same region; the first rule of the sending
//! provider that fits. When nothing fits the price is [`Unknown`], never zero: the caller takes its upper bound and says
//! so.

use std::collections::BTreeMap;

use crate::cluster::Region;
use crate::{Bytes, Micros};
use serde::{Deserialize, Serialize};

use super::spec::{EgressSpec, SpecError};
use super::tariff::Tariff;

/// Where bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    Region(&'a Region),
    /// Anywhere outside the providers, such as a person's own machine.
    Internet,
}

/// What kind of path it is. Tiers count per sending provider and class, so this is also the key of the month's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathClass {
    SameRegion,
    /// Between two regions of one provider.
    InterRegion,
    /// To another provider or out of all of them.
    Internet,
}

/// The tariff that holds, with the kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priced<'a> {
    pub class: PathClass,
    pub tariff: &'a Tariff,
}

/// No price is known for a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no egress price is known from {from} to {to}; add the pair to the egress table")]
pub struct Unknown {
    pub from: Region,
    /// A region, or `internet`.
    pub to: Box<str>,
}

/// Prices between regions and to the internet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "EgressSpec", into = "EgressSpec")]
pub struct EgressTable {
    pub(super) providers: BTreeMap<Box<str>, Provider>,
    pub(super) pairs: BTreeMap<Region, BTreeMap<Region, Tariff>>,
}

/// How one provider charges for what leaves its regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Provider {
    pub same_region: Tariff,
    /// Group name to the beginnings of its regions' names.
    pub groups: BTreeMap<Box<str>, Vec<Box<str>>>,
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub from: Pattern,
    pub to: Pattern,
    pub tariff: Tariff,
}

/// One end of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Every region of the provider.
    AnyRegion,
    Group(Box<str>),
    /// Other providers and the internet; only as a destination.
    Internet,
}

impl EgressTable {
    /// The tariff from a region to a destination.
    pub fn price(&self, from: &Region, to: Destination<'_>) -> Result<Priced<'_>, Unknown> {
        let class = class(from, to);
        self.pair(from, to).or_else(|| self.rule(from, to, class)).map(|tariff| Priced { class, tariff }).ok_or_else(
            || {
                let to = match to {
                    Destination::Region(region) => region.as_str().into(),
                    Destination::Internet => "internet".into(),
                };
                Unknown { from: from.clone(), to }
            },
        )
    }

    /// Cost of moving `bytes` between regions when the account has moved `used_this_month` on paths of this class from
    /// this provider. Rounded up to a micro-unit.
    pub fn cost(&self, from: &Region, to: &Region, bytes: Bytes, used_this_month: Bytes) -> Result<Micros, Unknown> {
        Ok(self.price(from, Destination::Region(to))?.tariff.cost(bytes, used_this_month))
    }

    /// Cost of moving `bytes` out of all providers.
    pub fn cost_to_internet(&self, from: &Region, bytes: Bytes, used_this_month: Bytes) -> Result<Micros, Unknown> {
        Ok(self.price(from, Destination::Internet)?.tariff.cost(bytes, used_this_month))
    }

    /// The highest price per unit that the table knows, as a flat tariff in the smaller unit: an upper bound for what it
    /// does not know. `None` for a table without prices.
    pub fn upper_bound(&self) -> Option<Tariff> {
        let rules = self.providers.values().flat_map(|provider| provider.rules.iter().map(|rule| &rule.tariff));
        let pairs = self.pairs.values().flat_map(BTreeMap::values);
        let highest = rules.chain(pairs).map(Tariff::highest).max()?;
        Tariff::flat(super::Unit::Gb, highest).ok()
    }

    /// States the price of one ordered pair of regions. Returns the price that held before.
    pub fn set_pair(&mut self, from: Region, to: Region, tariff: Tariff) -> Option<Tariff> {
        self.pairs.entry(from).or_default().insert(to, tariff)
    }

    /// Stated pairs.
    pub fn pairs(&self) -> impl Iterator<Item = (&Region, &Region, &Tariff)> {
        self.pairs.iter().flat_map(|(from, to)| to.iter().map(move |(to, tariff)| (from, to, tariff)))
    }

    /// Takes over every provider and pair of another table; what it states replaces what is here.
    pub fn overlay(&mut self, other: Self) {
        self.providers.extend(other.providers);
        for (from, to) in other.pairs {
            self.pairs.entry(from).or_default().extend(to);
        }
    }

    fn pair(&self, from: &Region, to: Destination<'_>) -> Option<&Tariff> {
        match to {
            Destination::Region(to) => self.pairs.get(from)?.get(to),
            Destination::Internet => None,
        }
    }

    fn rule(&self, from: &Region, to: Destination<'_>, class: PathClass) -> Option<&Tariff> {
        let provider = self.providers.get(from.provider())?;
        if class == PathClass::SameRegion {
            return Some(&provider.same_region);
        }
        let fits = |rule: &&Rule| {
            provider.holds(&rule.from, from)
                && match (class, to) {
                    (PathClass::InterRegion, Destination::Region(to)) => provider.holds(&rule.to, to),
                    _ => rule.to == Pattern::Internet,
                }
        };
        provider.rules.iter().find(fits).map(|rule| &rule.tariff)
    }
}

impl Provider {
    fn holds(&self, pattern: &Pattern, region: &Region) -> bool {
        match pattern {
            Pattern::AnyRegion => true,
            Pattern::Group(group) => self
                .groups
                .get(group)
                .is_some_and(|beginnings| beginnings.iter().any(|beginning| region.name().starts_with(&**beginning))),
            Pattern::Internet => false,
        }
    }
}

fn class(from: &Region, to: Destination<'_>) -> PathClass {
    match to {
        Destination::Region(to) if from == to => PathClass::SameRegion,
        Destination::Region(to) if from.provider() == to.provider() => PathClass::InterRegion,
        Destination::Region(_) | Destination::Internet => PathClass::Internet,
    }
}

impl TryFrom<EgressSpec> for EgressTable {
    type Error = SpecError;

    fn try_from(spec: EgressSpec) -> Result<Self, SpecError> {
        spec.table()
    }
}
