//! MarketService.

use leeway_core::{Event, Reply};
use leeway_model::market::PriceFault;
use leeway_proto::pb::market_service_server::MarketService;
use leeway_proto::{Invalid, pb};
use tonic::{Request, Response, Status};

use super::{Shared, refused, unexpected};

#[derive(Clone, Debug)]
pub struct Market(pub Shared);

/// The sound items with their places, and the errors of the others with theirs.
fn split<T>(items: Vec<Result<T, Invalid>>) -> (Vec<u32>, Vec<T>, Vec<(u32, pb::ItemError)>) {
    let (mut places, mut sound, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for (place, item) in (0..).zip(items) {
        match item {
            Ok(item) => {
                places.push(place);
                sound.push(item);
            }
            Err(error) => errors.push((place, pb::ItemError::from(&error))),
        }
    }
    (places, sound, errors)
}

/// What the scheduler refused, at its place in the request.
fn faults(places: &[u32], faults: Vec<(u32, PriceFault)>) -> impl Iterator<Item = (u32, pb::ItemError)> + '_ {
    faults.into_iter().filter_map(|(place, fault)| Some((*places.get(place as usize)?, fault.into())))
}

impl Market {
    async fn observe(&self, event: Event) -> Result<(u32, Vec<(u32, PriceFault)>), Status> {
        match self.0.handle.ask(event).await? {
            Reply::Observed { accepted, rejected } => Ok((accepted, rejected)),
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }
}

#[tonic::async_trait]
impl MarketService for Market {
    async fn observe_market(
        &self,
        request: Request<pb::ObserveMarketRequest>,
    ) -> Result<Response<pb::ObserveMarketResponse>, Status> {
        use pb::rejected_observation::Place;
        let observations = request.into_inner().into_model()?;
        let (price_places, prices, mut price_errors) = split(observations.prices);
        let (capacity_places, capacities, mut capacity_errors) = split(observations.capacities);
        let mut accepted = 0;
        if !prices.is_empty() {
            let (taken, rejected) = self.observe(Event::PricesObserved { prices }).await?;
            accepted += taken;
            price_errors.extend(faults(&price_places, rejected));
        }
        if !capacities.is_empty() {
            let (taken, rejected) = self.observe(Event::CapacityObserved { capacities }).await?;
            accepted += taken;
            capacity_errors.extend(faults(&capacity_places, rejected));
        }
        price_errors.sort_by_key(|(place, _)| *place);
        capacity_errors.sort_by_key(|(place, _)| *place);
        let at = |place: Place, error| pb::RejectedObservation { place: Some(place), error: Some(error) };
        let prices = price_errors.into_iter().map(|(place, error)| at(Place::PriceIndex(place), error));
        let capacities = capacity_errors.into_iter().map(|(place, error)| at(Place::CapacityIndex(place), error));
        Ok(Response::new(pb::ObserveMarketResponse { accepted, rejected: prices.chain(capacities).collect() }))
    }
}
