//! Prices come page by page, once each.

use leeway_drivers::ClusterDriver;
use leeway_tests::servers::ec2::Fault;

use crate::place::{Place, spec};

#[tokio::test]
async fn the_history_of_spot_prices_is_read_whole_and_once() {
    let Some(place) = Place::new().await else { return };
    place.ec2.plan().prices = vec![
        ("t3.small", "us-east-1a", "0.0071", "2099-01-01T00:00:00.000Z"),
        ("m5.large", "us-east-1a", "0.05", "2099-01-01T00:00:30.000Z"),
        ("t3.small", "us-east-1a", "0.0072", "2099-01-01T00:01:00.000Z"),
        ("t3.small", "us-east-1a", "NaN", "2099-01-01T00:02:00.000Z"),
        ("t3.small", "us-east-1a", "0.0073", "2099-01-01T00:03:00.000Z"),
    ];
    // The first look fails as a whole, and loses nothing.
    for _ in 0..4 {
        place.ec2.fail("DescribeSpotPriceHistory", Fault::Before);
    }
    place.driver.prices(&spec()).await.unwrap_err();
    let told = place.driver.prices(&spec()).await.unwrap();
    let rates: Vec<String> = told.iter().map(|one| one.price.rate.to_string()).collect();
    assert_eq!(rates, ["0.0071", "0.0072", "0.0073"], "{told:?}");
    assert!(told.iter().all(|one| one.offer.to_string() == "east/small/spot"));
    assert!(place.driver.prices(&spec()).await.unwrap().is_empty(), "it is too early to ask again");
}
