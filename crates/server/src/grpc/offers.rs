//! OfferService.

use leeway_core::round::fleet::Slot;
use leeway_proto::pb;
use leeway_proto::pb::offer_service_server::OfferService;
use leeway_proto::query::OfferFilter;
use tonic::{Request, Response, Status};

use super::Shared;
use super::pages::Question;
use crate::driver_loop::View;

#[derive(Clone, Debug)]
pub struct Offers(pub Shared);

fn accepts(filter: &OfferFilter, slot: &Slot) -> bool {
    let key = &slot.offer.key;
    let enough = filter.accelerators.as_ref().is_none_or(|wanted| {
        slot.shape.accelerators.as_ref().is_some_and(|have| have.model == wanted.model && have.count >= wanted.count)
    });
    enough
        && filter.region.as_ref().is_none_or(|region| *region == slot.region)
        && (filter.capacities.is_empty() || filter.capacities.contains(&key.capacity))
        && filter.cluster.as_ref().is_none_or(|cluster| *cluster == key.cluster)
}

/// The key as it stands in a page token.
fn place(slot: &Slot) -> Vec<u8> {
    let mut bytes = Vec::new();
    leeway_core::state::table::RowKey::write(&slot.offer.key, &mut bytes);
    bytes
}

#[tonic::async_trait]
impl OfferService for Offers {
    async fn list_offers(
        &self,
        request: Request<pb::ListOffersRequest>,
    ) -> Result<Response<pb::ListOffersResponse>, Status> {
        let request = request.into_inner();
        let scope = pb::ListOffersRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let question = Question::new("offers", &scope);
        let (page, filter) = request.into_model()?;
        let after = question.last(&self.0.keys, &page.token)?;
        let look = move |view: &mut View<'_>| {
            let now = view.now;
            let offers = view.scheduler.fleet().iter().map(|(_, slot)| slot);
            let mut rest = offers
                .filter(|slot| accepts(&filter, slot))
                .skip_while(|slot| after.as_ref().is_some_and(|after| place(slot) <= *after));
            let page: Vec<&Slot> = rest.by_ref().take(page.size).collect();
            let last = page.last().filter(|_| rest.next().is_some()).map(|slot| place(slot));
            let show = |slot: &&Slot| {
                let ((tried, came), share) = (slot.probes.counts(now), slot.probes.share(now));
                let launches = Some(pb::LaunchBelief { tried, came, share });
                pb::Offer { launches, ..pb::Offer::from_model(&slot.offer, &slot.region, &slot.shape, now) }
            };
            (page.iter().map(show).collect::<Vec<_>>(), last)
        };
        let (offers, last) = self.0.handle.read(look).await?;
        let next_page_token = last.map(|last| question.token(&self.0.keys, &last)).unwrap_or_default();
        Ok(Response::new(pb::ListOffersResponse { offers, next_page_token }))
    }
}
