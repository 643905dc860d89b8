//! Many alerts at once: each receiver gets what matters, and what waits for it stays bounded.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::action::Action;
use leeway_core::event::Event;
use leeway_model::budget::BudgetSpec;
use leeway_model::job::Sealed;
use leeway_model::notify::{Alert, DeliveryOutcome, Endpoint, Severity};
use leeway_model::{Micros, Millis, OutboxId};
use support::{Desk, job, name};

fn told_of(types: &[&str]) -> Desk {
    let mut desk = Desk::new();
    desk.apply(Event::EndpointSet {
        endpoint: Endpoint {
            name: name("ops"),
            url: "https://ops.example/".into(),
            secret: Sealed([].into()),
            types: types.iter().map(|text| Box::from(*text)).collect(),
            disabled: None,
            last_success: None,
            failing_since: None,
            failures: 0,
        },
    });
    desk
}

fn set_cap(desk: &mut Desk, micros: i64) {
    let cap = Micros::new(micros);
    let spec = BudgetSpec { name: name("noisy"), parent: None, cap, period: Default::default(), soft_limit: None };
    desk.apply(Event::BudgetSet { spec, by: name("ops") });
}

/// Deliveries that the last event ordered.
fn ordered(desk: &Desk) -> Vec<(OutboxId, Alert)> {
    let ordered = desk.last.iter().filter_map(|action| match action {
        Action::Deliver { delivery, notification, .. } => Some((*delivery, notification.alert.clone())),
        _ => None,
    });
    ordered.collect()
}

fn newest_cap(alert: &Alert) -> i64 {
    match alert {
        Alert::CapChanged { to, .. } => to.get(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn w_13_a_hundred_thousand_alerts_about_one_trouble_become_two_of_which_the_last_says_how_it_stands() {
    const FLOOD: i64 = 100_000;
    let mut desk = told_of(&["leeway.budget.cap_changed"]);
    set_cap(&mut desk, 1_000_000);
    set_cap(&mut desk, 1_000_001);
    let [(first, _)] = ordered(&desk).try_into().unwrap();
    for step in 2..FLOOD {
        set_cap(&mut desk, 1_000_000 + step);
        assert_eq!(ordered(&desk), [], "one is under way, and one waits");
    }
    let waiting = |desk: &Desk| desk.scheduler.tables().deliveries.iter().count();
    assert_eq!(waiting(&desk), 2);
    // The receiver is down; whatever comes meanwhile makes neither more attempts nor more deliveries.
    let outcome = DeliveryOutcome::Failed { detail: "503".into(), retry_after: None };
    desk.apply(Event::DeliveryFinished { delivery: first, outcome });
    set_cap(&mut desk, 2_000_000);
    assert_eq!((ordered(&desk), waiting(&desk)), (vec![], 2));

    desk.restart(|_| {}, |_| {});
    set_cap(&mut desk, 3_000_000);
    assert_eq!(waiting(&desk), 2, "a restart knows what waits");
    let mut heard = Vec::new();
    for _ in 0..200 {
        desk.pass(Millis::from_secs(1));
        for (delivery, alert) in ordered(&desk) {
            heard.push(newest_cap(&alert));
            desk.apply(Event::DeliveryFinished { delivery, outcome: DeliveryOutcome::Delivered });
        }
    }
    assert_eq!((heard.len(), heard.last()), (2, Some(&3_000_000)), "{heard:?}");
    assert_eq!(waiting(&desk), 0);
    set_cap(&mut desk, 4_000_000);
    assert_eq!(ordered(&desk).len(), 1, "when all is told, the next is told at once");
}

#[test]
fn w_13_the_queue_of_an_endpoint_is_bounded_and_critical_alerts_are_added_all_the_same() {
    let mut desk = told_of(&["leeway.budget.threshold_crossed"]);
    let run = {
        let id = desk.submit(job("train"));
        desk.newest(id)
    };
    desk.up(run);
    desk.work(run, Millis::from_mins(30), 10);
    let waiting = |desk: &Desk| desk.scheduler.tables().deliveries.iter().count();
    for _ in 0..10_500 {
        desk.apply(Event::EndpointTested { endpoint: name("ops") });
    }
    assert_eq!(waiting(&desk), 10_000);
    // Far below what was spent: half, most and all of it at once, of which only the last is critical.
    let spec = BudgetSpec {
        name: name("team"),
        parent: None,
        cap: Micros::new(1),
        period: Default::default(),
        soft_limit: None,
    };
    desk.apply(Event::BudgetSet { spec, by: name("ops") });
    let deliveries = &desk.scheduler.tables().deliveries;
    let critical: Vec<_> =
        deliveries.values().filter(|delivery| delivery.notification.severity == Severity::Critical).collect();
    assert_eq!(critical.len(), 1, "{critical:?}");
    assert_eq!(waiting(&desk), 10_001, "what is not critical finds no room");
}
