//! `leeway simulate scenarios`: the worlds that come with the program.

use leeway_simulations::fleet::scenario::{Named, READY};
use serde_json::json;

use super::world::refused;
use crate::failure::{Exit, Failure};
use crate::render::{Align, Grid};
use crate::terminal::Terminal;

const AFTER: &str = "Examples:
  leeway simulate scenarios
  leeway simulate scenarios --print price-storm > mine.toml";

/// List the ready scenarios, or print one as a beginning of your own
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Print the text of this scenario.
    #[arg(long, value_name = "NAME")]
    pub print: Option<String>,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(name) = &args.print {
        let Some((_, text)) = READY.iter().find(|(known, _)| known == name) else {
            let known = READY.map(|(name, _)| name).join(", ");
            let message = format!("there is no ready scenario '{}'; there are {known}", name.escape_debug());
            return Err(Failure::new(Exit::Usage, "NO_SCENARIO", message));
        };
        terminal.show(|_| (*text).to_owned(), || json!({ "name": name, "text": text }))?;
        return Ok(Exit::Success);
    }
    let mut known = Vec::new();
    for (name, _) in READY {
        known.push((name, Named::read(name).map_err(|error| refused(&error))?.scenario));
    }
    terminal.show(
        |view| {
            let columns = [("SCENARIO", Align::Left), ("LENGTH", Align::Right), ("ABOUT", Align::Left)];
            let mut grid = Grid::new(&columns, view);
            for (name, scenario) in &known {
                grid.row([(*name).into(), scenario.length.to_string().into(), scenario.about.as_str().into()]);
            }
            grid.finish()
        },
        || {
            let one = |(name, scenario): &(&str, leeway_simulations::fleet::scenario::Scenario)| {
                json!({
                    "name": name,
                    "about": scenario.about,
                    "length_ms": scenario.length.as_millis(),
                    "policies": scenario.policies,
                    "repetitions": scenario.repetitions,
                })
            };
            json!({ "scenarios": known.iter().map(one).collect::<Vec<_>>() })
        },
    )?;
    Ok(Exit::Success)
}
