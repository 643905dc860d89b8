//! Folders of traces: what is measured from them, and what is said of those that are wrong.

use std::fs;
use std::path::Path;

use leeway_market::trace::{Kind, SpotTrace, write};
use leeway_model::{Bytes, Millis, Rate};
use leeway_simulations::random::stream;
use leeway_simulations::spot::bench::{self, Family, Grid, Part, Plan};
use leeway_simulations::spot::{export, set, summary};

use super::markets::plain;

fn trace(region: &str, zone: &str, data: Vec<u32>) -> SpotTrace {
    SpotTrace {
        family: "made".into(),
        region: region.parse().unwrap(),
        zone: zone.into(),
        instance_type: "gpu-1".into(),
        accelerators: None,
        nodes_requested: 4,
        kind: Kind::AvailabilityProbe,
        gap: Millis::from_secs(600),
        start: None,
        on_demand: Rate::parse_decimal("3.06").unwrap(),
        spot: Rate::parse_decimal("0.918").unwrap(),
        price_changes: Vec::new(),
        notices: Vec::new(),
        missing_ticks: Vec::new(),
        data,
    }
}

/// A set with one family of three zones in two regions.
fn set() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let family = folder.path().join("made");
    fs::create_dir(&family).unwrap();
    let mut luck = stream(1, "files");
    for (region, zone) in
        [("aws/us-east-1", "us-east-1a"), ("aws/us-east-1", "us-east-1b"), ("aws/us-west-2", "us-west-2a")]
    {
        let mut nodes = 2;
        let data = (0..600).map(|_| {
            if luck.below(8) == 0 {
                nodes = luck.below(5) as u32;
            }
            nodes
        });
        fs::write(family.join(format!("{zone}.json")), write(&trace(region, zone, data.collect()))).unwrap();
    }
    folder
}

fn plan(set: &Path, gang: u32, multi_region: bool) -> Plan {
    let mut plan = Plan::new(set.to_owned(), Grid::Small, multi_region, leeway_market::egress::defaults());
    plan.families = vec![Family { name: "made".to_owned(), gang }];
    (plan.work_hours, plan.deadline_hours, plan.windows) = (20.0, vec![24.0, 40.0], 3);
    plan
}

fn measured(plan: &Plan) -> bench::Measured {
    bench::run(plan, &plain(), &|_, _| ()).unwrap()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let set = set();
    for multi_region in [false, true] {
        let of = |threads| measured(&Plan { threads: Some(threads), ..plan(set.path(), 1, multi_region) });
        let (one, three) = (of(1), of(3));
        assert_eq!(one, three);
        assert_eq!(summary::rows(&one), summary::rows(&three));
    }
}

#[test]
fn zones_together_cost_no_more_than_the_best_of_them_and_a_gang_more_than_one_node() {
    let set = set();
    let optima = |gang, multi_region| -> Vec<f64> {
        measured(&plan(set.path(), gang, multi_region)).cases.iter().map(|case| case.optimum).collect()
    };
    let (alone, together, gang) = (optima(1, false), optima(1, true), optima(4, false));
    // Two deadlines, three windows, and for one zone two changeovers of which 0.1 h comes first.
    assert_eq!((alone.len(), together.len()), (3 * 2 * 2 * 3, 2 * 3));
    assert!(alone.iter().zip(&gang).all(|(one, four)| one <= four));
    let mut same = plan(set.path(), 1, true);
    same.changeover_hours = vec![0.1];
    let together: Vec<f64> = measured(&same).cases.iter().map(|case| case.optimum).collect();
    for (deadline, window) in (0..2).flat_map(|deadline| (0..3).map(move |window| (deadline, window))) {
        let zone = |zone: usize| alone[zone * 12 + deadline * 6 + window];
        let best = zone(0).min(zone(1)).min(zone(2));
        assert!(together[deadline * 3 + window] <= best + 1e-9);
    }
}

#[test]
fn moving_costs_egress_between_regions_and_nothing_within_one() {
    let set = set();
    let markets = set::read_family(set.path(), "made", 1).unwrap();
    let zones = set::zones(&markets, &leeway_market::egress::defaults(), Bytes::from_gb(50));
    let egress: Vec<&Vec<f64>> = zones.iter().map(|zone| &zone.egress).collect();
    assert_eq!((egress[0][1], egress[2][2]), (0.0, 0.0));
    assert!((egress[0][2] - 1.0).abs() < 1e-9 && egress[2][0] > 0.0, "{egress:?}: 50 GB at 0.02 a GB");
    let runs = measured(&plan(set.path(), 4, true));
    let moved: f64 = runs.cases.iter().flat_map(|case| &case.outcomes).map(|run| run.egress).sum();
    assert!(moved > 0.0, "the rules move in this set");
}

#[test]
fn every_family_is_summed_and_every_run_has_its_line() {
    let set = set();
    let mut plan = plan(set.path(), 1, false);
    plan.families.push(Family { name: "made".to_owned(), gang: 4 });
    let measured = measured(&plan);
    let rows = summary::rows(&measured);
    let families: Vec<&str> = rows.iter().step_by(measured.rules.len()).map(|row| row.family.as_str()).collect();
    assert_eq!(families, ["made:1", "made:4", summary::ALL]);
    for row in &rows {
        assert!(row.ci_low <= row.mean_over_optimum && row.mean_over_optimum <= row.ci_high, "{row:?}");
        assert!(
            row.mean_over_optimum <= row.max_over_optimum && row.p90_over_optimum <= row.max_over_optimum,
            "{row:?}"
        );
        assert!(row.misses == 0 && row.mean_over_optimum >= 1.0, "{row:?}");
    }
    let against = summary::pairs(&measured, "uniform-progress");
    assert_eq!(against.len(), 3 * (measured.rules.len() - 1));
    assert!(summary::pairs(&measured, "nothing").is_empty());
    let mut text = Vec::new();
    export::csv(&measured, &mut text).unwrap();
    let mut csv = csv::Reader::from_reader(text.as_slice());
    assert_eq!(csv.headers().unwrap().iter().take(3).collect::<Vec<_>>(), ["setting", "family", "market"]);
    assert_eq!(csv.records().map(Result::unwrap).count(), measured.cases.len() * measured.rules.len());
}

#[test]
fn what_is_chosen_on_one_half_is_judged_on_the_other() {
    let set = set();
    let starts = |part| -> Vec<usize> {
        let cases = measured(&Plan { part, deadline_hours: vec![24.0], ..plan(set.path(), 1, true) }).cases;
        cases.iter().map(|case| case.start).collect()
    };
    // 600 ticks, windows of 144.
    assert_eq!(starts(Part::Whole), [0, 228, 456]);
    assert_eq!(starts(Part::FirstHalf), [0, 78, 156]);
    assert_eq!(starts(Part::SecondHalf), [300, 378, 456]);
}

#[test]
fn the_rule_that_is_told_the_laws_stands_behind_the_others_and_keeps_its_deadlines() {
    let set = set();
    for multi_region in [false, true] {
        let plan = Plan { told: true, deadline_hours: vec![24.0], windows: 1, ..plan(set.path(), 1, multi_region) };
        let measured = measured(&plan);
        assert_eq!(measured.rules.last().map(String::as_str), Some("horizon-told"));
        for case in &measured.cases {
            assert_eq!(case.outcomes.len(), measured.rules.len());
            let told = case.outcomes.last().unwrap();
            assert!(!told.missed && told.cost >= case.optimum - 1e-9, "{case:?}");
        }
    }
}

#[test]
fn a_set_that_cannot_be_measured_says_where_and_why() {
    let check = |plan: &Plan, words: &[&str]| {
        let error = bench::run(plan, &plain(), &|_, _| ()).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}: {words:?}");
    };
    let set = set();
    let plan = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan(set.path(), 1, true);
        change(&mut plan);
        plan
    };
    check(&plan(&|plan| plan.families[0].name = "mad".to_owned()), &["no folder 'mad'", "made"]);
    check(&plan(&|plan| plan.families[0].name = "../made".to_owned()), &["no folder '../made'"]);
    check(&plan(&|plan| plan.set = "/nowhere".into()), &["/nowhere"]);
    check(&plan(&|plan| plan.work_hours = 24.0), &["24 h of work", "later deadline"]);
    check(&plan(&|plan| plan.deadline_hours = vec![200.0]), &["as long as the shortest deadline, 200 h"]);
    check(&plan(&|plan| plan.work_hours = 20.0001), &["the work must be a whole number of seconds"]);
    let bad = set.path().join("made/us-east-1b.json");
    let text = fs::read_to_string(&bad).unwrap();
    for (from, to, field) in [("\"gap_seconds\": 600", "\"gap_seconds\": -1", "gap_seconds"), ("[", "[7, ", "data[0]")]
    {
        let at = text.rfind(from).unwrap();
        fs::write(&bad, format!("{}{to}{}", &text[..at], &text[at + from.len()..])).unwrap();
        check(&plan(&|_| {}), &["us-east-1b.json", field]);
    }
    fs::write(&bad, "").unwrap();
    check(&plan(&|_| {}), &["us-east-1b.json", "EOF"]);
    fs::write(&bad, text.replace("\"gap_seconds\": 600", "\"gap_seconds\": 300")).unwrap();
    check(&plan(&|_| {}), &["us-east-1b", "300", "600", "must agree"]);
}
