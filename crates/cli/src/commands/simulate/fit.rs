//! `leeway simulate fit`: the few parameters from which a market or a workload like the recorded one can be drawn.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use leeway_simulations::generate::fit::{self, Error, Fitted, Row};
use serde_json::json;

use super::import;
use crate::failure::{Exit, Failure};
use crate::render::Align;
use crate::render::listing::{Column, Keep, Listing};
use crate::terminal::{Terminal, View};

const AFTER: &str = "Files are told apart by what stands in them. Spot traces become one market: zones that are taken for \
alike. Job traces become one workload; a series of rates among them gives the arrivals. DISTANCE is that of Kolmogorov and \
Smirnov: the greatest difference between what was seen and the fitted distribution, from 0 to 1. Of spells that had not \
ended, which are counted under OPEN, only their length so far is used.

Examples:
  leeway simulate fit us-east-1a_v100_1.json -o market.toml
  leeway simulate fit philly-vc-jobs.csv.gz -o philly.toml --source 'Microsoft Philly 2017, CC BY 4.0'
  leeway simulate fit philly-duration-gpus.csv.gz helios-venus-10min.csv.gz -o mixed.toml
  leeway --json simulate fit jobs.csv.gz";

/// Find the parameters of a synthetic market or workload that resembles recorded ones
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Recorded spot markets and job traces.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the parameters to this file, as TOML.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Where the recording is from and under which licence, for the file.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub source: String,
    /// Skip bad lines and count them.
    #[arg(long)]
    pub lenient: bool,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    let bar = bar(args.files.len() as u64, terminal);
    let told = fit::fit(&args.files, args.lenient, &|path: &Path| {
        bar.inc(1);
        bar.set_message(path.display().to_string());
    });
    bar.finish_and_clear();
    let mut fitted = told.map_err(|error| refused(&error))?;
    fitted.params.source.clone_from(&args.source);
    let toml = fitted.params.write();
    if let Some(path) = &args.output {
        fs::write(path, &toml).map_err(|error| Failure::file(path, &error))?;
    }
    terminal.show(
        |view| table(&fitted, args.output.as_deref(), view),
        || {
            json!({
                "output": args.output.as_ref().map(|path| path.display().to_string()),
                "rows": fitted.rows,
                "params": fitted.params,
                "skipped": fitted.skipped,
                "skipped_first": fitted.quoted.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })
        },
    )?;
    for bad in &fitted.quoted {
        terminal.remark(&format!("skipped: {bad}"));
    }
    Ok(Exit::Success)
}

fn refused(error: &Error) -> Failure {
    let code = match error {
        Error::Trace(error) => return import::refused(error),
        Error::Spot(_) => "INVALID_TRACE",
        Error::Nothing | Error::NoJobs | Error::NoArrivals | Error::PricesOnly(_) => "NOTHING_TO_FIT",
        Error::Unlike(..) | Error::NeverUp(_) | Error::Impossible { .. } => "CANNOT_FIT",
    };
    Failure::new(Exit::Usage, code, error.to_string())
}

fn bar(files: u64, terminal: &Terminal) -> ProgressBar {
    if !terminal.lively {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {pos} of {len} files, {elapsed} gone: {msg}");
    let bar = ProgressBar::new(files).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

const COLUMNS: [Column; 5] = [
    ("WHAT", Align::Left, Keep::Always),
    ("FOUND", Align::Left, Keep::Always),
    ("SEEN", Align::Right, Keep::Roomy(2)),
    ("OPEN", Align::Right, Keep::Roomy(3)),
    ("DISTANCE", Align::Right, Keep::Roomy(1)),
];

fn table(fitted: &Fitted, output: Option<&Path>, view: &View) -> String {
    let mut listing = Listing::new(COLUMNS);
    for Row { what, found, seen, censored, distance } in &fitted.rows {
        listing.row([
            what.as_str().into(),
            found.as_str().into(),
            seen.to_string().into(),
            if *censored > 0 { censored.to_string().into() } else { "".into() },
            distance.map_or("".into(), |distance| format!("{distance:.3}").into()),
        ]);
    }
    let mut text = listing.finish(view);
    text.push('\n');
    if fitted.skipped > 0 {
        text.push_str(&format!("{} bad lines skipped\n", fitted.skipped));
    }
    if let Some(path) = output {
        text.push_str(&format!("written to {}\n", path.display()));
    }
    text
}
