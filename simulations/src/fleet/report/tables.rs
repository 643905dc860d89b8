//! The tables of results. Every figure that the terminal shows too comes from the same summary in the same form.

use std::collections::BTreeMap;

use super::super::outcome::Sums;
use super::super::regret;
use super::format::{change, count, dollars, listed, mean_count, per_hour, percent};
use super::html::Html;
use super::view::{Policy, View};
use crate::stats;

/// A column: its title, and what it means.
pub struct Column(pub &'static str, pub &'static str);

/// What stands in a cell, and by what the column is sorted.
pub struct Cell {
    text: String,
    sort: Option<f64>,
    class: &'static str,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), sort: None, class: "" }
    }

    pub fn number(text: impl Into<String>, sort: f64) -> Self {
        Self { text: text.into(), sort: Some(sort), class: "number" }
    }

    /// A number that should be zero.
    pub fn fault(text: impl Into<String>, sort: f64) -> Self {
        Self { class: if sort > 0.0 { "number bad" } else { "number idle" }, ..Self::number(text, sort) }
    }

    fn best_if(mut self, is_best: bool) -> Self {
        if is_best {
            self.class = "number best";
        }
        self
    }
}

/// A table whose rows can be sorted by a press on a column's title where scripts run.
pub fn table(html: &mut Html, columns: &[Column], rows: Vec<Vec<Cell>>) {
    let is_number = |number: usize| rows.iter().any(|row| row.get(number).is_some_and(|cell| cell.sort.is_some()));
    html.tag("div").class("scroll").set("tabindex", 0).hold(|html| {
        html.tag("table").hold(|html| {
            html.tag("thead").hold(|html| {
                html.tag("tr").hold(|html| {
                    for (number, Column(title, meaning)) in columns.iter().enumerate() {
                        let head = html.tag("th").set("scope", "col");
                        let head = if is_number(number) { head.class("number") } else { head };
                        let head = if meaning.is_empty() { head } else { head.set("title", meaning) };
                        head.text(title);
                    }
                });
            });
            html.tag("tbody").hold(|html| {
                // A name that stands above too is said softly.
                let mut above: Option<&String> = None;
                for row in &rows {
                    html.tag("tr").hold(|html| {
                        for (number, cell) in row.iter().enumerate() {
                            let tag = if number == 0 { html.tag("th").set("scope", "row") } else { html.tag("td") };
                            let is_again = number == 0 && above.replace(&cell.text) == Some(&cell.text);
                            let class = if is_again { "again" } else { cell.class };
                            let tag = if class.is_empty() { tag } else { tag.class(class) };
                            let tag = match cell.sort.filter(|sort| sort.is_finite()) {
                                Some(sort) => tag.set("data-sort", sort),
                                None => tag,
                            };
                            tag.text(&cell.text);
                        }
                    });
                }
            });
        });
    });
}

pub fn cost(html: &mut Html, view: &View) {
    let has_several = view.policies.len() > 1;
    let mut columns = vec![
        Column("Policy", ""),
        Column("Cost", "All that the jobs cost, mean of the seeds"),
        Column("An hour of work", "Cost divided by the machine-hours of useful work, mean of the seeds"),
    ];
    if has_several {
        columns.push(Column("Against the first", "Cost of an hour of work beside the first policy, seed by seed"));
        columns.push(Column("95 % interval", "Of the paired difference, by a bootstrap over the seeds"));
    }
    let has_deadlines = view.any(|row| row.with_deadline > 0);
    if has_deadlines {
        columns.push(Column(
            "Over the optimum",
            "What a job with a deadline cost, over the least it could have cost alone: half of the jobs, nine of ten and \
             the worst; means of the seeds, and the worst of all",
        ));
    }
    let has_values = view.any(|row| row.time_value_micros > 0);
    if has_values {
        columns.push(Column(
            "With the time",
            "The cost, and what the hours of jobs from submission to end were worth by their value_per_hour",
        ));
    }
    columns.push(Column("Egress", "Part of the cost for moving bytes between regions"));
    columns.push(Column("Overrun", "Posted to budgets past their holds, mean of the seeds"));
    columns.push(Column("CO2, kg", "As far as the scenario states what its machines draw"));
    let has_carbon = view.any(|row| row.carbon_kg > 0.0);
    if !has_carbon {
        columns.pop();
    }
    let best = view.cheapest().map(|policy| policy.number);
    let row = |policy: &Policy| {
        let of = &policy.summary;
        let mut row = vec![
            Cell::text(policy.name),
            Cell::number(dollars(of.cost), of.cost),
            Cell::number(of.work_hour(), of.cost_per_work_hour).best_if(has_several && best == Some(policy.number)),
        ];
        if has_several {
            let is_first = policy.number == 0 || of.cost_against_first.is_nan();
            let interval = format!("{}..{}", change(of.against_low), change(of.against_high));
            row.push(if is_first {
                Cell::number("", 0.0)
            } else {
                Cell::number(change(of.cost_against_first), of.cost_against_first)
            });
            row.push(if is_first || of.runs < 2 {
                Cell::number("", 0.0)
            } else {
                Cell::number(interval, of.against_low)
            });
        }
        if has_deadlines {
            let shown = regret::shown(of.over_optimum_p50, of.over_optimum_p90, of.over_optimum_worst);
            row.push(Cell::number(shown, of.over_optimum_p50.unwrap_or(f64::NAN)));
        }
        if has_values {
            row.push(Cell::number(dollars(of.cost + of.time_value), of.cost + of.time_value));
        }
        row.push(Cell::number(dollars(of.egress), of.egress));
        let overrun = policy.mean(|ran| ran.row.overrun_micros as f64 / 1e6);
        row.push(Cell::fault(dollars(overrun), overrun));
        if has_carbon {
            row.push(Cell::number(count(of.carbon_kg), of.carbon_kg));
        }
        row
    };
    table(html, &columns, view.listed().iter().map(row).collect());
    if let Some(note) = regret::footnote(view.outcomes().map(|outcome| &outcome.totals.over_optimum)) {
        html.tag("p").class("aside").text(&super::sentence(&note));
    }
    let plans = || view.setup.iter().flat_map(|setup| &setup.clusters);
    let unknown: Vec<String> = plans()
        .filter(|plan| plan.carbon.is_none() || plan.watts.is_none())
        .map(|plan| plan.spec.name.to_string())
        .collect();
    if has_carbon && !unknown.is_empty() {
        let says = format!("CO2 leaves out what is not known: machines in {} count as nothing.", listed(&unknown));
        html.tag("p").class("aside").text(&says);
    }
}

pub fn service(html: &mut Html, view: &View) {
    let has_deadlines = view.any(|row| row.with_deadline > 0);
    let mut columns = vec![
        Column("Policy", ""),
        Column("Done", "Jobs that succeeded, of all"),
        Column("Left over", "Jobs that had not ended when the run was given up"),
    ];
    if has_deadlines {
        columns.push(Column("Deadlines missed", "Of the jobs that had one"));
    }
    columns.extend([
        Column("Wait p50", "Half of the jobs began within this time of their submission"),
        Column("Wait p90", "Nine of ten jobs began within this time"),
        Column("Worst wait", "The longest"),
        Column("Turnaround p90", "Nine of ten jobs ended within this time of their submission"),
    ]);
    let row = |policy: &Policy| {
        let of = &policy.summary;
        let mut row = vec![
            Cell::text(policy.name),
            Cell::number(format!("{:.0} of {:.0}", of.succeeded, of.jobs + of.open), of.succeeded),
            Cell::fault(mean_count(of.open), of.open),
        ];
        if has_deadlines {
            let text =
                if of.missed == 0.0 { "0".into() } else { format!("{:.1} of {:.0}", of.missed, of.with_deadline) };
            row.push(Cell::fault(text, of.missed));
        }
        row.extend([
            Cell::number(format!("{:.2} h", of.wait_p50_hours), of.wait_p50_hours),
            Cell::number(format!("{:.2} h", of.wait_p90_hours), of.wait_p90_hours),
            Cell::number(format!("{:.1} h", of.wait_max_hours), of.wait_max_hours),
            Cell::number(format!("{:.1} h", of.turnaround_p90_hours), of.turnaround_p90_hours),
        ]);
        row
    };
    table(html, &columns, view.listed().iter().map(row).collect());
}

pub fn machines(html: &mut Html, view: &View) {
    let columns = [
        Column("Policy", ""),
        Column("Machine-hours", "That were paid for"),
        Column("Spot", "Share of them"),
        Column("Useful work", "Machine-hours of work that counted"),
        Column("Lost work", "Machine-hours of work that was done and lost"),
        Column("Interruptions", "Runs whose machines were taken or went away"),
        Column("Launches refused", "Orders that found no capacity"),
    ];
    let row = |policy: &Policy| {
        let of = &policy.summary;
        let hours = policy.mean(|ran| ran.row.spot_hours + ran.row.other_hours);
        let work = policy.mean(|ran| ran.row.work_hours);
        let refused = policy.mean(|ran| ran.outcome.totals.launches_refused as f64);
        vec![
            Cell::text(policy.name),
            Cell::number(format!("{} h", count(hours)), hours),
            Cell::number(percent(of.spot_share), of.spot_share),
            Cell::number(format!("{} h", count(work)), work),
            Cell::number(format!("{:.1} h", of.lost_hours), of.lost_hours),
            Cell::number(mean_count(of.interruptions), of.interruptions),
            Cell::number(mean_count(refused), refused),
        ]
    };
    table(html, &columns, view.listed().iter().map(row).collect());
}

/// How much of each cluster was used.
pub fn clusters(html: &mut Html, view: &View) {
    let counts: BTreeMap<&str, u32> = view
        .setup
        .iter()
        .flat_map(|setup| &setup.clusters)
        .filter_map(|plan| {
            let counts: Option<Vec<u32>> = plan.spec.machines.iter().map(|machines| machines.count).collect();
            Some((plan.spec.name.as_str(), counts?.into_iter().sum()))
        })
        .collect();
    let mut columns = vec![Column("Cluster", "")];
    if view.policies.len() > 1 {
        columns.push(Column("Policy", ""));
    }
    columns.extend([
        Column("Machines", "As the scenario states them"),
        Column("Spot hours", "Machine-hours that were paid for as spot"),
        Column("Other hours", "Machine-hours that were paid for otherwise"),
        Column("In use on average", "Machines, over the whole length of a run"),
        Column(
            "Utilization",
            "Machine-hours paid for, of those that the stated machines have over the length of a run",
        ),
    ]);
    let names: Vec<&str> = view
        .outcomes()
        .next()
        .map_or(Vec::new(), |outcome| outcome.places.iter().map(|place| place.cluster.as_str()).collect());
    let mut rows = Vec::new();
    for name in names {
        for policy in &view.policies {
            let of = |figure: &dyn Fn(f64, f64, f64) -> f64| {
                policy.mean(|ran| {
                    let place = ran.outcome.places.iter().find(|place| place.cluster.as_str() == name);
                    place.map_or(0.0, |place| figure(place.spot_hours, place.other_hours, ran.row.length_hours))
                })
            };
            let (spot, other) = (of(&|spot, _, _| spot), of(&|_, other, _| other));
            let used = of(&|spot, other, length| if length > 0.0 { (spot + other) / length } else { 0.0 });
            let mut row = vec![Cell::text(name)];
            if view.policies.len() > 1 {
                row.push(Cell::text(policy.name));
            }
            let all = counts.get(name).map(|count| f64::from(*count));
            row.extend([
                all.map_or_else(|| Cell::number("no limit", f64::MAX), |all| Cell::number(count(all), all)),
                Cell::number(format!("{} h", count(spot)), spot),
                Cell::number(format!("{} h", count(other)), other),
                Cell::number(format!("{used:.1}"), used),
                match all.filter(|all| *all > 0.0) {
                    Some(all) => Cell::number(percent(used / all), used / all),
                    None => Cell::number("", -1.0),
                },
            ]);
            rows.push(row);
        }
    }
    table(html, &columns, rows);
}

pub fn has_teams(view: &View) -> bool {
    view.outcomes().any(|outcome| outcome.totals.by_team.keys().any(|team| !team.is_empty()))
}

pub fn teams(html: &mut Html, view: &View) {
    let mut names: Vec<&str> =
        view.outcomes().flat_map(|outcome| outcome.totals.by_team.keys().map(|team| &**team)).collect();
    names.sort_unstable();
    names.dedup();
    let has_deadlines = view.any(|row| row.with_deadline > 0);
    let has_several = view.policies.len() > 1;
    let mut columns = vec![Column("Team", "")];
    if has_several {
        columns.push(Column("Policy", ""));
    }
    columns.extend([
        Column("Jobs", "That ended"),
        Column("Cost", ""),
        Column("An hour of work", "Cost divided by the machine-hours of useful work"),
        Column("Work", "Machine-hours of useful work"),
        Column("Mean wait", "From submission to the first start"),
        Column("Interruptions", ""),
    ]);
    if has_deadlines {
        columns.push(Column("Deadlines missed", ""));
    }
    let none = Sums::default();
    let mut rows = Vec::new();
    for name in names {
        for policy in &view.policies {
            let of = |figure: &dyn Fn(&Sums) -> f64| {
                policy.mean(|ran| figure(ran.outcome.totals.by_team.get(name).unwrap_or(&none)))
            };
            let cost = of(&|sums| sums.cost.as_units_f64());
            let work = of(&|sums| sums.work_hours);
            let jobs = of(&|sums| sums.jobs as f64);
            let wait = of(&|sums| sums.wait_hours / sums.jobs.max(1) as f64);
            let each = if work > 0.0 { cost / work } else { 0.0 };
            let mut row = vec![Cell::text(if name.is_empty() { "-" } else { name })];
            if has_several {
                row.push(Cell::text(policy.name));
            }
            row.extend([
                Cell::number(mean_count(jobs), jobs),
                Cell::number(dollars(cost), cost),
                Cell::number(per_hour(each), each),
                Cell::number(format!("{} h", count(work)), work),
                Cell::number(format!("{wait:.2} h"), wait),
                {
                    let times = of(&|sums| sums.interruptions as f64);
                    Cell::number(mean_count(times), times)
                },
            ]);
            if has_deadlines {
                let missed = of(&|sums| sums.missed as f64);
                row.push(Cell::fault(mean_count(missed), missed));
            }
            rows.push(row);
        }
    }
    table(html, &columns, rows);
}

/// Budgets at the end of the runs; those that nobody stated are left out.
pub fn budgets(html: &mut Html, view: &View) {
    let mut columns = vec![Column("Budget", "")];
    if view.policies.len() > 1 {
        columns.push(Column("Policy", ""));
    }
    let stated = &view.plan.scenario.scenario.budgets;
    let has_parents = stated.iter().any(|budget| budget.parent.is_some());
    if has_parents {
        columns.push(Column("Part of", "The budget above it"));
    }
    columns.extend([
        Column("Cap", ""),
        Column("Spent", "Posted, mean of the seeds"),
        Column("Of cap", "Share of the cap that was spent, mean of the seeds"),
        Column("Most of cap", "The same in the seed in which it was highest"),
        Column("Overrun", "Posted past a hold, mean of the seeds"),
    ]);
    let mut rows = Vec::new();
    for stated in stated {
        for policy in &view.policies {
            let uses: Vec<_> = policy
                .runs
                .iter()
                .filter_map(|ran| ran.outcome.budgets.iter().find(|budget| budget.budget.as_str() == stated.name))
                .collect();
            let each = |figure: &dyn Fn(&super::super::outcome::BudgetUse) -> f64| {
                uses.iter().map(|budget| figure(budget)).collect::<Vec<f64>>()
            };
            let spent = stats::mean(&each(&|budget| budget.posted.as_units_f64()));
            let overrun = stats::mean(&each(&|budget| budget.overrun.as_units_f64()));
            let shares = each(&|budget| {
                let cap = budget.cap.as_units_f64();
                if cap > 0.0 { budget.posted.as_units_f64() / cap } else { 0.0 }
            });
            let most = shares.iter().copied().fold(0.0, f64::max);
            let cap = stated.cap.0.as_units_f64();
            let mut row = vec![Cell::text(stated.name.clone())];
            if view.policies.len() > 1 {
                row.push(Cell::text(policy.name));
            }
            if has_parents {
                row.push(Cell::text(stated.parent.clone().unwrap_or_default()));
            }
            row.extend([
                Cell::number(dollars(cap), cap),
                Cell::number(dollars(spent), spent),
                Cell::number(percent(stats::mean(&shares)), stats::mean(&shares)),
                Cell::number(percent(most), most),
                Cell::fault(dollars(overrun), overrun),
            ]);
            rows.push(row);
        }
    }
    table(html, &columns, rows);
}
