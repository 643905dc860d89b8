//! Clusters and offers.

use std::collections::BTreeSet;

use leeway_model::cluster::{ClusterSpec, ClusterState, Machines, Region};
use leeway_model::market::{InterruptionBelief, Offer, Source};
use leeway_model::resources::MachineShape;
use leeway_model::{Currency, Rate, Timestamp};

use crate::check;
use crate::invalid::Within;
use crate::limits::{MACHINES_MAX, WORD_MAX};
use crate::{Invalid, pb};

impl pb::ClusterSpec {
    pub fn from_model(spec: &ClusterSpec, ledger: Currency) -> Self {
        Self {
            name: spec.name.to_string(),
            driver: spec.driver.to_string(),
            region: spec.region.to_string(),
            zone: spec.zone.as_deref().map(str::to_owned),
            machines: spec.machines.iter().map(Into::into).collect(),
            checkpoints_url: spec.checkpoints.to_string(),
            labels: spec.labels.clone(),
            currency: ledger.to_string(),
        }
    }

    pub fn into_model(self, ledger: Currency) -> Result<ClusterSpec, Invalid> {
        check::ledger_currency("currency", &self.currency, ledger)?;
        check::labels("labels", &self.labels)?;
        let machines = check::list("machines", self.machines, 1..=MACHINES_MAX, Machines::try_from)?;
        let mut names = BTreeSet::new();
        if let Some(index) = machines.iter().position(|machine| !names.insert(&machine.shape.name)) {
            let message = format!("'{}' is there twice; give each shape its own name", machines[index].shape.name);
            return Err(Invalid::new(format!("machines[{index}].shape.name"), message));
        }
        Ok(ClusterSpec {
            name: check::name("name", &self.name)?,
            driver: check::name("driver", &self.driver)?,
            region: check::region("region", &self.region)?,
            zone: self.zone.map(|zone| check::word("zone", zone, WORD_MAX)).transpose()?,
            machines,
            checkpoints: check::url("checkpoints_url", self.checkpoints_url, "file:///var/lib/leeway/checkpoints")?,
            labels: self.labels,
        })
    }
}

impl From<&Machines> for pb::Machines {
    fn from(value: &Machines) -> Self {
        Self {
            shape: Some((&value.shape).into()),
            count: value.count,
            on_demand_nanos_per_hour: value.on_demand.map(Rate::nanos_per_hour),
            spot_nanos_per_hour: value.spot.map(Rate::nanos_per_hour),
            reserved_nanos_per_hour: value.reserved.map(Rate::nanos_per_hour),
        }
    }
}

impl TryFrom<pb::Machines> for Machines {
    type Error = Invalid;

    fn try_from(wire: pb::Machines) -> Result<Self, Invalid> {
        let priced = |field, nanos: Option<u64>| match nanos {
            Some(0) => Err(Invalid::new(field, "0 is no price; leave it out, or declare free machines as reserved")),
            nanos => Ok(nanos.map(Rate::from_nanos)),
        };
        Ok(Self {
            shape: MachineShape::try_from(check::required("shape", wire.shape)?).within("shape")?,
            count: wire.count.map(|count| check::between("count", count, 1..=u32::MAX)).transpose()?,
            on_demand: priced("on_demand_nanos_per_hour", wire.on_demand_nanos_per_hour)?,
            spot: priced("spot_nanos_per_hour", wire.spot_nanos_per_hour)?,
            reserved: wire.reserved_nanos_per_hour.map(Rate::from_nanos),
        })
    }
}

impl pb::Cluster {
    pub fn from_model(
        spec: &ClusterSpec,
        state: ClusterState,
        active_runs: u32,
        machines_in_use: u32,
        ledger: Currency,
    ) -> Self {
        Self {
            spec: Some(pb::ClusterSpec::from_model(spec, ledger)),
            state: pb::ClusterState::from(state).into(),
            active_runs,
            machines_in_use,
        }
    }
}

impl pb::Offer {
    /// An offer as of `now`.
    pub fn from_model(offer: &Offer, region: &Region, shape: &MachineShape, now: Timestamp) -> Self {
        let observed = offer.price.as_ref().filter(|price| price.source != Source::Declared);
        Self {
            key: Some((&offer.key).into()),
            region: region.to_string(),
            shape: Some(shape.into()),
            price: offer.price.as_ref().map(Into::into),
            price_age_ms: observed.map(|price| now.since(price.observed).as_millis()),
            price_fault: offer.price_fault.map_or(0, |(fault, _)| pb::PriceFault::from(fault).into()),
            price_faults: offer.price_fault.map_or(0, |(_, count)| count),
            available: offer.available,
            cooling_until_ms: offer.cooling_until.filter(|&until| until > now).map(Timestamp::as_millis),
            belief: Some(offer.belief.into()),
            launches: None,
        }
    }
}

impl From<InterruptionBelief> for pb::InterruptionBelief {
    fn from(value: InterruptionBelief) -> Self {
        Self {
            exposure_ms: value.exposure.as_millis(),
            interruptions: value.interruptions,
            saved: value.saved,
            per_hour: value.per_hour(),
        }
    }
}

#[cfg(test)]
mod tests {
    use leeway_model::Millis;
    use leeway_model::market::{OfferKey, Price};
    use leeway_model::resources::CapacityType;

    use super::*;
    use crate::testing::minimal_cluster_spec;

    fn offer(source: Source) -> pb::Offer {
        let spec = minimal_cluster_spec();
        let shape = &spec.machines[0].shape;
        let key = OfferKey { cluster: spec.name.clone(), shape: shape.name.clone(), capacity: CapacityType::Spot };
        let observed = Timestamp::from_millis(1_000);
        let price = Price { rate: Rate::from_micros(7), currency: Currency::USD, observed, source };
        let offer = Offer {
            key,
            price: Some(price),
            price_fault: None,
            available: Some(3),
            cooling_until: Some(Timestamp::from_millis(5_000)),
            cooldown: Millis::from_secs(4),
            belief: InterruptionBelief::default(),
        };
        pb::Offer::from_model(&offer, &spec.region, shape, Timestamp::from_millis(5_000))
    }

    #[test]
    fn only_observed_prices_have_an_age_and_a_cooldown_that_is_over_is_not_shown() {
        assert_eq!((offer(Source::Feed).price_age_ms, offer(Source::Declared).price_age_ms), (Some(4_000), None));
        assert_eq!(offer(Source::Feed).cooling_until_ms, None);
    }
}
