//! `leeway demo`: what it promises to a newcomer.

use leeway_tests::cli;

#[tokio::test]
async fn the_demonstration_survives_an_interruption_and_a_loss_and_saves_money() {
    let report = cli::leeway(&["--json", "demo"]).await.ok().json();
    assert_eq!(report["job_state"], "succeeded", "{report:#}");
    assert_eq!(report["digest_matches"], true, "{report:#}");
    let runs = report["runs"].as_array().unwrap();
    let ends: Vec<&str> = runs.iter().map(|run| run["end_reason"].as_str().unwrap()).collect();
    assert!(ends.len() >= 3, "{ends:?}");
    for wanted in ["interrupted", "lost", "succeeded"] {
        assert!(ends.contains(&wanted), "{ends:?}");
    }
    let micros = |value: &serde_json::Value| value.as_i64().unwrap();
    let cost = micros(&report["cost_micros"]);
    assert!(cost > 0 && cost < micros(&report["on_demand_cost_micros"]), "{report:#}");
    assert_eq!(runs.iter().map(|run| micros(&run["cost_micros"])).sum::<i64>(), cost);
    assert_eq!(micros(&report["budget"]["posted_micros"]), cost);
    assert_eq!(micros(&report["budget"]["held_micros"]), 0);
    let verified = report["webhooks_verified"].as_u64().unwrap();
    assert!(verified > 0);
    assert_eq!(report["webhooks_received"].as_u64().unwrap(), verified);
}
