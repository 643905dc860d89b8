//! The files that the repository ships: parameters read, and the synthetic markets are what their parameters draw.
//! `LEEWAY_WRITE_TRACES=1` writes the markets anew.

use std::fs;
use std::path::{Path, PathBuf};

use leeway_market::trace;
use leeway_model::resources::Accelerators;
use leeway_simulations::generate::{Limit, Params, Place};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces")
}

/// Thirty days of ticks of ten minutes.
const TICKS: u32 = 4_320;
const SEED: u64 = 1;
const ZONES: [(&str, &str); 3] =
    [("aws/us-east-1", "us-east-1a"), ("aws/us-east-1", "us-east-1b"), ("aws/us-west-2", "us-west-2a")];

#[test]
fn the_synthetic_markets_are_what_their_parameters_draw() {
    let params = Params::read(&folder().join("aws-v100.toml")).unwrap();
    let mut market = params.market.unwrap();
    market.gap_s = 600;
    for (region, zone) in ZONES {
        let place = Place {
            family: "synthetic-v100".into(),
            region: region.parse().unwrap(),
            zone: zone.into(),
            instance_type: "p3.2xlarge".into(),
            accelerators: Some(Accelerators { model: "V100".into(), count: 1 }),
            start: Some("2026-03-01T00:00:00Z".parse().unwrap()),
        };
        let drawn = trace::write(&market.trace(&place, TICKS, SEED).unwrap());
        let path = folder().join(format!("synthetic-v100/{zone}.json"));
        if std::env::var_os("LEEWAY_WRITE_TRACES").is_some() {
            fs::create_dir_all(folder().join("synthetic-v100")).unwrap();
            fs::write(&path, &drawn).unwrap();
        }
        let shipped = fs::read_to_string(&path).unwrap();
        assert!(shipped == drawn, "{zone} differs from what its parameters draw");
        assert!(shipped.len() < 100_000, "{}", shipped.len());
        let summary = trace::parse(zone, shipped.as_bytes()).unwrap().summary();
        println!("{zone}: {summary:?}");
        assert!(summary.losses > 20 && summary.ticks_any > TICKS / 5 && summary.price_changes > 20, "{summary:?}");
    }
}

#[test]
fn every_parameter_file_is_one_that_can_be_drawn_from_and_says_where_it_is_from() {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut seen = 0;
    for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")) {
        let params = Params::read(&path).unwrap();
        assert!(params.source.len() > 20, "{}", path.display());
        if let Some(workload) = &params.workload {
            assert_eq!(workload.jobs(1, Limit::jobs(1_000)).count(), 1_000, "{}", path.display());
        }
        assert!(params.market.is_some() || params.workload.is_some());
        seen += 1;
    }
    assert!(seen >= 3, "{seen}");
}
