//! Recorded markets: what a trace says, and which field of a wrong one is named.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

use leeway_market::trace::{self, Kind, Notice, PriceChange, SeriesKey, Summary};
use leeway_model::{Millis, Rate, Timestamp};
use proptest::prelude::*;

const SAMPLE: &str = include_str!("data/trace.json");

fn rate(text: &str) -> Rate {
    Rate::parse_decimal(text).unwrap()
}

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The message for the sample with one piece of text replaced.
fn refused(from: &str, to: &str) -> String {
    assert!(SAMPLE.contains(from), "{from}");
    trace::parse("t.json", SAMPLE.replacen(from, to, 1).as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_trace_reads_to_its_golden_summary() {
    let trace = trace::parse("t.json", SAMPLE.as_bytes()).unwrap();
    assert_eq!(trace.region.as_str(), "aws/us-west-2");
    assert_eq!(trace.accelerators.as_ref().unwrap().to_string(), "V100:1");
    assert_eq!((trace.kind, trace.start), (Kind::PreemptionRun, Some(instant("2026-03-14T15:00:00Z"))));
    assert_eq!((trace.on_demand, trace.spot), (rate("3.06"), rate("0.918")));
    let change = |tick, price| PriceChange { tick, rate: rate(price) };
    assert_eq!(trace.price_changes, [change(2, "0.95"), change(6, "0.918")]);
    let notice = |tick, secs| Notice { tick, length: Millis::from_secs(secs) };
    assert_eq!(trace.notices, [notice(3, 120), notice(5, 0)]);
    assert_eq!(trace.loss_ticks().collect::<Vec<_>>(), [3, 5]);
    assert_eq!(
        trace.summary(),
        Summary {
            ticks: 8,
            length: Millis::from_mins(8),
            ticks_any: 7,
            ticks_all: 4,
            losses: 2,
            price_changes: 2,
            price_low: rate("0.918"),
            price_high: rate("0.95"),
        }
    );
    assert_eq!(trace::parse("again", trace::write(&trace).as_bytes()).unwrap(), trace);
}

#[test]
fn a_wrong_trace_is_refused_with_file_field_and_index() {
    for (from, to, message) in [
        ("spot-trace-v1", "spot-trace-v2", "t.json: schema: 'spot-trace-v2' is not known"),
        ("\"gap_seconds\": 60", "\"gap_seconds\": 0", "t.json: gap_seconds: '0' must be a whole number from 1"),
        ("\"gap_seconds\": 60", "\"gap_seconds\": 6e1", "t.json: gap_seconds: '6e1'"),
        ("[4, 4, 4, 2", "[4, 4, 4, -2", "t.json: data[3]: '-2'"),
        ("[4, 4, 4, 2", "[4, 4, 4, 2.5", "t.json: data[3]: '2.5'"),
        ("[4, 4, 4, 2", "[4, 4, 4, 5", "t.json: data[3]: '5'"),
        ("[4, 4, 4, 2", "[4, 4, null, 2", "t.json: data[2]: 'null'"),
        ("[4, 4, 4, 2, 2, 0, 3, 4]", "[]", "t.json: data: must have at least one tick"),
        ("[4, 4, 4, 2, 2, 0, 3, 4]", "7", "t.json: data: must be a list"),
        ("\"ticks\": 8", "\"ticks\": 9", "t.json: ticks: is 9, but data has 8 entries"),
        ("[2, 0.95]", "[2, -0.95]", "t.json: price_changes[0]: '-0.95' is not a price: negative"),
        ("[6, 0.918]", "[6, 0]", "t.json: price_changes[1]: '0' is not a price: zero"),
        ("[6, 0.918]", "[6, 1e300]", "t.json: price_changes[1]: '1e300' is not a price"),
        ("[6, 0.918]", "[6, \"0.9\"]", "t.json: price_changes[1]: '\\\"0.9\\\"' is not a price"),
        ("[6, 0.918]", "[8, 0.918]", "t.json: price_changes[1]: '8' must be a whole number from 0 to 7"),
        ("[6, 0.918]", "[2, 0.918]", "t.json: price_changes[1]: tick 2 must come after tick 2"),
        ("[6, 0.918]", "[6]", "t.json: price_changes[1]: must be a pair"),
        ("[3, 120]", "[2, 120]", "t.json: notice_seconds[0]: no loss begins at tick 2"),
        ("[3, 120]", "[3, -1]", "t.json: notice_seconds[0]: '-1'"),
        ("[3, 120]", "[3, 100000]", "t.json: notice_seconds[0]: '100000'"),
        ("\"missing_ticks\": [1]", "\"missing_ticks\": [3, 1]", "t.json: missing_ticks[1]: tick 1 must come after"),
        ("\"spot_usd_per_h\": 0.9179999999999999", "\"spot_usd_per_h\": null", "t.json: spot_usd_per_h: 'null'"),
        ("\"kind\": \"preemption-run\"", "\"kind\": \"guess\"", "t.json: kind: 'guess' is neither"),
        ("us-west-2\"", "US West\"", "t.json: region: 'aws/US West' is not a region"),
        (
            "\"accelerators_per_instance\": 1",
            "\"accelerators_per_instance\": 0",
            "t.json: accelerators_per_instance: is 0",
        ),
        ("\"nvidia-tesla-v100\"", "null", "t.json: accelerator: is null although"),
        ("2026-03-14T15:00:00Z", "2026-03-14", "t.json: start_time_utc: '2026-03-14' is not an instant"),
        ("\"ticks\": 8", "\"zone\": \"twice\"", "t.json: (file): duplicate field `zone`"),
        ("\"data\"", "\"date\"", "t.json: (file): missing field `data`"),
    ] {
        let found = refused(from, to);
        assert!(found.starts_with(message), "{to}\n{found}");
    }
}

#[test]
fn price_history_of_the_provider_s_own_tool_is_read_entry_by_entry() {
    let history = trace::parse_aws_price_history("h.json", include_bytes!("data/aws-history.json")).unwrap();
    assert_eq!(history.next_token.as_deref(), Some("page-2"));
    assert_eq!(history.series.len(), 2);
    let key = SeriesKey {
        region: "aws/us-east-1".parse().unwrap(),
        zone: "us-east-1a".into(),
        instance_type: "p3.2xlarge".into(),
        product: "Linux/UNIX".into(),
    };
    let at = |time: &str| history.price_at(&key, instant(time));
    assert_eq!(at("2026-03-14T14:59:59Z"), None);
    assert_eq!(at("2026-03-14T15:59:59Z"), Some(rate("0.92")), "of two prices at one instant the dearer holds");
    assert_eq!(at("2026-03-14T16:00:00Z"), Some(rate("0.951")));
    assert!(history.series.keys().any(|key| key.region.as_str() == "aws/us-west-2"));
    assert_eq!((history.notes.rejected, history.notes.conflicts), (5, 1));
    let fields: Vec<&str> = history.notes.details.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "SpotPriceHistory[4].SpotPrice",
            "SpotPriceHistory[5].SpotPrice",
            "SpotPriceHistory[6].AvailabilityZone",
            "SpotPriceHistory[7].Timestamp",
            "SpotPriceHistory[8].(entry)",
        ]
    );
    assert!(trace::parse_aws_price_history("h.json", b"[]").is_err());
}

proptest! {
    #[test]
    fn no_damage_to_a_trace_panics(at in 0..SAMPLE.len(), with in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        if cut { bytes.truncate(at) } else { bytes[at] = with }
        let _ = trace::parse("t.json", &bytes);
        let _ = trace::parse_aws_price_history("t.json", &bytes);
    }
}
