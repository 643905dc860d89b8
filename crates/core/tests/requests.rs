//! What clients ask: idempotency, dependencies, cancels and retries, bad prices.

mod support;

use leeway_core::event::{Event, RequestKey, Submission};
use leeway_core::reply::Reply;
use leeway_model::job::{JobSpec, JobState};
use leeway_model::market::PriceFault;
use leeway_model::{JobId, Millis};
use support::{Desk, job, name};

fn request(desk: &mut Desk, id: &str, body: u8, specs: Vec<JobSpec>) -> Reply {
    let jobs = specs.into_iter().map(|spec| Submission { spec, after: vec![] }).collect();
    desk.apply(Event::JobsSubmitted { request: Some(RequestKey { id: id.into(), body: [body; 32] }), jobs })
}

#[test]
fn a_01_a_02_a_request_seen_before_makes_nothing_new_and_another_body_is_refused() {
    let mut desk = Desk::new();
    let Reply::Submitted(first) = request(&mut desk, "ada/1", 1, vec![job("train")]) else { panic!() };
    let Reply::Submitted(again) = request(&mut desk, "ada/1", 1, vec![job("train")]) else { panic!() };
    assert_eq!(first[0].as_ref().unwrap().job, again[0].as_ref().unwrap().job);
    assert!(again[0].as_ref().unwrap().replayed && !first[0].as_ref().unwrap().replayed);
    let Reply::Refused(refused) = request(&mut desk, "ada/1", 2, vec![job("train")]) else { panic!() };
    assert_eq!(refused.code, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(desk.scheduler.tables().jobs.len(), 1);
}

#[test]
fn a_04_a_request_id_is_forgotten_after_its_retention_but_not_before_its_job_ends() {
    let mut desk = Desk::new();
    request(&mut desk, "ada/1", 1, vec![job("train")]);
    let run = desk.newest(JobId(1));
    desk.up(run);
    desk.work(run, Millis::from_hours(1), 1);
    desk.exit(run, 0);
    desk.gone(run);
    desk.pass(Millis::from_hours(24 * 6));
    let Reply::Submitted(again) = request(&mut desk, "ada/1", 1, vec![job("train")]) else { panic!() };
    assert!(again[0].as_ref().unwrap().replayed);
    desk.pass(Millis::from_hours(30));
    let Reply::Submitted(fresh) = request(&mut desk, "ada/1", 1, vec![job("train")]) else { panic!() };
    assert!(!fresh[0].as_ref().unwrap().replayed);
}

fn batch(desk: &mut Desk, after: &[&[u32]]) -> Vec<Result<JobId, &'static str>> {
    let jobs = after
        .iter()
        .enumerate()
        .map(|(position, after)| Submission { spec: job(&format!("job {position}")), after: after.to_vec() })
        .collect();
    match desk.apply(Event::JobsSubmitted { request: None, jobs }) {
        Reply::Submitted(results) => {
            results.into_iter().map(|r| r.map(|s| s.job).map_err(|refused| refused.code)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn c_16_a_cycle_is_refused_by_name_and_the_rest_of_the_batch_is_taken() {
    let mut desk = Desk::new();
    let results = batch(&mut desk, &[&[1], &[0], &[], &[2], &[0], &[9], &[6]]);
    assert_eq!(
        results,
        [
            Err("DEPENDENCY_CYCLE"),
            Err("DEPENDENCY_CYCLE"),
            Ok(JobId(1)),
            Ok(JobId(2)),
            Err("DEPENDENCY_REFUSED"),
            Err("UNKNOWN_DEPENDENCY"),
            Err("DEPENDENCY_CYCLE"),
        ]
    );
    assert_eq!(desk.state(JobId(1)), JobState::Starting);
    assert_eq!(desk.state(JobId(2)), JobState::Waiting);
}

#[test]
fn a_job_starts_when_all_it_depends_on_succeeded_and_fails_when_one_did_not() {
    let mut desk = Desk::new();
    batch(&mut desk, &[&[], &[], &[0, 1], &[2]]);
    for id in [1, 2] {
        let run = desk.newest(JobId(id));
        desk.up(run);
        assert_eq!(desk.state(JobId(3)), JobState::Waiting);
        desk.exit(run, 0);
        desk.gone(run);
    }
    assert_eq!(desk.state(JobId(3)), JobState::Starting);
    desk.apply(Event::JobCancelled { job: JobId(3), by: name("ada") });
    let run = desk.newest(JobId(3));
    desk.gone(run);
    assert_eq!(desk.state(JobId(3)), JobState::Cancelled);
    assert_eq!(desk.state(JobId(4)), JobState::Failed);
    assert_eq!(desk.job(JobId(4)).reason.as_ref().unwrap().code.as_ref(), "DEPENDENCY_FAILED");
}

#[test]
fn c_17_a_chain_of_a_hundred_thousand_jobs_neither_overflows_nor_drags() {
    let mut desk = Desk::new();
    let jobs = (0..100_000_u32)
        .map(|position| Submission { spec: job("link"), after: position.checked_sub(1).into_iter().collect() })
        .collect();
    let mut actions = Vec::new();
    desk.scheduler.handle(desk.now, Event::JobsSubmitted { request: None, jobs }, &mut actions);
    assert_eq!(desk.state(JobId(100_000)), JobState::Waiting);
    desk.scheduler.handle(desk.now, Event::JobCancelled { job: JobId(1), by: name("ada") }, &mut actions);
    let run = desk.newest(JobId(1));
    desk.scheduler.handle(desk.now, Event::InstancesGone { run }, &mut actions);
    assert_eq!(desk.state(JobId(100_000)), JobState::Failed);
}

#[test]
fn b_14_a_job_without_a_budget_is_refused_and_never_unlimited() {
    let mut desk = Desk::new();
    let mut spec = job("free");
    spec.money.budget = None;
    assert_eq!(desk.try_submit(spec.clone()).unwrap_err().code, "NO_BUDGET");
    spec.money.budget = Some(name("nobody"));
    assert_eq!(desk.try_submit(spec).unwrap_err().code, "UNKNOWN_BUDGET");
    assert!(desk.scheduler.tables().jobs.is_empty());
}

#[test]
fn a_06_cancelling_a_finished_job_is_fine_and_changes_nothing() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    desk.exit(run, 0);
    desk.gone(run);
    let before = desk.job(id).clone();
    assert!(matches!(desk.apply(Event::JobCancelled { job: id, by: name("ada") }), Reply::Job(_)));
    assert_eq!(*desk.job(id), before);
    let retried = desk.apply(Event::JobRetried { job: id });
    assert!(matches!(retried, Reply::Refused(ref refused) if refused.code == "NOT_ENDED"), "{retried:?}");
}

#[test]
fn a_failed_job_can_be_retried_from_its_newest_checkpoint() {
    let mut desk = Desk::new();
    let id = desk.submit(job("train"));
    let run = desk.newest(id);
    desk.up(run);
    desk.checkpoint(run, 1, 70);
    desk.exit(run, 3);
    desk.gone(run);
    assert_eq!(desk.state(id), JobState::Failed);
    desk.apply(Event::JobRetried { job: id });
    let run = desk.newest(id);
    assert_eq!((run.epoch, desk.run(run).restored_from.as_ref().unwrap().step), (2, 70));
}

#[test]
fn c_02_c_03_c_05_bad_prices_are_held_back_and_the_last_good_one_stays() {
    let mut desk = Desk::new();
    let faults = |reply: Reply| match reply {
        Reply::Observed { rejected, .. } => rejected.into_iter().map(|(_, fault)| fault).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(faults(desk.price("west", "0")), [PriceFault::Zero]);
    assert_eq!(faults(desk.price("west", "0.05")), [PriceFault::OutOfRange]);
    assert_eq!(faults(desk.price("west", "16")), [PriceFault::OutOfRange]);
    assert_eq!(faults(desk.price("nowhere", "1")), [PriceFault::UnknownOffer]);
    assert_eq!(faults(desk.price("west", "3.50")), [], "spot may cost more than on-demand");
    let id = desk.submit(job("train"));
    assert_eq!(desk.run(desk.newest(id)).offer.cluster, name("east"));
}

#[test]
fn c_08_a_stale_price_takes_no_new_run() {
    let mut desk = Desk::new();
    desk.price("west", "0.90");
    desk.pass(Millis::from_hours(25));
    let id = desk.submit(job("train"));
    assert_eq!(desk.run(desk.newest(id)).offer.cluster, name("east"), "a declared price does not grow stale");
    assert!(desk.scheduler.explain(id).is_some());
}
