//! `leeway simulate replay`: an installation's own history under other policies.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leeway_model::Name;
use leeway_server::{Settings, Sources};
use leeway_simulations::fleet::export;
use leeway_simulations::fleet::history::{AS_IT_HAPPENED, Check, Error, Happened, History};
use leeway_simulations::fleet::report::{self, format::plural};
use leeway_simulations::fleet::study::{self, Plan, Row};
use leeway_simulations::parallel;
use serde_json::json;

use super::super::store::store_dir;
use super::compare::table;
use super::world::{self, Files};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

const AFTER: &str = "Reads the data directory of a stopped server, or an export, and changes nothing. The first row is \
what the ledger has. The row below it is the same jobs simulated under the policy that placed them then: how far these two \
are from each other is how far the model may be trusted. AGAINST is beside that second row.

The README of 'simulations' says what is assumed; '--json' and '--report' have it in full. A data directory has the whole \
history; an export only has rows, so prices and capacity are known less well. Exits with 1 when jobs were left over.

Examples:
  leeway simulate replay --from /var/lib/leeway
  leeway simulate replay --from /var/lib/leeway --policy on-demand --policy cheapest --report report.html
  leeway simulate replay --from leeway.export --config /etc/leeway/leeway.toml
  leeway --json simulate replay --from /var/lib/leeway --policy failover";

/// Replay an installation's own history under other policies
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The data directory of a stopped server, or a file that 'leeway store export' wrote.
    #[arg(long, value_name = "STORE")]
    pub from: PathBuf,
    /// A policy to try; give it once for each. Otherwise all that there are.
    #[arg(long = "policy", value_name = "NAME")]
    pub policies: Vec<String>,
    /// The server's configuration file, for what no store remembers: speeds of machines, prices of egress, cool-downs.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the scheduler's invariants after every step; several times slower.
    #[arg(long)]
    pub check: bool,
    /// Threads; as many as there are cores when not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
    #[command(flatten)]
    pub files: Files,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    world::writable(args.files.runs.as_ref())?;
    let asked = world::policies(&args.policies)?;
    let settings = args.config.as_deref().map(settings).transpose()?;
    let from = if args.from.is_dir() { store_dir(&args.from) } else { args.from.clone() };
    let history = Arc::new(History::read(&from, settings.map(|of| of.core())).map_err(|error| refused(&error))?);
    let plan = plan(args, &history, asked);
    let bar = world::bar(terminal, plan.policies.len());
    let told = study::study(&plan, &|_| true, &|_| bar.inc(1));
    bar.finish_and_clear();
    let ran = told.map_err(world::failed)?;
    let rows: Vec<Row> = ran.iter().map(|ran| ran.row.clone()).collect();
    let summaries = study::summaries(&rows);
    let happened = history.happened();
    let check = history.check(&happened, plan.policies[0].as_str(), &ran);
    let (notes, warnings) = (history.notes(&happened), plan.warnings(&rows));
    if let Some(path) = &args.files.runs {
        let all: Vec<Row> = std::iter::once(happened.ran.row.clone()).chain(rows.iter().cloned()).collect();
        world::write(path, &export::runs(path, &all).map_err(|error| Failure::new(Exit::Error, "EXPORT", error))?)?;
    }
    if let Some(path) = &args.files.report {
        world::write(path, report::page(&plan, &ran).as_bytes())?;
    }
    terminal.show(
        |view| text(&history, &happened, &check, &table(Some(&happened.summary), &summaries, view)),
        || {
            json!({
                "from": args.from.display().to_string(),
                "history": facts(&history),
                "happened": happened.ran.row,
                "check": check,
                "policies": summaries,
                "runs": rows,
                "notes": notes,
                "assumptions": history.assumptions(),
                "warnings": warnings,
            })
        },
    )?;
    for note in notes.iter().chain(&warnings).chain(&study::left_over(&ran)) {
        terminal.remark(&format!("note: {note}"));
    }
    Ok(if rows.iter().any(|row| row.open > 0) { Exit::Error } else { Exit::Success })
}

/// The recorded policy first, by which the model is checked, and then those that were asked for.
fn plan(args: &Args, history: &Arc<History>, asked: Vec<Name>) -> Plan {
    let tried = if asked.is_empty() { leeway_policies::all().names().cloned().collect() } else { asked };
    let mut policies = vec![history.recorded_policy()];
    policies.extend(tried.into_iter().filter(|name| *name != history.recorded_policy()));
    Plan {
        scenario: history.facade(&policies),
        history: Some(history.clone()),
        policies,
        // Nothing in the replayed world is left to luck.
        seeds: vec![1],
        threads: args.threads.map_or_else(parallel::cores, |threads| threads as usize),
        checked: args.check,
    }
}

/// A server's configuration.
fn settings(path: &Path) -> Result<Settings, Failure> {
    let sources = Sources { file: Some(path.to_owned()), ..Sources::default() };
    Settings::load(&sources).map_err(|problems| Failure::new(Exit::Usage, "CONFIG", problems.to_string()))
}

fn refused(error: &Error) -> Failure {
    Failure::new(Exit::Usage, error.code(), error.to_string())
}

fn facts(history: &History) -> serde_json::Value {
    let (forgotten, cost) = history.forgotten();
    json!({
        "whole": history.past().is_whole,
        "from_ms": history.start().as_millis(),
        "length_hours": history.length().as_hours_f64(),
        "jobs": history.past().jobs.len(),
        "jobs_estimated": history.estimated(),
        "jobs_forgotten": forgotten,
        "forgotten_micros": cost.get(),
        "policies": history.policies(),
    })
}

fn text(history: &History, happened: &Happened, check: &Check, table: &str) -> String {
    let jobs = plural(history.past().jobs.len() as f64, "job", "jobs");
    let mut text = format!("{jobs} in {}, placed by {}\n\n{table}\n\n", history.length(), history.policies_text());
    text.push_str(&format!("Check of the model: {}.\n", history.check_text(check)));
    if check.jobs < happened.ran.row.jobs {
        text.push_str(&format!("Jobs that ended only then are in '{AS_IT_HAPPENED}' and not in the check.\n"));
    }
    text
}
