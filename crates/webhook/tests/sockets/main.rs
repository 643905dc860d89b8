//! Deliveries over real sockets on loopback: what FAULTS table I asks of one attempt, and a public client as judge.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test that calls them")]

mod faults;
mod leaks;
mod standard_client;
mod tls;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use leeway_model::budget::ThresholdKind;
use leeway_model::notify::{Alert, DeliveryOutcome, Notification, Severity};
use leeway_model::{Currency, InstallationId, Micros, Timestamp};
use leeway_webhook::receiver::{Options, Receiver};
use leeway_webhook::target::Resolver;
use leeway_webhook::{Deliverer, EventId, Origin, Secret, Settings, TargetPolicy, body};

const NOW: Timestamp = Timestamp::from_millis(1_773_500_966_000);

fn secret() -> Secret {
    Secret::generate([1; 32])
}

fn origin() -> Origin {
    Origin { installation: InstallationId("demo".parse().unwrap()), currency: Currency::USD }
}

/// An event as a sender keeps it between attempts.
struct Sent {
    id: EventId,
    body: Vec<u8>,
}

fn event(sequence: u64) -> Sent {
    let alert = Alert::ThresholdCrossed {
        budget: "team-vision".parse().unwrap(),
        kind: ThresholdKind::Actual,
        percent: 50,
        cap: Micros::from_units(500),
        posted: Micros::from_units(250),
        held: Micros::ZERO,
    };
    let notification = Notification { sequence, at: NOW, severity: Severity::Info, alert };
    Sent { id: EventId::of(&notification, &origin().installation), body: body(&notification, &origin(), None) }
}

fn settings() -> Settings {
    // Long enough for a loaded machine; tests that wait for the timeout set their own.
    Settings { policy: TargetPolicy::loopback(), timeout: Duration::from_secs(60), ..Settings::default() }
}

fn deliverer() -> Deliverer {
    Deliverer::new(settings()).unwrap()
}

/// A receiver whose clock stands at [`NOW`].
async fn receiver() -> Receiver {
    receiver_at(([127, 0, 0, 1], 0).into()).await
}

async fn receiver_at(address: std::net::SocketAddr) -> Receiver {
    let options = Options { address, clock: Arc::new(|| NOW), ..Options::new(vec![secret()]) };
    Receiver::start(options).await.unwrap()
}

async fn attempt(deliverer: &Deliverer, url: &str, sent: &Sent) -> DeliveryOutcome {
    deliverer.attempt(url, &[secret()], &sent.id, &sent.body, NOW).await
}

/// The detail of an outcome that must be a failure.
fn detail(outcome: &DeliveryOutcome) -> &str {
    match outcome {
        DeliveryOutcome::Failed { detail, .. } => detail,
        other => panic!("not a failure: {other:?}"),
    }
}

/// Answers each question with the next of its answers and counts the questions.
#[derive(Debug, Default)]
struct Scripted {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(parse).collect()), ..Self::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolver for Scripted {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}
