//! Webhook endpoints and deliveries.

use leeway_proto::pb;

use super::amounts::relative;
use super::{Align, Field, Grid, Tone, nothing};
use crate::json::word;
use crate::terminal::View;

/// Endpoints in the order in which they are given.
pub fn endpoints(endpoints: &[pb::Endpoint], view: &View) -> String {
    if endpoints.is_empty() {
        return nothing("endpoints", "add one with 'leeway webhook add NAME --url URL'");
    }
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("ENDPOINT", left),
        ("URL", left),
        ("EVENTS", left),
        ("STATE", left),
        ("LAST SUCCESS", right),
        ("FAILURES", right),
    ];
    let mut grid = Grid::new(&columns, view);
    for endpoint in endpoints {
        let events = if endpoint.types.is_empty() { "all".to_owned() } else { endpoint.types.join(", ") };
        let since = endpoint.failing_since_ms.map(|at| format!(" since {}", relative(at, view.now)));
        let failures = if endpoint.failures == 0 { String::new() } else { endpoint.failures.to_string() };
        grid.row([
            endpoint.name.as_str().into(),
            endpoint.url.as_str().into(),
            events.into(),
            match &endpoint.disabled {
                Some(why) => Field::new(format!("disabled: {why}"), Tone::Bad),
                None => Field::new("enabled", Tone::Good),
            },
            endpoint.last_success_ms.map(|at| relative(at, view.now)).unwrap_or_default().into(),
            format!("{failures}{}", since.unwrap_or_default()).into(),
        ]);
    }
    grid.finish()
}

/// Deliveries in the order in which they are given.
pub fn deliveries(deliveries: &[pb::Delivery], view: &View) -> String {
    if deliveries.is_empty() {
        return "nothing waits and nothing was given up".to_owned();
    }
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("DELIVERY", left),
        ("ENDPOINT", left),
        ("EVENT", left),
        ("ABOUT", left),
        ("STATE", left),
        ("EVENT WAS", right),
        ("TRIES", right),
        ("NEXT", right),
        ("LAST ANSWER", left),
    ];
    let mut grid = Grid::new(&columns, view);
    for one in deliveries {
        let tone = if one.state() == pb::DeliveryState::Failed { Tone::Bad } else { Tone::Waiting };
        grid.row([
            one.delivery_id.as_str().into(),
            one.endpoint.as_str().into(),
            one.r#type.as_str().into(),
            one.subject.as_str().into(),
            Field::new(word(one.state().as_str_name(), "DeliveryState"), tone),
            relative(one.at_ms, view.now).into(),
            one.attempts.to_string().into(),
            one.next_attempt_ms.map(|at| relative(at, view.now)).unwrap_or_default().into(),
            one.detail.clone().unwrap_or_default().into(),
        ]);
    }
    grid.finish()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn endpoints_and_deliveries_show_how_they_stand() {
        insta::assert_snapshot!("endpoints", endpoints(&samples::endpoints(), &samples::view(None)));
        insta::assert_snapshot!("deliveries", deliveries(&samples::deliveries(), &samples::view(None)));
    }
}
