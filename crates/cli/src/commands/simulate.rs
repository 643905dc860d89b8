//! `leeway simulate`: what policies and rules would have cost. Needs no server.

use clap::Subcommand;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

mod bench_spot;
mod compare;
mod fit;
mod import;
mod optimum;
mod replay;
mod run;
mod scenarios;
mod sweep;
mod world;

const SIMULATE: &str = "Traces are read as they are; README.md of 'simulations' defines the model.

Examples:
  leeway simulate scenarios
  leeway simulate compare price-storm
  leeway simulate replay --from /var/lib/leeway --policy cheapest
  leeway simulate import auto philly-vc-jobs.csv.gz -o jobs.csv.gz
  leeway simulate optimum traces/gcp-2025-h100/us-east4-a_h100_16.json --gang 16
  leeway simulate bench-spot --set traces --grid small";

/// What policies and rules would have cost in recorded or made-up markets
#[derive(Debug, Subcommand)]
#[command(after_help = SIMULATE)]
pub enum Command {
    /// List the ready scenarios, or print one as a beginning of your own
    Scenarios(scenarios::Args),
    /// Run one policy on a scenario
    Run(run::Args),
    /// Measure policies on a scenario, each with the same seeds
    Compare(compare::Args),
    /// Replay an installation's own history under other policies
    Replay(replay::Args),
    /// Run a scenario under every combination of some settings
    Sweep(sweep::Args),
    /// Turn a recorded job trace into the simulator's own format
    Import(import::Args),
    /// Find the parameters of a synthetic market or workload that resembles recorded ones
    Fit(fit::Args),
    /// The least that a job with a deadline could have cost, and what each rule would have paid
    Optimum(optimum::Args),
    /// Measure rules for deadlines against the optimum over many windows of recorded spot markets
    BenchSpot(bench_spot::Args),
}

pub fn run(command: &Command, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        Command::Scenarios(args) => scenarios::run(args, terminal),
        Command::Run(args) => run::run(args, terminal),
        Command::Compare(args) => compare::run(args, terminal),
        Command::Replay(args) => replay::run(args, terminal),
        Command::Sweep(args) => sweep::run(args, terminal),
        Command::Import(args) => import::run(args, terminal),
        Command::Fit(args) => fit::run(args, terminal),
        Command::Optimum(args) => optimum::run(args, terminal),
        Command::BenchSpot(args) => bench_spot::run(args, terminal),
    }
}

/// Most hours of anything: a century.
const HOURS_MAX: f64 = 876_600.0;

/// Reads hours above zero.
fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hours) if hours > 0.0 && hours <= HOURS_MAX => Ok(hours),
        _ => Err(format!("'{}' is not a number of hours above 0; write for example 52 or 0.1", text.escape_debug())),
    }
}

/// Reads hours that may be zero.
fn hours_or_none(text: &str) -> Result<f64, String> {
    if text.parse() == Ok(0.0) { Ok(0.0) } else { hours(text).map_err(|text| text.replace("above 0", "from 0 on")) }
}

/// A folder or trace that cannot be read.
fn refused(error: &leeway_simulations::spot::set::Error) -> Failure {
    use leeway_simulations::spot::set::Error;
    let code = match error {
        Error::Io { .. } => "FILE",
        Error::Trace(_) | Error::Gaps { .. } => "INVALID_TRACE",
        Error::NoFamily { .. } | Error::NoTraces(_) => "NO_TRACES",
    };
    Failure::new(Exit::Usage, code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_positive_numbers_and_a_changeover_may_take_none() {
        assert_eq!((hours("52"), hours_or_none("0"), hours_or_none("0.1")), (Ok(52.0), Ok(0.0), Ok(0.1)));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "", "5h"] {
            assert!(hours(wrong).unwrap_err().contains("hours"), "{wrong}");
        }
        assert!(hours_or_none("-1").is_err() && hours_or_none("nan").is_err());
    }
}
