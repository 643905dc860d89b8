//! Seeded runs of the whole world. `LEEWAY_SEED=n` replays one seed; with `LEEWAY_TRACE=1` it tells every event;
//! `LEEWAY_SEEDS=count` changes how many are run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use leeway_simulations::dst::{Options, Outcome, replay_command, run};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 2_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn run_many(from: u64, count: u64) -> Vec<Outcome> {
    let next = AtomicU64::new(from);
    let outcomes = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + count {
                        break;
                    }
                    let outcome = run(seed, &Options::default());
                    outcomes.lock().expect("no run panics while it holds the lock").push(outcome);
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no run panics while it holds the lock");
    outcomes.sort_by_key(|outcome| outcome.seed);
    outcomes
}

#[test]
fn every_seed_comes_to_a_quiet_end_with_every_invariant_kept() {
    if let Some(seed) = number("LEEWAY_SEED") {
        let trace = std::env::var_os("LEEWAY_TRACE").is_some();
        let outcome = run(seed, &Options { trace, ..Options::default() });
        println!("{outcome:#?}");
        assert_eq!(outcome.failure, None);
        return;
    }
    let first = number("LEEWAY_FIRST_SEED").unwrap_or(0);
    let outcomes = run_many(first, number("LEEWAY_SEEDS").unwrap_or(SEEDS));
    let sum = |of: fn(&Outcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    println!(
        "{} seeds: {} steps, {} entries, {} crashes, {} runs, {} interruptions, {} jobs succeeded",
        outcomes.len(),
        sum(|o| o.steps),
        sum(|o| o.entries),
        sum(|o| o.crashes),
        sum(|o| o.runs),
        sum(|o| o.interruptions),
        sum(|o| o.succeeded)
    );
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.failure.is_some()).collect();
    for outcome in failed.iter().take(50) {
        let failure = outcome.failure.as_deref().unwrap_or_default();
        println!("seed {} failed: {failure}\n  replay: {}", outcome.seed, replay_command(outcome.seed));
    }
    assert!(failed.is_empty(), "{} of {} seeds failed", failed.len(), outcomes.len());
}

#[test]
fn o_05_s_16_one_seed_run_twice_gives_the_same_bytes() {
    for seed in [1, 7, 42] {
        let (first, second) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!(first, second);
        assert!(first.failure.is_some() || first.hash != 0);
    }
}
