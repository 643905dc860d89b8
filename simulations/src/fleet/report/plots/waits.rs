//! How waits are spread: which share of the jobs had begun after how long.

use super::super::chart::{self, Frame, Page, Scale, Tick};
use super::super::format::length;
use super::super::html::Html;
use super::super::view::{Policy, View};
use super::{colour, figure, policies_legend};

/// The shortest wait that is told apart, in hours: a second.
const SHORTEST: f64 = 1.0 / 3_600.0;

pub fn draw(html: &mut Html, view: &View) {
    let lines: Vec<(&Policy, Vec<(f64, f64)>)> = view
        .policies
        .iter()
        .map(|policy| (policy, shares(&policy.waits())))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    if lines.is_empty() {
        return;
    }
    let how = "Share of the jobs whose program began within a time of their submission, over all seeds; jobs that never \
               began are not counted. Higher and further left is better.";
    figure(
        html,
        "How long jobs waited",
        how,
        |html| policies_legend(html, view),
        |html, page| plot(html, page, &lines),
    );
}

/// Waits with the share of all jobs that waited no longer.
fn shares(waits: &[(f64, u64)]) -> Vec<(f64, f64)> {
    let all: u64 = waits.iter().map(|(_, count)| count).sum();
    let mut seen = 0;
    let share = |(wait, count): &(f64, u64)| {
        seen += count;
        (*wait, seen as f64 / all as f64)
    };
    waits.iter().map(share).collect()
}

fn plot(html: &mut Html, page: Page, lines: &[(&Policy, Vec<(f64, f64)>)]) {
    let frame = Frame::new(page, if page.is_narrow() { 240.0 } else { 290.0 });
    let waits = || lines.iter().flat_map(|(_, line)| line.iter().map(|(wait, _)| wait.max(SHORTEST)));
    let low = waits().fold(f64::INFINITY, f64::min) / 1.3;
    let high = waits().fold(0.0, f64::max) * 1.3;
    let (x, y) = (Scale::log((low, high), frame.x()), Scale::linear((0.0, 1.0), frame.y()));
    let within = |line: &[(f64, f64)], share: f64| {
        line.iter().find(|(_, seen)| *seen >= share - 1e-12).map_or(0.0, |(wait, _)| *wait)
    };
    let words = |(policy, line): &(&Policy, Vec<(f64, f64)>)| {
        let [half, most] = [0.5, 0.9].map(|share| length(within(line, share)));
        format!("{}: half within {half}, 90 % within {most}", policy.name)
    };
    let says = lines.iter().map(words).collect::<Vec<_>>().join("; ");
    let marks = chart::wait_ticks(low, high, if page.is_narrow() { 3 } else { 5 });
    chart::svg(html, page, &frame, &says, |html| {
        let ticks =
            [0.0, 0.25, 0.5, 0.75, 0.9, 1.0].map(|value| Tick { value, label: format!("{:.0} %", value * 100.0) });
        chart::left_axis(html, &frame, &y, &ticks);
        chart::bottom_axis(html, &frame, &x, &marks, "wait from submission");
        for (policy, line) in lines {
            let mut points = vec![(x.at(low), y.at(0.0))];
            for (wait, share) in line {
                let before = points[points.len() - 1].1;
                points.push((x.at(*wait), before));
                points.push((x.at(*wait), y.at(*share)));
            }
            points.push((x.at(high), y.at(1.0)));
            html.tag("path").class(format_args!("line {}", colour(policy))).set("d", chart::path(points)).hold(
                |html| {
                    html.tag("title").text(&words(&(policy, line.clone())));
                },
            );
        }
    });
}
