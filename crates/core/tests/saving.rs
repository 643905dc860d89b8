//! What stands in the way of checkpoints: notices that no agent hears, saves that do not come, a full store.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::action::{Action, Directive};
use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::checkpoint::Interval;
use leeway_model::job::{JobSpec, JobState, Progress, Sealed};
use leeway_model::market::InterruptionBelief;
use leeway_model::notify::Endpoint;
use leeway_model::resources::SpotPolicy;
use leeway_model::{JobId, Millis, RunId};
use support::{Desk, job};

/// A spot market whose notices were mostly heard in time.
fn warned() -> Desk {
    let mut desk = Desk::new();
    desk.restart(
        |offer| {
            offer.belief = InterruptionBelief { exposure: Millis::from_hours(500), interruptions: 50, saved: 48 };
        },
        |_| {},
    );
    desk
}

fn on_spot(interval: Interval) -> JobSpec {
    let mut spec = job("train");
    spec.resources[0].spot = SpotPolicy::Spot;
    spec.checkpoint.as_mut().unwrap().interval = interval;
    spec
}

fn running(desk: &mut Desk, spec: JobSpec) -> (JobId, RunId) {
    let id = desk.submit(spec);
    let run = desk.newest(id);
    desk.up(run);
    (id, run)
}

fn code(desk: &Desk, id: JobId) -> Option<String> {
    desk.job(id).reason.as_ref().map(|reason| reason.code.to_string())
}

#[test]
fn i_08_a_run_whose_agent_hears_no_notices_saves_more_often() {
    let mut desk = warned();
    let (_, run) = running(&mut desk, on_spot(Interval::Auto));
    let before = desk.run(run).interval.unwrap();
    assert_eq!(desk.apply(Event::NoticesUnheard { run, rank: 0 }), Reply::Done);
    let after = desk.run(run).interval.unwrap();
    // Young: sqrt(2 x 10 s x M), without a part for saves that a warning allows.
    assert!(after < before, "{after} {before}");
    let mean_hours = (500.0 + 40.0) / 52.0_f64;
    let young = (2.0 * 10.0 * mean_hours * 3_600.0).sqrt();
    assert!((after.as_secs_f64() - young).abs() < 0.01, "{after} {young}");
    assert!(desk.log.contains(&format!("signal {run}")), "its agent is told at once");
    let renewed = desk.apply(Event::LeaseRenewed { run, rank: 0, progress: Progress::default() });
    assert_eq!(renewed, Reply::Renewed { directive: Directive::Run { interval: Some(after) } });
    // Said again it changes nothing, and other runs keep theirs.
    desk.log.clear();
    desk.apply(Event::NoticesUnheard { run, rank: 0 });
    assert!(desk.log.is_empty() && desk.run(run).interval == Some(after));
    let (_, other) = running(&mut desk, on_spot(Interval::Auto));
    assert_eq!(desk.run(other).interval, Some(before));
}

#[test]
fn i_08_an_interval_of_the_job_s_own_stays_and_an_old_epoch_is_refused() {
    let mut desk = warned();
    let every = Millis::from_mins(7);
    let (id, run) = running(&mut desk, on_spot(Interval::Every(every)));
    desk.apply(Event::NoticesUnheard { run, rank: 0 });
    assert_eq!(desk.run(run).interval, Some(every));
    desk.gone(run);
    desk.pass(Millis::from_mins(6));
    assert_ne!(desk.newest(id), run);
    assert!(matches!(desk.apply(Event::NoticesUnheard { run, rank: 0 }), Reply::Refused(_)));
}

#[test]
fn k_09_three_intervals_without_a_checkpoint_are_told_once_and_taken_back_by_the_next() {
    let mut desk = Desk::new();
    desk.apply(Event::EndpointSet {
        endpoint: Endpoint {
            name: "ops".parse().unwrap(),
            url: "https://ops.example/".into(),
            secret: Sealed([].into()),
            types: vec!["leeway.checkpoint.missed".into()],
            disabled: None,
            last_success: None,
            failing_since: None,
            failures: 0,
        },
    });
    let sent = |desk: &Desk| desk.scheduler.tables().meta.notifications;
    let (id, run) = running(&mut desk, on_spot(Interval::Every(Millis::from_mins(10))));
    desk.work(run, Millis::from_mins(12), 10);
    assert!(matches!(desk.checkpoint(run, 1, 10), Reply::Committed(_)));
    // Three intervals and three pauses after the last one, and not a minute before.
    desk.work(run, Millis::from_mins(29), 20);
    assert_eq!(code(&desk, id), None);
    assert_eq!(sent(&desk), 0);
    let version = desk.job(id).version;
    desk.work(run, Millis::from_mins(3), 30);
    assert_eq!(code(&desk, id).as_deref(), Some("CHECKPOINTS_MISSED"));
    assert_eq!(desk.state(id), JobState::Running, "the program goes on");
    let told = desk.job(id).version;
    assert!(told > version, "those who watch it hear of it");
    desk.work(run, Millis::from_mins(30), 40);
    assert_eq!(desk.job(id).version, told, "once");
    assert_eq!(sent(&desk), 1, "by webhook, too, and once");
    assert!(desk.log.contains(&format!("tell leeway.checkpoint.missed of jobs/{id}/runs/{run}")), "{:?}", desk.log);
    assert!(matches!(desk.checkpoint(run, 2, 40), Reply::Committed(_)));
    assert_eq!(code(&desk, id), None);
}

#[test]
fn k_09_a_job_that_keeps_no_checkpoints_misses_none() {
    let mut desk = Desk::new();
    let mut spec = on_spot(Interval::Auto);
    spec.checkpoint = None;
    let (id, run) = running(&mut desk, spec);
    desk.work(run, Millis::from_hours(9), 10);
    assert_eq!(code(&desk, id), None);
}

fn deleted(desk: &Desk) -> Vec<u64> {
    let seqs = desk.last.iter().filter_map(|action| match action {
        Action::DeleteCheckpoint { checkpoint, .. } => Some(checkpoint.id.seq),
        _ => None,
    });
    seqs.collect()
}

#[test]
fn k_10_a_full_store_orders_the_expired_away_again_and_never_the_newest() {
    let mut desk = Desk::new();
    let (id, run) = running(&mut desk, on_spot(Interval::Every(Millis::from_mins(10))));
    for seq in 1..=5 {
        desk.checkpoint(run, seq, seq * 10);
    }
    assert_eq!(desk.apply(Event::StoreFull { run, rank: 0 }), Reply::Done);
    assert_eq!(deleted(&desk), [1, 2], "three are kept, those before them are expired and not proven gone");
    assert_eq!(code(&desk, id).as_deref(), Some("STORE_FULL"));
    assert_eq!(desk.state(id), JobState::Running);
    let checkpoint = leeway_model::checkpoint::CheckpointId { epoch: run.epoch, seq: 1 };
    desk.apply(Event::CheckpointDeleted { job: id, checkpoint });
    desk.apply(Event::StoreFull { run, rank: 0 });
    assert_eq!(deleted(&desk), [2]);
    desk.checkpoint(run, 6, 60);
    assert_eq!(code(&desk, id), None, "there was room");
}
