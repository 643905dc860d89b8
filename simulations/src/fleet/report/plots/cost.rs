//! What an hour of useful work costs under each policy: a dot for each seed, their mean, and the interval of the mean.

use super::super::chart::{self, Frame, Page, Scale};
use super::super::format::{change, per_hour, short};
use super::super::html::{Html, Px};
use super::super::view::View;
use super::{colour, figure};
use crate::stats;

pub fn draw(html: &mut Html, view: &View) {
    let Some(ends) = ends(view) else { return };
    let mut how = "Each dot is one seed. The bar is the mean, the line through it its 95 % interval.".to_owned();
    if ends.0 > 0.0 {
        how.push_str(" The axis does not begin at zero.");
    }
    figure(html, "Cost of an hour of useful work", &how, |_| {}, |html, page| plot(html, page, view, ends));
}

/// Zero, unless all values lie so close together that nothing could be told apart.
fn ends(view: &View) -> Option<(f64, f64)> {
    let costs = || view.rows.iter().map(|row| row.cost_per_work_hour);
    let (low, high) = (costs().fold(f64::INFINITY, f64::min), costs().fold(0.0, f64::max));
    if view.rows.len() < 2 || high <= 0.0 {
        return None;
    }
    let low = if low > 0.75 * high { low - (high - low).max(high * 0.01) * 0.2 } else { 0.0 };
    let steps = chart::round_steps(low, high, 6);
    Some((*steps.first()?, *steps.last()?))
}

fn plot(html: &mut Html, page: Page, view: &View, ends: (f64, f64)) {
    let row = if page.is_narrow() { 54.0 } else { 40.0 };
    let mut frame = Frame::new(page, row * view.policies.len() as f64 + 56.0);
    (frame.left, frame.right) = if page.is_narrow() { (14.0, 14.0) } else { (170.0, 190.0) };
    let scale = Scale::linear(ends, frame.x());
    let says: Vec<String> = view
        .policies
        .iter()
        .map(|policy| format!("{} {}", policy.name, per_hour(policy.summary.cost_per_work_hour)))
        .collect();
    let says = format!("Cost of an hour of useful work: {}", says.join(", "));
    chart::svg(html, page, &frame, &says, |html| {
        let ticks = chart::ticks(ends.0, ends.1, if page.is_narrow() { 3 } else { 6 }, chart::money);
        for tick in &ticks {
            let x = scale.at(tick.value);
            chart::line(html, "grid", (x, frame.y().1), (x, frame.y().0));
        }
        for policy in &view.policies {
            let top = frame.top + row * policy.number as f64;
            let middle = if page.is_narrow() { top + 36.0 } else { top + row / 2.0 };
            let value = policy.summary.work_hour();
            let value = match policy.number {
                0 => value,
                _ if policy.summary.cost_against_first.is_nan() => value,
                _ => format!("{value} ({})", change(policy.summary.cost_against_first)),
            };
            if page.is_narrow() {
                chart::label(html, "name start", (frame.left, top + 18.0), &short(policy.name, 24));
                chart::label(html, "value end", (frame.x().1, top + 18.0), &value);
            } else {
                chart::label(html, "name end", (frame.left - 14.0, middle + 4.0), &short(policy.name, 22));
                chart::label(html, "value start", (frame.x().1 + 14.0, middle + 4.0), &value);
            }
            if policy.runs.iter().all(|ran| ran.row.work_hours == 0.0) {
                continue;
            }
            let costs: Vec<f64> = policy.runs.iter().map(|ran| ran.row.cost_per_work_hour).collect();
            for (number, ran) in policy.runs.iter().enumerate() {
                // Dots of equal cost lie beside each other.
                let aside = [0.0, 5.0, -5.0, 2.5, -2.5][number % 5];
                let dot = html.tag("circle").class(format_args!("dot {}", colour(policy)));
                let dot = dot.set("cx", Px(scale.at(ran.row.cost_per_work_hour))).set("cy", Px(middle + aside));
                let title = format!("{}, seed {}: {}", policy.name, ran.row.seed, per_hour(ran.row.cost_per_work_hour));
                dot.set("r", 3.5).hold(|html| html.tag("title").text(&title));
            }
            let (low, high) = stats::interval(&costs, "cost of an hour");
            let ends = [scale.at(low), scale.at(high)];
            let title = format!(
                "{}: mean {}, 95 % interval {} to {}",
                policy.name,
                per_hour(policy.summary.cost_per_work_hour),
                per_hour(low),
                per_hour(high)
            );
            html.tag("g").class(format_args!("interval {}", colour(policy))).hold(|html| {
                if policy.runs.len() > 1 {
                    html.tag("title").text(&title);
                    chart::line(html, "whisker", (ends[0], middle), (ends[1], middle));
                }
                let mean = scale.at(policy.summary.cost_per_work_hour);
                chart::line(html, "mean", (mean, middle - 10.0), (mean, middle + 10.0));
            });
        }
        chart::bottom_axis(html, &frame, &scale, &ticks, "dollars for a machine-hour of useful work");
    });
}
