//! How close the replay of a history is to what happened, and whether another policy differs the way it must.

use super::recorded::{folder, live, replay};
use super::worlds::{WORLD, cluster, job};

const CHECKPOINT: &str = r#"ask.checkpoint = { size = "5GB", save = "20s", restore = "60s" }"#;

/// A cluster whose spot machines come and go and whose price moves.
fn restless(name: &str, region: &str, spot: f64) -> String {
    const SPELLS: &str = r#"up = { kind = "weibull", shape = 0.7, scale_s = 20000 }
down = { kind = "lomax", shape = 1.5, scale_s = 4000 }
price = { deviation = 0.2, "#;
    cluster(name, region, spot, 2).replace("price = { ", SPELLS)
}

/// Two days of jobs of one to seven hours, some with a deadline.
fn world(sight: &str) -> String {
    let mut text = WORLD.replace("[world]", &format!("[world]\nsight = \"{sight}\""));
    text += &restless("east", "aws/us-east-1", 0.4);
    text += &restless("west", "aws/us-west-2", 0.5);
    text += "\n[[budgets]]\nname = \"lab\"\ncap = 5000\n";
    for number in 0..24 {
        let deadline = if number % 4 == 0 { "\nask.deadline = 3.0" } else { "" };
        let at = format!("{}m", number * 83);
        let runtime = format!("{}m", 60 + (number * 37) % 360);
        text += &job(&format!("j{number}"), &at, &runtime, &format!("{CHECKPOINT}{deadline}"));
    }
    text
}

/// The tolerances are shares of the whole cost. What differs where capacity is observed: each start takes the mean and
/// not its own time, and instants are those of ticks of ten seconds, so that a job may find its place some seconds earlier
/// or later; and the simulated programs of the record tell of no save but the last, so that the pauses of the others are
/// read as work, up to a fiftieth of it. Where capacity must be inferred, nobody knows when a market without machines had some again until somebody
/// tried.
#[test]
fn the_recorded_policy_costs_nearly_what_it_cost() {
    for (sight, tolerance) in [("free", 0.03), ("tried", 0.10)] {
        let dir = folder();
        let (outcome, jobs) = live(&world(sight), "whole-bill", &dir.path().join("s"));
        let sums = &outcome.totals.all;
        assert!(outcome.is_complete && sums.succeeded == 24 && sums.interruptions >= 5, "{sight}: {sums:?}");
        assert_eq!(
            outcome.totals.launches_refused > 0,
            sight == "tried",
            "{sight}: where all is seen, nothing is tried"
        );
        let replayed = replay(&dir.path().join("s"), &["on-demand"]);
        // What is read is what happened, to the last micro.
        let happened = &replayed.happened;
        assert_eq!((happened.ran.row.cost_micros, happened.ran.row.jobs), (sums.cost.get(), 24), "{sight}");
        assert_eq!(
            (happened.ran.row.interruptions, happened.ran.row.missed),
            (sums.interruptions, sums.missed),
            "{sight}"
        );
        for (was, is) in jobs.iter().zip(&happened.ran.jobs) {
            assert_eq!(
                (was.cost, was.ended, &was.stretches),
                (is.cost, is.ended, &is.stretches),
                "{sight}: {}",
                was.name
            );
            let work = is.work.as_secs_f64() / was.work.as_secs_f64() - 1.0;
            assert!(work.abs() < 0.02, "{sight}: {}: {} of work read as {}", was.name, was.work, is.work);
        }
        let check = &replayed.check;
        println!("{sight}: {}", replayed.history.check_text(check));
        assert_eq!((check.jobs, check.left_out, replayed.history.estimated()), (24, 0, 0), "{sight}");
        let apart = check.difference.unwrap();
        assert!(apart.abs() < tolerance, "{sight}: {apart} {check:?}");
        // On demand nothing is ever taken, and every hour costs two to three times as much.
        let (own, other) = (&replayed.of("whole-bill").row, &replayed.of("on-demand").row);
        assert_eq!((other.interruptions, other.spot_hours, other.succeeded), (0, 0.0, 24), "{sight}: {other:?}");
        assert!(other.cost_micros > own.cost_micros * 3 / 2, "{sight}: {} and {}", own.cost_micros, other.cost_micros);
    }
}

#[test]
fn a_history_is_the_same_however_often_it_is_replayed() {
    let dir = folder();
    live(&world("free"), "cheapest", &dir.path().join("s"));
    let rows = || replay(&dir.path().join("s"), &["whole-bill", "failover"]).ran.into_iter().map(|ran| ran.row);
    assert!(rows().eq(rows()));
}

/// Rows alone have no prices between two placements and no capacity.
#[test]
fn an_export_is_replayed_out_of_its_rows() {
    let dir = folder();
    let (outcome, _) = live(&world("free"), "whole-bill", &dir.path().join("s"));
    let whole = replay(&dir.path().join("s"), &[]);
    let file = dir.path().join("out.export");
    leeway_store::export(&dir.path().join("s"), &file, leeway_store::Options::small()).unwrap();
    let rows = replay(&file, &[]);
    assert!(!rows.history.past().is_whole && whole.history.past().is_whole);
    // A simulated server forgets finished jobs within the hour; their money stays in the ledger.
    let (forgotten, cost) = rows.history.forgotten();
    assert_eq!(forgotten + rows.happened.ran.row.jobs, 24);
    assert_eq!(cost.get() + rows.happened.ran.row.cost_micros, outcome.totals.all.cost.get());
    assert!(rows.history.notes(&rows.happened).iter().any(|note| note.contains("forgotten")));
    assert!(rows.history.assumptions().iter().any(|says| says.contains("only rows are left")));
}
