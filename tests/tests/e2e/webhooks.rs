//! Events on their way to a receiver that is down at first.

use leeway_tests::api::{Api, shell};
use leeway_tests::wait::eventually;
use leeway_tests::{Config, Server};
use leeway_webhook::receiver::{Answer, Options, Receiver};

/// The waits between attempts are five seconds and five minutes; the scheduler's clock makes the second one bearable.
fn fast() -> Config {
    Config { lease_ttl: "10m", more: "[clock]\nspeed = 60\n".into(), ..Config::default() }
}

/// A receiver that answers so at first, and is known to the server.
async fn receiver(server: &Server, answers: Vec<Answer>, events: &str) -> Receiver {
    let receiver = Receiver::start(Options::new(Vec::new())).await.unwrap();
    receiver.script(answers);
    let url = receiver.url();
    let added = server.cli(&["webhook", "add", "ops", "--url", &url, "--events", events]).await.ok().json();
    receiver.trust(vec![added["secret"].as_str().unwrap().parse().unwrap()]);
    receiver
}

async fn until_events(receiver: &Receiver, count: usize) {
    eventually("events that were accepted", || async { (receiver.counts().events >= count).then_some(()) }).await;
}

#[tokio::test]
async fn w_01_w_02_an_event_is_tried_again_under_its_id_until_the_receiver_is_back() {
    let server = Server::start(&fast()).await;
    // Five minutes are between four and six seconds here: only the receiver's word makes it nine.
    let down = vec![Answer::status(500), Answer::status(503).retry_after("9")];
    let receiver = receiver(&server, down, "leeway.endpoint.test").await;
    server.cli(&["webhook", "test", "ops"]).await.ok();
    until_events(&receiver, 1).await;
    let requests = receiver.requests();
    assert_eq!(requests.iter().map(|request| request.answered).collect::<Vec<_>>(), [500, 503, 204]);
    let at = |place: usize| requests[place].timestamp.parse::<u64>().unwrap();
    assert!(at(2) - at(1) >= 8, "Retry-After is honoured: {requests:?}");
    for request in &requests {
        assert!(request.id.starts_with("evt_") && request.id == requests[0].id, "one event, one id: {requests:?}");
        assert_eq!(request.body, requests[0].body, "every attempt says the same");
        assert!(request.verified, "every attempt is signed anew");
    }
    let listed = eventually("the success is known", || async {
        let listed = server.cli(&["webhook", "list"]).await.ok().json();
        listed[0]["last_success_ms"].is_i64().then_some(listed)
    })
    .await;
    assert_eq!((&listed[0]["name"], &listed[0]["failures"]), (&"ops".into(), &0.into()), "{listed:#}");
    let left = server.cli(&["webhook", "deliveries"]).await.ok().json();
    assert_eq!(left.as_array().unwrap().len(), 0, "{left:#}");
}

#[tokio::test]
async fn w_09_a_delivery_survives_a_kill_of_the_server_under_the_same_id() {
    let mut server = Server::start(&fast()).await;
    let receiver = receiver(&server, vec![Answer::status(500), Answer::status(500)], "leeway.job.*").await;
    let api = Api::of(&server);
    let job = api.submit("1", shell("short", "true")).await;
    api.until_settled(&job).await;
    eventually("a failed attempt", || async { (receiver.counts().requests >= 2).then_some(()) }).await;
    server.restart().await;
    let ids = |wanted: u16| {
        let requests = receiver.requests().into_iter().filter(move |request| request.answered == wanted);
        requests.map(|request| request.id).collect::<Vec<_>>()
    };
    eventually("what was refused is delivered", || async {
        let delivered = ids(204);
        ids(500).iter().all(|id| delivered.contains(id)).then_some(())
    })
    .await;
    let ended = eventually("the news of its end", || async {
        let events = receiver.events();
        events.into_iter().find(|event| event.json.to_string().contains("succeeded"))
    })
    .await;
    assert_eq!(ended.subject, format!("jobs/{job}"));
}
