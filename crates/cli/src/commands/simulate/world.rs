//! What `run`, `compare` and `sweep` share: which scenario, which policies, which seeds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use leeway_model::Name;
use leeway_simulations::fleet::export;
use leeway_simulations::fleet::scenario::extent::Extent;
use leeway_simulations::fleet::scenario::{self, Named};
use leeway_simulations::fleet::study::{self, Plan};
use leeway_simulations::parallel;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// A scenario and what of it is run.
#[derive(Debug, clap::Args)]
pub struct World {
    /// A ready scenario by name ('leeway simulate scenarios' lists them), or a TOML file.
    #[arg(value_name = "SCENARIO")]
    pub scenario: String,
    /// Lay a value over the scenario; give it once for each.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// Seed of the first run, instead of the scenario's.
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Check the scheduler's invariants after every step; several times slower.
    #[arg(long)]
    pub check: bool,
}

/// How many runs, of which policies, at the same time.
#[derive(Debug, clap::Args)]
pub struct Many {
    /// A policy; give it once for each. Otherwise those of the scenario.
    #[arg(long = "policy", value_name = "NAME")]
    pub policies: Vec<String>,
    /// Runs of each policy, instead of the scenario's.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub repetitions: Option<u32>,
    /// Threads; as many as there are cores when not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: Option<u32>,
}

impl Many {
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(parallel::cores, |threads| threads as usize)
    }
}

/// Reads `KEY=VALUE`.
pub fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("'{}' is not KEY=VALUE; write for example world.notice=30s", text.escape_debug())),
    }
}

impl World {
    /// The scenario with its settings.
    pub fn read(&self) -> Result<Named, Failure> {
        Named::read_with(&self.scenario, &self.settings).map_err(|error| refused(&error))
    }

    /// A plan for the policies and repetitions that are asked for, or the scenario's.
    pub fn plan(&self, scenario: Named, many: &Many) -> Result<Plan, Failure> {
        let of = &scenario.scenario;
        // Also where others are asked for: a mistake in a file should not wait for the day on which it counts.
        let own = policies(&of.policies).map_err(|failure| Failure {
            message: format!("{}: policies: {}", scenario.name, failure.message),
            ..failure
        })?;
        let chosen = if many.policies.is_empty() { own } else { policies(&many.policies)? };
        let wrong = |field: &str, problem: &str| {
            let message = format!("{}: {field}: {problem}", scenario.name);
            Err(Failure::new(Exit::Usage, "INVALID_SCENARIO", message))
        };
        if chosen.is_empty() {
            return wrong("policies", "there is none; name at least one, or leave the key out");
        }
        let first = self.seed.unwrap_or(of.seed);
        let count = many.repetitions.unwrap_or(of.repetitions);
        if !(1..=100_000).contains(&count) {
            return wrong("repetitions", &format!("{count} is not from 1 to 100000"));
        }
        Ok(Plan {
            policies: chosen,
            seeds: (0..u64::from(count)).map(|number| first.wrapping_add(number)).collect(),
            threads: many.threads(),
            checked: self.check,
            history: None,
            scenario,
        })
    }
}

/// Says of plans that will take long that they will; refuses what cannot be held.
pub fn foretell<'a>(plans: impl IntoIterator<Item = &'a Plan>, terminal: &Terminal) -> Result<(), Failure> {
    let (mut largest, mut runs) = (Extent::default(), 0);
    for plan in plans {
        largest = largest.max(plan.scenario.extent().map_err(|error| refused(&error))?);
        runs += plan.policies.len() as u64 * plan.seeds.len() as u64;
    }
    if let Some(warning) = largest.warning(runs) {
        terminal.remark(&format!("note: {warning}"));
    }
    Ok(())
}

/// The policies of these names, each once.
pub fn policies(names: &[String]) -> Result<Vec<Name>, Failure> {
    let known = leeway_policies::all();
    let mut chosen: Vec<Name> = Vec::new();
    for name in names {
        let found = name.parse::<Name>().ok().filter(|name| known.get(name).is_some());
        let Some(found) = found else {
            let known = known.names().map(Name::as_str).collect::<Vec<_>>().join(", ");
            let message = format!("there is no policy '{}'; there are {known}", name.escape_debug());
            return Err(Failure::new(Exit::Usage, "NO_POLICY", message));
        };
        if !chosen.contains(&found) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// A scenario that cannot be read.
pub fn refused(error: &scenario::Error) -> Failure {
    let code = match error {
        scenario::Error::Unknown { .. } => "NO_SCENARIO",
        scenario::Error::Io { .. } => "FILE",
        scenario::Error::Toml { .. } | scenario::Error::Field { .. } => "INVALID_SCENARIO",
        scenario::Error::Market(_) => "INVALID_TRACE",
    };
    Failure::new(Exit::Usage, code, error.to_string())
}

/// A study that came to no result.
pub fn failed(error: study::Error) -> Failure {
    match error {
        study::Error::Scenario(error) => refused(&error),
        study::Error::Policy { .. } => Failure::new(Exit::Usage, "NO_POLICY", error.to_string()),
        study::Error::Run(error) => Failure::new(Exit::Usage, "RUN", error.to_string()),
    }
}

/// A bar over so many runs, where a person sees it.
pub fn bar(terminal: &Terminal, runs: usize) -> ProgressBar {
    if !terminal.lively {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed} gone, {eta} to go");
    let bar = ProgressBar::new(runs as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Refuses a table that this program cannot write, before anything is run for it.
pub fn writable(path: Option<&PathBuf>) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| export::check(path).map_err(|error| Failure::new(Exit::Usage, "EXPORT", error)))
}

/// Writes a file of results.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::file(path, &error))
}

/// Where results go beside the terminal.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Also write the figures of each run to this file, as CSV, or as Parquet where its name ends with .parquet.
    #[arg(long, value_name = "FILE")]
    pub runs: Option<PathBuf>,
    /// Also write a report to this file: one HTML page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_a_key_and_a_value() {
        assert_eq!(setting("world.notice = 30s"), Ok(("world.notice".into(), "30s".into())));
        assert!(setting("notice").is_err() && setting("=3").is_err());
    }
}
