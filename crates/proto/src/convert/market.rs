//! Observations of the market.

use leeway_model::market::{CapacityObservation, OfferKey, Price, PriceFault, PriceObservation};
use tonic::Code;

use crate::check;
use crate::invalid::Within;
use crate::limits::OBSERVATIONS_MAX;
use crate::{Invalid, pb};

impl From<&PriceObservation> for pb::PriceObservation {
    fn from(value: &PriceObservation) -> Self {
        Self { offer: Some((&value.offer).into()), price: Some((&value.price).into()) }
    }
}

impl TryFrom<pb::PriceObservation> for PriceObservation {
    type Error = Invalid;

    fn try_from(wire: pb::PriceObservation) -> Result<Self, Invalid> {
        Ok(Self {
            offer: OfferKey::try_from(check::required("offer", wire.offer)?).within("offer")?,
            price: Price::try_from(check::required("price", wire.price)?).within("price")?,
        })
    }
}

impl From<&CapacityObservation> for pb::CapacityObservation {
    fn from(value: &CapacityObservation) -> Self {
        Self { offer: Some((&value.offer).into()), available: value.available }
    }
}

impl TryFrom<pb::CapacityObservation> for CapacityObservation {
    type Error = Invalid;

    fn try_from(wire: pb::CapacityObservation) -> Result<Self, Invalid> {
        let offer = OfferKey::try_from(check::required("offer", wire.offer)?).within("offer")?;
        Ok(Self { offer, available: wire.available })
    }
}

/// Observations, each sound or refused by itself, in the order of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    pub prices: Vec<Result<PriceObservation, Invalid>>,
    pub capacities: Vec<Result<CapacityObservation, Invalid>>,
}

impl pb::ObserveMarketRequest {
    pub fn into_model(self) -> Result<Observations, Invalid> {
        check::count("prices", self.prices.len(), 0..=OBSERVATIONS_MAX)?;
        check::count("capacities", self.capacities.len(), 0..=OBSERVATIONS_MAX)?;
        Ok(Observations {
            prices: self.prices.into_iter().map(PriceObservation::try_from).collect(),
            capacities: self.capacities.into_iter().map(CapacityObservation::try_from).collect(),
        })
    }
}

impl From<PriceFault> for pb::ItemError {
    fn from(fault: PriceFault) -> Self {
        let (message, field) = match fault {
            PriceFault::Zero => {
                ("the price is zero; a machine that is paid for anyway is declared as reserved", "price")
            }
            PriceFault::OutOfRange => {
                ("the price is far from its reference; check its unit, or correct the reference", "price")
            }
            PriceFault::UnknownCurrency => ("no rate to the ledger currency is known; configure one", "price.currency"),
            PriceFault::UnknownOffer => ("no cluster has such an offer; register the cluster first", "offer"),
            PriceFault::OlderThanKnown => ("a newer price is known", "price.observed_ms"),
        };
        Self {
            status: Code::InvalidArgument as u32,
            reason: fault.code().to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        }
    }
}
