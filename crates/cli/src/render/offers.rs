//! Offers: machines, prices and what is believed of them.

use leeway_proto::pb;

use super::amounts::{cpus, length, memory, price, relative};
use super::jobs::capacity;
use super::{Align, Field, Grid, Tone, nothing};
use crate::json::word;
use crate::terminal::View;

/// Offers in the order in which they are given.
pub fn table(offers: &[pb::Offer], view: &View) -> String {
    if offers.is_empty() {
        return nothing("offers", "add a cluster with 'leeway clusters add FILE', or ask for less");
    }
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("CLUSTER", left),
        ("MACHINE", left),
        ("REGION", left),
        ("GPUS", left),
        ("CPUS", right),
        ("MEMORY", right),
        ("CAPACITY", left),
        ("PRICE", right),
        ("SEEN", right),
        ("FREE", right),
        ("LOST/DAY", right),
        ("NOTE", left),
    ];
    let mut grid = Grid::new(&columns, view);
    for offer in offers {
        let key = offer.key.clone().unwrap_or_default();
        let shape = offer.shape.clone().unwrap_or_default();
        let gpus = shape.accelerators.as_ref().map(|gpus| format!("{}:{}", gpus.model, gpus.count));
        grid.row([
            key.cluster.as_str().into(),
            key.shape.as_str().into(),
            offer.region.as_str().into(),
            gpus.unwrap_or_else(|| "-".to_owned()).into(),
            cpus(shape.milli_cpus).into(),
            memory(shape.memory_bytes).into(),
            capacity(offer.key.as_ref()).into(),
            price(offer.price.as_ref()).into(),
            offer.price_age_ms.map(|age| format!("{} ago", length(age))).unwrap_or_default().into(),
            offer.available.map_or_else(|| "?".to_owned(), |free| free.to_string()).into(),
            lost_a_day(offer).into(),
            note(offer, view),
        ]);
    }
    grid.finish()
}

fn lost_a_day(offer: &pb::Offer) -> String {
    // Only spot machines are taken back; for others the belief is never used.
    let is_spot = offer.key.as_ref().is_some_and(|key| key.capacity() == pb::CapacityType::Spot);
    let belief = offer.belief.as_ref().filter(|belief| is_spot && belief.per_hour.is_finite());
    belief.map(|belief| format!("{:.2}", belief.per_hour * 24.0)).unwrap_or_default()
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
}
