//! The public Standard Webhooks library for Python as judge of our signatures, in both directions.
//!
//! Needs an interpreter that can import `standardwebhooks`: name it in `LEEWAY_TEST_PYTHON`.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use leeway_model::Timestamp;
use leeway_model::notify::DeliveryOutcome;
use leeway_webhook::Secret;
use leeway_webhook::receiver::{Options, Receiver, Request};
use leeway_webhook::sign::{self, Headers, VerifyError, verify};
use serde_json::{Value, json};

use super::{deliverer, event, secret};

/// Verifies the request, then signs the same content itself.
const SCRIPT: &str = r#"
import datetime, json, sys
from standardwebhooks import Webhook, WebhookVerificationError
request = json.load(sys.stdin)
webhook = Webhook(request["secret"])
try:
    event = webhook.verify(request["body"], request["headers"])
except WebhookVerificationError as error:
    event = str(error)
at = datetime.datetime.fromtimestamp(int(request["headers"]["webhook-timestamp"]), tz=datetime.timezone.utc)
print(json.dumps({"event": event, "signature": webhook.sign(request["headers"]["webhook-id"], at, request["body"])}))
"#;

/// An interpreter with the library, or `None` after saying so.
fn python() -> Option<String> {
    let python = std::env::var("LEEWAY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", "import standardwebhooks"]).stderr(Stdio::null()).status();
    if import.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    println!("skipped: {python} cannot import standardwebhooks; set LEEWAY_TEST_PYTHON to one that can");
    None
}

fn ask(python: &str, secret: &Secret, request: &Request) -> Value {
    let mut child =
        Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let question = json!({
        "secret": secret.reveal(),
        "body": std::str::from_utf8(&request.body).unwrap(),
        "headers": {
            "webhook-id": request.id,
            "webhook-timestamp": request.timestamp,
            "webhook-signature": request.signature,
        },
    });
    child.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test]
async fn the_public_client_believes_our_requests_and_we_believe_its_signatures() {
    let Some(python) = python() else { return };
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let now = Timestamp::from_millis(i64::try_from(seconds).unwrap() * 1_000);
    let options = Options { clock: Arc::new(move || now), ..Options::new(vec![secret()]) };
    let receiver = Receiver::start(options).await.unwrap();
    let (sent, old) = (event(42), Secret::generate([2; 32]));
    let outcome = deliverer().attempt(&receiver.url(), &[old.clone(), secret()], &sent.id, &sent.body, now).await;
    assert_eq!(outcome, DeliveryOutcome::Delivered);

    let [request] = receiver.requests().try_into().unwrap();
    for known in [&secret(), &old] {
        let answer = ask(&python, known, &request);
        assert_eq!(answer["event"]["id"], sent.id.as_str(), "{answer}");
        assert_eq!(answer["event"]["sequence"], "00000000000000000042");
        let signature = answer["signature"].as_str().unwrap();
        let headers = Headers { id: &request.id, timestamp: &request.timestamp, signature };
        let check = |secrets: &[Secret]| verify(headers, &request.body, secrets, now, sign::TOLERANCE);
        assert_eq!(check(std::slice::from_ref(known)), Ok(()));
        assert_eq!(check(&[Secret::generate([3; 32])]), Err(VerifyError::Signature));
    }
    let stranger = ask(&python, &Secret::generate([3; 32]), &request);
    assert_eq!(stranger["event"], "No matching signature found");
}
