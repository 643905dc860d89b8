//! `leeway simulate run`: one policy on one scenario, in detail.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use leeway_simulations::fleet::outcome::Sums;
use leeway_simulations::fleet::report::{self, format::dollars};
use leeway_simulations::fleet::run::Progress;
use leeway_simulations::fleet::study::{self, Plan, Ran};
use leeway_simulations::fleet::{export, regret};
use serde_json::json;

use super::world::{self, Many, World};
use crate::failure::{Exit, Failure};
use crate::render::{Align, Field, Grid, Tone};
use crate::terminal::{Terminal, View};

const AFTER: &str =
    "The scheduler, its ledger and its policies are those of 'leeway serve'; the clusters, markets and \
jobs are simulated. Exits with 1 when jobs were left over.

Examples:
  leeway simulate run first-week
  leeway simulate run mass-reclaim --policy cheapest --seed 7 --jobs jobs.csv
  leeway simulate run price-storm --set world.notice=30s --report report.html
  leeway --json simulate run mine.toml";

/// Run one policy on a scenario
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    pub world: World,
    /// The policy, instead of the scenario's first.
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,
    /// Also write each job to this file, as CSV, or as Parquet where its name ends with .parquet.
    #[arg(long, value_name = "FILE")]
    pub jobs: Option<PathBuf>,
    /// Also write a report to this file: one HTML page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    world::writable(args.jobs.as_ref())?;
    let scenario = args.world.read()?;
    let policies = args.policy.iter().cloned().collect();
    let one = Many { policies, repetitions: Some(1), threads: Some(1) };
    let mut plan = args.world.plan(scenario, &one)?;
    plan.policies.truncate(1);
    world::foretell([&plan], terminal)?;
    let ran = go(&plan, args.jobs.is_some() || args.report.is_some(), terminal)?;
    if let Some(path) = &args.jobs {
        world::write(
            path,
            &export::jobs(path, &ran.jobs).map_err(|error| Failure::new(Exit::Error, "EXPORT", error))?,
        )?;
    }
    if let Some(path) = &args.report {
        world::write(path, report::page(&plan, std::slice::from_ref(&ran)).as_bytes())?;
    }
    let outcome = &ran.outcome;
    terminal.show(
        |view| text(&plan, &ran, view),
        || {
            json!({
                "scenario": plan.scenario.name,
                "about": plan.scenario.scenario.about,
                "run": ran.row,
                "teams": outcome.totals.by_team,
                "clusters": outcome.places,
                "budgets": outcome.budgets,
                "refusals": outcome.refusals.0.iter().map(|(code, (count, example))| json!({
                    "code": code, "count": count, "example": example,
                })).collect::<Vec<_>>(),
                "open_states": outcome.open_states.iter().map(|(state, count)| json!({
                    "state": state.as_str(), "count": count,
                })).collect::<Vec<_>>(),
                "open_reasons": outcome.open_reasons.iter().map(|(code, (count, example))| json!({
                    "code": code, "count": count, "example": example,
                })).collect::<Vec<_>>(),
                "failures": outcome.totals.failures,
                "over_optimum_left_out": outcome.totals.over_optimum.left_out,
                "launches_refused": outcome.totals.launches_refused,
                "moved_between_regions_bytes": outcome.moved_between_regions.get(),
                "events": outcome.events,
                "steps": outcome.steps,
            })
        },
    )?;
    if outcome.open > 0 {
        let states = study::open_states(outcome);
        terminal.remark(&format!("note: {} jobs had not ended when the run was given up: {states}", outcome.open));
    }
    for told in study::left_over(std::slice::from_ref(&ran)) {
        terminal.remark(&format!("note: {told}"));
    }
    if let Some(note) = regret::footnote(std::iter::once(&outcome.totals.over_optimum)) {
        terminal.remark(&format!("note: {note}"));
    }
    for (code, count) in &outcome.totals.failures {
        terminal.remark(&format!("note: {count} jobs failed with {code}"));
    }
    for (code, (count, example)) in &outcome.refusals.0 {
        terminal.remark(&format!("note: the scheduler refused {count} with {code}, such as: {example}"));
    }
    Ok(if outcome.open > 0 { Exit::Error } else { Exit::Success })
}

fn go(plan: &Plan, keep_jobs: bool, terminal: &Terminal) -> Result<Ran, Failure> {
    let scenario = &plan.scenario.scenario;
    let bar = if terminal.lively { ProgressBar::new(scenario.length.as_millis()) } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{bar:30} {percent} %, {msg}, {elapsed} gone, {eta} to go");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut progress = |of: Progress| {
        bar.set_position(of.now.since(scenario.start).min(scenario.length).as_millis());
        bar.set_message(format!("{} jobs came, {} ended", of.arrived, of.ended));
    };
    let ran = study::run_one(plan, &plan.policies[0], plan.seeds[0], keep_jobs, &mut progress);
    bar.finish_and_clear();
    ran.map_err(world::failed)
}

fn text(plan: &Plan, ran: &Ran, view: &View) -> String {
    let (row, outcome) = (&ran.row, &ran.outcome);
    let sums = &outcome.totals.all;
    let mut text = format!("{}: {}\n", plan.scenario.name, plan.scenario.scenario.about);
    let paid = row.spot_hours + row.other_hours;
    let share = |part: f64| if paid > 0.0 { part / paid * 100.0 } else { 0.0 };
    text.push_str(&format!("{} with seed {}: {} jobs in {}\n\n", row.policy, row.seed, row.jobs, outcome.length));
    let mut facts = Grid::bare([Align::Left, Align::Right, Align::Left].into_iter(), view);
    let mut fact = |what: &str, value: String, more: String| facts.row([what.into(), value.into(), more.into()]);
    fact("cost", dollars(sums.cost.as_units_f64()), format!("${:.4} for an hour of work", row.cost_per_work_hour));
    fact("egress", dollars(sums.egress.as_units_f64()), format!("{} between regions", outcome.moved_between_regions));
    if row.time_value_micros > 0 {
        let value = dollars(sums.time_value.as_units_f64());
        fact("time", value, "what hours from submission to end were worth, by value_per_hour".into());
    }
    fact("done", row.succeeded.to_string(), format!("{} failed, {} left over", row.failed, row.open));
    if row.with_deadline > 0 {
        fact("deadlines", row.with_deadline.to_string(), format!("{} missed", row.missed));
    }
    if row.with_deadline > 0 {
        let shown = regret::shown(row.over_optimum_p50, row.over_optimum_p90, row.over_optimum_worst);
        let says = format!("half, 90 % and worst of {} jobs", row.over_optimum_jobs);
        fact("over optimum", shown, says);
    }
    fact("machine-hours", format!("{paid:.0}"), format!("{:.0} % spot", share(row.spot_hours)));
    fact("work", format!("{:.0} h", row.work_hours), format!("{:.1} h more were lost and done again", row.lost_hours));
    fact(
        "interruptions",
        row.interruptions.to_string(),
        format!("{} launches found no capacity", outcome.totals.launches_refused),
    );
    fact(
        "wait",
        format!("{:.2} h", row.wait_mean_hours),
        format!(
            "half under {:.2} h, 90 % under {:.2} h, worst {:.1} h",
            row.wait_p50_hours, row.wait_p90_hours, row.wait_max_hours
        ),
    );
    if row.carbon_kg > 0.0 {
        fact("CO2", format!("{:.0} kg", row.carbon_kg), String::new());
    }
    text.push_str(&facts.finish());
    if outcome.totals.by_team.len() > 1 {
        text.push('\n');
        text.push_str(&teams(outcome.totals.by_team.iter(), view));
    }
    if plan.scenario.scenario.budgets.is_empty() {
        return text;
    }
    text.push('\n');
    let columns = [
        ("BUDGET", Align::Left),
        ("CAP", Align::Right),
        ("SPENT", Align::Right),
        ("OF CAP", Align::Right),
        ("OVERRUN", Align::Right),
    ];
    let mut grid = Grid::new(&columns, view);
    for budget in &outcome.budgets {
        let cap = budget.cap.as_units_f64();
        let spent = budget.posted.as_units_f64();
        let overrun = budget.overrun.as_units_f64();
        grid.row([
            budget.budget.as_str().into(),
            dollars(cap).into(),
            dollars(spent).into(),
            format!("{:.0} %", if cap > 0.0 { spent / cap * 100.0 } else { 0.0 }).into(),
            if overrun > 0.0 { Field::new(dollars(overrun), Tone::Bad) } else { "".into() },
        ]);
    }
    text.push_str(&grid.finish());
    text
}

fn teams<'a>(teams: impl Iterator<Item = (&'a Box<str>, &'a Sums)>, view: &View) -> String {
    let columns = [
        ("TEAM", Align::Left),
        ("JOBS", Align::Right),
        ("COST", Align::Right),
        ("WORK", Align::Right),
        ("MEAN WAIT", Align::Right),
        ("INTERRUPTIONS", Align::Right),
    ];
    let mut grid = Grid::new(&columns, view);
    for (team, sums) in teams {
        let team = if team.is_empty() { "-" } else { team };
        grid.row([
            team.into(),
            sums.jobs.to_string().into(),
            dollars(sums.cost.as_units_f64()).into(),
            format!("{:.0} h", sums.work_hours).into(),
            format!("{:.2} h", sums.wait_hours / sums.jobs.max(1) as f64).into(),
            sums.interruptions.to_string().into(),
        ]);
    }
    grid.finish()
}
