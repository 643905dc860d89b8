//! Pages to look at, with a browser. Nothing is checked beyond that they can be written.

use std::path::PathBuf;

use leeway_simulations::fleet::report;
use leeway_simulations::fleet::scenario::{self, Named};
use leeway_simulations::fleet::study::{self, Plan};
use leeway_simulations::parallel;

/// Writes a page of several policies and one of a single run for each scenario into `LEEWAY_REPORT_DIR`, or the folder for
/// temporary files. `LEEWAY_REPORT_SCENARIOS` names them, with blanks between; without it all that come with the program
/// are taken.
#[test]
#[ignore = "writes pages for people to look at"]
fn pages_of_scenarios_can_be_looked_at() {
    let folder = std::env::var_os("LEEWAY_REPORT_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let names = std::env::var("LEEWAY_REPORT_SCENARIOS").unwrap_or_else(|_| scenario::names().join(" "));
    for name in names.split_whitespace() {
        let scenario = Named::read(name).unwrap();
        let policies = scenario.scenario.policies.iter().map(|policy| policy.parse().unwrap()).collect();
        let first = scenario.scenario.seed;
        let seeds = (0..u64::from(scenario.scenario.repetitions)).map(|number| first + number).collect();
        let mut plan = Plan { scenario, history: None, policies, seeds, threads: parallel::cores(), checked: false };
        let stem = PathBuf::from(name).file_stem().unwrap().to_string_lossy().into_owned();
        let all = study::study(&plan, &|seed| seed == first, &|_| {}).unwrap();
        let write = |kind: &str, page: String| {
            let path = folder.join(format!("{stem}-{kind}.html"));
            std::fs::write(&path, &page).unwrap();
            println!("{}: {} kB", path.display(), page.len() / 1_000);
        };
        write("compare", report::page(&plan, &all));
        plan.policies.truncate(2);
        let last = plan.policies.pop().unwrap();
        plan.policies = vec![last.clone()];
        plan.seeds.truncate(1);
        let one: Vec<_> =
            all.into_iter().filter(|ran| ran.row.policy == last.as_str() && ran.row.seed == first).collect();
        write("run", report::page(&plan, &one));
    }
}
