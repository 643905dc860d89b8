//! `leeway simulate bench-spot`: rules for deadlines over many windows, each beside its optimum.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use leeway_model::Bytes;
use leeway_policies::deadline::{self, Rule};
use leeway_simulations::spot::bench::{self, Family, Plan};
use leeway_simulations::spot::model::Sight;
use leeway_simulations::spot::summary::{self, Row};
use leeway_simulations::spot::{export, set};
use serde_json::json;

use super::{hours, hours_or_none, refused};
use crate::failure::{Exit, Failure};
use crate::render::listing::{Column, Keep, Listing};
use crate::render::{Align, Field, Tone};
use crate::terminal::{Terminal, View};

const AFTER: &str =
    "DIR has a folder for each family, with a file in the spot-trace-v1 format for each zone. OVER OPTIMUM \
is the mean over windows of what a rule pays divided by the least that any schedule could have paid, with the 95 % \
interval of a bootstrap over windows. Exits with 1 when a rule missed a deadline.

Examples:
  leeway simulate bench-spot --set traces --grid small
  leeway simulate bench-spot --set traces --family gcp-2025-h100:16 --policy uniform-progress --policy greedy-spot
  leeway --json simulate bench-spot --set traces --multi-region
  leeway simulate bench-spot --set traces --deadline-h 60 --changeover-h 0.2 --windows 20 --runs runs.csv";

/// Measure rules for deadlines against the optimum over many windows of recorded spot markets
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The folder of traces.
    #[arg(long, value_name = "DIR")]
    pub set: PathBuf,
    /// A family of traces and the nodes that the job needs at once; give it once for each. Otherwise the usual ones.
    #[arg(long = "family", value_name = "FAMILY:GANG")]
    pub families: Vec<Family>,
    /// How many windows and tasks.
    #[arg(long, value_enum, default_value_t = Grid::Full)]
    pub grid: Grid,
    /// Let the job move between the zones of a family; moving the checkpoint costs egress.
    #[arg(long)]
    pub multi_region: bool,
    /// Only this rule; give it once for each.
    #[arg(long = "policy", value_name = "NAME", value_parser = rule)]
    pub policies: Vec<String>,
    /// What a rule sees of zones where it holds nothing.
    #[arg(long, value_enum, default_value_t = See::Free)]
    pub see: See,
    /// Hours of useful work, instead of the grid's.
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    pub work_h: Option<f64>,
    /// Hours from the start to the deadline, instead of the grid's; give it once for each.
    #[arg(long, value_name = "HOURS", value_parser = hours)]
    pub deadline_h: Vec<f64>,
    /// Hours that each launch takes before work begins, instead of the grid's; give it once for each.
    #[arg(long, value_name = "HOURS", value_parser = hours_or_none)]
    pub changeover_h: Vec<f64>,
    /// Most windows of one market for each deadline, instead of the grid's.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub windows: Option<u32>,
    /// The half of each trace that windows are cut from.
    #[arg(long, value_enum, default_value_t = Part::Whole)]
    pub part: Part,
    /// Also measure horizon-told: horizon with the laws of the very recordings in place of its generic ones, a yardstick of
    /// what there is to learn.
    #[arg(long)]
    pub told: bool,
    /// What a move takes to the other region.
    #[arg(long, default_value = "50GB", value_name = "SIZE")]
    pub checkpoint: Bytes,
    /// Also write every run to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    pub runs: Option<PathBuf>,
    /// Threads; as many as there are cores when not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
}

/// How many windows and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Grid {
    /// Every deadline and changeover, many windows.
    Full,
    /// A first look.
    Small,
}

/// The half of each trace that windows are cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// All of it.
    Whole,
    /// What came first, to choose and learn on.
    First,
    /// What came later, to judge on.
    Second,
}

/// What a rule sees of zones where it holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum See {
    /// Whether they have spot capacity, for nothing.
    Free,
    /// Nothing, unless it tries there or pays a started minute for a probe.
    Tried,
}

/// Reads the name of a rule.
fn rule(text: &str) -> Result<String, String> {
    let rules = deadline::rules();
    if rules.iter().any(|rule| rule.name() == text) {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
    Err(format!("there is no rule '{}'; there are {}", text.escape_debug(), names.join(", ")))
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    let plan = plan(args)?;
    let mut rules = deadline::rules();
    rules.retain(|rule| args.policies.is_empty() || args.policies.iter().any(|name| name == rule.name()));
    let measured = measure(&plan, &rules, terminal)?;
    if let Some(path) = &args.runs {
        let written = File::create(path).and_then(|file| export::csv(&measured, file));
        written.map_err(|error| Failure::file(path, &error))?;
    }
    let rows = summary::rows(&measured);
    terminal.show(
        |view| table(&rows, view),
        || {
            json!({
                "set": plan.set.display().to_string(),
                "work_hours": plan.work_hours,
                "deadline_hours": plan.deadline_hours,
                "changeover_hours": plan.changeover_hours,
                "windows_per_market": plan.windows,
                "checkpoint_bytes": plan.checkpoint.get(),
                "sees": if plan.sight == Sight::Free { "free" } else { "tried" },
                "rows": rows,
                "pairs": summary::pairs(&measured, BASELINE),
                "warnings": measured.warnings,
            })
        },
    )?;
    for warning in &measured.warnings {
        terminal.remark(&format!("note: {warning}"));
    }
    Ok(if rows.iter().any(|row| row.misses > 0) { Exit::Error } else { Exit::Success })
}

/// What every rule is compared with, window by window.
const BASELINE: &str = "uniform-progress";

fn plan(args: &Args) -> Result<Plan, Failure> {
    let grid = match args.grid {
        Grid::Full => bench::Grid::Full,
        Grid::Small => bench::Grid::Small,
    };
    let mut plan = Plan::new(args.set.clone(), grid, args.multi_region, leeway_market::egress::defaults());
    if args.families.is_empty() {
        plan.families = usual(&plan).map_err(|error| refused(&error))?;
    } else {
        plan.families.clone_from(&args.families);
    }
    if !args.deadline_h.is_empty() {
        plan.deadline_hours.clone_from(&args.deadline_h);
    }
    if !args.changeover_h.is_empty() {
        plan.changeover_hours.clone_from(&args.changeover_h);
    }
    plan.work_hours = args.work_h.unwrap_or(plan.work_hours);
    plan.windows = args.windows.map_or(plan.windows, |windows| windows as usize);
    plan.threads = args.threads.map(|threads| threads as usize);
    plan.checkpoint = args.checkpoint;
    plan.told = args.told;
    plan.part = match args.part {
        Part::Whole => bench::Part::Whole,
        Part::First => bench::Part::FirstHalf,
        Part::Second => bench::Part::SecondHalf,
    };
    plan.sight = match args.see {
        See::Free => Sight::Free,
        See::Tried => Sight::Tried,
    };
    Ok(plan)
}

/// The usual families that the set has; in a set with none of them, each family with a single node.
fn usual(plan: &Plan) -> Result<Vec<Family>, set::Error> {
    let there = set::families(&plan.set)?;
    let mut families = plan.families.clone();
    families.retain(|family| there.contains(&family.name));
    if families.is_empty() {
        families = there.into_iter().map(|name| Family { name, gang: 1 }).collect();
    }
    Ok(families)
}

fn measure(plan: &Plan, rules: &[Arc<dyn Rule>], terminal: &Terminal) -> Result<bench::Measured, Failure> {
    let bar = bar(terminal);
    let told = bench::run(plan, rules, &|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    told.map_err(|error| match error {
        bench::Error::Set(error) => refused(&error),
        bench::Error::Optimum { .. } => Failure::new(Exit::Usage, "NO_OPTIMUM", error.to_string()),
        bench::Error::Hopeless { .. } => Failure::new(Exit::Usage, "HOPELESS", error.to_string()),
        bench::Error::NoWindow(_) => Failure::new(Exit::Usage, "TRACE_TOO_SHORT", error.to_string()),
    })
}

fn bar(terminal: &Terminal) -> ProgressBar {
    if !terminal.lively {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} windows, {elapsed} gone, {eta} to go");
    let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

const COLUMNS: [Column; 11] = [
    ("SETTING", Align::Left, Keep::Always),
    ("FAMILY", Align::Left, Keep::Always),
    ("POLICY", Align::Left, Keep::Always),
    ("WINDOWS", Align::Right, Keep::Roomy(3)),
    ("MISSES", Align::Right, Keep::Filled),
    ("OVER OPTIMUM", Align::Right, Keep::Always),
    ("95 %", Align::Right, Keep::Roomy(1)),
    ("P90", Align::Right, Keep::Always),
    ("WORST", Align::Right, Keep::Always),
    ("OF ON DEMAND", Align::Right, Keep::Roomy(2)),
    ("LAUNCHES", Align::Right, Keep::Roomy(4)),
];

fn table(rows: &[Row], view: &View) -> String {
    let mut listing = Listing::new(COLUMNS);
    for row in rows {
        let misses = row.misses.to_string();
        listing.row([
            row.setting.into(),
            row.family.as_str().into(),
            row.policy.as_str().into(),
            row.windows.to_string().into(),
            if row.misses > 0 { Field::new(misses, Tone::Bad) } else { Field::idle(misses) },
            format!("{:.3}", row.mean_over_optimum).into(),
            format!("{:.3}..{:.3}", row.ci_low, row.ci_high).into(),
            format!("{:.2}", row.p90_over_optimum).into(),
            format!("{:.2}", row.max_over_optimum).into(),
            format!("{:.3}", row.mean_cost_over_on_demand).into(),
            format!("{:.1}", row.mean_launches).into(),
        ]);
    }
    listing.finish(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_not_there_is_answered_with_those_that_are() {
        assert_eq!(rule("uniform-progress").as_deref(), Ok("uniform-progress"));
        assert!(rule("uniform").unwrap_err().contains("uniform-progress"));
    }
}
