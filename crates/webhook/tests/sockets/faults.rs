//! One test per row of FAULTS table I that this crate carries.

use std::time::Duration;

use leeway_model::notify::DeliveryOutcome;
use leeway_model::{Micros, Millis};
use leeway_webhook::receiver::{Answer, Reply};
use leeway_webhook::{Deliverer, Secret, Settings, TargetPolicy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{NOW, Scripted, attempt, deliverer, detail, event, origin, receiver, receiver_at, secret, settings};

#[tokio::test]
async fn an_event_arrives_signed_and_whole() {
    let receiver = receiver().await;
    let sent = event(42);
    assert_eq!(attempt(&deliverer(), &receiver.url(), &sent).await, DeliveryOutcome::Delivered);
    receiver.wait_for(1).await;

    let [request] = receiver.requests().try_into().unwrap();
    assert!(request.verified);
    assert_eq!(request.content_type, "application/cloudevents+json");
    assert_eq!(request.id, sent.id.as_str());
    assert_eq!(request.timestamp, "1773500966");
    assert_eq!(request.body, sent.body);
    let [event] = receiver.events().try_into().unwrap();
    assert_eq!((event.kind.as_str(), event.sequence), ("leeway.budget.threshold_crossed", 42));
    assert_eq!(event.subject, "budgets/team-vision");
    assert_eq!(event.json["data"]["cap_micros"], Micros::from_units(500).get());
}

#[tokio::test]
async fn w_01_a_receiver_that_comes_back_gets_the_event_under_its_first_id() {
    let receiver = receiver().await;
    let address = receiver.address();
    let url = receiver.url();
    receiver.script([Answer::status(500), Answer::status(503)]);
    let (deliverer, sent) = (deliverer(), event(1));

    assert!(detail(&attempt(&deliverer, &url, &sent).await).contains("answered 500"));
    assert!(detail(&attempt(&deliverer, &url, &sent).await).contains("answered 503"));
    let ids: Vec<String> = receiver.requests().into_iter().map(|request| request.id).collect();
    assert_eq!(ids, [sent.id.as_str(), sent.id.as_str()]);
    assert_eq!(receiver.counts().events, 0);

    drop(receiver);
    let refused = until(
        async || attempt(&deliverer, &url, &sent).await,
        |outcome| matches!(outcome, DeliveryOutcome::Failed { detail, .. } if detail.contains("onnect")),
    );
    refused.await;
    let receiver = receiver_at(address).await;
    assert_eq!(attempt(&deliverer, &url, &sent).await, DeliveryOutcome::Delivered);
    assert_eq!(receiver.events()[0].id, sent.id.as_str());
}

/// Asks again until the answer is as wanted: a listener closes when its aborted task is dropped, which is soon but not
/// at once.
async fn until<T>(mut ask: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) {
    while !wanted(&ask().await) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn w_01_the_sequence_orders_events_that_arrive_out_of_order() {
    let receiver = receiver().await;
    for sequence in [3, 1, 2] {
        assert_eq!(attempt(&deliverer(), &receiver.url(), &event(sequence)).await, DeliveryOutcome::Delivered);
    }
    let mut sequences: Vec<u64> = receiver.events().iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, [3, 1, 2]);
    sequences.sort_unstable();
    assert_eq!(sequences, [1, 2, 3]);
}

#[tokio::test]
async fn w_02_a_failure_is_tried_again_and_its_pause_is_kept_where_the_status_allows_one() {
    let receiver = receiver().await;
    let day = Some(Millis::from_hours(24));
    let minute = Some(Millis::from_mins(1));
    for (answer, expected) in [
        (Answer::status(500), None),
        (Answer::status(500).retry_after("60"), None),
        (Answer::status(404).retry_after("60"), None),
        (Answer::status(400), None),
        (Answer::status(429), None),
        (Answer::status(429).retry_after("60"), minute),
        (Answer::status(503).retry_after("60"), minute),
        (Answer::status(503).retry_after("Sat, 14 Mar 2026 15:10:26 GMT"), minute),
        (Answer::status(503).retry_after("864000"), day),
        (Answer::status(503).retry_after("soon"), None),
    ] {
        receiver.script([answer.clone()]);
        match attempt(&deliverer(), &receiver.url(), &event(1)).await {
            DeliveryOutcome::Failed { retry_after, .. } => assert_eq!(retry_after, expected, "{answer:?}"),
            other => panic!("{answer:?}: {other:?}"),
        }
    }
    for status in [200, 201, 202, 204, 299] {
        receiver.script([Answer::status(status)]);
        let outcome = attempt(&deliverer(), &receiver.url(), &event(1)).await;
        assert_eq!(outcome, DeliveryOutcome::Delivered, "{status}");
    }
}

#[tokio::test]
async fn w_03_a_slow_receiver_is_given_up_and_others_do_not_wait_for_it() {
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow_url = format!("http://{}/", slow.local_addr().unwrap());
    // Sends a byte of its status line now and then and never finishes it.
    let drip = tokio::spawn(async move {
        let (mut stream, _) = slow.accept().await.unwrap();
        assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
        for byte in b"HTTP/1.1 200 OK\r\nx-slow: ".iter().chain(std::iter::repeat(&b'x')) {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let receiver = receiver().await;
    let hasty = Deliverer::new(Settings { timeout: Duration::from_millis(700), ..settings() }).unwrap();
    let (patient, url, sent) = (deliverer(), receiver.url(), event(1));

    let given_up = attempt(&hasty, &slow_url, &sent);
    tokio::pin!(given_up);
    // The other endpoint's event arrives while the slow one is still being waited for.
    let healthy = attempt(&patient, &url, &sent);
    tokio::pin!(healthy);
    tokio::select! {
        biased;
        outcome = &mut healthy => assert_eq!(outcome, DeliveryOutcome::Delivered),
        outcome = &mut given_up => panic!("the slow endpoint came first: {outcome:?}"),
    }
    assert_eq!(detail(&given_up.await), "no answer within 700 ms");
    // The connection is closed, not left behind.
    tokio::time::timeout(Duration::from_secs(60), drip).await.unwrap().unwrap();
}

#[tokio::test]
async fn w_03_a_slow_reply_costs_no_more_than_the_timeout_and_keeps_its_status() {
    let receiver = receiver().await;
    let hasty = Deliverer::new(Settings { timeout: Duration::from_millis(500), ..settings() }).unwrap();
    let trickle = Reply::Trickle(Duration::from_millis(20));
    receiver.script([
        Answer::status(503).retry_after("60").reply(trickle.clone()),
        Answer::status(200).reply(trickle.clone()),
        Answer::status(410).reply(trickle),
    ]);
    let started = std::time::Instant::now();
    match attempt(&hasty, &receiver.url(), &event(1)).await {
        DeliveryOutcome::Failed { detail, retry_after } => {
            assert!(detail.starts_with("receiver answered 503"), "{detail}");
            assert_eq!(retry_after, Some(Millis::from_mins(1)));
        }
        other => panic!("{other:?}"),
    }
    assert!(started.elapsed() >= Duration::from_millis(500));
    // Success and farewell are known from the head; their bodies are not waited for.
    assert_eq!(attempt(&deliverer(), &receiver.url(), &event(1)).await, DeliveryOutcome::Delivered);
    assert_eq!(attempt(&deliverer(), &receiver.url(), &event(1)).await, DeliveryOutcome::Gone);
}

#[tokio::test]
async fn w_03_a_name_that_never_resolves_is_given_up() {
    #[derive(Debug)]
    struct Silent;
    impl leeway_webhook::target::Resolver for Silent {
        fn resolve<'a>(
            &'a self,
            _host: &'a str,
        ) -> futures::future::BoxFuture<'a, std::io::Result<Vec<std::net::IpAddr>>> {
            Box::pin(std::future::pending())
        }
    }
    let settings = Settings { timeout: Duration::from_millis(50), ..settings() };
    let deliverer = Deliverer::with_resolver(settings, std::sync::Arc::new(Silent)).unwrap();
    let outcome = attempt(&deliverer, "https://hooks.test/", &event(1)).await;
    assert_eq!(detail(&outcome), "no answer within 50 ms");
}

#[tokio::test]
async fn w_04_a_redirect_is_a_failure_and_is_not_followed() {
    let (receiver, inner) = (receiver().await, receiver().await);
    for status in [301, 302, 303, 307, 308] {
        receiver.script([Answer::redirect(status, &inner.url())]);
        let outcome = attempt(&deliverer(), &receiver.url(), &event(1)).await;
        assert_eq!(detail(&outcome), format!("receiver answered {status}; redirects are not followed"));
    }
    assert_eq!(inner.counts().requests, 0);
    assert_eq!(receiver.counts().requests, 5);
}

#[tokio::test]
async fn w_05_the_connection_goes_to_the_checked_address_and_the_check_is_made_every_time() {
    let allowed = receiver().await;
    let port = allowed.address().port();
    // The same port on another loopback address stands for the inner service.
    let inner = receiver_at(([127, 0, 0, 2], port).into()).await;
    let policy = TargetPolicy { allowed_networks: vec!["127.0.0.1/32".parse().unwrap()], ..TargetPolicy::loopback() };
    let names = Scripted::new(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1", "127.0.0.2"], &["127.0.0.1"]]);
    let deliverer = Deliverer::with_resolver(Settings { policy, ..settings() }, names.clone()).unwrap();
    let url = format!("http://hooks.test:{port}/hook");

    assert_eq!(attempt(&deliverer, &url, &event(1)).await, DeliveryOutcome::Delivered);
    // Asked once: what was checked is what was connected to.
    assert_eq!(names.asked(), ["hooks.test"]);
    let blocked = "target refused: address 127.0.0.2 is blocked: loopback; use a public one, or ask the operator to list its network in webhooks.allowed_networks";
    assert_eq!(detail(&attempt(&deliverer, &url, &event(2)).await), blocked);
    assert_eq!(detail(&attempt(&deliverer, &url, &event(3)).await), blocked);
    assert_eq!(attempt(&deliverer, &url, &event(4)).await, DeliveryOutcome::Delivered);
    let unresolved = attempt(&deliverer, &url, &event(5)).await;
    assert_eq!(detail(&unresolved), "target refused: host does not resolve: no such name");
    assert_eq!(names.asked().len(), 5);
    assert_eq!((allowed.counts().events, inner.counts().requests), (2, 0));
}

#[tokio::test]
async fn w_06_a_strict_deliverer_never_connects_to_this_machine() {
    let receiver = receiver().await;
    let port = receiver.address().port();
    let policy = TargetPolicy { allow_http: true, allowed_ports: leeway_webhook::Ports::Any, ..Default::default() };
    let strict = Deliverer::new(Settings { policy, ..settings() }).unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "2130706433",
        "0x7f000001",
        "0177.1",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "x@127.0.0.1",
    ] {
        for scheme in ["http", "https"] {
            let outcome = attempt(&strict, &format!("{scheme}://{host}:{port}/hook"), &event(1)).await;
            assert!(detail(&outcome).starts_with("target refused: "), "{scheme} {host}: {outcome:?}");
        }
    }
    assert_eq!(receiver.counts().requests, 0);
}

#[tokio::test]
async fn w_07_a_receiver_that_is_gone_says_so() {
    let receiver = receiver().await;
    receiver.script([Answer::status(410).reply(Reply::Text("bye".to_owned()))]);
    assert_eq!(attempt(&deliverer(), &receiver.url(), &event(1)).await, DeliveryOutcome::Gone);
}

#[tokio::test]
async fn w_08_an_event_sent_again_after_a_crash_is_recognised_by_its_receiver() {
    let receiver = receiver().await;
    // The second process knows nothing of the first but the journal.
    for _process in 0..2 {
        assert_eq!(attempt(&deliverer(), &receiver.url(), &event(9)).await, DeliveryOutcome::Delivered);
    }
    receiver.wait_until(|counts| counts.requests == 2).await;
    assert_eq!((receiver.counts().events, receiver.counts().duplicates), (1, 1));
}

#[tokio::test]
async fn w_10_a_rotated_secret_is_accepted_beside_the_old_one_and_alone_afterwards() {
    let receiver = receiver().await;
    let (old, new) = (secret(), Secret::generate([2; 32]));
    let send = async |secrets: &[Secret], sequence: u64| {
        let sent = event(sequence);
        deliverer().attempt(&receiver.url(), secrets, &sent.id, &sent.body, NOW).await
    };
    let both = [new.clone(), old.clone()];
    assert_eq!(send(&both, 1).await, DeliveryOutcome::Delivered);
    receiver.trust(vec![new.clone()]);
    assert_eq!(send(&both, 2).await, DeliveryOutcome::Delivered);
    assert_eq!(send(&[new], 3).await, DeliveryOutcome::Delivered);
    assert_eq!(detail(&send(&[old], 4).await), "receiver answered 401");
    assert_eq!(receiver.counts().rejected, 1);
    let unsigned = send(&[], 5).await;
    assert_eq!(detail(&unsigned), "endpoint has no signing secret");
    assert_eq!(receiver.counts().requests, 4);
}

#[tokio::test]
async fn w_11_a_huge_reply_is_neither_read_nor_kept() {
    const GIGABYTE: u64 = 1_000_000_000;
    let receiver = receiver().await;
    receiver
        .script([Answer::status(500).reply(Reply::Huge(GIGABYTE)), Answer::status(200).reply(Reply::Huge(GIGABYTE))]);
    let outcome = attempt(&deliverer(), &receiver.url(), &event(1)).await;
    let detail = detail(&outcome);
    assert!(detail.len() < 1_100 && detail.contains("xxxx"), "{} bytes", detail.len());
    assert_eq!(attempt(&deliverer(), &receiver.url(), &event(1)).await, DeliveryOutcome::Delivered);
    // What lies in socket buffers was never read by us; a gigabyte does not fit there.
    let taken = receiver.counts().reply_bytes;
    assert!(taken < GIGABYTE / 10, "{taken} bytes were taken from the receiver");
}

#[tokio::test]
async fn w_11_the_reading_stops_at_sixty_four_kibibytes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Promises more than it ever sends: whoever wants one byte beyond the limit waits until the timeout.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4_096];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        let reply = [b"HTTP/1.1 500 X\r\ncontent-length: 9999999\r\n\r\n".to_vec(), vec![b'y'; 64 * 1024]].concat();
        stream.write_all(&reply).await.unwrap();
        while stream.read(&mut request).await.is_ok_and(|read| read > 0) {}
    });
    let outcome = tokio::time::timeout(Duration::from_secs(30), attempt(&deliverer(), &url, &event(1))).await;
    assert!(detail(&outcome.unwrap()).starts_with("receiver answered 500: yyyy"));
    server.await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_speaks_no_http_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        for reply in [&b"SSH-2.0-OpenSSH_9.2\r\n"[..], b""] {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(reply).await.unwrap();
        }
    });
    for _reply in 0..2 {
        let outcome = attempt(&deliverer(), &url, &event(1)).await;
        assert!(detail(&outcome).starts_with("error sending request"), "{outcome:?}");
    }
    server.await.unwrap();
}

#[tokio::test]
async fn w_15_a_job_name_reaches_no_header() {
    use leeway_model::JobId;
    use leeway_model::job::JobState;
    use leeway_model::notify::{Alert, Notification, Severity};
    use leeway_webhook::EventId;

    let name = "evil\"\r\nx-injected: 1\r\n\r\n\u{202e}GET / HTTP/1.1";
    let alert = Alert::JobStateChanged {
        job: JobId(1),
        name: name.into(),
        from: JobState::Running,
        to: JobState::Failed,
        reason: Some(name.into()),
    };
    let notification = Notification { sequence: 1, at: NOW, severity: Severity::Info, alert };
    let body = leeway_webhook::body(&notification, &origin(), None);
    let id = EventId::of(&notification, &origin().installation);
    let receiver = receiver().await;
    let outcome = deliverer().attempt(&receiver.url(), &[secret()], &id, &body, NOW).await;
    assert_eq!(outcome, DeliveryOutcome::Delivered);
    let [request] = receiver.requests().try_into().unwrap();
    let mut names = request.header_names.clone();
    names.sort();
    assert_eq!(
        names,
        [
            "accept",
            "content-length",
            "content-type",
            "host",
            "user-agent",
            "webhook-id",
            "webhook-signature",
            "webhook-timestamp"
        ]
    );
    assert_eq!(receiver.events()[0].json["data"]["name"], name);
    assert_eq!(receiver.counts().requests, 1);
}
