//! `leeway simulate optimum`: one window of one market, or of several whose zones one job may use.

use std::path::PathBuf;

use leeway_model::Bytes;
use leeway_policies::deadline::{self, OnDemand, Task};
use leeway_simulations::spot::model::{self, Outcome, Path, Sight};
use leeway_simulations::spot::optimum;
use leeway_simulations::spot::set::{self, Market};
use serde_json::json;

use super::{hours, hours_or_none, refused};
use crate::failure::{Exit, Failure};
use crate::render::{Align, Grid};
use crate::terminal::Terminal;

const AFTER: &str =
    "Several traces are zones between which the job may move; they must have ticks of one length and begin \
at the same moment. Prices are those that the trace states for its unit, and costs are of one unit: with --gang N the window is one in which N can be had at once, and the machines of the whole gang cost N times as much.

Examples:
  leeway simulate optimum traces/gcp-2025-h100/us-east4-a_h100_16.json
  leeway simulate optimum us-east-1a.json us-west-2a.json --work-h 40 --deadline-h 60 --changeover-h 0.2
  leeway --json simulate optimum us-east-1a.json --start 1200";

/// The least that a job with a deadline could have cost, and what each rule would have paid
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Files in the spot-trace-v1 format, one for each zone.
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Hours of useful work.
    #[arg(long, default_value = "48", value_name = "HOURS", value_parser = hours)]
    pub work_h: f64,
    /// Hours from the start to the deadline.
    #[arg(long, default_value = "60", value_name = "HOURS", value_parser = hours)]
    pub deadline_h: f64,
    /// Hours that each launch takes before work begins; they are paid for.
    #[arg(long, default_value = "0.1", value_name = "HOURS", value_parser = hours_or_none)]
    pub changeover_h: f64,
    /// Nodes that the job needs at once; costs are shown for one of them.
    #[arg(long, default_value_t = 1, value_name = "NODES", value_parser = clap::value_parser!(u32).range(1..))]
    pub gang: u32,
    /// The tick of the trace at which the job starts.
    #[arg(long, default_value_t = 0, value_name = "TICK")]
    pub start: usize,
    /// What a move takes to the other region.
    #[arg(long, default_value = "50GB", value_name = "SIZE")]
    pub checkpoint: Bytes,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    let markets: Vec<Market> = (args.traces.iter())
        .map(|path| set::read_market(path, args.gang))
        .collect::<Result<_, _>>()
        .map_err(|error| refused(&error))?;
    set::agree(&markets).map_err(|error| refused(&error))?;
    let task = Task {
        work: args.work_h * 3600.0,
        deadline: args.deadline_h * 3600.0,
        changeover: args.changeover_h * 3600.0,
        tick: markets[0].tick,
    };
    if !task.can_finish() {
        let message = format!(
            "{} h of work and {} h of changeover do not fit in {} h, even on demand",
            args.work_h, args.changeover_h, args.deadline_h
        );
        return Err(Failure::new(Exit::Usage, "HOPELESS", message).advise("choose a later deadline"));
    }
    let ticks = task.ticks();
    let end = args.start.saturating_add(ticks);
    if let Some(short) = markets.iter().find(|market| market.ticks() < end) {
        let message =
            format!("{}: the window ends at tick {end}, but the trace has {} ticks", short.name, short.ticks());
        return Err(Failure::new(Exit::Usage, "TRACE_TOO_SHORT", message));
    }
    let zones = set::zones(&markets, &leeway_market::egress::defaults(), args.checkpoint);
    let paths: Vec<Path<'_>> = markets.iter().map(|market| market.window(args.start..end)).collect();
    let best = optimum::optimum(&task, &zones, &paths)
        .map_err(|error| Failure::new(Exit::Usage, "NO_OPTIMUM", error.to_string()))?;
    let runs: Vec<(String, Outcome)> = deadline::rules()
        .iter()
        .map(|rule| (rule.name().to_owned(), model::run(&**rule, &task, &zones, &paths, Sight::Free)))
        .collect();
    let on_demand = model::run(&OnDemand, &task, &zones, &paths, Sight::Free).cost;
    let value = || {
        let rule = |(policy, run): &(String, Outcome)| {
            json!({
                "policy": policy,
                "cost": run.cost,
                "over_optimum": run.cost / best,
                "missed": run.missed,
                "launches": run.launches,
                "moves": run.moves,
                "egress": run.egress,
                "spot_ticks": run.spot_ticks,
                "on_demand_ticks": run.on_demand_ticks,
            })
        };
        json!({
            "zones": markets.iter().map(|market| &market.name).collect::<Vec<_>>(),
            "start_tick": args.start,
            "ticks": ticks,
            "gang": args.gang,
            "cost_is_of": "one node",
            "tick_seconds": task.tick,
            "currency": "USD",
            "optimum": best,
            "on_demand": on_demand,
            "optimum_over_on_demand": best / on_demand,
            "policies": runs.iter().map(rule).collect::<Vec<_>>(),
        })
    };
    terminal.show(
        |view| {
            let columns = [
                ("POLICY", Align::Left),
                (if args.gang == 1 { "COST" } else { "COST OF ONE" }, Align::Right),
                ("OVER OPTIMUM", Align::Right),
                ("LAUNCHES", Align::Right),
                ("MOVES", Align::Right),
                ("SPOT", Align::Right),
                ("ON DEMAND", Align::Right),
            ];
            let mut grid = Grid::new(&columns, view);
            let held = |ticks: u32| format!("{:.1} h", f64::from(ticks) * task.tick / 3600.0);
            grid.row(["optimum".into(), dollars(best), "1.000".into(), "".into(), "".into(), "".into(), "".into()]);
            for (policy, run) in &runs {
                grid.row([
                    policy.as_str().into(),
                    dollars(run.cost),
                    format!("{:.3}{}", run.cost / best, if run.missed { " missed" } else { "" }).into(),
                    run.launches.to_string().into(),
                    run.moves.to_string().into(),
                    held(run.spot_ticks).into(),
                    held(run.on_demand_ticks).into(),
                ]);
            }
            let table = grid.finish();
            match args.gang {
                1 => table,
                gang => format!(
                    "{table}\ncosts are of one node; the machines of the gang of {gang} cost {gang} times as much"
                ),
            }
        },
        value,
    )?;
    Ok(Exit::Success)
}

fn dollars(amount: f64) -> crate::render::Field {
    format!("{amount:.2} USD").into()
}
