//! `leeway simulate compare`: policies, and orders of the queue, on one scenario, seed by seed.

use leeway_simulations::fleet::report::{self, format::dollars};
use leeway_simulations::fleet::scenario::Named;
use leeway_simulations::fleet::study::{self, Plan, Ran, Row, Summary};
use leeway_simulations::fleet::{export, regret};
use serde_json::json;

use super::world::{self, Files, Many, World};
use crate::failure::{Exit, Failure};
use crate::render::listing::{Column, Keep, Listing};
use crate::render::{Align, Field, Tone};
use crate::terminal::{Terminal, View};

const AFTER: &str = "Every policy meets the same jobs, markets and luck under one seed, so that differences are those of \
the policies. AGAINST is the cost of an hour of work against the first policy, seed by seed, with the 95 % interval of a \
bootstrap. OVER OPTIMUM is what jobs with a deadline cost over the least that each could have cost alone: half of them, \
nine of ten and the worst; a note says which jobs have no such figure. Exits with 1 when jobs were left over.

Examples:
  leeway simulate compare price-storm
  leeway simulate compare cluster-month --policy whole-bill --policy cheapest --repetitions 20
  leeway simulate compare mine.toml --queue-order first-come --queue-order fair-share --policy whole-bill
  leeway simulate compare mine.toml --report report.html --runs runs.csv";

/// Measure policies on a scenario, each with the same seeds
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(flatten)]
    pub world: World,
    #[command(flatten)]
    pub many: Many,
    /// An order of the queue; give it once for each. Otherwise that of the scenario.
    #[arg(long = "queue-order", value_name = "NAME")]
    pub queue_orders: Vec<String>,
    #[command(flatten)]
    pub files: Files,
}

impl Args {
    /// A plan for each order of the queue, with the order's name where there are several.
    fn plans<'a>(&'a self) -> Result<Vec<(Option<&'a str>, Plan)>, Failure> {
        if self.queue_orders.is_empty() {
            return Ok(vec![(None, self.world.plan(self.world.read()?, &self.many)?)]);
        }
        let several = self.queue_orders.len() > 1;
        if several && self.files.report.is_some() {
            let message = "--report shows one order of the queue; give one --queue-order, or leave --report out";
            return Err(Failure::new(Exit::Usage, "ORDERS", message));
        }
        let plan = |order: &'a String| {
            let mut settings = self.world.settings.clone();
            settings.push(("queue_order".to_owned(), order.clone()));
            let named = Named::read_with(&self.world.scenario, &settings).map_err(|error| world::refused(&error))?;
            Ok((several.then_some(order.as_str()), self.world.plan(named, &self.many)?))
        };
        self.queue_orders.iter().map(plan).collect()
    }
}

/// Runs the plans, one after the other; where there are several, rows name policy and order.
fn runs(plans: &[(Option<&str>, Plan)], keep_jobs: bool, done: &(dyn Fn(&Row) + Sync)) -> Result<Vec<Ran>, Failure> {
    let mut all = Vec::new();
    for (order, plan) in plans {
        let keep = |seed| keep_jobs && Some(&seed) == plan.seeds.first();
        let mut ran = study::study(plan, &keep, done).map_err(world::failed)?;
        if let Some(order) = order {
            ran.iter_mut().for_each(|ran| ran.row.policy = format!("{}, {order}", ran.row.policy));
        }
        all.append(&mut ran);
    }
    Ok(all)
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    world::writable(args.files.runs.as_ref())?;
    let plans = args.plans()?;
    let plan = &plans[0].1;
    world::foretell(plans.iter().map(|(_, plan)| plan), terminal)?;
    let bar = world::bar(terminal, plans.len() * plan.policies.len() * plan.seeds.len());
    let told = runs(&plans, args.files.report.is_some(), &|_| bar.inc(1));
    bar.finish_and_clear();
    let ran = told?;
    let rows: Vec<Row> = ran.iter().map(|ran| ran.row.clone()).collect();
    let summaries = study::summaries(&rows);
    let mut warnings = plan.warnings(&rows);
    warnings.extend(regret::footnote(ran.iter().map(|ran| &ran.outcome.totals.over_optimum)));
    if let Some(path) = &args.files.runs {
        world::write(path, &export::runs(path, &rows).map_err(|error| Failure::new(Exit::Error, "EXPORT", error))?)?;
    }
    if let Some(path) = &args.files.report {
        world::write(path, report::page(plan, &ran).as_bytes())?;
    }
    terminal.show(
        |view| table(None, &summaries, view),
        || {
            json!({
                "scenario": plan.scenario.name,
                "about": plan.scenario.scenario.about,
                "seeds": plan.seeds,
                "policies": summaries,
                "runs": rows,
                "warnings": warnings,
            })
        },
    )?;
    for warning in warnings.iter().chain(&study::left_over(&ran)) {
        terminal.remark(&format!("note: {warning}"));
    }
    Ok(if rows.iter().any(|row| row.open > 0) { Exit::Error } else { Exit::Success })
}

const COLUMNS: [Column; 14] = [
    ("POLICY", Align::Left, Keep::Always),
    ("COST", Align::Right, Keep::Always),
    ("AN HOUR OF WORK", Align::Right, Keep::Always),
    ("AGAINST", Align::Right, Keep::Always),
    ("95 %", Align::Right, Keep::Roomy(1)),
    ("WITH THE TIME", Align::Right, Keep::Roomy(1)),
    ("OVER OPTIMUM", Align::Right, Keep::Roomy(2)),
    ("DONE", Align::Right, Keep::Roomy(4)),
    ("MISSED", Align::Right, Keep::Filled),
    ("SPOT", Align::Right, Keep::Roomy(5)),
    ("LOST", Align::Right, Keep::Roomy(6)),
    ("EGRESS", Align::Right, Keep::Roomy(7)),
    ("WAIT P90", Align::Right, Keep::Roomy(3)),
    ("WORST", Align::Right, Keep::Roomy(8)),
];

/// `happened` stands above the policies and is compared with nothing.
pub fn table(happened: Option<&Summary>, summaries: &[Summary], view: &View) -> String {
    let mut listing = Listing::new(COLUMNS);
    let happened_first = happened.into_iter().map(|of| (0, of));
    for (number, of) in happened_first.chain(summaries.iter().enumerate()) {
        let is_first = number == 0;
        let change = |share: f64| format!("{:+.1} %", share * 100.0);
        listing.row([
            of.policy.as_str().into(),
            dollars(of.cost).into(),
            of.work_hour().into(),
            if is_first || of.cost_against_first.is_nan() { "".into() } else { change(of.cost_against_first).into() },
            if is_first || of.runs < 2 {
                "".into()
            } else {
                format!("{}..{}", change(of.against_low), change(of.against_high)).into()
            },
            // Money, and what the hours of jobs that say it were worth.
            match of.time_value {
                0.0 => Field::idle(""),
                value => dollars(of.cost + value).into(),
            },
            match of.with_deadline {
                0.0 => Field::idle(""),
                _ => regret::shown(of.over_optimum_p50, of.over_optimum_p90, of.over_optimum_worst).into(),
            },
            format!("{:.0} of {:.0}", of.succeeded, of.jobs + of.open).into(),
            match of.missed {
                _ if of.with_deadline == 0.0 => Field::idle(""),
                0.0 => Field::idle("0"),
                missed => Field::new(format!("{missed:.1} of {:.0}", of.with_deadline), Tone::Bad),
            },
            format!("{:.0} %", of.spot_share * 100.0).into(),
            format!("{:.1} h", of.lost_hours).into(),
            Field::from(dollars(of.egress)).idle_if(of.egress == 0.0),
            format!("{:.2} h", of.wait_p90_hours).into(),
            format!("{:.1} h", of.wait_max_hours).into(),
        ]);
    }
    listing.finish(view)
}
