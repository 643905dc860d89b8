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

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends frames after the preface and reads until the server ends the connection: kind and payload of what it sent.
async fn cut_off(server: &leeway_server::Server, frames: Vec<u8>) -> Vec<(u8, Vec<u8>)> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut socket = tokio::net::TcpStream::connect(server.grpc_addr).await.unwrap();
    let (mut read, mut write) = socket.split();
    let sending = async {
        let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        all.extend(frame(4, 0, 0, &[]));
        all.extend(frames);
        // The server may hang up before it has read everything: that is the point.
        let _ = write.write_all(&all).await;
    };
    let mut answer = Vec::new();
    let reading = async {
        let mut buffer = [0; 4_096];
        while let Ok(length) = read.read(&mut buffer).await {
            if length == 0 {
                break;
            }
            answer.extend_from_slice(&buffer[..length]);
        }
    };
    let both = futures::future::join(sending, reading);
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("the server ends the connection");
    let mut found = Vec::new();
    let mut rest = &answer[..];
    while let [a, b, c, kind, _, _, _, _, _, payload @ ..] = rest {
        let length = (u32::from_be_bytes([0, *a, *b, *c]) as usize).min(payload.len());
        found.push((*kind, payload[..length].to_vec()));
        rest = &payload[length..];
    }
    found
}

/// Headers of a request: POST, http, and the path `/`.
const REQUEST: [u8; 3] = [0x83, 0x86, 0x84];
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const CALM_DOWN: [u8; 4] = [0, 0, 0, 11];

#[tokio::test(flavor = "multi_thread")]
async fn d_05_floods_of_resets_or_headers_end_their_connection_and_no_other() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let resets = (0..5_000_u32).map(|number| 2 * number + 1).flat_map(|stream| {
        let mut both = frame(HEADERS, 4, stream, &REQUEST);
        both.extend(frame(RESET, 0, stream, &[0, 0, 0, 8]));
        both
    });
    let answer = cut_off(&server, resets.collect()).await;
    let settings = answer.iter().find(|(kind, payload)| *kind == SETTINGS && !payload.is_empty()).unwrap();
    let streams = settings.1.chunks(6).find(|setting| setting[..2] == [0, 3]).map(|setting| setting[2..].to_vec());
    assert_eq!(streams, Some(vec![0, 0, 0, 100]), "streams of one connection at once");
    let last = answer.iter().rfind(|(kind, _)| *kind == GO_AWAY).expect("it is told to go away");
    assert_eq!(last.1[4..8], CALM_DOWN);

    let mut headers = frame(HEADERS, 0, 1, &REQUEST);
    // One field, `x: y...`, again and again and without an end.
    let field = [&[0x40, 1, b'x', 127, 0][..], &[b'y'; 127][..]].concat();
    for _ in 0..20_000 {
        headers.extend(frame(CONTINUATION, 0, 1, &field));
    }
    let answer = cut_off(&server, headers).await;
    assert!(answer.iter().all(|(kind, _)| *kind != HEADERS), "it is never answered as a request");
    fake::submitted(&mut jobs, "1", spec("unharmed")).await;
    server.shutdown().await.unwrap();
}

#[test]
fn d_05_the_lock_file_has_the_releases_that_withstand_floods() {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
    let lock: toml::Table = lock.parse().unwrap();
    // Bounded header blocks came with 0.4.4, bounded resets before it.
    let floors = [("h2", [0, 4, 4]), ("tonic", [0, 14, 0]), ("hyper", [1, 0, 0])];
    for (name, floor) in floors {
        let packages =
            lock["package"].as_array().unwrap().iter().filter(|package| package["name"].as_str() == Some(name));
        let versions: Vec<_> = packages.map(|package| package["version"].as_str().unwrap()).collect();
        assert!(!versions.is_empty(), "{name} is gone; name what came in its place");
        for version in versions {
            let parts: Vec<u64> = version.split(['.', '-', '+']).take(3).map(|part| part.parse().unwrap()).collect();
            assert!(parts[..] >= floor[..], "{name} {version} is older than {floor:?}");
        }
    }
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
    let lines = [
        "leeway_jobs{state=\"pending\"} 1",
        "leeway_queued_jobs_by_reason{reason=\"",
        "leeway_budget_cap{budget=\"team\"} 1000.0",
        "leeway_budgets_not_shown 0",
        "leeway_decision_seconds_bucket",
        "leeway_placement_seconds_bucket",
        "leeway_store_bytes{part=\"index\"}",
        "# EOF",
    ];
    for line in lines {
        assert!(text.contains(line), "{line} in {text}");
    }
    let journal = text.lines().find_map(|line| line.strip_prefix("leeway_store_bytes{part=\"journal\"} "));
    assert!(journal.unwrap().parse::<u64>().unwrap() > 0, "{text}");
    assert!(get(&server, "/healthz").await.ends_with("ok\n"));
    assert!(get(&server, "/livez").await.ends_with("ok\n"));
    assert!(get(&server, "/readyz").await.ends_with("ready\n"));
    assert!(get(&server, "/../../etc/passwd").await.starts_with("HTTP/1.1 404"));
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn series_of_budgets_are_bounded_however_many_budgets_there_are() {
    let data = tempfile::tempdir().unwrap();
    let mut config = fake::CONFIG.to_owned();
    for number in 0..250 {
        config += &format!("[[budgets]]\nname = \"b{number}\"\ncap = \"1 USD\"\nparent = \"team\"\n");
    }
    let server = fake::start_with(fake::settings(data.path(), &config), &Pretender::default()).await;
    let text = get(&server, "/metrics").await;
    assert_eq!(text.matches("leeway_budget_held{").count(), 200);
    assert!(text.contains("leeway_budget_cap{budget=\"team\"}"), "roots are always shown");
    assert!(text.contains("leeway_budgets_not_shown 51\n"), "{text}");
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
