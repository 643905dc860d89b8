//! Reads every sample of a data folder that is not part of the repository: `$LEEWAY_SHARED_DATA`, or `shared/data` beside
//! the repository. Where it is absent these tests say so and pass.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

use std::fs;
use std::path::{Path, PathBuf};

use leeway_market::catalog::{self, Options, Rule};
use leeway_market::egress::{defaults, read_matrix, read_tiers};
use leeway_market::replay::{Options as ReplayOptions, Replay};
use leeway_market::trace;
use leeway_model::egress::{Destination, EgressTable};
use leeway_model::{Bytes, Timestamp};

fn folder(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let root = std::env::var_os("LEEWAY_SHARED_DATA").map_or_else(beside, PathBuf::from);
    let folder = root.join(part);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is absent; set LEEWAY_SHARED_DATA to a folder that has {part}", folder.display());
    None
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|is| is == extension)).collect();
    found.sort();
    found
}

#[test]
fn every_sample_catalog_loads_but_for_parts_of_gpus() {
    let Some(folder) = folder("catalogs") else { return };
    for path in files(&folder, "csv") {
        let file = path.file_name().unwrap().to_str().unwrap();
        let provider = file.split('_').next().unwrap();
        let options = Options::of_provider(provider, Timestamp::ZERO);
        let catalog = catalog::read(fs::File::open(&path).unwrap(), &options).unwrap();
        println!("{file}: {} records, {} offers, set aside {:?}", catalog.records, catalog.rows.len(), catalog.counts);
        // Machines with a part of a GPU are listed with the count 0; there is no other fault in these files.
        let parts = catalog.counts.get(&Rule::NoAccelerators).copied().unwrap_or(0);
        assert_eq!(catalog.quarantined_total(), parts, "{file}: {:?}", catalog.quarantined);
        assert!(parts == 0 || file.starts_with("aws_gpu_us_east_1"), "{file}");
        assert_eq!(catalog.rows.len() as u64 + catalog.unpriced, 2 * (catalog.records - parts), "{file}");
    }
}

#[test]
fn every_recorded_market_reads_and_replays() {
    let Some(folder) = folder("spot-traces/public") else { return };
    let mut read = 0;
    for family in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for path in files(&family, "json") {
            let file = path.display().to_string();
            let trace = trace::parse(&file, &fs::read(&path).unwrap()).unwrap();
            assert_eq!(trace::parse(&file, trace::write(&trace).as_bytes()).unwrap(), trace, "{file}");
            let replay = Replay::new(&trace, ReplayOptions::default());
            for tick in (0..trace.data.len()).step_by(97) {
                let at = trace.gap.saturating_mul(tick as u64);
                assert_eq!(replay.state_at(at).available, trace.data[tick], "{file} {tick}");
            }
            let reclaims =
                replay.filter(|event| matches!(event.kind, leeway_market::replay::EventKind::Reclaim { .. }));
            assert_eq!(reclaims.count(), trace.summary().losses as usize, "{file}");
            read += 1;
        }
    }
    println!("{read} recorded markets");
    assert!(read > 0);
}

#[test]
fn every_egress_file_reads_and_agrees_with_the_built_in_table() {
    let Some(folder) = folder("catalogs/egress") else { return };
    let matrix = read_matrix(fs::File::open(folder.join("aws_transfer_usd_per_gb.csv")).unwrap(), "aws").unwrap();
    let mut stated = EgressTable::default();
    matrix.apply_to(&mut stated);
    let built_in = defaults();
    let (mut same, mut unknown) = (0, 0);
    for (from, to, tariff) in stated.pairs() {
        match built_in.price(from, Destination::Region(to)) {
            Ok(priced) => {
                assert_eq!(priced.tariff.highest(), tariff.highest(), "{from} {to}");
                same += 1;
            }
            Err(_) => unknown += 1,
        }
    }
    for (from, tariff) in &matrix.internet {
        if let Ok(priced) = built_in.price(from, Destination::Internet) {
            assert_eq!(priced.tariff.highest(), tariff.highest(), "{from}");
        }
    }
    println!("{same} pairs as built in, {unknown} not built in, {} within a region", matrix.within_region);
    assert!(same > 450, "{same}");

    let tiers = read_tiers(fs::File::open(folder.join("egress_tiers_usd_per_gb.csv")).unwrap()).unwrap();
    let aws = tiers.iter().find(|list| &*list.provider == "aws" && list.path.starts_with("internet")).unwrap();
    let home = built_in.price(&"aws/us-east-1".parse().unwrap(), Destination::Internet).unwrap();
    for gb in [1, 100, 101, 20_000, 1_000_000] {
        let (bytes, none) = (Bytes::from_gb(gb), Bytes::ZERO);
        assert_eq!(aws.tariff.cost(bytes, none), home.tariff.cost(bytes, none), "{gb}");
    }
}

#[test]
fn every_measured_matrix_between_clouds_reads() {
    let Some(folder) = folder("spot-traces/public/egress") else { return };
    let aws = read_matrix(fs::File::open(folder.join("aws_egress_usd_per_gb.csv")).unwrap(), "aws").unwrap();
    let clouds = read_matrix(fs::File::open(folder.join("multicloud_egress_usd_per_gb.csv")).unwrap(), "").unwrap();
    println!("{} and {} pairs, {} conflicts", aws.len(), clouds.len(), clouds.conflicts);
    assert_eq!(aws.len(), 1_122);
    assert!(clouds.len() + clouds.within_region as usize <= 4_970 && clouds.len() > 4_900);
    let mut table = EgressTable::default();
    aws.apply_to(&mut table);
    let built_in = defaults();
    for (from, to, tariff) in table.pairs() {
        if let Ok(priced) = built_in.price(from, Destination::Region(to)) {
            assert_eq!(priced.tariff.highest(), tariff.highest(), "{from} {to}");
        }
    }
}
