//! Which of the jobs that wait goes first.

#![allow(clippy::unwrap_used, reason = "a helper that finds nothing is a failed test")]

mod support;

use leeway_core::event::Event;
use leeway_core::{Config, Scheduler};
use leeway_model::job::{JobSpec, JobState};
use leeway_model::{InstallationId, JobId, Micros, Millis};
use support::{Desk, cluster, job, name};

/// A desk with one cluster of `machines` on demand, whose queue is in this order.
fn desk(order: &str, machines: Option<u32>, weights: &[(&str, f64)]) -> Desk {
    let mut config = Config::new(InstallationId(name("test")), name("whole-bill"));
    config.queue_order = name(order);
    config.fair_share.weights = weights.iter().map(|(owner, weight)| (name(owner), *weight)).collect();
    let mut desk = Desk::with(config);
    let mut spec = cluster("room", "onprem/berlin", 1, "", "1.00");
    spec.machines[0].count = machines;
    desk.apply(Event::ClusterRegistered { spec });
    desk.budget("team", None, "1000");
    desk
}

fn of(owner: &str) -> JobSpec {
    JobSpec { owner: name(owner), ..job(owner) }
}

/// Nothing is placed until it is over, so that jobs stand in line together.
fn hold(desk: &mut Desk, short: bool) {
    desk.apply(Event::SpaceChanged { short });
}

fn started(desk: &Desk, jobs: &[JobId]) -> usize {
    jobs.iter().filter(|job| desk.state(**job) == JobState::Starting).count()
}

fn finish(desk: &mut Desk, job: JobId) {
    let run = desk.newest(job);
    desk.up(run);
    desk.exit(run, 0);
    desk.gone(run);
    assert_eq!(desk.state(job), JobState::Succeeded);
}

/// The first job that starts once this one has ended.
fn next_after(desk: &mut Desk, ended: JobId) -> Option<JobId> {
    let pending: Vec<JobId> = pending(&desk.scheduler);
    finish(desk, ended);
    pending.into_iter().find(|job| desk.state(*job) == JobState::Starting)
}

fn pending(scheduler: &Scheduler) -> Vec<JobId> {
    let jobs = scheduler.tables().jobs.values();
    jobs.filter(|job| job.state == JobState::Pending).map(|job| job.id).collect()
}

#[test]
fn first_come_looks_at_age_alone_and_meters_nobody() {
    let mut desk = desk("first-come", Some(6), &[]);
    hold(&mut desk, true);
    let flood: Vec<JobId> = (0..20).map(|_| desk.submit(of("ada"))).collect();
    let few: Vec<JobId> = (0..5).map(|_| desk.submit(of("bob"))).collect();
    hold(&mut desk, false);
    assert_eq!((started(&desk, &flood), started(&desk, &few)), (6, 0));
    assert!(desk.scheduler.tables().usage.is_empty(), "no row is written for an order that asks for none");
    let told = desk.scheduler.explain(few[0]).unwrap().reason.unwrap().message;
    assert!(!told.contains("goes first"), "{told}");
}

#[test]
fn fair_share_deals_the_machines_out_by_weight_however_many_jobs_an_owner_has() {
    for (weights, expected) in [(vec![], (3, 3)), (vec![("ada", 2.0)], (4, 2)), (vec![("bob", 5.0)], (1, 5))] {
        let mut desk = desk("fair-share", Some(6), &weights);
        hold(&mut desk, true);
        let flood: Vec<JobId> = (0..200).map(|_| desk.submit(of("ada"))).collect();
        let few: Vec<JobId> = (0..8).map(|_| desk.submit(of("bob"))).collect();
        hold(&mut desk, false);
        assert_eq!((started(&desk, &flood), started(&desk, &few)), expected, "with weights {weights:?}");
    }
}

#[test]
fn fair_share_counts_whichever_resource_an_owner_has_most_of() {
    let mut desk = desk("fair-share", Some(8), &[]);
    // Machines without accelerators, of which ada's jobs take many CPUs' worth and bob's the accelerators.
    let mut cpus = cluster("cpus", "onprem/berlin", 24, "", "0.10");
    cpus.machines[0].shape.accelerators = None;
    desk.apply(Event::ClusterRegistered { spec: cpus });
    let on_cpus = || {
        let mut spec = of("ada");
        spec.resources[0].accelerators = None;
        spec.resources[0].infra.cluster_or_provider = Some("cpus".into());
        spec
    };
    hold(&mut desk, true);
    let many: Vec<JobId> = (0..40).map(|_| desk.submit(on_cpus())).collect();
    let few: Vec<JobId> = (0..40).map(|_| desk.submit(of("bob"))).collect();
    hold(&mut desk, false);
    assert_eq!((started(&desk, &many), started(&desk, &few)), (24, 8));
    // ada holds 24 of 32 machines' CPUs, bob all accelerators: bob's dominant share is the greater, so that a machine
    // which either could use is ada's.
    let (a, b) = (desk.submit(of("ada")), few[0]);
    assert_eq!(next_after(&mut desk, b), Some(a), "75 % of the CPUs come before 87 % of the accelerators");
}

#[test]
fn priority_comes_before_what_owners_used() {
    let mut desk = desk("fair-share", Some(2), &[]);
    let first = desk.submit(of("ada"));
    let _second = desk.submit(of("ada"));
    let poor = desk.submit(of("bob"));
    let urgent = desk.submit(JobSpec { priority: 1, ..of("ada") });
    assert_eq!(next_after(&mut desk, first), Some(urgent));
    assert_eq!(desk.state(poor), JobState::Pending);
}

#[test]
fn who_used_much_before_waits_until_that_has_faded() {
    let run = |pause: Millis| {
        let mut desk = desk("fair-share", Some(1), &[]);
        let long = desk.submit(of("ada"));
        let run = desk.newest(long);
        desk.up(run);
        desk.work(run, Millis::from_hours(2), 900);
        desk.exit(run, 0);
        desk.gone(run);
        desk.pass(pause);
        // Bob holds the machine for a short while; then one job of each waits, ada's the older.
        let short = desk.submit(of("bob"));
        let (ada, bob) = (desk.submit(of("ada")), desk.submit(of("bob")));
        let run = desk.newest(short);
        desk.up(run);
        desk.work(run, Millis::from_mins(30), 900);
        desk.exit(run, 0);
        desk.gone(run);
        (desk.state(ada) == JobState::Starting, desk.state(bob) == JobState::Starting)
    };
    assert_eq!(run(Millis::from_mins(1)), (false, true), "two hours a moment ago weigh more than half an hour now");
    assert_eq!(run(Millis::from_hours(24 * 7 * 4)), (true, false), "four half-lives later they do not");
}

#[test]
fn where_some_cluster_has_no_count_owners_are_ranked_by_the_price_of_what_they_hold() {
    let mut desk = desk("fair-share", None, &[]);
    let mut room = cluster("dear", "onprem/paris", 1, "", "9.00");
    room.machines[0].shape.name = name("dear");
    desk.apply(Event::ClusterRegistered { spec: room });
    let dear = |owner: &str| {
        let mut spec = of(owner);
        spec.resources[0].infra.cluster_or_provider = Some("dear".into());
        spec
    };
    let cheap: Vec<JobId> = (0..5).map(|_| desk.submit(of("bob"))).collect();
    assert_eq!(started(&desk, &cheap), 5);
    let first = desk.submit(dear("cyd"));
    let (ada, bob) = (desk.submit(dear("bob")), desk.submit(dear("ada")));
    assert_eq!(next_after(&mut desk, first), Some(bob), "five dollars an hour are more than nothing");
    assert_eq!(desk.state(ada), JobState::Pending);
}

#[test]
fn the_line_of_a_budget_is_in_the_same_order() {
    let mut desk = desk("fair-share", Some(50), &[]);
    desk.budget("small", None, "2.50");
    let of = |owner: &str| {
        let mut spec = of(owner);
        spec.money.budget = Some(name("small"));
        spec
    };
    let first = desk.submit(of("ada"));
    let more: Vec<JobId> = (0..5).map(|_| desk.submit(of("ada"))).collect();
    let bob = desk.submit(of("bob"));
    assert_eq!(desk.state(bob), JobState::Pending, "the budget pays for two at once");
    finish(&mut desk, first);
    assert_eq!(desk.state(bob), JobState::Starting, "the room that a job left goes to who used less");
    assert!(started(&desk, &more) <= 1);
}

#[test]
fn a_restart_finds_what_owners_used_and_goes_on_alike() {
    let story = |restarted: bool| {
        let mut desk = desk("fair-share", Some(4), &[("cyd", 0.5)]);
        let mut waiting = Vec::new();
        for owner in ["ada", "bob", "ada", "cyd", "ada", "ada", "bob", "bob", "cyd", "ada", "bob"] {
            waiting.push(desk.submit(of(owner)));
            desk.pass(Millis::from_secs(20));
        }
        let mut order = Vec::new();
        for turn in 0..8 {
            let runs = waiting.iter().find(|job| desk.state(**job) == JobState::Starting);
            let Some(ended) = runs.copied() else { break };
            order.push((ended, next_after(&mut desk, ended)));
            desk.pass(Millis::from_secs(10 + turn));
            if restarted {
                desk.restart(|_| {}, |_| {});
                leeway_core::invariants::check(&desk.scheduler);
            }
        }
        let usage: Vec<_> = desk.scheduler.tables().usage.values().cloned().collect();
        (order, usage)
    };
    let (order, usage) = story(false);
    assert_eq!((order.len(), usage.len()), (8, 3));
    assert_eq!(story(true), (order, usage));
}

#[test]
fn an_owner_is_forgotten_when_next_to_nothing_is_left_of_what_it_used() {
    let mut desk = desk("fair-share", Some(4), &[]);
    let job = desk.submit(of("ada"));
    finish(&mut desk, job);
    desk.pass(Millis::from_hours(24 * 7 * 19));
    assert_eq!(desk.scheduler.tables().usage.len(), 1);
    desk.pass(Millis::from_hours(24 * 7 * 2));
    assert!(desk.scheduler.tables().usage.is_empty());
}

#[test]
fn earliest_deadline_starts_the_job_that_can_wait_least_and_those_without_a_deadline_last() {
    let mut desk = desk("earliest-deadline", Some(1), &[]);
    let running = desk.submit(of("ada"));
    let due = |desk: &Desk, hours: u64, work: u64| {
        let mut spec = of("ada");
        spec.time.deadline = Some(desk.now.after(Millis::from_hours(hours)));
        spec.time.estimate = Some(Millis::from_hours(work));
        spec
    };
    let free = desk.submit(of("ada"));
    let (late, soon, long) = (due(&desk, 20, 1), due(&desk, 10, 1), due(&desk, 14, 6));
    let [late, soon, long] = [late, soon, long].map(|spec| desk.submit(spec));
    let told = desk.scheduler.explain(late).unwrap().reason.unwrap();
    let first = format!("; {long} goes first: its latest start by its deadline comes first");
    assert!(&*told.code == "NO_CAPACITY" && told.message.ends_with(&first), "{told:?}");
    let told = desk.scheduler.explain(long).unwrap().reason.unwrap();
    assert!(!told.message.contains("goes first"), "nobody goes before the first: {told:?}");
    let mut last = running;
    for expected in [long, soon, late, free] {
        assert_eq!(next_after(&mut desk, last), Some(expected));
        last = expected;
    }
}

#[test]
fn a_hundred_thousand_jobs_of_many_owners_and_shapes_stay_cheap() {
    let mut desk = desk("fair-share", Some(4), &[]);
    let spec = leeway_model::budget::BudgetSpec {
        name: name("team"),
        parent: None,
        cap: Micros::from_units(1_000_000),
        period: Default::default(),
        soft_limit: None,
    };
    desk.apply(Event::BudgetSet { spec, by: name("ops") });
    let jobs: Vec<_> = (0..100_000_u64)
        .map(|number| {
            let mut spec = of(&format!("owner-{}", number % 100));
            spec.resources[0].max_hourly_cost = Some(leeway_model::Rate::from_micros(2_000_000 + number % 50));
            leeway_core::event::Submission { spec, after: vec![] }
        })
        .collect();
    let mut actions = Vec::new();
    desk.scheduler.handle(desk.now, Event::JobsSubmitted { request: None, jobs }, &mut actions);
    let tries = desk.scheduler.config().placements_per_step;
    let mut steps = 0;
    while desk.scheduler.next_wakeup().is_some_and(|at| at <= desk.now) {
        desk.scheduler.handle(desk.now, Event::Woke, &mut actions);
        steps += 1;
    }
    // Four are placed; then each of the fifty shapes is looked at once more and stands blocked with all its jobs.
    assert!(steps <= 1 + 100 / tries, "{steps} steps of {tries} tries");
    let owners: std::collections::BTreeSet<_> =
        desk.scheduler.tables().runs.values().map(|run| desk.spec_of(run.id.job).owner.clone()).collect();
    assert_eq!(owners.len(), 4, "each of the four machines went to another owner");
    assert_eq!(desk.scheduler.queued(), 99_996);
}
