//! The conformance suite of drivers.

use crate::place::{Place, run};

#[tokio::test]
async fn p_01_p_02_p_12_launches_are_adopted_and_gangs_are_whole() {
    let Some(place) = Place::new().await else { return };
    place.bench().a_second_launch_adopts_what_the_first_made(run(1)).await;
    place.bench().p_12_a_gang_that_does_not_fit_leaves_no_machine(run(2), run(3)).await;
}

#[tokio::test]
async fn the_machines_of_a_gang_are_told_where_the_others_are() {
    use leeway_drivers::ClusterDriver as _;
    let Some(place) = Place::new().await else { return };
    place.driver.launch(&crate::place::launch(run(1), 2)).await.unwrap();
    let told = place.driver.addresses(&crate::place::name("east"), run(1), 2).await.unwrap();
    assert!(told.len() == 2 && told.iter().all(|one| one.parse::<std::net::Ipv4Addr>().is_ok()), "{told:?}");
    place.ec2.plan().hidden_for = std::time::Duration::from_secs(600);
    let refused = place.driver.addresses(&crate::place::name("east"), run(1), 2).await.unwrap_err();
    assert!(refused.message.contains("0 of 2 instances"), "{refused}");
}

#[tokio::test]
async fn p_02_a_restarted_server_finds_its_runs() {
    let Some(place) = Place::new().await else { return };
    let later = place.another_driver().await;
    leeway_tests::wait::eventually("a listing that proves something", || async {
        use leeway_drivers::ClusterDriver as _;
        later.observe(&crate::place::name("east")).await.unwrap().complete.then_some(())
    })
    .await;
    place.bench().p_02_a_new_driver_finds_what_an_earlier_one_launched(&later, run(1)).await;
}

#[tokio::test]
async fn p_10_p_11_p_14_what_is_taken_is_seen_and_what_is_not_ours_is_left() {
    let Some(place) = Place::new().await else { return };
    place.bench().a_stop_is_idempotent_and_final(run(1), run(2)).await;
    place.bench().p_11_machines_that_were_taken_are_seen_gone(run(3)).await;
    place.bench().p_10_what_is_not_ours_is_neither_listed_nor_touched(run(4)).await;
    place.bench().p_14_without_a_listing_nothing_is_proven(run(5)).await;
    place.bench().only_a_run_that_is_gone_can_be_forgotten(run(6)).await;
}
