//! The egress table as a person writes it, for example in TOML, and as it is stored.
//!
//! ```toml
//! [providers.aws]
//! unit = "GB"
//! groups = { us = ["us-east-", "us-west-"] }
//! same_region = [{ from = 0, price = "0" }]
//! rules = [
//!     { from = "us", to = "*", tiers = [{ from = 0, price = "0.02" }] },
//!     { from = "*", to = "internet", tiers = [{ from = 0, price = "0" }, { from = 100, price = "0.09" }] },
//! ]
//!
//! [[pairs]]
//! from = "aws/us-east-1"
//! to = "aws/us-east-2"
//! unit = "GB"
//! tiers = [{ from = 0, price = "0.01" }]
//! ```
//!
//! Prices are decimal text in the ledger's currency; `from` of a tier counts units a month. A rule's ends are `*` (any
//! region of this provider), a group, or, as destination, `internet` (which includes other providers). The first rule
//! that fits holds.

use std::collections::BTreeMap;

use crate::cluster::{Region, RegionError};
use crate::{Name, NameError, Rate};
use serde::{Deserialize, Serialize};

use super::table::{EgressTable, Pattern, Provider, Rule};
use super::tariff::{Tariff, TariffError, Tier, Unit};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressSpec {
    #[serde(default)]
    pub providers: BTreeMap<String, ProviderSpec>,
    #[serde(default)]
    pub pairs: Vec<PairSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSpec {
    pub unit: Unit,
    pub same_region: Vec<TierSpec>,
    #[serde(default)]
    pub groups: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub rules: Vec<RuleSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    pub from: String,
    pub to: String,
    pub tiers: Vec<TierSpec>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierSpec {
    pub from: u64,
    pub price: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairSpec {
    pub from: String,
    pub to: String,
    pub unit: Unit,
    pub tiers: Vec<TierSpec>,
}

/// Why a table is refused, with the place in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct SpecError {
    pub at: String,
    pub problem: SpecProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecProblem {
    #[error(transparent)]
    Tariff(#[from] TariffError),
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Provider(#[from] NameError),
    #[error("'{0}' is not a price; write a decimal number of zero or more such as \"0.09\"")]
    Price(String),
    #[error("'{0}' is neither '*' nor a group of this provider (nor, as a destination, 'internet')")]
    Pattern(String),
    #[error("a group may not be called '{0}'")]
    GroupName(String),
    #[error("the pair {0} to {1} is stated twice")]
    Twice(Region, Region),
}

impl EgressSpec {
    /// Checks everything and builds the table.
    pub fn table(&self) -> Result<EgressTable, SpecError> {
        let mut table = EgressTable::default();
        for (name, spec) in &self.providers {
            let at = format!("providers.{name}");
            name.parse::<Name>().map_err(|error| error_at(&at, error))?;
            table.providers.insert(name.as_str().into(), spec.provider(&at)?);
        }
        for (index, pair) in self.pairs.iter().enumerate() {
            let at = format!("pairs[{index}]");
            let region = |text: &str| text.parse::<Region>().map_err(|error| error_at(&at, error));
            let (from, to) = (region(&pair.from)?, region(&pair.to)?);
            if table.set_pair(from.clone(), to.clone(), tariff(&at, pair.unit, &pair.tiers)?).is_some() {
                return Err(error_at(&at, SpecProblem::Twice(from, to)));
            }
        }
        Ok(table)
    }
}

impl ProviderSpec {
    fn provider(&self, at: &str) -> Result<Provider, SpecError> {
        if let Some(name) = self.groups.keys().find(|name| ["*", "internet"].contains(&name.as_str())) {
            return Err(error_at(&format!("{at}.groups"), SpecProblem::GroupName(name.clone())));
        }
        let boxed = |list: &Vec<String>| list.iter().map(|text| text.as_str().into()).collect();
        let rule = |(index, rule): (usize, &RuleSpec)| {
            let at = format!("{at}.rules[{index}]");
            Ok(Rule {
                from: self.pattern(&at, &rule.from, false)?,
                to: self.pattern(&at, &rule.to, true)?,
                tariff: tariff(&at, self.unit, &rule.tiers)?,
            })
        };
        Ok(Provider {
            same_region: tariff(&format!("{at}.same_region"), self.unit, &self.same_region)?,
            groups: self.groups.iter().map(|(name, list)| (name.as_str().into(), boxed(list))).collect(),
            rules: self.rules.iter().enumerate().map(rule).collect::<Result<_, SpecError>>()?,
        })
    }

    fn pattern(&self, at: &str, text: &str, destination: bool) -> Result<Pattern, SpecError> {
        match text {
            "*" => Ok(Pattern::AnyRegion),
            "internet" if destination => Ok(Pattern::Internet),
            group if self.groups.contains_key(group) => Ok(Pattern::Group(group.into())),
            other => Err(error_at(at, SpecProblem::Pattern(crate::name::escape(other)))),
        }
    }
}

fn tariff(at: &str, unit: Unit, tiers: &[TierSpec]) -> Result<Tariff, SpecError> {
    let tier = |tier: &TierSpec| {
        // A price per unit has the scale of a rate: nano-units, at most nine places.
        let price = Rate::parse_decimal(&tier.price)
            .map_err(|_| error_at(at, SpecProblem::Price(crate::name::escape(&tier.price))))?;
        Ok(Tier { from_units: tier.from, nanos_per_unit: price.nanos_per_hour() })
    };
    let tiers = tiers.iter().map(tier).collect::<Result<_, SpecError>>()?;
    Tariff::new(unit, tiers).map_err(|error| error_at(at, error))
}

fn error_at(at: &str, problem: impl Into<SpecProblem>) -> SpecError {
    SpecError { at: at.to_owned(), problem: problem.into() }
}

impl From<&Tariff> for Vec<TierSpec> {
    fn from(tariff: &Tariff) -> Self {
        let price = |tier: &Tier| Rate::from_nanos(tier.nanos_per_unit).to_string();
        tariff.tiers().iter().map(|tier| TierSpec { from: tier.from_units, price: price(tier) }).collect()
    }
}

impl From<EgressTable> for EgressSpec {
    fn from(table: EgressTable) -> Self {
        let pair = |(from, to, tariff): (&Region, &Region, &Tariff)| PairSpec {
            from: from.as_str().to_owned(),
            to: to.as_str().to_owned(),
            unit: tariff.unit(),
            tiers: tariff.into(),
        };
        let providers = table.providers.iter().map(|(name, provider)| (String::from(&**name), provider.into()));
        Self { providers: providers.collect(), pairs: table.pairs().map(pair).collect() }
    }
}

impl From<&Provider> for ProviderSpec {
    fn from(provider: &Provider) -> Self {
        let owned = |list: &Vec<Box<str>>| list.iter().map(|text| String::from(&**text)).collect();
        let pattern = |pattern: &Pattern| match pattern {
            Pattern::AnyRegion => "*".to_owned(),
            Pattern::Internet => "internet".to_owned(),
            Pattern::Group(group) => String::from(&**group),
        };
        let rule =
            |rule: &Rule| RuleSpec { from: pattern(&rule.from), to: pattern(&rule.to), tiers: (&rule.tariff).into() };
        Self {
            unit: provider.same_region.unit(),
            same_region: (&provider.same_region).into(),
            groups: provider.groups.iter().map(|(name, list)| (String::from(&**name), owned(list))).collect(),
            rules: provider.rules.iter().map(rule).collect(),
        }
    }
}
