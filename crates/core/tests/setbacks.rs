//! Losses in a row: the move to calmer capacity, the hold, and figures that no program can have reached.

mod support;

use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::job::{JobSpec, JobState, Progress, Sealed};
use leeway_model::notify::Endpoint;
use leeway_model::resources::{CapacityType, SpotPolicy};
use leeway_model::{JobId, Millis, RunId};
use support::{Desk, cluster, job, name};

/// Twenty regions, each a little dearer than the one before, all far below their on-demand price.
fn desk() -> Desk {
    let mut desk = Desk::empty();
    for number in 10..30 {
        let spot = format!("0.{number}");
        desk.apply(Event::ClusterRegistered {
            spec: cluster(&format!("c{number}"), &format!("aws/region-{number}"), 4, &spot, "3.06"),
        });
    }
    desk.budget("team", None, "1000");
    desk.log.clear();
    desk
}

fn on_spot(title: &str) -> JobSpec {
    let mut spec = job(title);
    spec.resources[0].spot = SpotPolicy::Spot;
    spec
}

fn lose(desk: &mut Desk, id: JobId) -> RunId {
    let run = desk.newest(id);
    desk.up(run);
    desk.gone(run);
    run
}

fn capacity(desk: &Desk, id: JobId) -> CapacityType {
    desk.run(desk.newest(id)).offer.capacity
}

#[test]
fn i_10_five_losses_within_an_hour_move_a_job_to_machines_that_are_not_taken_back() {
    let mut desk = desk();
    let id = desk.submit(job("train"));
    let bound = desk.submit(on_spot("on spot only"));
    for _ in 0..5 {
        assert_eq!(capacity(&desk, id), CapacityType::Spot);
        lose(&mut desk, id);
        lose(&mut desk, bound);
        desk.pass(Millis::from_mins(1));
    }
    assert_eq!(capacity(&desk, id), CapacityType::OnDemand, "though spot is there, and far cheaper");
    assert_eq!(capacity(&desk, bound), CapacityType::Spot, "it allows nothing else");
    let run = desk.newest(id);
    let why = &desk.scheduler.tables().decisions.get(&run).unwrap().why;
    assert!(why.contains("took it too often"), "{why}");
    desk.up(run);
    desk.work(run, Millis::from_mins(70), 10);
    desk.gone(run);
    assert_eq!(capacity(&desk, id), CapacityType::Spot, "an hour later it is worth another try");
}

#[test]
fn i_10_losses_that_are_far_apart_move_nothing() {
    let mut desk = desk();
    let id = desk.submit(job("train"));
    for _ in 0..8 {
        let run = desk.newest(id);
        desk.up(run);
        desk.work(run, Millis::from_mins(20), 1);
        desk.gone(run);
        assert_eq!(capacity(&desk, id), CapacityType::Spot);
    }
}

#[test]
fn i_10_ten_losses_without_a_checkpoint_hold_a_job_and_tell_until_it_is_retried() {
    let mut desk = desk();
    desk.apply(Event::EndpointSet {
        endpoint: Endpoint {
            name: name("ops"),
            url: "https://ops.example/".into(),
            secret: Sealed([].into()),
            types: vec!["leeway.job.held".into()],
            disabled: None,
            last_success: None,
            failing_since: None,
            failures: 0,
        },
    });
    let id = desk.submit(on_spot("train"));
    for _ in 0..10 {
        assert!(!desk.log.iter().any(|line| line.starts_with("tell")));
        lose(&mut desk, id);
    }
    assert!(desk.job(id).is_held(), "{:?}", desk.job(id));
    assert_eq!(desk.job(id).reason.as_ref().unwrap().code.as_ref(), "NO_PROGRESS");
    assert_eq!(desk.log.iter().filter(|line| *line == "tell leeway.job.held of jobs/j-1").count(), 1, "{:?}", desk.log);
    let launches = |desk: &Desk| desk.log.iter().filter(|line| line.starts_with("launch")).count();
    let before = launches(&desk);
    desk.pass(Millis::from_hours(12));
    desk.price("c29", "0.01");
    desk.restart(|_| {}, |_| {});
    desk.pass(Millis::from_hours(12));
    assert!(desk.job(id).is_held());
    assert_eq!(launches(&desk), before, "neither time nor price nor restart starts it again");
    desk.price("c29", "0.01");
    desk.apply(Event::JobRetried { job: id });
    assert_eq!(desk.state(id), JobState::Starting);
    lose(&mut desk, id);
    assert!(!desk.job(id).is_held(), "a retry counts anew");
}

#[test]
fn i_10_a_held_job_can_be_cancelled() {
    let mut desk = desk();
    let id = desk.submit(on_spot("train"));
    for _ in 0..10 {
        lose(&mut desk, id);
    }
    desk.apply(Event::JobCancelled { job: id, by: name("ada") });
    assert_eq!(desk.state(id), JobState::Cancelled);
}

#[test]
fn i_10_a_job_that_saves_now_and_then_is_not_held() {
    let mut desk = desk();
    let id = desk.submit(on_spot("train"));
    for number in 0..15 {
        let run = desk.newest(id);
        desk.up(run);
        if number % 5 == 4 {
            assert!(matches!(desk.checkpoint(run, 1, number), Reply::Committed(_)));
        }
        desk.gone(run);
        assert!(!desk.job(id).is_held(), "after {number}");
    }
}

#[test]
fn n_09_figures_that_no_program_can_have_reached_change_no_charge_and_break_nothing() {
    let cost = |reports: &[(u64, Option<u64>)]| {
        // One place only: what is left to do may well decide where.
        let mut desk = Desk::empty();
        desk.apply(Event::ClusterRegistered { spec: cluster("only", "aws/us-east-1", 4, "", "3.06") });
        desk.budget("team", None, "100");
        let id = desk.submit(job("train"));
        let run = desk.newest(id);
        desk.up(run);
        for (step, total) in reports {
            desk.pass(Millis::from_secs(15));
            desk.apply(Event::LeaseRenewed { run, rank: 0, progress: Progress { step: *step, total: *total } });
        }
        desk.checkpoint(run, 1, reports.last().unwrap().0);
        desk.gone(run);
        desk.pass(Millis::from_mins(10));
        let next = desk.newest(id);
        desk.up(next);
        desk.work(next, Millis::from_mins(1), 1);
        desk.exit(next, 0);
        desk.gone(next);
        assert_eq!(desk.state(id), JobState::Succeeded);
        desk.job(id).posted.total()
    };
    let honest = cost(&[(1, Some(1_000)), (2, Some(1_000)), (3, Some(1_000)), (4, Some(1_000))]);
    let absurd = cost(&[(u64::MAX, Some(0)), (0, Some(u64::MAX)), (u64::MAX, None), (7, Some(3))]);
    assert!(honest.get() > 0);
    assert_eq!(absurd, honest, "time is charged, by our clock and the machine's life, and nothing else is");
}

#[test]
fn c_21_a_price_that_rises_before_the_launch_is_what_the_run_is_charged() {
    let mut desk = desk();
    let id = desk.submit(on_spot("train"));
    let run = desk.newest(id);
    assert_eq!(desk.run(run).offer.cluster, name("c10"));
    desk.price("c10", "0.60");
    desk.up(run);
    desk.work(run, Millis::from_mins(30), 1);
    desk.exit(run, 0);
    desk.gone(run);
    assert_eq!(desk.job(id).posted.total(), support::dollars("0.30"));
}

/// Machines of our own at a declared price, in two rooms.
fn rooms() -> Desk {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("attic", "home/attic", 8, "", "0.10") });
    desk.apply(Event::ClusterRegistered { spec: cluster("cellar", "home/cellar", 1, "", "0.20") });
    desk.budget("team", None, "1000");
    desk
}

fn cluster_of(desk: &Desk, id: JobId) -> String {
    desk.run(desk.newest(id)).offer.cluster.to_string()
}

#[test]
fn a_dead_agent_on_machines_without_a_market_is_a_setback_of_its_job_there_and_of_nobody_else() {
    let mut desk = rooms();
    let id = desk.submit(job("train"));
    lose(&mut desk, id);
    assert_eq!(cluster_of(&desk, id), "cellar", "it goes on where it was not lost");
    let other = desk.submit(job("other"));
    assert_eq!(cluster_of(&desk, other), "attic", "one dead agent keeps no other job off a whole kind of machine");
    lose(&mut desk, id);
    let third = desk.submit(job("third"));
    assert_eq!(cluster_of(&desk, third), "attic");
}

#[test]
fn with_no_other_place_a_lost_job_waits_a_moment_that_doubles_and_its_like_do_not() {
    let mut desk = Desk::empty();
    desk.apply(Event::ClusterRegistered { spec: cluster("attic", "home/attic", 8, "", "0.10") });
    desk.budget("team", None, "1000");
    let id = desk.submit(job("train"));
    for wait in [10, 20, 40] {
        lose(&mut desk, id);
        assert_eq!(desk.state(id), JobState::Pending);
        let told = desk.scheduler.explain(id).unwrap();
        assert_eq!(told.reason.unwrap().code.as_ref(), "COOLING_DOWN");
        let evaluation = told.evaluation.unwrap();
        let detail = evaluation.rejections[0].detail.as_ref();
        assert!(detail.starts_with("lost the job's last run; it is tried there again in "), "{detail}");
        let like = desk.submit(job("like"));
        assert_eq!(desk.state(like), JobState::Starting);
        desk.pass(Millis::from_secs(wait - 1));
        assert_eq!(desk.state(id), JobState::Pending, "after {wait} s less one");
        desk.pass(Millis::from_secs(1));
        assert_eq!(desk.state(id), JobState::Starting, "after {wait} s");
    }
}

#[test]
fn several_jobs_that_are_lost_within_minutes_do_cool_a_place_down() {
    let mut desk = rooms();
    let jobs: Vec<JobId> = (0..3).map(|number| desk.submit(job(&format!("job {number}")))).collect();
    for (number, id) in jobs.iter().enumerate() {
        let cooling = desk.scheduler.dry_run(job("probe")).unwrap().rejections.len();
        assert_eq!(cooling, usize::from(number > 0), "the cellar is full from the first loss on");
        let run = desk.newest(*id);
        desk.up(run);
        desk.gone(run);
        desk.pass(Millis::from_secs(5));
    }
    let told = desk.scheduler.dry_run(job("probe")).unwrap();
    assert!(told.rejections.iter().any(|one| one.detail.starts_with("refused or lost a run")), "{:?}", told.rejections);
}

#[test]
fn where_a_market_moves_one_loss_keeps_everybody_off() {
    let mut desk = desk();
    desk.price("c10", "0.11");
    let id = desk.submit(on_spot("train"));
    assert_eq!(cluster_of(&desk, id), "c10");
    lose(&mut desk, id);
    let other = desk.submit(on_spot("other"));
    assert_ne!(cluster_of(&desk, other), "c10");
}
