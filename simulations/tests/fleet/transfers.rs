//! Bytes between regions take their time.

use leeway_model::{Bytes, Millis};

use super::worlds::{WORLD, cluster, job, run};

fn input(region: &str) -> String {
    format!("ask.input = {{ region = \"{region}\", size = \"300GB\" }}")
}

/// The wait of each of so many jobs that read 300 GB from a region, on machines in the west, and what was moved.
fn waits(from: &str, jobs: usize) -> (Vec<Millis>, Bytes) {
    let mut text = format!("{WORLD}between_regions = \"100MB\"\n") + &cluster("west", "aws/us-west-2", 0.4, 40);
    for number in 0..jobs {
        text += &job(&format!("j{number}"), "0s", "1h", &input(from));
    }
    let ran = run(&text, "on-demand");
    (ran.jobs.iter().map(|job| job.wait().unwrap()).collect(), ran.outcome.moved_between_regions)
}

fn about(found: Millis, secs: u64) -> bool {
    found.as_millis().abs_diff(secs * 1_000) <= 1_000
}

#[test]
fn a_start_waits_for_its_input_as_long_as_the_bytes_take_over_the_bandwidth() {
    let (near, none) = waits("aws/us-west-2", 1);
    assert!(about(near[0], 90) && none == Bytes::ZERO, "{near:?} {none}");
    let (far, moved) = waits("aws/us-east-1", 1);
    assert!(about(far[0], 90 + 3_000), "{far:?}");
    assert!(moved.get().abs_diff(300_000_000_000) < 1_000_000, "{moved}");
}

#[test]
fn transfers_on_one_way_share_it() {
    let (both, _) = waits("aws/us-east-1", 2);
    assert!(both.iter().all(|wait| about(*wait, 90 + 6_000)), "{both:?}");
}
