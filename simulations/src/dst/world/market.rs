//! Prices that walk, jump, lie and go missing, and the capacity that a market shows.

use std::collections::BTreeMap;

use leeway_model::market::{CapacityObservation, OfferKey, Price, PriceObservation, Source};
use leeway_model::{Currency, Rate, Timestamp};

use crate::dst::faults::FaultPlan;
use crate::random::Stream;

#[derive(Debug)]
pub struct Market {
    pub luck: Stream,
    /// The true price of each spot offer, with the on-demand price it walks below.
    pub prices: BTreeMap<OfferKey, (Rate, Rate)>,
}

impl Market {
    pub fn new(luck: Stream) -> Self {
        Self { luck, prices: BTreeMap::new() }
    }

    /// One tick of the feed: what it tells the scheduler.
    pub fn tick(&mut self, now: Timestamp, faults: &FaultPlan) -> Vec<PriceObservation> {
        let luck = &mut self.luck;
        let mut told = Vec::new();
        for (offer, (rate, ceiling)) in &mut self.prices {
            let percent = if luck.chance(faults.price_jump) { luck.between(30, 350) } else { luck.between(92, 109) };
            let (low, high) = (ceiling.nanos_per_hour() / 10, ceiling.nanos_per_hour() * 2);
            *rate = Rate::from_nanos((rate.nanos_per_hour() * percent / 100).clamp(low, high));
            if luck.chance(faults.bad_price) {
                let wrong = [Rate::ZERO, Rate::from_nanos(ceiling.nanos_per_hour() * 40), Rate::from_nanos(1)];
                told.push(observation(offer, wrong[luck.below(3) as usize], now));
                continue;
            }
            told.push(observation(offer, *rate, now));
        }
        told
    }
}

pub fn observation(offer: &OfferKey, rate: Rate, observed: Timestamp) -> PriceObservation {
    let price = Price { rate, currency: Currency::USD, observed, source: Source::Feed };
    PriceObservation { offer: offer.clone(), price }
}

pub fn capacity(offer: &OfferKey, available: Option<u32>) -> CapacityObservation {
    CapacityObservation { offer: offer.clone(), available }
}
