//! The main job, told by what the scheduler orders.

mod support;

use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::job::{JobState, StartReason};
use leeway_model::resources::CapacityType;
use leeway_model::run::{EndReason, LaunchErrorClass, RunState};
use leeway_model::{Micros, Millis, Term};
use support::{Desk, cluster, dollars, job, name, offer};

#[test]
fn a_job_survives_an_interruption_and_a_loss_and_is_charged_to_the_micro_dollar() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let first = desk.newest(id);
    assert_eq!(desk.run(first).offer, offer("west", CapacityType::Spot), "the cheapest spot place");
    desk.up(first);
    desk.work(first, Millis::from_mins(12), 200);
    desk.checkpoint(first, 1, 200);
    desk.apply(Event::InterruptionNoticed {
        run: first,
        deadline: desk.now.after(Millis::from_mins(2)),
        source: "market".into(),
    });
    assert_eq!(desk.run(first).state, RunState::Draining);
    desk.work(first, Millis::from_secs(30), 210);
    desk.checkpoint(first, 2, 210);
    desk.exit(first, 75);
    assert_eq!(desk.run(first).end, Some(EndReason::Interrupted));

    let second = desk.newest(id);
    assert_ne!(first, second, "requeued as soon as its agent confirmed the stop");
    assert_eq!(desk.run(second).offer, offer("east", CapacityType::Spot), "the lost place cools down");
    assert_eq!(desk.run(second).start_reason, StartReason::Interrupted);
    desk.gone(first);
    desk.up(second);
    assert_eq!(desk.run(first).steps_redone, 0, "the last checkpoint was saved");
    desk.work(second, Millis::from_mins(10), 400);
    desk.checkpoint(second, 1, 350);
    desk.gone(second);
    assert_eq!(desk.run(second).end, Some(EndReason::Lost));

    let third = desk.newest(id);
    assert_eq!(desk.run(third).restored_from.as_ref().unwrap().step, 350);
    desk.up(third);
    assert_eq!(desk.run(second).steps_redone, 50);
    desk.work(third, Millis::from_mins(30), 1_000);
    desk.exit(third, 0);
    assert_eq!(desk.state(id), JobState::Succeeded);
    desk.gone(third);

    let mut expected = Micros::ZERO;
    for run in [first, second, third] {
        let run = desk.run(run);
        let lived = run.released.unwrap().since(run.launched.unwrap());
        assert_eq!(run.posted.get(Term::Compute), run.price.rate.cost(lived), "{}", run.id);
        expected = expected.saturating_add(run.posted.total());
    }
    assert_eq!(desk.job(id).posted.total(), expected);
    let budget = desk.scheduler.tables().budgets.get(&name("team")).unwrap();
    assert_eq!((budget.posted, budget.held), (expected, Micros::ZERO));
    assert_eq!(desk.job(id).retries.interruptions, 2);
    insta::assert_snapshot!(desk.log.join("\n"), @r"
    launch j-1-r1 at west/v100/spot
    signal j-1-r1
    stop j-1-r1
    signal j-1-r1
    launch j-1-r2 at east/v100/spot
    launch j-1-r3 at west/v100/spot
    stop j-1-r3
    signal j-1-r3
    ");
}

#[test]
fn a_gang_is_all_or_nothing_and_ends_as_one() {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("west", "aws/us-west-2", 3, "0.92", "3.06") });
    desk.budget("team", None, "100");
    let mut four = job("gang");
    four.nodes = 4;
    let waiting = desk.submit(four);
    assert_eq!(desk.state(waiting), JobState::Pending, "three machines are not four");
    let mut three = job("gang");
    three.nodes = 3;
    let id = desk.submit(three);
    let run = desk.newest(id);
    desk.up(run);
    desk.work(run, Millis::from_mins(5), 10);
    desk.log.clear();
    desk.apply(Event::InstanceLost { run, rank: 1 });
    assert_eq!(desk.run(run).state, RunState::Stopping, "n_12: the others have nothing left to do");
    assert_eq!(desk.log, [format!("stop {run}"), format!("signal {run}")]);
    assert_eq!(desk.newest(id), run, "no new epoch before the old machines are proven gone");
    desk.gone(run);
    assert_eq!(desk.job(id).start_reason, StartReason::Interrupted);
}

#[test]
fn i_03_a_silent_machine_is_given_up_when_its_lease_is_long_over_and_not_before() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    desk.work(run, Millis::from_mins(5), 10);
    let silence = desk.scheduler.config().silence();
    desk.pass(silence.saturating_sub(Millis::from_secs(1)));
    assert_eq!(desk.newest(id), run);
    desk.pass(Millis::from_secs(61));
    assert_eq!(desk.run(run).end, Some(EndReason::Lost));
    assert_ne!(desk.newest(id), run, "a new epoch began");
    let late = desk.checkpoint(run, 1, 20);
    assert!(matches!(late, Reply::Refused(ref refused) if refused.code == "STALE_EPOCH"), "n_03: {late:?}");
    assert!(desk.job(id).checkpoint.is_none());
    assert!(desk.run(run).released.is_none(), "its cost counts until it is proven gone");
}

#[test]
fn p_06_a_refused_offer_cools_down_twice_as_long_each_time_and_others_are_used() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let refuse = |desk: &mut Desk| {
        let run = desk.newest(id);
        desk.apply(Event::LaunchRefused { run, class: LaunchErrorClass::Capacity, message: "none left".into() });
        run
    };
    let first = refuse(&mut desk);
    assert_eq!(desk.run(first).offer, offer("west", CapacityType::Spot));
    assert_eq!(desk.run(desk.newest(id)).offer, offer("east", CapacityType::Spot));
    refuse(&mut desk);
    assert_eq!(desk.run(desk.newest(id)).offer, offer("east", CapacityType::OnDemand), "ties go to the smaller key");
    refuse(&mut desk);
    refuse(&mut desk);
    assert_eq!(desk.state(id), JobState::Pending);
    assert_eq!(desk.scheduler.reason(desk.job(id)).unwrap().code.as_ref(), "NO_CAPACITY");
    desk.pass(Millis::from_mins(5));
    assert_eq!(desk.run(desk.newest(id)).offer, offer("west", CapacityType::Spot));
    refuse(&mut desk);
    let slot = desk.scheduler.fleet().find(&offer("west", CapacityType::Spot)).unwrap();
    assert_eq!(desk.scheduler.fleet().slot(slot).offer.cooldown, Millis::from_mins(10));
    assert_eq!(desk.job(id).retries, Default::default(), "no allowance is used up by missing capacity");
}

#[test]
fn interruptions_infrastructure_and_program_failures_use_separate_allowances() {
    let mut desk = Desk::new();
    let mut spec = job("train");
    spec.retry.user_failures = 1;
    let id = desk.submit(spec);
    let run = desk.newest(id);
    desk.up(run);
    desk.gone(run);
    let run = desk.newest(id);
    desk.apply(Event::LaunchRefused { run, class: LaunchErrorClass::Transient, message: "try again".into() });
    desk.pass(Millis::from_secs(10));
    let run = desk.newest(id);
    desk.up(run);
    desk.exit(run, 1);
    let used = desk.job(id).retries;
    assert_eq!((used.interruptions, used.infrastructure_failures, used.user_failures), (1, 1, 1));
    desk.gone(run);
    desk.pass(Millis::from_mins(5));
    let run = desk.newest(id);
    desk.up(run);
    desk.exit(run, 1);
    assert_eq!(desk.state(id), JobState::Failed);
    assert_eq!(desk.job(id).reason.as_ref().unwrap().code.as_ref(), "PROGRAM_FAILED");
}

#[test]
fn an_impossible_job_is_parked_with_its_reason_and_does_not_hold_up_others() {
    let mut desk = Desk::new();
    let mut spec = job("impossible");
    spec.resources[0].accelerators.as_mut().unwrap().model = "B200".into();
    spec.priority = 100;
    let impossible = desk.submit(spec);
    let possible = desk.submit(job("possible"));
    assert_eq!(desk.state(possible), JobState::Starting);
    assert_eq!(desk.state(impossible), JobState::Pending);
    assert_eq!(desk.scheduler.reason(desk.job(impossible)).unwrap().code.as_ref(), "NO_OFFERS");
    let explanation = desk.scheduler.explain(impossible).unwrap();
    let counts = explanation.evaluation.unwrap().counts();
    assert_eq!(counts.iter().map(|count| (count.rule.code(), count.count)).collect::<Vec<_>>(), [("ACCELERATOR", 4)]);
}

#[test]
fn b_03_a_job_whose_budget_runs_out_saves_and_stops_inside_its_hold_and_goes_on_after_a_refill() {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("west", "aws/us-west-2", 1, "", "3.00") });
    desk.budget("team", None, "4");
    let mut spec = job("long");
    spec.time.estimate = Some(Millis::from_hours(5));
    let id = desk.submit(spec);
    let run = desk.newest(id);
    desk.up(run);
    while desk.run(run).state == RunState::Running {
        desk.work(run, Millis::from_mins(1), 10);
        assert!(desk.now.since(desk.run(run).placed) < Millis::from_hours(2), "it must drain before its money is gone");
    }
    assert_eq!(desk.run(run).state, RunState::Draining);
    assert!(desk.run(run).save_on_drain);
    desk.checkpoint(run, 1, 100);
    desk.exit(run, 75);
    desk.pass(Millis::from_secs(30));
    desk.gone(run);
    let budget = desk.scheduler.tables().budgets.get(&name("team")).unwrap();
    assert!(budget.posted <= dollars("4") && budget.overrun == Micros::ZERO, "{budget:?}");
    assert_eq!(desk.state(id), JobState::Pending);
    assert_eq!(desk.job(id).reason.as_ref().unwrap().code.as_ref(), "BUDGET_EXCEEDED");
    desk.budget("team", None, "20");
    assert_eq!(desk.state(id), JobState::Starting, "a refill brings it back");
    assert_eq!(desk.run(desk.newest(id)).restored_from.as_ref().unwrap().step, 100);
}

#[test]
fn b_04_a_job_s_cap_does_not_keep_it_from_cheap_spot_and_holds_when_the_price_rises() {
    let mut desk = Desk::new();
    let capped = || {
        let mut spec = job("train");
        spec.money.max_cost = Some(dollars("2.50"));
        spec
    };
    let calm = desk.submit(capped());
    let run = desk.newest(calm);
    assert_eq!(desk.run(run).offer, support::offer("west", CapacityType::Spot), "an hour costs 0.92, at worst 3.06");
    desk.up(run);
    desk.work(run, Millis::from_hours(1), 10);
    desk.exit(run, 0);
    desk.gone(run);
    assert_eq!((desk.state(calm), desk.job(calm).posted.total()), (JobState::Succeeded, dollars("0.92")));

    let unlucky = desk.submit(capped());
    let run = desk.newest(unlucky);
    desk.up(run);
    desk.price("west", "3.00");
    while desk.run(run).state == RunState::Running {
        desk.work(run, Millis::from_mins(1), 10);
        assert!(desk.now.since(desk.run(run).placed) < Millis::from_hours(1), "it must drain before its money is gone");
    }
    desk.checkpoint(run, 1, 100);
    desk.exit(run, 75);
    desk.gone(run);
    assert!(desk.job(unlucky).posted.total() <= dollars("2.50"), "{:?}", desk.job(unlucky).posted);
}

#[test]
fn c_21_a_spot_price_that_rises_is_charged_from_then_on_and_the_hold_was_large_enough() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    desk.work(run, Millis::from_mins(30), 10);
    desk.price("west", "2.00");
    desk.work(run, Millis::from_mins(30), 20);
    desk.exit(run, 0);
    desk.gone(run);
    assert_eq!(desk.run(run).posted.total(), dollars("1.46"), "half an hour at 0.92 and half at 2.00");
}
