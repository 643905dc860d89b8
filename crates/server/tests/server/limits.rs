//! Malformed and oversized input, and what is beside the services.

use std::time::Duration;

use leeway_proto::pb;
use tonic::Code;
use tonic::codegen::http::uri::PathAndQuery;

use crate::fake::{self, Pretender, spec, submit};

#[tokio::test(flavor = "multi_thread")]
async fn d_01_bytes_that_are_no_message_are_an_invalid_argument() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut raw = tonic::client::Grpc::new(fake::channel(&server).await);
    // A string where the contract has a message, sent to the right method.
    for path in ["SubmitJob", "DryRunJob", "ListJobs"] {
        raw.ready().await.unwrap();
        let path = PathAndQuery::try_from(format!("/leeway.v1.JobService/{path}")).unwrap();
        let wrong = pb::JobSpec { name: "\u{7f}\u{7f}\u{7f}".into(), nodes: 77, ..Default::default() };
        let codec = tonic_prost::ProstCodec::<pb::JobSpec, pb::Job>::default();
        let error = raw.unary(tonic::Request::new(wrong), path, codec).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    }
    let mut jobs = fake::jobs(&server).await;
    fake::submitted(&mut jobs, "1", spec("still-alive")).await;
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn d_02_a_giant_message_is_refused_and_the_server_lives() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let mut giant = spec("giant");
    giant.program.as_mut().unwrap().run = "x".repeat(5 << 20);
    let error = jobs.submit_job(submit("1", giant)).await.unwrap_err();
    assert!(matches!(error.code(), Code::OutOfRange | Code::ResourceExhausted), "{error}");
    fake::submitted(&mut jobs, "2", spec("small")).await;
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_readiness_answer() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    fake::submitted(&mut jobs, "1", fake::impossible("a")).await;
    let mut health = tonic_health::pb::health_client::HealthClient::new(fake::channel(&server).await);
    for service in ["", "leeway.v1.JobService"] {
        let request = tonic_health::pb::HealthCheckRequest { service: service.into() };
        let status = health.check(request).await.unwrap().into_inner().status();
        assert_eq!(status, tonic_health::pb::health_check_response::ServingStatus::Serving);
    }
    let text = get(&server, "/metrics").await;
    for line in ["leeway_jobs{state=\"pending\"} 1", "leeway_budget_cap{budget=\"team\"} 1000.0", "# EOF"] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(get(&server, "/healthz").await.ends_with("ok\n"));
    assert!(get(&server, "/readyz").await.ends_with("ready\n"));
    assert!(get(&server, "/../../etc/passwd").await.starts_with("HTTP/1.1 404"));
    server.shutdown().await.unwrap();
}

async fn get(server: &leeway_server::Server, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut socket = tokio::net::TcpStream::connect(server.metrics_addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(Duration::from_secs(20), socket.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}
