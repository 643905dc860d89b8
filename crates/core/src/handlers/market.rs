//! Prices and capacity as the market moves.

use leeway_model::cluster::ClusterState;
use leeway_model::market::{CapacityObservation, Price, PriceFault, PriceObservation, Source};
use leeway_model::resources::CapacityType;
use leeway_model::{RunId, Timestamp};

use crate::reply::Reply;
use crate::round::fleet::OfferId;
use crate::scheduler::Scheduler;
use crate::timers::Timer;

/// A spot price outside this share of the on-demand price is held back, in hundredths.
const LOWEST_HUNDREDTHS: u128 = 2;
const HIGHEST_HUNDREDTHS: u128 = 500;

impl Scheduler {
    pub(crate) fn on_prices_observed(&mut self, prices: Vec<PriceObservation>) -> Reply {
        let mut rejected = Vec::new();
        let mut accepted = 0;
        for (position, observation) in prices.into_iter().enumerate() {
            match self.observe_price(&observation) {
                Ok(()) => accepted += 1,
                Err(fault) => rejected.push((position as u32, fault)),
            }
        }
        Reply::Observed { accepted, rejected }
    }

    fn observe_price(&mut self, observation: &PriceObservation) -> Result<(), PriceFault> {
        let offer = self.known_offer(&observation.offer).ok_or(PriceFault::UnknownOffer)?;
        if let Err(fault) = self.judge_price(offer, &observation.price) {
            self.fleet.change(offer, |row| {
                let count = row.price_fault.map_or(0, |(_, count)| count);
                row.price_fault = Some((fault, count.saturating_add(1)));
            });
            return Err(fault);
        }
        let known = self.fleet.slot(offer).offer.price.as_ref();
        let old = known.map(|price| price.rate);
        let stale = known.is_some_and(|price| {
            price.source != Source::Declared && self.now.since(price.observed) > self.config.price_max_age
        });
        let price = observation.price.clone();
        let rate = price.rate;
        self.fleet.change(offer, |row| row.price = Some(price));
        if old != Some(rate) {
            self.reprice_runs(offer);
        }
        if stale || old.is_none_or(|old| rate < old) {
            self.touch(offer);
        }
        Ok(())
    }

    fn judge_price(&self, offer: OfferId, price: &Price) -> Result<(), PriceFault> {
        let slot = self.fleet.slot(offer);
        if price.rate.is_zero() {
            return Err(PriceFault::Zero);
        }
        if price.currency != self.config.currency {
            return Err(PriceFault::UnknownCurrency);
        }
        let newer = |known: &Price| known.source != Source::Declared && known.observed > price.observed;
        if slot.offer.price.as_ref().is_some_and(newer) {
            return Err(PriceFault::OlderThanKnown);
        }
        if let Some(reference) = slot.on_demand.filter(|rate| !rate.is_zero()) {
            let (rate, reference) = (u128::from(price.rate.nanos_per_hour()), u128::from(reference.nanos_per_hour()));
            if rate * 100 < reference * LOWEST_HUNDREDTHS || rate * 100 > reference * HIGHEST_HUNDREDTHS {
                return Err(PriceFault::OutOfRange);
            }
        }
        Ok(())
    }

    fn known_offer(&mut self, key: &leeway_model::market::OfferKey) -> Option<OfferId> {
        if let Some(offer) = self.fleet.find(key) {
            return Some(offer);
        }
        let cluster = self.tables.clusters.get(&key.cluster)?;
        let groups = self.fleet.groups().count();
        let offer = self.fleet.find_or_add(key, &cluster.spec, cluster.state == ClusterState::Ready);
        if self.fleet.groups().count() > groups {
            // The first offer of its kind: shapes that wait do not look at its group yet.
            self.queue.wake_all(&self.fleet);
        }
        offer
    }

    /// Spot machines cost what the market says from now on; what was posted stays.
    fn reprice_runs(&mut self, offer: OfferId) {
        let slot = self.fleet.slot(offer);
        if slot.offer.key.capacity != CapacityType::Spot {
            return;
        }
        let Some(price) = slot.offer.price.clone() else { return };
        let runs: Vec<RunId> = self.standing.get(&slot.offer.key).into_iter().flatten().copied().collect();
        let now: Timestamp = self.now;
        for id in runs {
            let Some(run) = self.tables.runs.change(&id) else { continue };
            let Some(rate) = price.rate.checked_mul(u64::from(run.nodes)) else { continue };
            match run.meter.as_mut() {
                Some(meter) => meter.change_rate(now, rate),
                // Its meter starts with the launch, at what the market asks by then.
                None => run.price = price.clone(),
            }
            if price.rate > run.rate_max {
                // Its hold was reckoned with less: it is looked at in this very step.
                run.rate_max = price.rate;
                self.timers.set(Timer::Run(id), now);
            }
            self.meter_run(id);
        }
    }

    pub(crate) fn on_capacity_observed(&mut self, capacities: Vec<CapacityObservation>) -> Reply {
        let mut rejected = Vec::new();
        let mut accepted = 0;
        for (position, observation) in capacities.into_iter().enumerate() {
            let Some(offer) = self.known_offer(&observation.offer) else {
                rejected.push((position as u32, PriceFault::UnknownOffer));
                continue;
            };
            accepted += 1;
            if self.fleet.slot(offer).offer.available != observation.available {
                self.fleet.change(offer, |row| row.available = observation.available);
                self.see_market(offer);
                self.touch(offer);
            }
        }
        Reply::Observed { accepted, rejected }
    }
}
