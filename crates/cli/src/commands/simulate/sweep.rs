//! `leeway simulate sweep`: a scenario under every combination of settings, resumed where it was interrupted.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::sync::Mutex;

use leeway_simulations::fleet::report::format::dollars;
use leeway_simulations::fleet::study::{self, Plan, Row};
use leeway_simulations::parallel;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::world::{self, Many, World, setting};
use crate::failure::{Exit, Failure};
use crate::render::{Align, Grid};
use crate::terminal::{Terminal, View};

const AFTER: &str = "Each --over key gets every one of its values, in all combinations. Runs that --out already has are \
not run again, so that an interrupted sweep goes on where it was.

Examples:
  leeway simulate sweep mass-reclaim --over world.notice=0s,30s,120s --out notice.jsonl
  leeway simulate sweep price-storm --over shocks.0.price=1,2,4 --policy whole-bill --policy cheapest --out storm.jsonl";

/// Run a scenario under every combination of some settings
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    pub world: World,
    /// A key of the scenario and its values; give it once for each key.
    #[arg(long = "over", value_name = "KEY=VALUE,VALUE...", value_parser = setting, required = true)]
    pub over: Vec<(String, String)>,
    #[command(flatten)]
    pub many: Many,
    /// Each run as a line of JSON, written as it ends.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Keys with their values.
type Settings = Vec<(String, String)>;

/// The runs under some settings.
type Point<'a> = (&'a Settings, Vec<Row>);

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    scenario: String,
    settings: Settings,
    run: Row,
}

type Key = (Settings, String, u64);

impl Line {
    fn key(&self) -> Key {
        (self.settings.clone(), self.run.policy.clone(), self.run.seed)
    }
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut plans = Vec::new();
    for settings in combinations(&args.over) {
        let mut all = args.world.settings.clone();
        all.extend(settings);
        let named = leeway_simulations::fleet::scenario::Named::read_with(&args.world.scenario, &all);
        let named = named.map_err(|error| world::refused(&error))?;
        plans.push((all, args.world.plan(named, &args.many)?));
    }
    world::foretell(plans.iter().map(|(_, plan)| plan), terminal)?;
    let (mut lines, whole) = known(&args.out, &args.world.scenario)?;
    let have: BTreeSet<Key> = lines.iter().map(Line::key).collect();
    let mut missing = Vec::new();
    for (number, (settings, plan)) in plans.iter().enumerate() {
        for policy in &plan.policies {
            for seed in &plan.seeds {
                if !have.contains(&(settings.clone(), policy.to_string(), *seed)) {
                    missing.push((number, policy.clone(), *seed));
                }
            }
        }
    }
    let file =
        OpenOptions::new().create(true).append(true).open(&args.out).map_err(|e| Failure::file(&args.out, &e))?;
    // A line that was cut off by an interruption is left behind.
    file.set_len(whole).map_err(|error| Failure::file(&args.out, &error))?;
    let file = Mutex::new(file);
    let bar = world::bar(terminal, missing.len());
    let told = parallel::map(missing.len(), args.many.threads(), &|number| {
        let (of, policy, seed) = &missing[number];
        let (settings, plan): &(Settings, Plan) = &plans[*of];
        let ran = study::run_one(plan, policy, *seed, false, &mut |_| {}).map_err(world::failed)?;
        let line = Line { scenario: args.world.scenario.clone(), settings: settings.clone(), run: ran.row };
        let written = append(&file, &line).map_err(|error| Failure::file(&args.out, &error))?;
        bar.inc(1);
        Ok::<Line, Failure>(written)
    });
    bar.finish_and_clear();
    for line in told {
        lines.push(line?);
    }
    let wanted: Vec<Point<'_>> = plans
        .iter()
        .map(|(settings, plan)| {
            let belongs = |line: &&Line| {
                line.settings == *settings
                    && plan.policies.iter().any(|policy| policy.as_str() == line.run.policy)
                    && plan.seeds.contains(&line.run.seed)
            };
            let mut rows: Vec<Row> = lines.iter().filter(belongs).map(|line| line.run.clone()).collect();
            let place = |row: &Row| plan.policies.iter().position(|policy| policy.as_str() == row.policy);
            rows.sort_by_key(|row| (place(row), row.seed));
            (settings, rows)
        })
        .collect();
    terminal.show(
        |view| table(&args.over, &wanted, view),
        || {
            let one = |(settings, rows): &Point<'_>| {
                let settings: serde_json::Map<String, serde_json::Value> =
                    settings.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
                json!({ "settings": settings, "policies": study::summaries(rows) })
            };
            json!({
                "scenario": args.world.scenario,
                "results": wanted.iter().map(one).collect::<Vec<_>>(),
                "runs_done_before": have.len(),
            })
        },
    )?;
    Ok(Exit::Success)
}

/// Writes a line, and gives it back as whoever resumes will read it: the last digit of a number may differ.
fn append(file: &Mutex<File>, line: &Line) -> std::io::Result<Line> {
    let mut text = serde_json::to_string(line)?;
    let written = serde_json::from_str(&text)?;
    text.push('\n');
    file.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write_all(text.as_bytes())?;
    Ok(written)
}

/// What a file already has, and up to where its lines are whole.
fn known(path: &PathBuf, scenario: &str) -> Result<(Vec<Line>, u64), Failure> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(Failure::file(path, &error)),
    };
    let (mut lines, mut whole) = (Vec::new(), 0);
    let mut reader = BufReader::new(file);
    let mut text = Vec::new();
    // Bytes, since a name that is cut off may end within a character.
    while reader.read_until(b'\n', &mut text).map_err(|error| Failure::file(path, &error))? > 0 {
        if text.last() != Some(&b'\n') {
            break;
        }
        let wrong = |problem: String| {
            let message = format!("'{}', line {}: {problem}; give another --out", path.display(), lines.len() + 1);
            Failure::new(Exit::Usage, "NOT_A_SWEEP", message)
        };
        let line: Line =
            serde_json::from_slice(&text).map_err(|error| wrong(format!("is no run of a sweep: {error}")))?;
        if line.scenario != scenario {
            return Err(wrong(format!("is a run of the scenario '{}', not of '{scenario}'", line.scenario)));
        }
        whole += text.len() as u64;
        lines.push(line);
        text.clear();
    }
    Ok((lines, whole))
}

/// Every combination, the last key changing fastest.
fn combinations(over: &[(String, String)]) -> Vec<Settings> {
    let mut all = vec![Vec::new()];
    for (key, values) in over {
        all = all
            .into_iter()
            .flat_map(|settings: Settings| {
                values.split(',').map(move |value| {
                    let mut settings = settings.clone();
                    settings.push((key.clone(), value.trim().to_owned()));
                    settings
                })
            })
            .collect();
    }
    all
}

fn table(over: &[(String, String)], results: &[Point<'_>], view: &View) -> String {
    let mut columns: Vec<(&str, Align)> = over.iter().map(|(key, _)| (key.as_str(), Align::Left)).collect();
    columns.extend([
        ("POLICY", Align::Left),
        ("COST", Align::Right),
        ("AN HOUR OF WORK", Align::Right),
        ("AGAINST", Align::Right),
        ("MISSED", Align::Right),
        ("WAIT P90", Align::Right),
    ]);
    let mut grid = Grid::new(&columns, view);
    for (settings, rows) in results {
        for (number, of) in study::summaries(rows).into_iter().enumerate() {
            let value =
                |key: &str| settings.iter().rev().find(|(known, _)| known == key).map_or("", |(_, value)| value);
            let mut fields: Vec<crate::render::Field> = over.iter().map(|(key, _)| value(key).into()).collect();
            let is_alone = number == 0 || of.cost_against_first.is_nan();
            let against = if is_alone { String::new() } else { format!("{:+.1} %", of.cost_against_first * 100.0) };
            fields.extend([
                of.policy.as_str().into(),
                dollars(of.cost).into(),
                of.work_hour().into(),
                against.into(),
                format!("{:.1}", of.missed).into(),
                format!("{:.2} h", of.wait_p90_hours).into(),
            ]);
            grid.cells(fields);
        }
    }
    grid.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_one_key_meets_every_value_of_the_other() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let all = combinations(&[pair("a", "1,2"), pair("b", "x, y")]);
        assert_eq!(all.len(), 4);
        assert_eq!(all[1], [pair("a", "1"), pair("b", "y")]);
    }
}
