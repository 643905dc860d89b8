//! The whole scheduler in the loop: events a second of core, engine, ledger and world together, and of the event kernel
//! beside a plain priority queue.

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

use leeway_core::Config;
use leeway_model::budget::{BudgetSpec, Period};
use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::job::{JobSpec, MoneyTerms, Program, RetryPolicy, TimeTerms};
use leeway_model::resources::{Accelerators, MachineShape, MilliCpus, ResourceRequest};
use leeway_model::{Bytes, InstallationId, Micros, Millis, Name, Rate, Timestamp};
use leeway_simulations::fleet::setup::{Arrival, ClusterPlan, Setup, Terms, Workload};
use leeway_simulations::fleet::{self, store::Fleeting};
use leeway_simulations::kernel::Kernel;
use leeway_simulations::random::stream;
use leeway_store::{MemoryStore, Store};

fn name(text: &str) -> Name {
    text.parse().expect("names of a benchmark are valid")
}

fn cluster(number: usize, shapes: usize, count: u32) -> ClusterPlan {
    let machines = (0..shapes).map(|shape| Machines {
        shape: MachineShape {
            name: name(&format!("m{shape}")),
            instance_type: format!("m{shape}.large").into(),
            cpus: MilliCpus(8_000),
            memory: Bytes::from_gib(60),
            accelerators: Some(Accelerators { model: "V100".into(), count: 1 }),
            disk: Bytes::from_gb(200),
        },
        count: Some(count),
        on_demand: Some(Rate::from_micros(3_000_000 + 1_000 * shape as u64)),
        spot: Some(Rate::from_micros(900_000 + 1_000 * (number * shapes + shape) as u64)),
        reserved: None,
    });
    let spec = ClusterSpec {
        name: name(&format!("c{number}")),
        driver: name("simulated"),
        region: format!("aws/region-{number}").parse().expect("a valid region"),
        zone: None,
        machines: machines.collect(),
        checkpoints: "memory://checkpoints".into(),
        labels: Default::default(),
    };
    ClusterPlan { spec, market: None, carbon: None, watts: None }
}

/// `jobs` jobs of about an hour, so many at once, on `clusters` clusters of two offers for each shape.
fn setup(jobs: u64, live: u64, clusters: usize, shapes: usize) -> Setup {
    let mut config = Config::new(InstallationId(name("bench")), name("whole-bill"));
    fleet::setup::quiet(&mut config);
    config.keep_finished = Millis::from_mins(10);
    config.open_jobs_per_owner = u64::MAX;
    let each = (live * 2 / (clusters * shapes) as u64).max(1) as u32;
    let clusters: Vec<_> = (0..clusters).map(|number| cluster(number, shapes, each)).collect();
    let budget = BudgetSpec {
        name: name("all"),
        parent: None,
        cap: Micros::from_units(1_000_000_000),
        period: Period::Total,
        soft_limit: None,
    };
    let gap = 3_600_000.0 / live as f64;
    let mut luck = stream(7, "bench");
    let arrivals = (0..jobs).map(move |number| {
        let work = Millis::new(luck.between(1_800_000, 5_400_000));
        let spec = JobSpec {
            name: "job".parse().expect("a valid text"),
            owner: name("ada"),
            nodes: 1,
            resources: vec![ResourceRequest {
                accelerators: Some(Accelerators { model: "V100".into(), count: 1 }),
                ..Default::default()
            }],
            ordered: false,
            priority: 0,
            program: Program::default(),
            money: MoneyTerms { budget: Some(name("all")), ..Default::default() },
            time: TimeTerms { estimate: Some(work), ..Default::default() },
            data: vec![],
            outputs: None,
            checkpoint: Some(CheckpointPolicy {
                path: None,
                interval: Interval::Auto,
                size: Some(Bytes::from_gb(1)),
                save_time: Some(Millis::from_secs(10)),
                restore_time: Some(Millis::from_secs(30)),
                keep: 3,
                restart_without: true,
            }),
            retry: RetryPolicy::default(),
            depends_on: vec![],
            policy: None,
            labels: Default::default(),
        };
        Ok(Arrival { at: Millis::new((number as f64 * gap) as u64), spec, work, team: "".into(), inputs: vec![] })
    });
    Setup {
        config,
        start: Timestamp::from_millis(1_790_000_000_000),
        limit: Millis::from_hours(24 * 3650),
        seed: 1,
        clusters,
        budgets: vec![budget],
        shocks: vec![],
        terms: Terms::default(),
        workload: Workload(Box::new(arrivals)),
        samples: 100,
        checked: false,
    }
}

fn loop_of<S: Store>(title: &str, store: S, jobs: u64, live: u64, clusters: usize, shapes: usize) {
    let began = Instant::now();
    let outcome =
        fleet::run(setup(jobs, live, clusters, shapes), leeway_policies::all(), store, &mut |_| {}, &mut |_| {});
    let wall = began.elapsed();
    let outcome = outcome.expect("the benchmark's world is sound");
    assert!(outcome.is_complete, "{outcome:?}");
    println!(
        "{title}: {jobs} jobs, {live} live, {} offers: {} events, {} steps in {:.2} s: {:.0} steps/s",
        clusters * shapes * 2,
        outcome.events,
        outcome.steps,
        wall.as_secs_f64(),
        outcome.steps as f64 / wall.as_secs_f64()
    );
}

/// Hold model: take the first, plan another; a queue that keeps its size. Nanoseconds for one of both.
fn hold(pending: usize, mut step: impl FnMut(u64), mut fill: impl FnMut(u64)) -> f64 {
    let mut luck = stream(3, "hold");
    (0..pending).for_each(|_| fill(luck.below(1_000_000)));
    const STEPS: u32 = 2_000_000;
    let began = Instant::now();
    for _ in 0..STEPS {
        step(luck.below(1_000_000));
    }
    began.elapsed().as_nanos() as f64 / f64::from(STEPS)
}

#[derive(Clone, Copy)]
struct Small(#[expect(dead_code, reason = "it only has a size")] [u32; 3]);

fn kernels(pending: usize) {
    let ours = {
        let kernel = std::cell::RefCell::new(Kernel::new(Timestamp::ZERO));
        hold(
            pending,
            |wait| {
                let mut kernel = kernel.borrow_mut();
                let event = kernel.pop().expect("it keeps its size");
                kernel.after(Millis::new(wait), black_box(event));
            },
            |wait| kernel.borrow_mut().after(Millis::new(wait), Small([wait as u32; 3])),
        )
    };
    // Without the order of planning at equal times.
    let plain = {
        #[derive(Clone, Copy)]
        struct Item(u64, Small);
        impl PartialEq for Item {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }
        impl Eq for Item {}
        impl PartialOrd for Item {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for Item {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                other.0.cmp(&self.0)
            }
        }
        let queue = std::cell::RefCell::new(BinaryHeap::new());
        hold(
            pending,
            |wait| {
                let mut queue = queue.borrow_mut();
                let Item(at, event) = queue.pop().expect("it keeps its size");
                queue.push(Item(at + wait, black_box(event)));
            },
            |wait| queue.borrow_mut().push(Item(wait, Small([wait as u32; 3]))),
        )
    };
    println!("kernel, {pending} pending: {ours:.0} ns, plain heap {plain:.0} ns: {:.2} of it", plain / ours);
}

fn main() {
    if std::env::var("FLEET_ONE").is_ok() {
        loop_of("loop", Fleeting::default(), 50_000, 10_000, 20, 25);
        return;
    }
    let quick = std::env::args().any(|arg| arg == "--test");
    if quick {
        loop_of("loop", Fleeting::default(), 200, 20, 2, 2);
        return;
    }
    kernels(10_000);
    kernels(100_000);
    loop_of("loop, memory store", MemoryStore::without_history(), 50_000, 10_000, 20, 25);
    for jobs in [50_000, 200_000] {
        loop_of("loop", Fleeting::default(), jobs, 10_000, 20, 25);
    }
}
