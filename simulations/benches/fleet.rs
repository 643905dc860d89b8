//! The whole scheduler in the loop: events a second of core, engine, ledger and world together; of the event kernel beside a
//! plain priority queue; and what many runs gain from all cores.

use std::collections::BinaryHeap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use leeway_model::{Millis, Timestamp};
use leeway_simulations::fleet::scenario::{Named, build::Choice};
use leeway_simulations::fleet::study::{self, Plan};
use leeway_simulations::fleet::{self, Setup, store::Fleeting};
use leeway_simulations::kernel::Kernel;
use leeway_simulations::parallel;
use leeway_simulations::random::stream;
use leeway_store::{MemoryStore, Store};

/// As the binary has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `jobs` jobs of about an hour, so many at once, on clusters with a spot and an on-demand offer each.
fn steady(jobs: u64, live: u64, clusters: u64) -> Setup {
    use std::fmt::Write as _;
    // More jobs of an hour than may live at once, until there were enough of them.
    let hours = jobs / live + 24;
    let mut text = format!(
        "about = \"A benchmark.\"\nlength = \"{hours}h\"\n[[workload]]\nmost = {jobs}\nask.accelerator = \"V100\"\n\
         ask.checkpoint = {{ size = \"1GB\", save = \"10s\", restore = \"30s\" }}\n[workload.generate]\n\
         runtime_max_s = 36000\narrivals = {{ per_hour = {live} }}\nsizes = [{{ weight = 1, gpus = 1 }}]\n\
         runtime = {{ kind = \"log-normal\", mu = 8.15, sigma = 0.3 }}\n"
    );
    for number in 0..clusters {
        let (spot, on_demand) = (0.9 + 0.001 * number as f64, 3.0 + 0.001 * number as f64);
        write!(
            text,
            "[[clusters]]\nname = \"c{number}\"\nregion = \"aws/region-{}\"\naccelerators = \"V100:1\"\ncount = {}\n\
             spot = {spot:.3}\non_demand = {on_demand:.3}\n",
            number % 20,
            (live * 2 / clusters).max(1),
        )
        .expect("a text takes everything");
    }
    world(&text)
}

/// `jobs` jobs of about an hour over a year, on 50 clusters whose spot machines come and go, at prices that move.
fn year(jobs: u64) -> Setup {
    use std::fmt::Write as _;
    let mut text = format!(
        "about = \"A benchmark.\"\nlength = \"370d\"\n[[workload]]\nmost = {jobs}\nask.accelerator = \"V100\"\n\
         ask.checkpoint = {{ size = \"1GB\", save = \"10s\", restore = \"30s\" }}\n[workload.generate]\n\
         runtime_max_s = 86400\narrivals = {{ per_hour = {} }}\nsizes = [{{ weight = 1, gpus = 1 }}]\n\
         runtime = {{ kind = \"log-normal\", mu = 8.15, sigma = 0.9 }}\n",
        jobs.div_ceil(365 * 24)
    );
    for number in 0..50_u32 {
        let on_demand = 2.5 + 0.02 * f64::from(number);
        write!(
            text,
            "[[clusters]]\nname = \"c{number}\"\nregion = \"aws/region-{}\"\naccelerators = \"V100:1\"\n\
             on_demand = {on_demand:.2}\n[clusters.market.generate]\ngap_s = 600\n\
             on_demand_usd_per_h = {on_demand:.2}\nnodes = 80\n\
             up = {{ kind = \"weibull\", shape = 0.7, scale_s = 90000 }}\n\
             down = {{ kind = \"lomax\", shape = 1.5, scale_s = 3000 }}\n\
             price = {{ mean_usd_per_h = 0.92, deviation = 0.15, floor_usd_per_h = 0.5, cap_of_on_demand = 1.0 }}\n",
            number % 20,
        )
        .expect("a text takes everything");
    }
    world(&text)
}

fn world(text: &str) -> Setup {
    let named = Named::parse("bench", text, Path::new("."), &[]).expect("the benchmark's world is sound");
    let policy = "whole-bill".parse().expect("it is a valid name");
    named.setup(&Choice { policy, seed: 1, checked: false }).expect("the benchmark's world is sound")
}

fn loop_of<S: Store>(title: &str, store: S, setup: Setup) {
    // The peak so far is forgotten. Without that file, the peak of all runs is shown.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let began = Instant::now();
    let outcome = fleet::run(setup, leeway_policies::all(), store, &mut |_| {}, &mut |_| {});
    let wall = began.elapsed();
    let outcome = outcome.expect("the benchmark's world is sound");
    assert!(outcome.is_complete, "{outcome:?}");
    println!(
        "{title}: {} jobs, {} events, {} steps in {:.2} s: {:.0} steps/s, {:.0} events/s; {} MiB at most",
        outcome.totals.all.jobs,
        outcome.events,
        outcome.steps,
        wall.as_secs_f64(),
        outcome.steps as f64 / wall.as_secs_f64(),
        outcome.events as f64 / wall.as_secs_f64(),
        peak_mib(),
    );
}

/// Most memory this process had, in MiB; 0 where the system does not tell.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default() / 1024
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

/// Runs of a ready scenario, as a sweep does them, on one core and on all.
fn sweep(runs: u64) {
    let policy = "whole-bill".parse().expect("it is a valid name");
    let scenario = Named::read("price-storm").expect("it is a ready scenario");
    let mut plan = Plan {
        scenario,
        history: None,
        policies: vec![policy],
        seeds: (1..=runs).collect(),
        threads: 1,
        checked: false,
    };
    let time = |plan: &Plan| {
        let began = Instant::now();
        let all = study::study(plan, &|_| false, &|_| {}).expect("the scenario is sound");
        assert_eq!(all.len(), plan.seeds.len());
        began.elapsed().as_secs_f64()
    };
    // Files have been read and tables made once.
    time(&Plan { seeds: vec![1], ..plan.clone() });
    let one = time(&plan);
    plan.threads = parallel::cores();
    let all = time(&plan);
    let efficiency = one / all / plan.threads as f64;
    println!("{runs} runs on one core {one:.2} s, on {} {all:.2} s: {efficiency:.2} of each core", plan.threads);
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--test");
    if quick {
        loop_of("loop", Fleeting::default(), steady(200, 20, 4));
        sweep(2);
        return;
    }
    kernels(10_000);
    kernels(100_000);
    println!("10,000 jobs live, 1,000 offers:");
    loop_of("  memory store", MemoryStore::without_history(), steady(50_000, 10_000, 500));
    for jobs in [50_000, 200_000] {
        loop_of("  store that keeps nothing", Fleeting::default(), steady(jobs, 10_000, 500));
    }
    println!("price-storm:");
    sweep(64);
    println!("a year, 50 clusters:");
    let long = std::env::var_os("LONG").map(|_| 10_000_000);
    for jobs in [300_000, 1_000_000, 3_000_000].into_iter().chain(long) {
        loop_of("  store that keeps nothing", Fleeting::default(), year(jobs));
    }
}
