//! A store that was restored from a backup, and owners that ask for too much.

mod support;

use leeway_core::Config;
use leeway_core::event::{Event, Submission};
use leeway_core::reply::{RefusedKind, Reply};
use leeway_model::job::JobState;
use leeway_model::{InstallationId, Millis};
use support::{Desk, job, name};

#[test]
fn s_14_runs_after_a_restore_take_no_number_of_a_run_that_the_backup_does_not_know() {
    let mut desk = Desk::new();
    desk.apply(Event::Opened { incarnation: 7 });
    let id = desk.submit(job("train"));
    let first = desk.newest(id);
    assert_eq!(first.epoch, 1, "a first life has nothing to avoid");
    desk.up(first);
    // The backup was taken here. In the world the job went on to a second run before the store was lost.
    desk.restart(|_| (), |_| ());
    desk.apply(Event::Opened { incarnation: 8 });
    assert_eq!(desk.state(id), JobState::Running, "a run that the backup knows goes on");
    desk.work(first, Millis::from_mins(2), 5);
    desk.gone(first);
    let next = desk.newest(id);
    assert!(next.epoch > 1_000_000, "{next}");
    // The same life again changes nothing.
    desk.restart(|_| (), |_| ());
    desk.apply(Event::Opened { incarnation: 8 });
    desk.up(next);
    desk.gone(next);
    assert_eq!(desk.newest(id).epoch, next.epoch + 1);
}

#[test]
fn d_08_one_owner_cannot_fill_the_queue_of_all() {
    let mut config = Config::new(InstallationId(name("test")), name("whole-bill"));
    config.open_jobs_per_owner = 3;
    let mut desk = Desk::with(config);
    desk.budget("team", None, "100");
    let jobs = |owner: &str, count: usize| {
        let spec = || {
            let mut spec = job("flood");
            spec.owner = name(owner);
            spec
        };
        (0..count).map(|_| Submission { spec: spec(), after: vec![] }).collect::<Vec<_>>()
    };
    let submit = |desk: &mut Desk, owner: &str, count: usize| match desk
        .apply(Event::JobsSubmitted { request: None, jobs: jobs(owner, count) })
    {
        Reply::Submitted(results) => results,
        other => panic!("{other:?}"),
    };
    let results = submit(&mut desk, "ada", 5);
    let taken: Vec<_> = results.iter().filter_map(|result| result.as_ref().ok()).map(|made| made.job).collect();
    assert_eq!(taken.len(), 3);
    let refused = results[4].as_ref().unwrap_err();
    assert_eq!((refused.kind, refused.code), (RefusedKind::Exhausted, "TOO_MANY_JOBS"));
    assert!(refused.message.contains("'ada' has 3 jobs") && refused.message.contains("limit is 3"), "{refused:?}");
    assert!(submit(&mut desk, "bob", 3).iter().all(Result::is_ok), "others are not in the way of it");
    desk.restart(|_| (), |_| ());
    assert!(submit(&mut desk, "ada", 1)[0].is_err(), "also after a restart");
    desk.apply(Event::JobCancelled { job: taken[2], by: name("ada") });
    assert!(submit(&mut desk, "ada", 1)[0].is_ok(), "one has ended");
}
