//! The model on recorded markets, where they are, beside an independent program of it.

use leeway_simulations::spot::bench::{self, Grid, Plan};

use super::markets::{PLAIN, plain};

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
    let Some(set) = crate::shared::folder("spot-traces/public") else { return };
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
