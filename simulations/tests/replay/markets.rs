//! What a market that was recorded does to those who come to it again.

use leeway_model::{Millis, Timestamp};
use leeway_simulations::fleet::scenario::build::Choice;

use super::recorded::{folder, live, replay};
use super::worlds::{WORLD, cluster, job};

const CHECKPOINT: &str = r#"ask.checkpoint = { size = "5GB", save = "20s", restore = "60s", every = "10m" }"#;

/// Four jobs of six hours on spot, which is gone for two hours after the third and dearer from the fourth on.
fn shocked(sight: &str) -> String {
    let mut text = WORLD.replace("[world]", &format!("[world]\nsight = \"{sight}\""));
    text += &cluster("east", "aws/us-east-1", 0.4, 4);
    for number in 0..4 {
        text += &job(&format!("j{number}"), &format!("{}s", number * 97), "6h", CHECKPOINT);
    }
    text += "\n[[shocks]]\nat = \"3h\"\nlength = \"2h\"\ncapacity = 0\n";
    text + "\n[[shocks]]\nat = \"4h\"\nlength = \"20h\"\nprice = 2.0\n"
}

#[test]
fn losses_come_back_at_their_moments_with_their_warnings_and_prices_too() {
    for sight in ["free", "tried"] {
        let dir = folder();
        let (_, jobs) = live(&shocked(sight), "cheapest", &dir.path().join("s"));
        let replayed = replay(&dir.path().join("s"), &[]);
        let start: Timestamp = replayed.history.start();
        let choice = Choice { policy: "cheapest".parse().unwrap(), seed: 1, checked: false };
        let setup = replayed.history.setup(&choice);
        let market = setup.clusters[0].market.as_ref().unwrap();
        let tick = |hours: f64| (hours * 3_600_000.0 / market.gap.as_millis() as f64) as usize;
        let lost = tick(3.1);
        assert_eq!(
            (market.data[tick(2.9)], market.data[lost]),
            (if sight == "free" { 4 } else { 1_000_000 }, 0),
            "{sight}"
        );
        assert!(market.price_changes.len() >= 2, "{sight}: {:?}", market.price_changes);
        let interrupted = |jobs: &[&leeway_simulations::fleet::outcome::Ended]| {
            let first = jobs.iter().filter_map(|job| job.stretches.first().map(|one| one.to.since(start)));
            first.map(|at| at.as_millis() / 120_000).collect::<Vec<_>>()
        };
        let then: Vec<_> = jobs.iter().collect();
        assert_eq!(interrupted(&replayed.jobs()), interrupted(&then), "{sight}: to within two minutes");
        assert!(interrupted(&then).iter().all(|at| (90..=92).contains(at)), "{sight}: {:?}", interrupted(&then));
        let notice = replayed.history.setup(&choice).terms.notice;
        assert_eq!(notice, Millis::from_secs(120), "{sight}");
    }
}
