//! Watching jobs.

use std::time::Duration;

use leeway_proto::pb;
use leeway_proto::status::{metadata_of, reason_of};
use tonic::{Code, Streaming};

use crate::fake::{self, Pretender, impossible, submitted};

async fn next(stream: &mut Streaming<pb::WatchJobsResponse>) -> (String, pb::JobState, u64) {
    let message = tokio::time::timeout(Duration::from_secs(30), stream.message()).await.unwrap().unwrap().unwrap();
    let job = message.job.unwrap();
    (job.job_id.clone(), job.state(), message.version)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_what_is_there_then_each_change_and_resumes_where_it_ended() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let first = submitted(&mut jobs, "1", impossible("a")).await;
    let second = submitted(&mut jobs, "2", impossible("b")).await;
    let mut stream = jobs.watch_jobs(pb::WatchJobsRequest::default()).await.unwrap().into_inner();
    let shown = [next(&mut stream).await, next(&mut stream).await];
    assert_eq!([&shown[0].0, &shown[1].0], [&first, &second]);
    jobs.cancel_job(pb::CancelJobRequest { job_id: first.clone(), actor: String::new() }).await.unwrap();
    let (id, state, version) = next(&mut stream).await;
    assert_eq!((id, state), (first, pb::JobState::Cancelled));
    drop(stream);

    // While nobody watched.
    let third = submitted(&mut jobs, "3", impossible("c")).await;
    let resume = |version| pb::WatchJobsRequest { resume_version: Some(version), filter: None };
    let mut stream = jobs.watch_jobs(resume(version)).await.unwrap().into_inner();
    assert_eq!(next(&mut stream).await.0, third, "and nothing that was seen before");
    let error = jobs.watch_jobs(resume(1_000_000)).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange);
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_11_a_slow_consumer_is_ended_with_the_version_to_resume_from_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let mut slow = jobs.watch_jobs(pb::WatchJobsRequest::default()).await.unwrap().into_inner();
    // Nobody reads: more groups of changes than are kept, and more bytes than the network takes.
    let groups = leeway_server::driver_loop::WATCH_BEHIND + 200;
    let mut big = impossible("big");
    big.program.as_mut().unwrap().run = "x".repeat(20_000);
    for number in 0..groups {
        submitted(&mut jobs, &number.to_string(), big.clone()).await;
    }
    let mut seen = std::collections::BTreeSet::new();
    let error = loop {
        match tokio::time::timeout(Duration::from_secs(30), slow.message()).await.unwrap() {
            Ok(Some(message)) => {
                seen.insert(message.job.unwrap().job_id);
            }
            Ok(None) => panic!("ended without a word"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::OutOfRange, "{error}");
    assert_eq!(reason_of(&error).as_deref(), Some("SLOW_CONSUMER"));
    let resume: u64 = metadata_of(&error)["resume_version"].parse().unwrap();
    let request = pb::WatchJobsRequest { resume_version: Some(resume), filter: None };
    let mut again = jobs.watch_jobs(request).await.unwrap().into_inner();
    while seen.len() < groups {
        seen.insert(next(&mut again).await.0);
    }
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn o_01_a_server_with_open_streams_stops_within_ten_seconds() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let id = submitted(&mut jobs, "1", impossible("a")).await;
    let mut watch = jobs.watch_jobs(pb::WatchJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(next(&mut watch).await.0, id);
    let follow = pb::StreamLogsRequest { job_id: id, follow: true, ..Default::default() };
    let _logs = jobs.stream_logs(follow).await.unwrap().into_inner();
    tokio::time::timeout(Duration::from_secs(10), server.shutdown()).await.unwrap().unwrap();
}
