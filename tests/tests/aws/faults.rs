//! What goes wrong between a call and its answer, and after it.

use std::time::Duration;

use leeway_drivers::{ClusterDriver, InstanceState};
use leeway_model::Millis;
use leeway_model::run::LaunchErrorClass;
use leeway_tests::servers::ec2::Fault;
use leeway_tests::wait::eventually;

use crate::place::{Place, launch, name, run};

/// More often than the SDK tries by itself.
const ALL_TRIES: u32 = 4;

#[tokio::test]
async fn p_01_a_launch_whose_answer_is_lost_makes_its_instances_once() {
    let Some(place) = Place::new().await else { return };
    for _ in 0..ALL_TRIES {
        place.ec2.fail("RunInstances", Fault::After);
    }
    let made = place.driver.launch(&launch(run(1), 2)).await.unwrap();
    assert_eq!((made.len(), place.ec2.living().len()), (2, 2));
    assert!(place.ec2.count("RunInstances") > 1, "it was asked for again");
}

#[tokio::test]
async fn p_01_a_launch_that_says_something_else_than_the_first_one_adopts_what_that_made() {
    let Some(place) = Place::new().await else { return };
    let made = place.driver.launch(&launch(run(1), 1)).await.unwrap();
    // The server has moved meanwhile, and the instances are not visible to it yet.
    let later = place.another_driver().await;
    place.ec2.plan().hidden_for = Duration::from_secs(3);
    let mut moved = launch(run(1), 1);
    moved.server = "http://127.0.0.1:10".into();
    assert_eq!(later.launch(&moved).await.unwrap(), made);
    assert_eq!(place.ec2.living().len(), 1);
}

#[tokio::test]
async fn p_03_an_instance_that_is_not_listed_yet_is_not_gone() {
    let Some(place) = Place::new().await else { return };
    place.ec2.plan().hidden_for = Duration::from_secs(600);
    let patient = leeway_drivers::Launch { deadline: Millis::from_secs(3), ..launch(run(1), 1) };
    // It never shows up as running: the launch is given up, and what it made is known all the same.
    let refused = place.driver.launch(&patient).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Transient, "{refused}");
    assert_eq!(place.state(run(1)).await, Some(InstanceState::Unknown));
    assert!(!place.driver.observe(&name("east")).await.unwrap().proves_gone(run(1)));
    // As soon as it can be seen it is ended.
    place.ec2.plan().hidden_for = Duration::ZERO;
    eventually("its end", || async {
        let seen = place.driver.observe(&name("east")).await.unwrap();
        (seen.proves_gone(run(1)) && place.ec2.living().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn p_14_a_listing_of_which_a_page_fails_proves_no_absence() {
    let Some(place) = Place::new().await else { return };
    for job in 1..=3 {
        place.driver.launch(&launch(run(job), 1)).await.unwrap();
    }
    place.ec2.plan().page = Some(1);
    let seen = place.driver.observe(&name("east")).await.unwrap();
    assert_eq!((seen.instances.len(), seen.complete), (3, true), "pages are put together");
    place.ec2.plan().break_pages = true;
    let seen = place.driver.observe(&name("east")).await.unwrap();
    assert!(!seen.complete);
    for job in 1..=3 {
        assert!(!seen.proves_gone(run(job)), "{seen:?}");
    }
}

#[tokio::test]
async fn p_06_p_07_refusals_have_their_classes_and_leave_nothing() {
    let Some(place) = Place::new().await else { return };
    let cases = [
        (400, "MaxSpotInstanceCountExceeded", LaunchErrorClass::Quota),
        (400, "VcpuLimitExceeded", LaunchErrorClass::Quota),
        (403, "UnauthorizedOperation", LaunchErrorClass::Denied),
        (400, "InvalidAMIID.NotFound", LaunchErrorClass::Invalid),
        (400, "Unsupported", LaunchErrorClass::Permanent),
        (400, "SomethingOfNextYear", LaunchErrorClass::Transient),
    ];
    for (job, (status, code, class)) in (1..).zip(cases) {
        place.ec2.fail("RunInstances", Fault::Refused(status, code));
        let refused = place.driver.launch(&launch(run(job), 1)).await.unwrap_err();
        assert_eq!(refused.class, class, "{refused}");
        assert!(refused.message.contains(code), "{refused}");
    }
    let refused = place.driver.launch(&launch(run(20), 4)).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Capacity, "{refused}");
    assert!(place.ec2.living().is_empty());
}

#[tokio::test]
async fn p_04_throttling_fails_no_launch() {
    let Some(place) = Place::new().await else { return };
    for action in ["RunInstances", "DescribeInstances"] {
        for _ in 0..2 {
            place.ec2.fail(action, Fault::Refused(503, "RequestLimitExceeded"));
        }
    }
    place.driver.launch(&launch(run(1), 1)).await.unwrap();
}

#[tokio::test]
async fn p_08_a_termination_that_fails_is_repeated_until_the_instance_is_gone() {
    let Some(place) = Place::new().await else { return };
    for fault in [Fault::Before, Fault::After, Fault::Refused(403, "UnauthorizedOperation")] {
        let job = run(u64::from(place.ec2.count("RunInstances")) + 1);
        place.driver.launch(&launch(job, 1)).await.unwrap();
        for _ in 0..ALL_TRIES {
            place.ec2.fail("TerminateInstances", fault.clone());
        }
        let mut stops = 0;
        eventually("its end", || {
            stops += 1;
            async {
                let _ = place.driver.stop(&name("east"), job, Millis::ZERO).await;
                let seen = place.driver.observe(&name("east")).await.unwrap();
                seen.proves_gone(job).then_some(())
            }
        })
        .await;
        assert!(place.ec2.living().is_empty(), "{fault:?}");
    }
}

#[tokio::test]
async fn p_08_a_stop_with_grace_is_finished_by_another_process() {
    let Some(place) = Place::new().await else { return };
    place.driver.launch(&launch(run(1), 1)).await.unwrap();
    let dying = place.another_driver().await;
    let begun = std::time::Instant::now();
    dying.stop(&name("east"), run(1), Millis::from_secs(1)).await.unwrap();
    drop(dying);
    assert_eq!(place.state(run(1)).await, Some(InstanceState::Stopping));
    eventually("its end", || async {
        let seen = place.driver.observe(&name("east")).await.unwrap();
        seen.proves_gone(run(1)).then_some(())
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "it had its grace");
}

#[tokio::test]
async fn p_18_without_credentials_a_listing_is_denied() {
    let Some(place) = Place::new().await else { return };
    place.ec2.fail("DescribeInstances", Fault::Refused(401, "AuthFailure"));
    let refused = place.driver.observe(&name("east")).await.unwrap_err();
    assert_eq!(refused.class, leeway_drivers::DriverErrorClass::Denied, "{refused}");
}
