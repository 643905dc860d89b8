//! Planted canaries must appear nowhere but where they belong: in the request.

use std::io;
use std::sync::{Arc, Mutex};

use leeway_webhook::receiver::{Answer, Reply};
use leeway_webhook::{Deliverer, Settings, TargetPolicy};
use tracing_subscriber::fmt::MakeWriter;

use super::{attempt, deliverer, event, receiver, secret, settings};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn w_14_z_04_canaries_in_url_and_secret_appear_in_no_log_outcome_or_dump() {
    let log = Captured::default();
    // For the whole process: what the other tests log meanwhile must be just as clean.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let receiver = receiver().await;
    let origin = format!("http://{}", receiver.address());
    let path = "/services/canary-in-path?token=canary-in-query";
    let strict = Deliverer::new(Settings { policy: TargetPolicy::default(), ..settings() }).unwrap();
    let closed = "http://127.0.0.1:1/services/canary-in-path?token=canary-in-query";
    let echo = format!(
        "no such hook {origin}{path} (canary-in-path, canary-in-query), secret {}, key {}",
        secret().reveal(),
        secret().reveal().trim_start_matches("whsec_")
    );
    receiver.script([Answer::status(404).reply(Reply::Text(echo)), Answer::status(200)]);
    let mut seen = String::new();
    for (deliverer, url) in [
        (deliverer(), format!("{origin}{path}")),
        (deliverer(), format!("{origin}{path}")),
        (deliverer(), closed.to_owned()),
        (strict.clone(), format!("{origin}{path}")),
        (deliverer(), format!("http://canary-user:canary-password@{}{path}", receiver.address())),
        (deliverer(), "https://canary-in-host:x/canary".to_owned()),
        (deliverer(), "ftp://hooks.test/canary".to_owned()),
    ] {
        let outcome = attempt(&deliverer, &url, &event(1)).await;
        seen.push_str(&format!(
            "{outcome:?} {deliverer:?} {:?}\n",
            deliverer.check(&url).map(|target| target.to_string())
        ));
    }
    let [request, _] = receiver.requests().try_into().unwrap();
    assert!(seen.contains("no such hook"), "{seen}");
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains(&format!("target={origin}/…")), "{logged}");
    let secret = secret().reveal();
    let base64 = secret.strip_prefix("whsec_").unwrap();
    for text in [&seen, &logged] {
        assert!(!text.contains("canary"), "{text}");
        assert!(!text.contains(base64), "{text}");
        assert!(!text.contains(&request.signature), "{text}");
    }
}
