//! A quantity over time, a line for each policy: what was spent, how many jobs waited.

use super::super::super::outcome::Sample;
use super::super::chart::{self, Frame, Page};
use super::super::format::{count, dollars, listed, mean_count, short};
use super::super::html::Html;
use super::super::view::{Point, Policy, View};
use super::{POINTS, colour, end_labels, figure, marks, shade_shocks, tell, time_axis, zero_axis};

/// What is drawn.
struct Quantity {
    title: &'static str,
    how: &'static str,
    /// Whether a run that is over keeps its last value.
    stays: bool,
    of: fn(&Sample) -> f64,
    on_axis: fn(f64, f64) -> String,
    in_words: fn(f64) -> String,
}

pub fn spending(html: &mut Html, view: &View) {
    draw(
        html,
        view,
        &Quantity {
            title: "Spending over time",
            how: "Money posted to the budgets so far.",
            stays: true,
            of: |sample| sample.spent.as_units_f64(),
            on_axis: chart::money,
            in_words: dollars,
        },
    );
}

pub fn queue(html: &mut Html, view: &View) {
    let most = view.outcomes().flat_map(|outcome| &outcome.samples).map(|sample| sample.queued).max();
    if most.unwrap_or(0) == 0 {
        html.tag("p").class("aside").text("No job was found waiting for a place at any point of the series over time.");
        return;
    }
    draw(
        html,
        view,
        &Quantity {
            title: "Jobs waiting for a place",
            how: "Jobs that were submitted and had no machines.",
            stays: false,
            of: |sample| sample.queued as f64,
            on_axis: chart::whole,
            in_words: mean_count,
        },
    );
}

fn draw(html: &mut Html, view: &View, what: &Quantity) {
    let lines: Vec<(&Policy, Vec<Point>)> = view
        .policies
        .iter()
        .map(|policy| (policy, policy.over_time(view.hours, POINTS, what.stays, what.of)))
        .collect();
    let mut how = what.how.to_owned();
    if view.seeds() > 1 {
        let seeds = count(view.seeds() as f64);
        let shaded: Vec<String> = shaded(view).map(|policy| policy.name.to_owned()).collect();
        let whose =
            if shaded.len() == view.policies.len() { String::new() } else { format!(" for {}", listed(&shaded)) };
        how.push_str(&format!(
            " Lines are means over {seeds} seeds; the shade{whose} reaches from the least to the most."
        ));
    }
    how.push_str(&view.cut_off());
    let legend = |html: &mut Html| {
        let policies = view.policies.iter().map(|policy| (format!("of-line {}", colour(policy)), policy.name));
        let entries: Vec<_> = policies.filter(|_| view.policies.len() > 1).chain(super::shock_entry(view)).collect();
        if !entries.is_empty() {
            super::legend(html, entries.into_iter());
        }
    };
    figure(html, what.title, &how, legend, |html, page| plot(html, page, view, what, &lines));
}

/// Policies whose spread is shaded: all, or where there are many the first and the cheapest, so that something is seen.
fn shaded<'v, 'a>(view: &'v View<'a>) -> impl Iterator<Item = &'v Policy<'a>> {
    let cheapest = view.cheapest().map(|policy| policy.number);
    let are_few = view.policies.len() <= 2;
    view.policies.iter().filter(move |policy| are_few || policy.number == 0 || cheapest == Some(policy.number))
}

/// The budget that all spending is under, if there is one, and its cap.
fn cap<'v>(view: &'v View) -> Option<(&'v str, f64)> {
    let mut tops = view.plan.scenario.scenario.budgets.iter().filter(|budget| budget.parent.is_none());
    match (tops.next(), tops.next()) {
        (Some(top), None) => Some((&top.name, top.cap.0.as_units_f64())),
        _ => None,
    }
}

fn plot(html: &mut Html, page: Page, view: &View, what: &Quantity, lines: &[(&Policy, Vec<Point>)]) {
    let mut frame = Frame::new(page, if page.is_narrow() { 230.0 } else { 300.0 });
    let has_names = what.stays && view.policies.len() > 1 && !page.is_narrow();
    if has_names {
        frame.right = 140.0;
    }
    let cap = if what.stays { cap(view) } else { None };
    let last = |line: &[Point]| line.last().map_or(0.0, |point| point.mean);
    let is_shaded = |policy: &Policy| policy.runs.len() > 1 && shaded(view).any(|of| of.number == policy.number);
    let top = |(policy, line): &(&Policy, Vec<Point>)| {
        let of = |point: &Point| if is_shaded(policy) { point.high } else { point.mean };
        line.iter().map(of).fold(0.0, f64::max)
    };
    // An axis of jobs has no mark below one.
    let most = lines.iter().map(top).fold(if what.stays { 0.0 } else { 1.0 }, f64::max);
    // A cap that is near belongs in the drawing.
    let most = cap.filter(|(_, cap)| *cap <= most * 1.4).map_or(most, |(_, cap)| most.max(cap));
    let says = |(policy, line): &(&Policy, Vec<Point>)| {
        let peak = line.iter().map(|point| point.mean).fold(0.0, f64::max);
        format!("{} ends at {}, most {}", policy.name, (what.in_words)(last(line)), (what.in_words)(peak))
    };
    let says = format!("{}: {}", what.title, lines.iter().map(says).collect::<Vec<_>>().join("; "));
    chart::svg(html, page, &frame, &says, |html| {
        let about = if what.stays { 4 } else { marks(most) };
        let y = zero_axis(html, &frame, most, about, what.on_axis);
        if let Some((name, cap)) = cap.filter(|(_, cap)| *cap <= y.from.1) {
            let at = y.at(cap);
            chart::line(html, "cap", (frame.x().0, at), (frame.x().1, at));
            let says = format!("cap of {}: {}", short(name, 24), dollars(cap));
            chart::label(html, "tick start", (frame.x().0 + 6.0, at + 15.0), &says);
        }
        let x = time_axis(html, view, page, &frame);
        shade_shocks(html, view, &frame, &x);
        for (policy, line) in lines.iter().filter(|(policy, _)| is_shaded(policy)) {
            let there = line.iter().map(|point| (x.at(point.hour), y.at(point.high)));
            let back = line.iter().rev().map(|point| (x.at(point.hour), y.at(point.low)));
            let way = format!("{}Z", chart::path(there.chain(back)));
            html.tag("path").class(format_args!("band {}", colour(policy))).set("d", way).empty();
        }
        for (policy, line) in lines {
            let way = chart::path(line.iter().map(|point| (x.at(point.hour), y.at(point.mean))));
            html.tag("path").class(format_args!("line {}", colour(policy))).set("d", way).empty();
        }
        if has_names {
            let ends = lines.iter().map(|(policy, line)| (y.at(last(line)), colour(policy), policy.name));
            end_labels(html, &frame, ends.collect());
        }
        tell(html, page, &frame, &x, |hour| {
            let at =
                |line: &[Point]| line.iter().rev().find(|point| point.hour <= hour).map_or(0.0, |point| point.mean);
            let each =
                |(policy, line): &(&Policy, Vec<Point>)| format!("{} {}", policy.name, (what.in_words)(at(line)));
            lines.iter().map(each).collect::<Vec<_>>().join("\n")
        });
    });
}
