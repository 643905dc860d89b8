use leeway_model::budget::ThresholdKind;
use leeway_model::checkpoint::CheckpointId;
use leeway_model::job::JobState;
use leeway_model::notify::Severity;
use leeway_model::resources::CapacityType;
use proptest::prelude::*;

use super::*;

const AT: Timestamp = Timestamp::from_millis(1_773_500_966_000);

fn origin() -> Origin {
    Origin { installation: InstallationId("demo".parse().unwrap()), currency: Currency::USD }
}

fn notification(alert: Alert) -> Notification {
    Notification { sequence: 42, at: AT, severity: Severity::Warning, alert }
}

fn run() -> RunId {
    RunId { job: JobId(7), epoch: 2 }
}

fn offer() -> OfferKey {
    let name = |text: &str| text.parse().unwrap();
    OfferKey { cluster: name("aws-us-east-1"), shape: name("p4d-24xlarge"), capacity: CapacityType::Spot }
}

fn state_changed(name: &str, reason: &str) -> Alert {
    Alert::JobStateChanged {
        job: JobId(7),
        name: name.into(),
        from: JobState::Running,
        to: JobState::Failed,
        reason: Some(reason.into()),
    }
}

/// One of each kind, with the name of its golden file. A new variant fails to compile in `Facts::from` and must be
/// added here by hand.
fn one_of_each() -> Vec<(&'static str, Alert)> {
    let budget = || "team-vision".parse().unwrap();
    let usd = |units: i64| Micros::from_units(units);
    vec![
        (
            "threshold_crossed",
            Alert::ThresholdCrossed {
                budget: budget(),
                kind: ThresholdKind::Committed,
                percent: 80,
                cap: usd(500),
                posted: Micros::new(310_500_000),
                held: usd(92),
            },
        ),
        ("cap_reached", Alert::CapReached { budget: budget(), cap: usd(500), posted: usd(490), held: usd(10) }),
        (
            "admission_denied",
            Alert::AdmissionDenied {
                budget: Some(budget()),
                job: JobId(7),
                code: "BUDGET_EXCEEDED".into(),
                message: "needs 12.50 USD, 3.00 USD left".into(),
            },
        ),
        (
            "admission_denied_without_budget",
            Alert::AdmissionDenied {
                budget: None,
                job: JobId(7),
                code: "NO_BUDGET".into(),
                message: "no budget".into(),
            },
        ),
        ("overrun", Alert::Overrun { budget: budget(), run: run(), amount: Micros::new(1) }),
        ("cap_changed", Alert::CapChanged { budget: budget(), from: usd(500), to: usd(400) }),
        ("job_state_changed", state_changed("train 🚂 v2", "exit code 1")),
        (
            "job_interrupted",
            Alert::JobInterrupted {
                run: run(),
                offer: offer(),
                warned: true,
                deadline: Some(AT.after(leeway_model::Millis::from_secs(120))),
            },
        ),
        ("job_lost", Alert::JobInterrupted { run: run(), offer: offer(), warned: false, deadline: None }),
        ("job_recovered", Alert::JobRecovered { run: run(), offer: offer(), step: 12_000 }),
        (
            "job_held",
            Alert::JobHeld {
                job: JobId(7),
                code: "NO_PROGRESS".into(),
                message: "lost 10 runs in a row without a newer checkpoint".into(),
            },
        ),
        (
            "checkpoint_quarantined",
            Alert::CheckpointQuarantined {
                job: JobId(7),
                checkpoint: CheckpointId { epoch: 2, seq: 9 },
                detail: "digest of part 3 differs".into(),
            },
        ),
        (
            "checkpoints_missed",
            Alert::CheckpointsMissed { run: run(), message: "no checkpoint was saved for 3 intervals of 10m".into() },
        ),
        ("termination_stuck", Alert::TerminationStuck { run: run(), minutes: 15 }),
        (
            "endpoint_disabled",
            Alert::EndpointDisabled { endpoint: "ops".parse().unwrap(), reason: "no success for 5 days".into() },
        ),
        ("endpoint_test", Alert::EndpointTest { endpoint: "ops".parse().unwrap() }),
    ]
}

fn text(alert: Alert) -> String {
    String::from_utf8(body(&notification(alert), &origin(), None)).unwrap()
}

#[test]
fn every_kind_of_event_has_its_golden_body() {
    for (name, alert) in one_of_each() {
        insta::assert_snapshot!(name, text(alert));
    }
}

#[test]
fn every_body_is_an_event_of_both_standards() {
    for (name, alert) in one_of_each() {
        let json: serde_json::Value = serde_json::from_str(&text(alert.clone())).unwrap();
        for field in ["specversion", "id", "source", "type", "time", "timestamp", "subject", "sequence"] {
            assert!(json[field].as_str().is_some_and(|text| !text.is_empty()), "{name} {field}");
        }
        assert_eq!(json["type"], alert.type_name(), "{name}");
        assert_eq!(json["subject"], alert.subject(), "{name}");
        assert_eq!(json["data"]["severity"], "warning", "{name}");
        assert_eq!(json["time"], json["timestamp"], "{name}");
    }
}

#[test]
fn the_published_example_differs_only_in_its_id_and_period() {
    let example = include_str!("../../tests/fixtures/signed_body.json");
    let (_, alert) = one_of_each().remove(0);
    let notification = notification(alert);
    let id = EventId::of(&notification, &origin().installation);
    let ours = String::from_utf8(body(&notification, &origin(), Some(42))).unwrap();
    let theirs = example.replace("2026-03\"", "total\"").replace("/2026-03/", "/total/");
    assert_eq!(ours.replace(id.as_str(), "evt_01j9z3k5r8w2q4t6v8x0y2a4c6"), theirs);
}

#[test]
fn w_01_every_attempt_sends_the_same_bytes() {
    let (_, alert) = one_of_each().remove(0);
    let first = body(&notification(alert.clone()), &origin(), None);
    assert_eq!(body(&notification(alert.clone()), &origin(), None), first);
    let next = Notification { sequence: 43, ..notification(alert) };
    assert_ne!(body(&next, &origin(), None), first);
}

#[test]
fn w_15_quotes_newlines_and_bidi_marks_are_escaped() {
    let text = text(state_changed("\"},\n{\u{202e}x\u{2028}\u{7f}\0ä🚂", "\\"));
    assert!(text.contains(r#""name":"\"},\n{\u202ex\u2028\u007f\u0000ä🚂""#), "{text}");
    assert!(text.contains(r#""reason":"\\""#), "{text}");
}

#[test]
fn long_texts_are_cut_between_characters() {
    let text = text(state_changed("job", &"ä".repeat(2_000)));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let reason = json["data"]["reason"].as_str().unwrap();
    assert!(reason.len() <= 1_024 && reason.len() > 1_000 && reason.ends_with("ä…"), "{reason}");
}

#[test]
fn times_beyond_the_calendar_are_still_times() {
    for millis in [i64::MIN, -1, 0, i64::MAX] {
        let shown = time(Timestamp::from_millis(millis));
        assert!(shown.parse::<Timestamp>().is_ok(), "{shown}");
    }
}

proptest! {
    #[test]
    fn w_15_any_text_survives_as_one_line_of_valid_json_within_the_limit(
        name in ".{0,400}|[\\x00-\\x1f\\x7f]{0,3000}",
        reason in ".{0,400}|[\\x00-\\x1f\\x7f\\u{202e}]{0,3000}",
        sequence: u64,
    ) {
        let alert = state_changed(&name, &reason);
        let bytes = body(&Notification { sequence, ..notification(alert) }, &origin(), Some(u64::MAX));
        prop_assert!(bytes.len() <= BODY_BYTES_MAX, "{}", bytes.len());
        let text = std::str::from_utf8(&bytes).unwrap();
        prop_assert!(!text.chars().any(|c| c.is_control() || escape::is_invisible(c)));
        let json: serde_json::Value = serde_json::from_str(text).unwrap();
        prop_assert_eq!(json["data"]["name"].as_str().unwrap(), clip(&name, TITLE_BYTES_MAX));
        prop_assert_eq!(json["data"]["reason"].as_str().unwrap(), clip(&reason, SENTENCE_BYTES_MAX));
        prop_assert_eq!(json["sequence"].as_str().unwrap().len(), 20);
    }
}
