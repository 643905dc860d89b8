//! The recorded markets of a folder that is not part of the repository: `$LEEWAY_SHARED_DATA`, or `shared/data` beside the
//! repository. Where it is absent this test says so and passes.

use std::path::{Path, PathBuf};

use leeway_simulations::spot::bench::{self, Grid, Plan};

use super::markets::{PLAIN, plain};

fn folder() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let root = std::env::var_os("LEEWAY_SHARED_DATA").map_or_else(beside, PathBuf::from);
    let folder = root.join("spot-traces/public");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is absent; set LEEWAY_SHARED_DATA to a folder that has spot-traces/public", folder.display());
    None
}

/// For each family: windows; dollars of the optima and of the rules in the order of `PLAIN`, summed over the first
/// window of every trace and all deadlines and changeovers, as an independent program of the same model finds them.
#[rustfmt::skip]
const SUMS: [(&str, usize, [f64; 7]); 5] = [
    ("aws-2022-1node:1", 256, [25543.1691, 37829.7600, 29129.9488, 29565.2292, 29892.3477, 30703.6934, 28056.7783]),
    ("aws-2023-v100:1", 144, [14820.5267, 21242.5200, 17000.7723, 16328.5578, 16778.1337, 17482.5860, 15907.9869]),
    ("gcp-2025-h100:1", 208, [381042.5361, 905574.5431, 436709.1476, 438081.8391, 466000.5057, 498783.9467, 430401.6957]),
    ("gcp-2025-h100:16", 208, [631030.9299, 905574.5431, 696870.6344, 699455.7896, 715141.3265, 739623.7635, 669981.2113]),
    ("aws-2023-v100-16node:16", 48, [5697.5160, 7083.9000, 6072.0090, 6304.2120, 6494.2635, 6675.9000, 6163.9365]),
];

#[test]
fn recorded_markets_cost_what_the_independent_program_says() {
    let Some(set) = folder() else { return };
    let mut plan = Plan::new(set, Grid::Full, false, leeway_market::egress::defaults());
    plan.windows = 1;
    let measured = bench::run(&plan, &plain(), &|_, _| ()).unwrap();
    for (family, windows, sums) in SUMS {
        let cases: Vec<_> = measured.cases.iter().filter(|case| case.family == family).collect();
        assert_eq!(cases.len(), windows, "{family}");
        let near = |found: f64, expected: f64| (found - expected).abs() < 1e-3;
        let best: f64 = cases.iter().map(|case| case.optimum).sum();
        assert!(near(best, sums[0]), "{family}: optima {best}, not {}", sums[0]);
        for (name, expected) in PLAIN.into_iter().zip(&sums[1..]) {
            let at = measured.rules.iter().position(|rule| rule == name).unwrap();
            let cost: f64 = cases.iter().map(|case| case.outcomes[at].cost).sum();
            assert!(near(cost, *expected), "{family} {name}: {cost}, not {expected}");
            assert!(cases.iter().all(|case| !case.outcomes[at].missed), "{family} {name}");
        }
    }
    println!("{} windows agree", measured.cases.len());
}
