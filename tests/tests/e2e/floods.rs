//! One owner who submits without end, and the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leeway_proto::pb;
use leeway_proto::status::{metadata_of, reason_of};
use leeway_tests::api::{Api, shell};
use leeway_tests::{Config, Server};
use tonic::Code;

/// Jobs a second that one owner may submit; ten seconds' worth of them at once.
const RATE: u64 = 5;
const OTHERS: usize = 40;

fn request(owner: &str, number: u64) -> pb::SubmitJobRequest {
    let spec = pb::JobSpec { owner: owner.into(), ..shell("waiting", "true") };
    // Nothing of it starts, so that only submitting is measured.
    let spec = pb::JobSpec { nodes: 1, resources: vec![nowhere()], ..spec };
    pb::SubmitJobRequest { client_request_id: format!("{owner}-{number}"), spec: Some(spec), ..Default::default() }
}

fn nowhere() -> pb::ResourceRequest {
    pb::ResourceRequest { instance_type: Some("nowhere".into()), ..Default::default() }
}

/// Submits jobs of another owner one after the other, each of which must be taken; the time that each took.
async fn take_turns(api: &Api, owner: &str) -> Vec<Duration> {
    let mut took = Vec::with_capacity(OTHERS);
    for number in 0..OTHERS as u64 {
        let begun = Instant::now();
        let answer = api.jobs().submit_job(request(owner, number)).await;
        let answer = answer.unwrap_or_else(|status| panic!("{owner}, job {number}: {status:?}"));
        assert!(!answer.into_inner().submitted.unwrap().replayed);
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d_08_a_flood_of_one_owner_is_held_back_and_the_jobs_of_others_still_come_through() {
    let more = format!("[limits]\nsubmissions_per_second = {RATE}");
    let server = Server::start(&Config { more, ..Config::default() }).await;
    let api = Api::of(&server);
    let calm = take_turns(&api, "bob").await;

    let (over, taken, refused) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let flooding: Vec<_> = (0..4_u64)
        .map(|lane| {
            let (api, over, taken, refused) = (api.clone(), over.clone(), taken.clone(), refused.clone());
            tokio::spawn(async move {
                let mut number = lane;
                while !over.load(Ordering::Relaxed) {
                    match api.jobs().submit_job(request("mallory", number)).await {
                        Ok(_) => taken.fetch_add(1, Ordering::Relaxed),
                        Err(status) => {
                            assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                            assert_eq!(reason_of(&status).as_deref(), Some("SUBMITTED_TOO_FAST"), "{status:?}");
                            assert!(
                                status.message().contains("send it again under the same request id in"),
                                "{status:?}"
                            );
                            assert!(metadata_of(&status).contains_key("retry_after_ms"), "{status:?}");
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                    number += 4;
                }
            })
        })
        .collect();
    leeway_tests::wait::eventually("the first refusal", || {
        let refused = refused.load(Ordering::Relaxed);
        async move { (refused > 0).then_some(()) }
    })
    .await;
    let flooded = take_turns(&api, "carol").await;
    over.store(true, Ordering::Relaxed);
    for lane in flooding {
        lane.await.unwrap();
    }
    let allowed = RATE * (10 + begun.elapsed().as_secs() + 1);
    let (taken, refused) = (taken.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    assert!(taken >= RATE * 10 && taken <= allowed, "{taken} of the flood were taken, {allowed} may be");
    assert_eq!(api.all_jobs().await.len() as u64, taken + 2 * OTHERS as u64, "what was refused left nothing");
    let p99 = |took: &[Duration]| took[took.len() * 99 / 100];
    println!(
        "submissions of others, p99: {:?} alone, {:?} beside a flood of which {taken} were taken and {refused} refused",
        p99(&calm),
        p99(&flooded)
    );
}
