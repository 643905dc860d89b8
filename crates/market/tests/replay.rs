//! A trace as a stream of events: order, notices, what follows the last tick, and joining late.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

use leeway_market::replay::{End, EventKind, MarketEvent, MarketState, Options, Replay};
use leeway_market::trace::{self, Notice, PriceChange, SpotTrace};
use leeway_model::{Millis, Rate};
use proptest::prelude::*;

fn sample() -> SpotTrace {
    trace::parse("trace.json", include_bytes!("data/trace.json")).unwrap()
}

fn options(default_notice: u64, end: End) -> Options {
    Options { default_notice: Millis::from_secs(default_notice), end }
}

/// `seconds what`, for readable lists.
fn shown(event: MarketEvent) -> String {
    let secs = |length: Millis| length.as_millis() / 1_000;
    match event.kind {
        EventKind::Price(rate) => format!("{} price {rate}", secs(event.at)),
        EventKind::Available(nodes) => format!("{} available {nodes}", secs(event.at)),
        EventKind::Reclaim { alive, notice, lost_at } => {
            format!("{} reclaim to {alive} in {} at {}", secs(event.at), secs(notice), secs(lost_at))
        }
    }
}

fn events(trace: &SpotTrace, options: Options, count: usize) -> Vec<String> {
    Replay::new(trace, options).take(count).map(shown).collect()
}

#[test]
fn changes_come_in_order_and_the_last_value_holds() {
    assert_eq!(
        events(&sample(), options(0, End::Hold), 100),
        [
            "0 price 0.918",
            "0 available 4",
            "60 reclaim to 2 in 120 at 180",
            "120 price 0.95",
            "180 available 2",
            "300 available 0",
            "300 reclaim to 0 in 0 at 300",
            "360 price 0.918",
            "360 available 3",
            "420 available 4",
        ]
    );
    let replay = Replay::new(&sample(), options(0, End::Hold));
    assert_eq!(replay.next_after(Millis::from_secs(420)), None);
    let last = MarketState { price: Rate::parse_decimal("0.918").unwrap(), available: 4 };
    assert_eq!(replay.state_at(Millis::from_hours(1_000)), last);
}

#[test]
fn a_wrapped_trace_repeats_only_what_changes() {
    let wrapped = events(&sample(), options(0, End::Wrap), 19);
    assert_eq!(wrapped[..10], events(&sample(), options(0, End::Hold), 100)[..]);
    assert_eq!(wrapped[10], "540 reclaim to 2 in 120 at 660");
    assert_eq!(wrapped[17], "900 available 4");
    assert_eq!(wrapped[18], "1020 reclaim to 2 in 120 at 1140");
}

#[test]
fn a_loss_at_the_seam_of_a_wrapped_trace_is_a_loss() {
    let mut trace = sample();
    (trace.data, trace.price_changes) = (vec![1, 4, 4], Vec::new());
    trace.notices = vec![Notice { tick: 0, length: Millis::from_secs(90) }];
    assert_eq!(
        events(&trace, options(0, End::Wrap), 7),
        [
            "0 price 0.918",
            "0 available 1",
            "60 available 4",
            "90 reclaim to 1 in 90 at 180",
            "180 available 1",
            "240 available 4",
            "270 reclaim to 1 in 90 at 360",
        ]
    );
    assert_eq!(events(&trace, options(0, End::Hold), 9).len(), 3);
}

#[test]
fn a_notice_that_would_begin_before_the_start_is_shortened() {
    let mut trace = sample();
    (trace.data, trace.price_changes, trace.notices) = (vec![4, 0], Vec::new(), Vec::new());
    assert_eq!(events(&trace, options(600, End::Hold), 9)[2], "0 reclaim to 0 in 60 at 60");
    let wrapped = events(&trace, options(120, End::Wrap), 7);
    assert_eq!(
        wrapped,
        [
            "0 price 0.918",
            "0 available 4",
            "0 reclaim to 0 in 60 at 60",
            "60 available 0",
            "60 reclaim to 0 in 120 at 180",
            "120 available 4",
            "180 available 0",
        ]
    );
}

#[test]
fn a_constant_market_has_no_events_after_its_start() {
    let mut trace = sample();
    (trace.data, trace.price_changes, trace.notices) = (vec![2, 2], Vec::new(), Vec::new());
    let replay = Replay::new(&trace, options(0, End::Wrap));
    assert_eq!(replay.clone().count(), 2);
    assert_eq!(replay.state_at(Millis::MAX).available, 2);
}

#[test]
fn the_end_of_time_is_no_panic() {
    for end in [End::Hold, End::Wrap] {
        let mut replay = Replay::new(&sample(), options(30, end));
        replay.seek(Millis::MAX);
        let _ = (replay.peek(), replay.next(), replay.next(), replay.state_at(Millis::MAX));
    }
    let mut hollow = sample();
    (hollow.data, hollow.notices, hollow.gap) = (Vec::new(), Vec::new(), Millis::ZERO);
    assert!(Replay::new(&hollow, options(0, End::Wrap)).take(100).count() <= 100);
}

fn any_trace() -> impl Strategy<Value = SpotTrace> {
    let data = proptest::collection::vec(0_u32..=4, 1..40);
    let prices = proptest::collection::btree_map(0_u32..40, 1_u64..5, 0..10);
    (data, prices).prop_map(|(data, prices)| {
        let ticks = data.len() as u32;
        let within = prices.into_iter().filter(|(tick, _)| *tick < ticks);
        let changes = within.map(|(tick, cents)| PriceChange { tick, rate: Rate::from_micros(cents * 10_000) });
        SpotTrace { price_changes: changes.collect(), notices: Vec::new(), data, ..sample() }
    })
}

proptest! {
    #[test]
    fn time_never_runs_back_and_every_tick_shows_what_the_trace_says(
        trace in any_trace(), notice in 0_u64..4_000, wrap in any::<bool>(), passes in 1_u64..4
    ) {
        let end = if wrap { End::Wrap } else { End::Hold };
        let replay = Replay::new(&trace, options(notice, end));
        let all: Vec<MarketEvent> = replay.clone().take(400).collect();
        prop_assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at));
        for tick in 0..trace.data.len() as u64 * if wrap { passes } else { 1 } {
            let at = trace.gap.saturating_mul(tick);
            let expected = trace.data[(tick % trace.data.len() as u64) as usize];
            prop_assert_eq!(replay.state_at(at).available, expected);
            prop_assert_eq!(replay.state_at(at.saturating_add(Millis::new(59_999))).available, expected);
        }
    }

    #[test]
    fn joining_late_sees_the_rest_of_the_same_stream(
        trace in any_trace(), notice in 0_u64..4_000, wrap in any::<bool>(), offset in 0_u64..6_000_000
    ) {
        let end = if wrap { End::Wrap } else { End::Hold };
        let offset = Millis::new(offset);
        let mut late = Replay::new(&trace, options(notice, end));
        // Enough passes to get beyond the offset, whatever the length of the trace.
        let whole = late.clone().take(20_000).skip_while(|event| event.at <= offset).take(20);
        let whole: Vec<MarketEvent> = whole.collect();
        prop_assert_eq!(late.next_after(offset), whole.first().copied());
        late.seek(offset);
        prop_assert_eq!(late.take(20).collect::<Vec<_>>(), whole);
    }

    #[test]
    fn every_fall_is_announced_once_with_its_notice(trace in any_trace(), notice in 0_u64..4_000) {
        let falls: Vec<u64> = trace.loss_ticks().map(|tick| u64::from(tick) * trace.gap.as_millis()).collect();
        let mut lost: Vec<u64> = Vec::new();
        for event in Replay::new(&trace, options(notice, End::Hold)) {
            if let EventKind::Reclaim { notice: given, lost_at, .. } = event.kind {
                prop_assert_eq!(event.at.saturating_add(given), lost_at);
                prop_assert_eq!(given, Millis::from_secs(notice).min(lost_at));
                lost.push(lost_at.as_millis());
            }
        }
        lost.sort_unstable();
        prop_assert_eq!(lost, falls);
    }
}
