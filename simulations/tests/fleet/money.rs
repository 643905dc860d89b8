//! Budgets that do not reach.

use leeway_model::Micros;
use leeway_model::job::JobState;
use leeway_simulations::fleet::study::{self, Ran};

use super::worlds::{WORLD, cluster, job, run};

fn with_cap(cap: &str) -> Ran {
    let mut text = WORLD.to_owned() + &cluster("east", "aws/us-east-1", 0.4, 40);
    text += &format!("\n[[budgets]]\nname = \"lab\"\ncap = {cap}\n");
    for number in 0..4 {
        text += &job(&format!("j{number}"), "0s", "20h", "");
    }
    run(&text, "on-demand")
}

#[test]
fn a_budget_that_does_not_reach_leaves_jobs_open_and_says_so() {
    for cap in ["0", "1", "30"] {
        let ran = with_cap(cap);
        let (row, outcome) = (&ran.row, &ran.outcome);
        assert!(!row.complete && row.open > 0 && row.jobs + row.open == 4, "{cap}: {row:?}");
        assert_eq!(outcome.open_states.values().sum::<u64>(), row.open, "{cap}: {:?}", outcome.open_states);
        assert!(outcome.open_states.contains_key(&JobState::Pending), "{cap}: {:?}", outcome.open_states);
        assert!(study::open_states(outcome).contains("pending"), "{cap}");
        let said = study::warnings(std::slice::from_ref(row), "one seed").join("; ");
        assert!(said.contains(&format!("{} job", row.open)) && said.contains("had not ended"), "{cap}: {said}");
        let why = study::left_over(std::slice::from_ref(&ran)).join("; ");
        assert!(why.contains(&format!("under on-demand {} job", row.open)) && why.contains("BUDGET_"), "{cap}: {why}");
        let lab = &outcome.budgets[0];
        assert!(lab.posted <= lab.cap && lab.overrun == Micros::ZERO, "{cap}: {lab:?}");
    }
}

#[test]
fn a_budget_that_reaches_pays_exactly_for_what_ran() {
    let ran = with_cap("100");
    assert!(ran.row.complete && ran.row.succeeded == 4, "{:?}", ran.row);
    // Four machines at 1.20 an hour, from their coming until they are proven gone: 20 h, 60 s of boot, 20 s to leave.
    let expected = 4.0 * 1.2 * (20.0 + 80.0 / 3_600.0);
    assert!((ran.row.cost().as_units_f64() - expected).abs() < 0.01, "{} for {expected}", ran.row.cost());
    assert_eq!(ran.outcome.budgets[0].posted, ran.row.cost());
}
