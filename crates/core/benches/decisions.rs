//! How fast the scheduler decides. `cargo bench -p leeway-core --bench decisions` prints criterion's figures and, at the
//! end, the ratios and totals that the README quotes, each measured in the same run as its bound.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use leeway_core::action::Action;
use leeway_core::event::{Event, Submission};
use leeway_core::{Config, Scheduler};
use leeway_model::job::JobSpec;
use leeway_model::market::{CapacityObservation, OfferKey, Price, PriceObservation, Source};
use leeway_model::resources::{Accelerators, CapacityType, MilliCpus, Quantity};
use leeway_model::{Bytes, Currency, InstallationId, JobId, Rate, Timestamp};
use support::{cluster, job, name, usd};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// A scheduler with `offers` spot offers of V100 machines in clusters of up to 50 shapes, and a deep budget.
fn scheduler(offers: usize, count: u32) -> Scheduler {
    scheduler_in("first-come", offers, count)
}

/// The same with this order of the queue.
fn scheduler_in(order: &str, offers: usize, count: u32) -> Scheduler {
    let mut config = Config::new(InstallationId(name("bench")), name("whole-bill"));
    config.placements_per_step = usize::MAX;
    config.open_jobs_per_owner = u64::MAX;
    config.queue_order = name(order);
    let mut scheduler = Scheduler::new(config, leeway_policies::all());
    let mut actions = Vec::new();
    let spec = leeway_model::budget::BudgetSpec {
        name: name("team"),
        parent: None,
        cap: leeway_model::Micros::from_units(1_000_000_000),
        period: Default::default(),
        soft_limit: None,
    };
    scheduler.handle(NOW, Event::BudgetSet { spec, by: name("ops") }, &mut actions);
    let mut left = offers;
    let mut seed = 1_u64;
    for position in 0.. {
        if left == 0 {
            break;
        }
        let mut spec = cluster(&format!("c{position}"), &format!("aws/r{}", position % 30), count, "", "");
        let template = spec.machines.remove(0);
        for shape in 0..left.min(50) {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut machines = template.clone();
            machines.shape.name = name(&format!("s{shape}"));
            machines.shape.cpus = MilliCpus(8_000 * (1 + shape as u32 % 4));
            machines.spot = Some(Rate::from_micros(900_000 + (seed >> 40) % 2_000_000));
            spec.machines.push(machines);
        }
        left -= left.min(50);
        scheduler.handle(NOW, Event::ClusterRegistered { spec }, &mut actions);
    }
    assert_eq!(scheduler.fleet().len(), offers);
    scheduler
}

/// One of 200 shapes: 50 memory sizes, four CPU counts.
fn shaped(position: usize) -> JobSpec {
    let mut spec = job("bench");
    spec.resources[0].memory = Some(Quantity { amount: Bytes::from_gib(1 + (position % 50) as u64), or_more: true });
    spec.resources[0].cpus =
        Some(Quantity { amount: MilliCpus(8_000 * (1 + (position / 50 % 4) as u32)), or_more: true });
    spec
}

fn submissions(jobs: usize, spec: impl Fn(usize) -> JobSpec) -> Event {
    let jobs = (0..jobs).map(|position| Submission { spec: spec(position), after: vec![] }).collect();
    Event::JobsSubmitted { request: None, jobs }
}

fn impossible(_: usize) -> JobSpec {
    let mut spec = job("impossible");
    spec.resources[0].accelerators = Some(Accelerators { model: "B200".into(), count: 8 });
    spec
}

fn handle(scheduler: &mut Scheduler, event: Event) -> usize {
    let mut actions = Vec::new();
    scheduler.handle(NOW, event, &mut actions);
    scheduler.drain_changes(&mut Nowhere);
    actions.iter().filter(|action| matches!(action, Action::Launch(_))).count()
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

fn percentile(mut samples: Vec<Duration>, percent: usize) -> Duration {
    samples.sort();
    samples[(samples.len() - 1) * percent / 100]
}

/// Choosing for one job: the bounded search against a look at every offer.
fn choosing(criterion: &mut Criterion) {
    let scheduler = scheduler(100_000, 8);
    criterion.bench_function("choose among 100,000 offers", |bench| {
        bench.iter(|| black_box(scheduler.choose(&job("bench"))));
    });
    let looked_at = scheduler.choose(&job("bench")).visited;
    let spec = job("bench");
    let bounded: Vec<_> = (0..2_000).map(|_| timed(|| black_box(scheduler.choose(&spec))).0).collect();
    let (full, _) = timed(|| black_box(scheduler.dry_run(job("bench")).map(|evaluation| evaluation.candidates.len())));
    let (p50, p99) = (percentile(bounded.clone(), 50), percentile(bounded, 99));
    println!(
        "\nchoose one of 100,000 offers: p50 {p50:?}, p99 {p99:?}, {looked_at} looked at; every offer judged: {full:?}"
    );
}

/// One of 100 owners, each of whom has jobs of every shape.
fn owned(position: usize) -> JobSpec {
    JobSpec { owner: name(&format!("owner-{}", position / 200 % 100)), ..shaped(position) }
}

/// A round from cold where owners take turns: every placement moves its owner's jobs of 200 shapes.
fn turns() {
    let mut cold = scheduler_in("fair-share", 1_000, 8);
    handle(&mut cold, Event::SpaceChanged { short: true });
    handle(&mut cold, submissions(100_000, owned));
    let (first, placed) = timed(|| handle(&mut cold, Event::SpaceChanged { short: false }));
    let each = first / placed.max(1) as u32;
    println!("  in order of fair shares of 100 owners: {first:?}, {placed} placed, {each:?} each");
}

/// Rounds at 1,000 offers and 100,000 pending jobs of 200 shapes.
fn rounds() {
    let mut cold = scheduler(1_000, 8);
    handle(&mut cold, Event::SpaceChanged { short: true });
    handle(&mut cold, submissions(100_000, shaped));
    let (first, placed) = timed(|| handle(&mut cold, Event::SpaceChanged { short: false }));
    let each = first / placed.max(1) as u32;
    println!("round from cold, 1,000 offers x 100,000 jobs of 200 shapes: {first:?}, {placed} placed, {each:?} each");

    let offer = |position: usize| OfferKey {
        cluster: name(&format!("c{}", position / 50)),
        shape: name(&format!("s{}", position % 50)),
        capacity: CapacityType::Spot,
    };
    let price = |rate: &str, offer: OfferKey| {
        let price = Price { rate: usd(rate), currency: Currency::USD, observed: NOW, source: Source::Feed };
        Event::PricesObserved { prices: vec![PriceObservation { offer, price }] }
    };
    let changes: Vec<_> =
        (0..500).map(|position| timed(|| handle(&mut cold, price("0.50", offer(position)))).0).collect();
    let news: Vec<_> =
        (0..500).map(|position| timed(|| handle(&mut cold, submissions(1, |_| shaped(position)))).0).collect();
    println!("  then one price change: p50 {:?}, p99 {:?}", percentile(changes.clone(), 50), percentile(changes, 99));
    println!("  then one new job:      p50 {:?}, p99 {:?}", percentile(news.clone(), 50), percentile(news, 99));

    turns();
    backlog();
}

/// Decisions with and without a million jobs that cannot run, in turn, so that both meet the same machine.
fn backlog() {
    let mut quiet = scheduler(1_000, 100_000);
    let mut crowded = scheduler(1_000, 100_000);
    for _ in 0..100 {
        handle(&mut crowded, submissions(10_000, impossible));
    }
    const EACH: usize = 2_000;
    let decide = |scheduler: &mut Scheduler, round: usize| {
        let specs: Vec<Event> = (0..EACH).map(|n| submissions(1, |_| shaped(round * EACH + n))).collect();
        let (took, placed) = timed(|| specs.into_iter().map(|event| handle(scheduler, event)).sum::<usize>());
        assert_eq!(placed, EACH);
        EACH as f64 / took.as_secs_f64()
    };
    let mut rates: Vec<(f64, f64)> =
        (0..15).map(|round| (decide(&mut quiet, round), decide(&mut crowded, round))).collect();
    rates.sort_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)));
    let (alone, behind) = rates[rates.len() / 2];
    let slower = (1.0 - behind / alone) * 100.0;
    println!("decisions: {alone:.0} a second; behind 1,000,000 jobs that cannot run {behind:.0}, {slower:.1} % slower");
}

/// A region with 100,000 running jobs goes dark: how long until all are placed elsewhere, and how long the longest step.
fn region_goes_dark() {
    let mut config = Config::new(InstallationId(name("bench")), name("whole-bill"));
    config.placements_per_step = 256;
    let mut scheduler = Scheduler::new(config, leeway_policies::all());
    let spec = leeway_model::budget::BudgetSpec {
        name: name("team"),
        parent: None,
        cap: leeway_model::Micros::from_units(1_000_000_000),
        period: Default::default(),
        soft_limit: None,
    };
    handle(&mut scheduler, Event::BudgetSet { spec, by: name("ops") });
    for (title, price) in [("dark", "0.90"), ("light", "0.95"), ("third", "1.00")] {
        handle(
            &mut scheduler,
            Event::ClusterRegistered { spec: cluster(title, &format!("aws/{title}"), 200_000, price, "3.06") },
        );
    }
    for batch in 0..100 {
        handle(&mut scheduler, submissions(1_000, |n| shaped(batch * 1_000 + n % 49)));
        while scheduler.next_wakeup().is_some_and(|at| at <= NOW) {
            handle(&mut scheduler, Event::Woke);
        }
    }
    let runs: Vec<_> =
        (1..=100_000).map(|job| scheduler.job(JobId(job)).and_then(|job| job.newest_run()).expect("placed")).collect();
    let none = |capacity| CapacityObservation {
        offer: OfferKey { cluster: name("dark"), shape: name("v100"), capacity },
        available: Some(0),
    };
    for run in &runs {
        handle(&mut scheduler, Event::RunLaunched { run: *run, instances: vec![] });
    }
    let mut steps = Vec::new();
    let (took, replaced) = timed(|| {
        let capacities = vec![none(CapacityType::Spot), none(CapacityType::OnDemand)];
        let mut replaced = handle(&mut scheduler, Event::CapacityObserved { capacities });
        for run in &runs {
            let (step, launches) = timed(|| handle(&mut scheduler, Event::InstancesGone { run: *run }));
            steps.push(step);
            replaced += launches;
        }
        while scheduler.next_wakeup().is_some_and(|at| at <= NOW) {
            let (step, launches) = timed(|| handle(&mut scheduler, Event::Woke));
            steps.push(step);
            replaced += launches;
        }
        replaced
    });
    let longest = steps.iter().max().copied().unwrap_or_default();
    println!("a region with 100,000 runs goes dark: {replaced} placed elsewhere in {took:?}, longest step {longest:?}");
}

fn memory() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
    };
    let mut scheduler = scheduler(1_000, 0);
    let before = resident();
    const JOBS: usize = 200_000;
    for batch in 0..JOBS / 1_000 {
        handle(&mut scheduler, submissions(1_000, |n| shaped(batch * 1_000 + n)));
    }
    println!("memory per pending job: {} bytes", (resident() - before) / JOBS);
    assert_eq!(scheduler.queued(), JOBS);
}

/// Takes changed rows as the engine would, and lets them go.
struct Nowhere;

impl leeway_core::state::table::RowSink for Nowhere {
    fn put<V: serde::Serialize>(&mut self, _: leeway_core::state::table::TableId, _: &[u8], _: &V) {}
    fn delete(&mut self, _: leeway_core::state::table::TableId, _: &[u8]) {}
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(50)
        .configure_from_args();
    choosing(&mut criterion);
    memory();
    rounds();
    region_goes_dark();
    criterion.final_summary();
}
