//! The drawings of the page, and what they share: a frame with its words, a legend, the shade of shocks, and what is
//! told of a moment when a pointer rests on it.

pub mod cost;
pub mod job;
pub mod machines;
pub mod series;
pub mod waits;

use super::super::setup::{Shock, ShockKind};
use super::chart::{self, Frame, Page, Scale, Tick};
use super::format;
use super::html::{Html, Px};
use super::view::{Policy, View};

/// Points of a line over time.
const POINTS: u32 = 240;

/// A drawing for wide and one for narrow pages under a title, with a sentence that says how to read it.
pub fn figure(html: &mut Html, title: &str, how: &str, legend: impl FnOnce(&mut Html), draw: impl Fn(&mut Html, Page)) {
    html.tag("figure").hold(|html| {
        html.tag("figcaption").hold(|html| {
            html.tag("h3").text(title);
            html.tag("p").text(how);
        });
        legend(html);
        draw(html, Page::Wide);
        draw(html, Page::Narrow);
    });
}

/// A sign of a legend and its meaning.
pub fn legend<'t>(html: &mut Html, entries: impl Iterator<Item = (String, &'t str)>) {
    html.tag("ul").class("legend").hold(|html| {
        for (class, text) in entries {
            html.tag("li").hold(|html| {
                if let Some(of) = class.strip_prefix("of-line ") {
                    let sign = html.tag("svg").class("key").set("viewBox", "0 0 30 12").set("aria-hidden", "true");
                    sign.hold(|html| html.tag("path").class(format_args!("line {of}")).set("d", "M1 6H29").empty());
                } else {
                    html.tag("span").class(format_args!("key {class}")).text("");
                }
                html.text(text);
            });
        }
    });
}

/// The line of each policy. A policy alone needs none.
pub fn policies_legend(html: &mut Html, view: &View) {
    if view.policies.len() > 1 {
        legend(html, view.policies.iter().map(|policy| (format!("of-line {}", colour(policy)), policy.name)));
    }
}

/// Colours are eight. Dashes are four, so that lines that lie on each other are all seen.
pub fn colour(policy: &Policy) -> String {
    format!("s{} d{}", policy.number % 8, policy.number % 4)
}

/// Time from the start of the simulation to the end of the longest run, along the lower edge.
fn time_axis(html: &mut Html, view: &View, page: Page, frame: &Frame) -> Scale {
    let scale = Scale::linear((0.0, view.hours.max(1.0 / 60.0)), frame.x());
    let ticks = chart::time_ticks(view.hours, if page.is_narrow() { 4 } else { 9 });
    chart::bottom_axis(html, frame, &scale, &ticks, "time since the start");
    scale
}

/// Shades when shocks were, under all else.
fn shade_shocks(html: &mut Html, view: &View, frame: &Frame, scale: &Scale) {
    let Some(setup) = &view.setup else { return };
    let (bottom, top) = frame.y();
    for shock in setup.shocks.iter().filter(|shock| shock.at.as_hours_f64() < view.hours) {
        let from = scale.at(shock.at.as_hours_f64());
        let to = scale.at(shock.at.saturating_add(shock.length).as_hours_f64());
        chart::area(html, "shock", (from, top), ((to - from).max(1.5), bottom - top), &shock_text(view, shock));
    }
}

/// The sign for them, where there are any.
fn shock_entry(view: &View) -> Option<(String, &'static str)> {
    let setup = view.setup.as_ref()?;
    (!setup.shocks.is_empty()).then(|| ("of-shock".to_owned(), "shock"))
}

/// "From 2d for 6h: spot prices times 2.5 on east and west".
pub fn shock_text(view: &View, shock: &Shock) -> String {
    let what = match shock.kind {
        ShockKind::Price(factor) => format!("spot prices times {factor}"),
        ShockKind::Capacity(share) => format!("{:.0} % of the spot machines left", share * 100.0),
    };
    let clusters = view.setup.as_ref().map(|setup| &setup.clusters);
    let all = clusters.map_or(0, Vec::len);
    let names: Vec<String> = shock
        .clusters
        .iter()
        .filter_map(|number| clusters.and_then(|clusters| clusters.get(*number)))
        .map(|cluster| cluster.spec.name.to_string())
        .collect();
    let place = if all > 1 && names.len() == all { "all clusters".to_owned() } else { format::listed(&names) };
    format!("From {} for {}: {what} on {place}", shock.at, shock.length)
}

/// About how many marks an axis of whole numbers up to this one has, so that none lies between two of them.
fn marks(most: f64) -> usize {
    (most.ceil() as usize).clamp(1, 4)
}

/// Stretches of the data that tell what was there when a pointer rests on them.
fn tell(html: &mut Html, page: Page, frame: &Frame, scale: &Scale, says: impl Fn(f64) -> String) {
    let slices = if page.is_narrow() { 24 } else { 60 };
    let (from, to) = frame.x();
    let (bottom, top) = frame.y();
    let width = (to - from) / f64::from(slices);
    for number in 0..slices {
        let at = (f64::from(number) + 0.5) / f64::from(slices);
        let hour = scale.from.0 + at * (scale.from.1 - scale.from.0);
        let title = format!("{}\n{}", format::length(hour), says(hour));
        chart::area(html, "tell", (from + f64::from(number) * width, top), (width, bottom - top), &title);
    }
}

/// Names beside the ends of lines, moved apart where they would lie on each other.
fn end_labels(html: &mut Html, frame: &Frame, mut ends: Vec<(f64, String, &str)>) {
    const LINE: f64 = 15.0;
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = f64::NEG_INFINITY;
    for end in &mut ends {
        end.0 = end.0.max(below + LINE);
        below = end.0;
    }
    let mut above = frame.y().0 + 4.0;
    for end in ends.iter_mut().rev() {
        end.0 = end.0.min(above);
        above = end.0 - LINE;
    }
    for (y, class, name) in ends {
        let at = (frame.x().1 + 8.0, y + 4.0);
        chart::label(html, &format!("name start {class}"), at, &format::short(name, 20));
    }
}

/// An axis at the left from zero to a value, whose top mark is the end of the scale.
fn zero_axis(html: &mut Html, frame: &Frame, most: f64, about: usize, label: impl Fn(f64, f64) -> String) -> Scale {
    let ticks: Vec<Tick> = chart::ticks(0.0, most, about, label);
    let top = ticks.last().map_or(1.0, |tick| tick.value);
    let scale = Scale::linear((0.0, top), frame.y());
    chart::left_axis(html, frame, &scale, &ticks);
    scale
}

/// A mark in the shape of a cross.
fn cross(html: &mut Html, class: &str, (x, y): (f64, f64), half: f64) {
    let (left, right, top, bottom) = (Px(x - half), Px(x + half), Px(y - half), Px(y + half));
    let way = format!("M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}");
    html.tag("path").class(class).set("d", way).empty();
}
