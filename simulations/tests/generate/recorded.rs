//! Fits of the recordings, where they are.

use std::path::PathBuf;

use leeway_simulations::generate::fit::{Fitted, fit};

fn show(name: &str, fitted: &Fitted) {
    for row in &fitted.rows {
        let distance = row.distance.map_or("-".to_owned(), |distance| format!("{distance:.3}"));
        println!(
            "{name}: {}: {} ({} seen, {} censored, distance {distance})",
            row.what, row.found, row.seen, row.censored
        );
    }
}

#[test]
fn every_recorded_market_that_has_capacity_is_fitted() {
    let Some(folder) = crate::shared::folder("spot-traces/public") else { return };
    let mut fitted = 0;
    for family in std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let files = std::fs::read_dir(&family).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|is| is == "json")).collect();
        files.sort();
        for path in files {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            match fit(&[&path], false, &|_| {}) {
                Ok(found) => {
                    show(&name, &found);
                    fitted += 1;
                }
                Err(error) => assert!(error.to_string().contains("never has capacity"), "{name}: {error}"),
            }
        }
    }
    assert!(fitted > 40, "{fitted}");
}

#[test]
fn every_recorded_workload_with_arrivals_is_fitted() {
    let Some(folder) = crate::shared::folder("job-traces") else { return };
    for names in [
        &["philly-vc-jobs"][..],
        &["openb-pods"],
        &["alibaba2025-dlrm-instances"],
        &["sia-saturn"],
        &["swf-lcg"],
        &["swf-nasa-ipsc"],
        &["philly-duration-gpus", "helios-venus-10min"],
    ] {
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.join(format!("{name}.csv.gz"))).collect();
        let fitted = fit(&paths, false, &|_| {}).unwrap();
        show(names[0], &fitted);
        assert!(fitted.params.workload.is_some());
    }
}
