//! Cost over the optimum, on markets whose optimum can be reckoned by hand.

use std::path::Path;

use leeway_market::trace::{Kind, SpotTrace, write};
use leeway_model::{Millis, Rate};
use leeway_simulations::fleet::regret;
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds::{WORLD, cluster, job, run};

const SAVED: &str = "ask.deadline = 3.0\nask.checkpoint = { size = \"1GB\", save = \"0s\", restore = \"0s\" }";

/// One job of six hours, on spot for 0.40 that is always there or on demand for 1.20.
fn ran(policy: &str, more: &str) -> Ran {
    run(&(WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 4) + &job("one", "0s", "6h", more)), policy)
}

fn close(ratio: Option<f64>, by_hand: f64) {
    let ratio = ratio.unwrap();
    assert!((ratio - by_hand).abs() < 1e-4, "{ratio} for {by_hand}");
}

#[test]
fn the_cost_over_the_optimum_is_that_of_reckoning_by_hand() {
    // The best is to take spot at once: a minute of boot and six hours. What is paid beside it is the way back, 20 s.
    let best = 0.4 * (6.0 + 60.0 / 3_600.0);
    let spot = ran("cheapest", SAVED);
    let paid = |price: f64| price * (6.0 + 80.0 / 3_600.0);
    close(spot.row.over_optimum_p50, paid(0.4) / best);
    assert_eq!((spot.row.over_optimum_jobs, spot.row.with_deadline), (1, 1));
    let other = ran("on-demand", SAVED);
    close(other.row.over_optimum_worst, paid(1.2) / best);
    assert_eq!(other.row.over_optimum_p50, other.row.over_optimum_p90);
    assert_eq!(regret::footnote([&other.outcome.totals.over_optimum].into_iter()), None);
}

/// A recording without a machine in the first hour and with four for ever after.
fn late(folder: &Path) -> String {
    let trace = SpotTrace {
        family: "made".into(),
        region: "aws/us-east-1".parse().unwrap(),
        zone: "a".into(),
        instance_type: "gpu".into(),
        accelerators: None,
        nodes_requested: 4,
        kind: Kind::AvailabilityProbe,
        gap: Millis::from_mins(10),
        start: None,
        on_demand: Rate::parse_decimal("1.2").unwrap(),
        spot: Rate::parse_decimal("0.4").unwrap(),
        price_changes: Vec::new(),
        notices: Vec::new(),
        missing_ticks: Vec::new(),
        data: (0..2_000).map(|tick| if tick < 6 { 0 } else { 4 }).collect(),
    };
    let path = folder.join("late.json");
    std::fs::write(&path, write(&trace)).unwrap();
    format!(
        "\n[[clusters]]\nname = \"east\"\nregion = \"aws/us-east-1\"\naccelerators = \"A10G:1\"\non_demand = 1.2\n\
         market.trace = \"{}\"\n",
        path.display()
    )
}

#[test]
fn the_optimum_knows_what_comes_and_waits_as_long_as_the_deadline_allows() {
    let folder = tempfile::tempdir().unwrap();
    let text = WORLD.to_owned() + &late(folder.path());
    let paid = 1.2 * (6.0 + 80.0 / 3_600.0);
    // With 18 hours it waits for spot. With 378 minutes for 360 of work and two boots of one it waits 16 minutes, works
    // 43 on demand, of 44 that are paid for, and 317 on spot, of 318.
    for (deadline, best) in [("3.0", 0.4 * 361.0 / 60.0), ("1.05", 1.2 * 44.0 / 60.0 + 0.4 * 318.0 / 60.0)] {
        let ran = run(&(text.clone() + &job("one", "0s", "6h", &SAVED.replace("3.0", deadline))), "on-demand");
        close(ran.row.over_optimum_p50, paid / best);
    }
}

#[test]
fn where_there_is_no_optimum_there_is_a_dash_and_a_reason() {
    let shock = "\n[[shocks]]\nat = \"9d\"\nlength = \"1h\"\nprice = 1.5\n";
    for (more, says) in [
        ("ask.deadline = 3.0", "no checkpoints"),
        (&*format!("{SAVED}\nask.capacity = \"on-demand\""), "a certain kind of capacity"),
        (&*format!("{SAVED}\n{shock}"), "shocks"),
    ] {
        let ran = ran("cheapest", more);
        let row = &ran.row;
        assert_eq!((row.with_deadline, row.over_optimum_jobs, row.over_optimum_worst), (1, 0, None), "{says}");
        let note = regret::footnote([&ran.outcome.totals.over_optimum].into_iter()).unwrap();
        assert!(note.contains(&format!("1: {says}")) || note.contains(says), "{note}");
        let of = study::summaries(std::slice::from_ref(row)).remove(0);
        assert_eq!(regret::shown(of.over_optimum_p50, of.over_optimum_p90, of.over_optimum_worst), "-", "{says}");
    }
    let without = ran("cheapest", "");
    assert_eq!(regret::footnote([&without.outcome.totals.over_optimum].into_iter()), None, "no deadline, no note");
}

/// No policy can be below the optimum by more than the minutes to which it is reckoned.
#[test]
fn no_policy_is_better_than_the_optimum() {
    let mut text = WORLD.replace("[world]", "[world]\nsight = \"free\"");
    for (name, region, spot) in [("east", "aws/us-east-1", 0.4), ("west", "aws/us-west-2", 0.5)] {
        let restless = "up = { kind = \"weibull\", shape = 0.7, scale_s = 15000 }\ndown = { kind = \"lomax\", shape = 1.5, \
                        scale_s = 4000 }\nprice =";
        text += &cluster(name, region, spot, 6).replace("price =", restless);
    }
    for number in 0..10 {
        text += &job(&format!("j{number}"), &format!("{}m", number * 61), "5h", SAVED);
    }
    for policy in ["cheapest", "whole-bill", "failover", "on-demand", "uniform-progress", "horizon"] {
        let ran = run(&text, policy);
        assert!(ran.row.over_optimum_jobs >= 8, "{policy}: {:?}", ran.outcome.totals.over_optimum);
        let least = ran.outcome.totals.over_optimum.quantile(0.0).unwrap();
        assert!(least > 0.995, "{policy}: {least}");
        let (p50, worst) = (ran.row.over_optimum_p50.unwrap(), ran.row.over_optimum_worst.unwrap());
        println!("{policy}: {}", regret::shown(ran.row.over_optimum_p50, ran.row.over_optimum_p90, Some(worst)));
        assert!(p50 <= worst && worst < 4.0, "{policy}");
    }
}
