//! What befalls clusters: capacity that goes, prices that rise, warnings that come late or not at all.

use leeway_model::job::JobState;
use leeway_model::{Millis, Timestamp};
use leeway_simulations::fleet::study::Ran;

use super::worlds::{WORLD, cluster, clusters, job, named, run};

const CHECKPOINT: &str = r#"ask.checkpoint = { size = "5GB", save = "20s", restore = "60s", every = "10m" }"#;

/// Twenty jobs of six hours on spot, all of which is gone for two hours after the third.
fn reclaimed(world: &str) -> Ran {
    let mut text = world.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 40);
    for number in 0..20 {
        text += &job(&format!("j{number}"), &format!("{}s", number * 97), "6h", CHECKPOINT);
    }
    text += "\n[[shocks]]\nat = \"3h\"\nlength = \"2h\"\ncapacity = 0\n";
    run(&text, "whole-bill")
}

fn start(ran: &Ran) -> Timestamp {
    ran.jobs.iter().map(|job| job.submitted).min().unwrap()
}

#[test]
fn a_capacity_shock_interrupts_and_jobs_go_on_from_their_checkpoints() {
    let ran = reclaimed(WORLD);
    let shock = start(&ran).after(Millis::from_hours(3));
    assert_eq!((ran.row.succeeded, ran.row.complete), (20, true), "{:?}", ran.row);
    assert!(ran.outcome.totals.machines_taken + ran.row.interruptions >= 20, "{:?}", ran.row);
    for job in &ran.jobs {
        assert_eq!(job.state, JobState::Succeeded);
        let (first, second) = (&job.stretches[0], &job.stretches[1]);
        assert!(first.is_spot && first.to >= shock && first.to <= shock.after(Millis::from_mins(3)), "{first:?}");
        assert!(second.from >= shock, "{second:?}");
        // The last save takes 20 s, and its way to the store 5 s more in which the program still works.
        assert!(job.lost <= Millis::from_secs(30), "{}: {} lost", job.name, job.lost);
        // What was done was not done again: six hours and the time for saves, launches and restores.
        assert!(job.turnaround() < Millis::from_mins(6 * 60 + 40), "{}: {}", job.name, job.turnaround());
    }
}

#[test]
fn without_notice_more_work_is_lost_but_no_more_than_since_the_last_checkpoint() {
    let [warned, unwarned] = ["120s", "0s"].map(|notice| reclaimed(&format!("{WORLD}notice = \"{notice}\"\n")));
    assert_eq!((warned.row.succeeded, unwarned.row.succeeded), (20, 20));
    assert!(unwarned.row.lost_hours > warned.row.lost_hours * 2.0, "{:?} {:?}", unwarned.row, warned.row);
    for job in &unwarned.jobs {
        let most = Millis::from_mins(11).saturating_mul(u64::from(job.interruptions));
        assert!(job.interruptions > 0 && job.lost <= most, "{}: {} lost in {}", job.name, job.lost, job.interruptions);
    }
}

#[test]
fn a_price_shock_moves_placement_while_it_lasts() {
    let mut text = WORLD.to_owned() + &cluster("aws", "aws/us-east-1", 0.4, 40);
    text += &cluster("gcp", "gcp/us-central1", 0.5, 40);
    for (name, at) in [("before", "0s"), ("amid", "3h"), ("after", "8h")] {
        text += &job(name, at, "1h", "");
    }
    text += "\n[[shocks]]\nat = \"2h\"\nlength = \"4h\"\nclusters = [\"aws\"]\nprice = 2.5\n";
    for policy in ["whole-bill", "cheapest"] {
        let ran = run(&text, policy);
        let places: Vec<_> = ran.jobs.iter().map(|job| clusters(job)[0].to_owned()).collect();
        assert_eq!(places, ["aws", "gcp", "aws"], "{policy}");
        assert!(ran.jobs.iter().all(|job| job.stretches.iter().all(|stretch| stretch.is_spot)), "{policy}");
    }
}

#[test]
fn the_end_of_one_shock_does_not_end_another() {
    let mut text = WORLD.to_owned() + &cluster("aws", "aws/us-east-1", 0.4, 40);
    text += &cluster("gcp", "gcp/us-central1", 0.5, 40);
    text += &job("amid", "4h", "1h", "");
    for (at, length) in [("1h", "2h"), ("2h", "6h")] {
        text += &format!("\n[[shocks]]\nat = \"{at}\"\nlength = \"{length}\"\nclusters = [\"aws\"]\nprice = 2\n");
    }
    assert_eq!(clusters(&run(&text, "cheapest").jobs[0]), ["gcp"]);
}

#[test]
fn a_shock_of_everything_does_nothing_to_machines_that_are_not_spot() {
    let home = "\n[[clusters]]\nname = \"home\"\nregion = \"onprem/here\"\naccelerators = \"A10G:1\"\ncount = 4\nreserved = 0.3\n";
    let quiet = WORLD.to_owned() + home + &job("one", "0s", "5h", "");
    let shocked = quiet.clone()
        + "\n[[shocks]]\nat = \"1h\"\nlength = \"1h\"\nprice = 9\n"
        + "\n[[shocks]]\nat = \"1h\"\nlength = \"1h\"\ncapacity = 0\n";
    assert_eq!(run(&quiet, "whole-bill").jobs, run(&shocked, "whole-bill").jobs);
    assert_eq!(named(&shocked).scenario.shocks.len(), 2);
}
