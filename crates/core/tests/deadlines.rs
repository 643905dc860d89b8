//! Jobs with a deadline: spot while it can be afforded, and what nobody takes back in time.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::job::{JobSpec, JobState, TimeTerms};
use leeway_model::market::CapacityObservation;
use leeway_model::resources::CapacityType::{OnDemand, Spot};
use leeway_model::run::EndReason;
use leeway_model::{Millis, RunId};
use support::{Desk, job, name, offer};

/// Ten hours of work, due so long after now, at an even pace.
fn timed(desk: &Desk, due: Millis) -> JobSpec {
    let mut spec = job("train");
    spec.time =
        TimeTerms { deadline: Some(desk.now.after(due)), estimate: Some(Millis::from_hours(10)), max_duration: None };
    spec.policy = Some(name("uniform-progress"));
    spec
}

/// How many machines the spot markets of both regions have.
fn markets(desk: &mut Desk, available: u32) {
    let of = |cluster: &str| CapacityObservation { offer: offer(cluster, Spot), available: Some(available) };
    let reply = desk.apply(Event::CapacityObserved { capacities: vec![of("east"), of("west")] });
    assert!(matches!(reply, Reply::Observed { accepted: 2, .. }), "{reply:?}");
}

fn capacity(desk: &Desk, run: RunId) -> leeway_model::resources::CapacityType {
    desk.run(run).offer.capacity
}

/// Lets a run work at a step, for ten hours at most, until it is asked to save and go.
fn until_it_moves(desk: &mut Desk, run: RunId, step: u64) {
    let mut minutes = 0;
    while desk.run(run).end.is_none() && minutes < 600 {
        desk.work(run, Millis::from_mins(1), step);
        minutes += 1;
    }
}

#[test]
fn with_time_to_spare_it_waits_for_spot_and_then_takes_it() {
    let mut desk = Desk::new();
    markets(&mut desk, 0);
    let spec = timed(&desk, Millis::from_hours(30));
    let id = desk.submit(spec);
    assert_eq!(desk.state(id), JobState::Pending);
    assert_eq!(&*desk.job(id).reason.clone().unwrap().code, "POLICY_WAITS");
    markets(&mut desk, 4);
    desk.pass(Millis::from_mins(10));
    assert_eq!(capacity(&desk, desk.newest(id)), Spot);
}

#[test]
fn behind_an_even_pace_it_buys_on_demand_and_goes_back_when_it_is_ahead() {
    let mut desk = Desk::new();
    markets(&mut desk, 0);
    let spec = timed(&desk, Millis::from_hours(20));
    let id = desk.submit(spec);
    desk.pass(Millis::from_mins(1));
    let first = desk.newest(id);
    assert_eq!(capacity(&desk, first), OnDemand);
    desk.up(first);
    // After an hour it has done an hour's work, where the pace asked for 40 minutes.
    desk.work(first, Millis::from_hours(1), 100);
    desk.checkpoint(first, 1, 100);
    assert_eq!(desk.run(first).end, None, "there is no spot to go back to");
    markets(&mut desk, 4);
    until_it_moves(&mut desk, first, 116);
    assert_eq!(desk.run(first).end, Some(EndReason::Moved));
    assert!(desk.run(first).save_on_drain, "nothing is lost by the move");
    desk.checkpoint(first, 2, 116);
    desk.exit(first, 143);
    desk.gone(first);
    let second = desk.newest(id);
    assert_eq!((second.epoch, capacity(&desk, second)), (2, Spot));
}

#[test]
fn at_the_last_call_spot_is_left_alone_whatever_the_policy_likes() {
    for policy in ["horizon", "uniform-progress", "cheapest", "whole-bill", "failover"] {
        let mut desk = Desk::new();
        let mut spec = timed(&desk, Millis::from_mins(10 * 60 + 30));
        spec.policy = Some(name(policy));
        let id = desk.submit(spec);
        let run = desk.newest(id);
        assert_eq!(capacity(&desk, run), OnDemand, "{policy}");
        let why = desk.scheduler.explain(id).unwrap().runs[0].1.clone().unwrap().why;
        assert!(why.contains("deadline leaves no time"), "{why}");
    }
}

#[test]
fn a_run_on_spot_leaves_it_while_a_loss_could_still_be_made_up_for() {
    let mut desk = Desk::new();
    let spec = timed(&desk, Millis::from_hours(14));
    let id = desk.submit(spec);
    let run = desk.newest(id);
    assert_eq!(capacity(&desk, run), Spot);
    desk.up(run);
    // It works for hours and saves nothing, so that a loss would cost all of it.
    until_it_moves(&mut desk, run, 0);
    assert_eq!(desk.run(run).end, Some(EndReason::Moved));
    let left = desk.job(id).spec.time.deadline.unwrap().since(desk.now);
    assert!(left > Millis::from_hours(10), "the whole of the work still fits: {left}");
    desk.checkpoint(run, 1, 300);
    desk.exit(run, 143);
    desk.gone(run);
    let next = desk.newest(id);
    assert_eq!(next.epoch, 2);
}

#[test]
fn a_policy_for_deadlines_is_that_of_jobs_that_have_one_and_name_none() {
    let mut config = leeway_core::Config::new(leeway_model::InstallationId(name("test")), name("whole-bill"));
    config.deadline_policy = Some(name("uniform-progress"));
    let desk = Desk::with(config);
    let mut spec = timed(&desk, Millis::from_hours(30));
    spec.policy = None;
    assert_eq!(desk.scheduler.policy_for(&spec), name("uniform-progress"));
    spec.time.deadline = None;
    assert_eq!(desk.scheduler.policy_for(&spec), name("whole-bill"));
}

#[test]
fn a_dry_run_ranks_first_what_a_submission_would_take_and_says_why() {
    for hours in [11, 12, 15, 30] {
        for policy in ["uniform-progress", "horizon"] {
            let mut desk = Desk::new();
            markets(&mut desk, 4);
            let mut spec = timed(&desk, Millis::from_hours(hours));
            spec.policy = Some(name(policy));
            let told = desk.scheduler.dry_run(spec.clone()).unwrap();
            let id = desk.submit(spec);
            let run = desk.newest(id);
            let decision = desk.scheduler.tables().decisions.get(&run).unwrap();
            assert_eq!(told.candidates[0].offer, desk.run(run).offer, "{policy}, {hours} h");
            assert_eq!(told.why.as_deref(), Some(&*decision.why), "{policy}, {hours} h");
            assert_eq!(*told.holds[0].as_ref().unwrap(), decision.held, "{policy}, {hours} h");
        }
    }
    let mut desk = Desk::new();
    markets(&mut desk, 0);
    let spec = timed(&desk, Millis::from_hours(30));
    let told = desk.scheduler.dry_run(spec).unwrap();
    assert_eq!((&*told.reason.unwrap().code, told.why), ("POLICY_WAITS", None));
}

/// Codes of what is said of a job's deadline when it is submitted.
fn doubts(spec: JobSpec) -> Vec<(String, String)> {
    let mut desk = Desk::new();
    let foretold = desk.scheduler.warnings_for(&spec);
    let told = desk.try_submit(spec).unwrap();
    assert_eq!(told.warnings, foretold, "a dry run says the same");
    assert_eq!(desk.scheduler.explain(told.job).unwrap().warnings, told.warnings);
    told.warnings.iter().map(|reason| (reason.code.to_string(), reason.message.to_string())).collect()
}

#[test]
fn nothing_is_said_of_a_deadline_that_is_protected_and_of_none() {
    assert_eq!(doubts(timed(&Desk::new(), Millis::from_hours(14))), []);
    assert_eq!(doubts(job("train")), []);
}

#[test]
fn a_deadline_that_cannot_be_met_is_told_with_what_it_would_take() {
    let told = doubts(timed(&Desk::new(), Millis::from_hours(5)));
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, "DEADLINE_TOO_CLOSE");
    assert!(told[0].1.contains("it is 5h from now") && told[0].1.contains("'estimate'"), "{}", told[0].1);
}

#[test]
fn a_deadline_that_nothing_protects_is_told_with_why() {
    use leeway_model::resources::SpotPolicy;
    let with = |change: &dyn Fn(&mut JobSpec)| {
        let mut spec = timed(&Desk::new(), Millis::from_hours(30));
        change(&mut spec);
        let told = doubts(spec);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, "DEADLINE_UNPROTECTED");
        told[0].1.clone()
    };
    assert!(with(&|spec| spec.resources[0].spot = SpotPolicy::Spot).contains("say spot_policy: auto"));
    let hourly = with(&|spec| spec.resources[0].max_hourly_cost = Some(support::usd("1.50")));
    assert!(hourly.contains("max_hourly_cost") && hourly.contains("on-demand"), "{hourly}");
    let cap = with(&|spec| spec.money.max_cost = Some(support::dollars("15")));
    assert!(cap.contains("max_cost of 15.00") && cap.contains("raise it"), "{cap}");
    assert!(with(&|spec| spec.checkpoint = None).contains("without 'checkpoint'"));
}

#[test]
fn a_deadline_that_rests_on_a_guess_is_told() {
    let mut spec = timed(&Desk::new(), Millis::from_hours(30));
    spec.time.estimate = None;
    let told = doubts(spec);
    assert!(told.iter().any(|(code, message)| code == "DEADLINE_WITHOUT_ESTIMATE" && message.contains("'estimate'")));
}

#[test]
fn a_deadline_that_is_past_binds_a_retry_no_more() {
    let mut desk = Desk::new();
    let spec = timed(&desk, Millis::from_hours(14));
    let id = desk.submit(spec);
    desk.apply(Event::JobCancelled { job: id, by: name("ada") });
    let first = desk.newest(id);
    desk.gone(first);
    desk.pass(Millis::from_hours(15));
    let reply = desk.apply(Event::JobRetried { job: id });
    assert!(matches!(reply, Reply::Job(_)), "{reply:?}");
    let run = desk.newest(id);
    assert_eq!(capacity(&desk, run), Spot, "on demand would save nothing any more");
    let warnings = desk.scheduler.warnings(id);
    assert_eq!(&*warnings[0].code, "DEADLINE_PAST");
    desk.up(run);
    desk.work(run, Millis::from_hours(2), 10);
    assert_eq!(desk.run(run).end, None, "nobody asks it to hurry");
}
