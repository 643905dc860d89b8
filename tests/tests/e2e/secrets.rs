//! Z-04: secrets are planted, and everything that a server writes and says is searched for them.

use std::path::Path;

use leeway_proto::pb;
use leeway_proto::pb::webhook_service_client::WebhookServiceClient;
use leeway_tests::api::Api;
use leeway_tests::{Config, Server};
use leeway_webhook::receiver::{Options, Receiver};

const JOB_SECRET: &str = "canary-job-0f3c9a71d2b84e56";
const WEBHOOK_SECRET: &str = "canary-webhook-5b1e77c09ad4";

/// A secret as text, in hex and in base64 at each of its three alignments, without the letters that neighbours change.
fn spellings(secret: &str) -> Vec<String> {
    let hex = secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut found = vec![secret.to_owned(), hex.to_uppercase(), hex];
    for shift in 0..3 {
        let bytes: Vec<u8> = std::iter::repeat_n(0, shift).chain(secret.bytes()).collect();
        let text = base64(&bytes);
        found.push(text[4 * usize::from(shift > 0)..text.len() - 4].to_owned());
    }
    found
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks(3).flat_map(|chunk| {
        let number = chunk.iter().chain(&[0, 0]).take(3).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        (0..4).map(move |place| LETTERS[(number >> (18 - 6 * place) & 63) as usize] as char)
    });
    groups.collect()
}

/// Fails when a secret is in these bytes in any spelling.
fn assert_clean(place: &str, bytes: &[u8]) {
    // Every spelling is plain ASCII, which survives this.
    let text = String::from_utf8_lossy(bytes);
    for secret in [JOB_SECRET, WEBHOOK_SECRET] {
        for spelling in spellings(secret) {
            assert!(!text.contains(&spelling), "{place} holds {secret} as {spelling}");
        }
    }
}

/// Searches every file below a folder. Returns how many there were.
fn assert_clean_below(dir: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += assert_clean_below(&path);
        } else if path.file_name().is_some_and(|name| name != "reserve") {
            assert_clean(&path.display().to_string(), &std::fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

#[test]
fn the_search_finds_a_secret_in_every_spelling() {
    for text in [
        JOB_SECRET.to_owned(),
        format!("whsec_{}", base64(WEBHOOK_SECRET.as_bytes())),
        base64(format!("x{JOB_SECRET}y").as_bytes()),
        base64(format!("xx{JOB_SECRET}").as_bytes()),
        JOB_SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
    ] {
        assert!(std::panic::catch_unwind(|| assert_clean("here", text.as_bytes())).is_err(), "{text}");
    }
}

#[tokio::test]
async fn z_04_planted_secrets_appear_nowhere() {
    let mut server = Server::start(&Config { log: "trace,h2=info,sled=info", ..Config::default() }).await;
    let api = Api::of(&server);
    let receiver = Receiver::start(Options::new(Vec::new())).await.unwrap();
    let request = pb::AddEndpointRequest {
        name: "ops".into(),
        url: receiver.url(),
        secret: Some(pb::SecretValue { value: WEBHOOK_SECRET.as_bytes().to_vec().into() }),
        ..Default::default()
    };
    let added = WebhookServiceClient::new(api.channel.clone()).add_endpoint(request).await.unwrap().into_inner();
    let revealed = String::from_utf8(added.secret.unwrap().value.to_vec()).unwrap();
    assert_eq!(revealed, format!("whsec_{}", base64(WEBHOOK_SECRET.as_bytes())));
    receiver.trust(vec![revealed.parse().unwrap()]);

    // The program proves that it has the value, and dies of it once, so that it also passes through a retry.
    let script =
        "run: |\n  test ${#TOKEN} = 27 && echo got it\n  test $LEEWAY_EPOCH -gt 1\nretry: {user_failures: 2}\n";
    std::fs::write(server.folder().join("job.yaml"), script).unwrap();
    let secret = format!("TOKEN={JOB_SECRET}");
    let launch = ["jobs", "launch", "job.yaml", "--secret", &secret, "--wait", "--request-id", "once"];
    let launched = server.cli(&launch).await.ok();
    let job = launched.json()["submitted"][0]["job_id"].as_str().unwrap().to_owned();
    api.until_settled(&job).await;
    assert!(api.output(&job, &format!("{job}-r2")).await.contains("got it"));
    receiver.wait_for(1).await;
    let bad_name = format!("NOT-A-NAME={JOB_SECRET}");
    let other_secret = format!("TOKEN={JOB_SECRET}2");

    let mut said = vec![launched];
    for arguments in [
        vec!["jobs", "status", &job],
        vec!["jobs", "explain", &job],
        vec!["jobs", "logs", &job],
        vec!["jobs", "queue", "--all"],
        vec!["jobs", "launch", "job.yaml", "--secret", &secret, "--dryrun"],
        vec!["jobs", "launch", "job.yaml", "--secret", &bad_name],
        vec!["jobs", "launch", "job.yaml", "--secret", &other_secret, "--request-id", "once"],
        vec!["jobs", "launch", "job.yaml", "--secret", &secret, "--env", &secret],
        vec!["budget", "ledger", "--limit", "0"],
        vec!["budget", "show", "team"],
        vec!["clusters", "list"],
        vec!["offers"],
        vec!["webhook", "list"],
        vec!["webhook", "test", "ops"],
        vec!["webhook", "deliveries"],
    ] {
        said.push(server.cli(&arguments).await);
    }
    let metrics = server.metrics().await;
    server.restart().await;
    let (status, _) = server.terminate().await;
    assert_eq!(status.code(), Some(0));
    said.push(server.cli(&["store", "export", "data", "rows.export"]).await.ok());
    said.push(server.cli(&["store", "verify", "data"]).await.ok());

    for ran in said {
        assert_clean(&format!("{ran:?}"), ran.out.as_bytes());
        assert_clean(&format!("{ran:?}"), ran.err.as_bytes());
    }
    assert!(metrics.contains("leeway_"), "{metrics}");
    assert_clean("the metrics", metrics.as_bytes());
    assert_clean("the server's log", server.log().as_bytes());
    for request in receiver.requests() {
        assert_clean("a delivery", &request.body);
    }
    let files = assert_clean_below(server.folder());
    assert!(files > 15, "only {files} files were searched");
}
