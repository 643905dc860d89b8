//! Every rule for deadlines on a folder of recorded markets, quickly, for whoever works on a rule:
//!
//! ```text
//! cargo run --release -p leeway-simulations --example bench_spot -- DIR [full|small] [one|multi] [RUNS.csv] [RULE...]
//! ```

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use leeway_policies::deadline;
use leeway_simulations::spot::bench::{self, Grid, Plan};
use leeway_simulations::spot::{export, summary};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let set = words.next().ok_or("usage: bench_spot DIR [full|small] [one|multi] [RUNS.csv or -] [RULE...]")?;
    let grid = if words.next().as_deref() == Some("full") { Grid::Full } else { Grid::Small };
    let is_multi = words.next().as_deref() == Some("multi");
    let runs = words.next().filter(|path| path != "-");
    let names: Vec<String> = words.collect();
    let plan = Plan::new(PathBuf::from(set), grid, is_multi, leeway_market::egress::defaults());
    let mut rules = deadline::rules();
    rules.retain(|rule| names.is_empty() || names.iter().any(|name| name == rule.name()));
    let began = Instant::now();
    let measured = bench::run(&plan, &rules, &|_, _| true)?;
    println!("{} windows in {:.1} s", measured.cases.len(), began.elapsed().as_secs_f64());
    for row in summary::rows(&measured) {
        println!(
            "{:23} {:24} {:18} {:5} missed {:3}  over optimum {:.4} [{:.4} {:.4}] p90 {:.3} max {:.3}  of on demand {:.3}  launches {:.1} moves {:.1}",
            row.setting,
            row.family,
            row.policy,
            row.windows,
            row.misses,
            row.mean_over_optimum,
            row.ci_low,
            row.ci_high,
            row.p90_over_optimum,
            row.max_over_optimum,
            row.mean_cost_over_on_demand,
            row.mean_launches,
            row.mean_moves
        );
    }
    if let Some(path) = runs {
        fs::write(path, export::csv(&measured))?;
    }
    Ok(())
}
