//! Offers: machines, prices and what is believed of them.

use leeway_proto::pb;

use super::amounts::{cpus, length, memory, price, relative};
use super::jobs::capacity;
use super::listing::{Keep, Listing};
use super::{Align, Field, Tone, nothing};
use crate::json::word;
use crate::terminal::View;

/// Offers in the order in which they are given.
pub fn table(offers: &[pb::Offer], view: &View) -> String {
    if offers.is_empty() {
        return nothing("offers", "add a cluster with 'leeway clusters add FILE', or ask for less");
    }
    let (left, right) = (Align::Left, Align::Right);
    let mut listing = Listing::new([
        ("CLUSTER", left, Keep::Always),
        ("MACHINE", left, Keep::Always),
        ("REGION", left, Keep::Roomy(1)),
        ("GPUS", left, Keep::Filled),
        ("CPUS", right, Keep::Roomy(2)),
        ("MEMORY", right, Keep::Roomy(2)),
        ("CAPACITY", left, Keep::Always),
        ("PRICE", right, Keep::Always),
        ("SEEN", right, Keep::Roomy(3)),
        ("FREE", right, Keep::Filled),
        ("LOST/DAY", right, Keep::Filled),
        ("LAUNCHED", right, Keep::Filled),
        ("NOTE", left, Keep::Filled),
    ]);
    for offer in offers {
        let key = offer.key.clone().unwrap_or_default();
        let shape = offer.shape.clone().unwrap_or_default();
        let gpus = shape.accelerators.as_ref().map(|gpus| format!("{}:{}", gpus.model, gpus.count));
        listing.row([
            key.cluster.as_str().into(),
            key.shape.as_str().into(),
            offer.region.as_str().into(),
            gpus.map_or_else(|| Field::idle("-"), Field::from),
            cpus(shape.milli_cpus).into(),
            memory(shape.memory_bytes).into(),
            capacity(offer.key.as_ref()).into(),
            price(offer.price.as_ref()).into(),
            offer.price_age_ms.map(|age| format!("{} ago", length(age))).unwrap_or_default().into(),
            // Clusters without a market do not say it: their machines are in `clusters list`.
            offer.available.map_or_else(|| Field::idle("?"), |free| free.to_string().into()),
            lost_a_day(offer).into(),
            launched(offer).into(),
            note(offer, view),
        ]);
    }
    listing.finish(view)
}

fn lost_a_day(offer: &pb::Offer) -> String {
    // Only spot machines are taken back; for others the belief is never used.
    let is_spot = offer.key.as_ref().is_some_and(|key| key.capacity() == pb::CapacityType::Spot);
    let belief = offer.belief.as_ref().filter(|belief| is_spot && belief.per_hour.is_finite());
    belief.map(|belief| format!("{:.2}", belief.per_hour * 24.0)).unwrap_or_default()
}

/// `1 of 3` launches that count still, once there were any.
fn launched(offer: &pb::Offer) -> String {
    let counted = offer.launches.as_ref().filter(|launches| launches.tried >= 0.05);
    counted.map(|launches| format!("{:.1} of {:.1}", launches.came, launches.tried)).unwrap_or_default()
}

fn note(offer: &pb::Offer, view: &View) -> Field {
    let mut notes = Vec::new();
    if let Some(until) = offer.cooling_until_ms.filter(|until| *until > view.now.as_millis()) {
        notes.push(format!("cools down, again {}", relative(until, view.now)));
    }
    if offer.price_faults > 0 {
        let fault = word(offer.price_fault().as_str_name(), "PriceFault");
        notes.push(format!("{} bad prices, last: {fault}", offer.price_faults));
    }
    Field::new(notes.join("; "), Tone::Waiting)
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn offers_show_price_and_trust() {
        insta::assert_snapshot!("offers", table(&samples::offers(), &samples::view(None)));
    }

    #[test]
    fn what_no_cluster_of_this_host_tells_has_no_column() {
        let mut offers = samples::offers();
        for offer in &mut offers {
            (offer.price_age_ms, offer.available) = (None, None);
        }
        let text = table(&offers, &samples::view(None));
        assert!(!text.contains("SEEN") && !text.contains("FREE"), "{text}");
        assert!(text.contains("LOST/DAY") && text.contains("NOTE"), "{text}");
    }

    #[test]
    fn offers_fit_a_usual_terminal() {
        let text = table(&samples::offers()[..1], &samples::view(Some(100)));
        assert!(text.lines().next().is_some_and(|line| line.contains("PRICE")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
