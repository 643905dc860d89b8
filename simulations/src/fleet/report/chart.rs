//! Axes and scales of drawings: which round numbers to mark, where a value lies, and what stands beside it.
//!
//! Every figure is drawn twice, for wide and for narrow pages, so that its text has the size of the page's text on both;
//! the style sheet shows the one that fits.

use super::format;
use super::html::{Html, Px};

/// Width that a letter takes up, about, in the units of a drawing.
const LETTER: f64 = 6.6;

/// A drawing and the space within it that is left for data.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub width: f64,
    pub height: f64,
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// For which page a figure is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Wide,
    Narrow,
}

impl Page {
    pub fn width(self) -> f64 {
        if self.is_narrow() { 352.0 } else { 1_000.0 }
    }

    pub fn is_narrow(self) -> bool {
        self == Self::Narrow
    }
}

impl Frame {
    /// A drawing of this height whose data has axes at its left and below it.
    pub fn new(page: Page, height: f64) -> Self {
        let left = if page.is_narrow() { 48.0 } else { 64.0 };
        Self { width: page.width(), height, left, right: 12.0, top: 10.0, bottom: 44.0 }
    }

    pub fn x(&self) -> (f64, f64) {
        (self.left, self.width - self.right)
    }

    /// From the lowest value up.
    pub fn y(&self) -> (f64, f64) {
        (self.height - self.bottom, self.top)
    }
}

/// From values to places.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub from: (f64, f64),
    pub to: (f64, f64),
    is_log: bool,
}

impl Scale {
    pub fn linear(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { from, to, is_log: false }
    }

    /// Both ends must be above zero; values below the lower one lie on it.
    pub fn log(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { from, to, is_log: true }
    }

    /// Never outside of the ends.
    pub fn at(&self, value: f64) -> f64 {
        let (low, high) = self.from;
        let share =
            if self.is_log { (value.max(low) / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.to.0 + share * (self.to.1 - self.to.0)
    }
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

/// About so many round numbers from `low` to `high` and the ends that hold them all: 1, 2, 2.5 or 5 times a power of ten.
pub fn round_steps(low: f64, high: f64, about: usize) -> Vec<f64> {
    let high = if high > low { high } else { low + 1.0 };
    let raw = (high - low) / about.max(1) as f64;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|by| by * power).into_iter().find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(power * 10.0);
    let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
    (first..=last).map(|number| number as f64 * step).collect()
}

/// Marks at round numbers, each labelled by `label`, which is told of the step between two.
pub fn ticks(low: f64, high: f64, about: usize, label: impl Fn(f64, f64) -> String) -> Vec<Tick> {
    let values = round_steps(low, high, about);
    let step = values.windows(2).next().map_or(1.0, |pair| pair[1] - pair[0]);
    values.into_iter().map(|value| Tick { value, label: label(value, step) }).collect()
}

/// Dollars with as many places as the step needs, and with k and M where steps are large.
pub fn money(value: f64, step: f64) -> String {
    let (value, step, unit) = match step {
        large if large >= 5e5 => (value / 1e6, step / 1e6, "M"),
        large if large >= 2e4 => (value / 1e3, step / 1e3, "k"),
        _ => (value, step, ""),
    };
    if value == 0.0 {
        return "$0".into();
    }
    let places = (0..6).find(|places| {
        let scaled = step * 10_f64.powi(*places);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
    });
    match places.unwrap_or(6) as usize {
        0 if unit.is_empty() => format!("${}", format::count(value)),
        1 if unit.is_empty() => format!("${value:.2}"),
        places => format!("${value:.places$}{unit}"),
    }
}

/// A count; nothing between whole numbers.
pub fn whole(value: f64, step: f64) -> String {
    if step < 1.0 && value.fract() != 0.0 { String::new() } else { format::count(value) }
}

/// Marks over a length of time in hours, at lengths that people count in.
pub fn time_ticks(hours: f64, about: usize) -> Vec<Tick> {
    const STEPS: [f64; 17] = [
        1.0 / 60.0,
        5.0 / 60.0,
        0.25,
        0.5,
        1.0,
        2.0,
        3.0,
        6.0,
        12.0,
        24.0,
        48.0,
        120.0,
        168.0,
        336.0,
        720.0,
        2_160.0,
        8_760.0,
    ];
    let raw = hours.max(1.0 / 60.0) / about.max(1) as f64;
    let step = STEPS.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(8_760.0 * (raw / 8_760.0).ceil());
    let label = |at: f64| match step {
        _ if at == 0.0 => "0".into(),
        step if step >= 24.0 => format!("{} d", format::count(at / 24.0)),
        step if step >= 1.0 => format!("{at:.0} h"),
        _ => format!("{:.0} min", at * 60.0),
    };
    let last = (hours / step + 1e-9).floor() as u64;
    (0..=last).map(|number| number as f64 * step).map(|value| Tick { value, label: label(value) }).collect()
}

/// Marks at the lengths of waits, in hours, that lie between two: the fewest that are about `about`.
pub fn wait_ticks(low: f64, high: f64, about: usize) -> Vec<Tick> {
    // Seconds, and the finest of three grids that the mark belongs to.
    const MARKS: [(f64, &str, u8); 22] = [
        (1.0, "1 s", 0),
        (5.0, "5 s", 2),
        (10.0, "10 s", 1),
        (30.0, "30 s", 2),
        (60.0, "1 min", 0),
        (120.0, "2 min", 2),
        (300.0, "5 min", 2),
        (600.0, "10 min", 0),
        (1_800.0, "30 min", 1),
        (3_600.0, "1 h", 0),
        (7_200.0, "2 h", 2),
        (14_400.0, "4 h", 2),
        (21_600.0, "6 h", 1),
        (43_200.0, "12 h", 2),
        (86_400.0, "1 d", 0),
        (172_800.0, "2 d", 2),
        (259_200.0, "3 d", 1),
        (604_800.0, "7 d", 0),
        (1_209_600.0, "14 d", 2),
        (2_592_000.0, "30 d", 1),
        (7_776_000.0, "90 d", 1),
        (31_536_000.0, "365 d", 0),
    ];
    let within = |grid: u8| {
        let fits =
            MARKS.into_iter().filter(move |(secs, _, of)| *of <= grid && (low..=high).contains(&(secs / 3_600.0)));
        fits.map(|(secs, label, _)| Tick { value: secs / 3_600.0, label: label.into() }).collect::<Vec<_>>()
    };
    let enough = (0..2).map(within).find(|ticks| ticks.len() >= about);
    enough.unwrap_or_else(|| within(2))
}

/// About how wide a text is.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The outside of a drawing. `says` is for those who cannot see it.
pub fn svg(html: &mut Html, page: Page, frame: &Frame, says: &str, inner: impl FnOnce(&mut Html)) {
    html.tag("svg")
        .class(if page.is_narrow() { "narrow" } else { "wide" })
        .set("viewBox", format_args!("0 0 {} {}", Px(frame.width), Px(frame.height)))
        .set("role", "img")
        .set("aria-label", says)
        .hold(inner);
}

pub fn line(html: &mut Html, class: &str, from: (f64, f64), to: (f64, f64)) {
    let line = html.tag("line").class(class).set("x1", Px(from.0)).set("y1", Px(from.1));
    line.set("x2", Px(to.0)).set("y2", Px(to.1)).empty();
}

/// `class` says where the text is anchored: `start`, `middle` or `end`, and what it is.
pub fn label(html: &mut Html, class: &str, at: (f64, f64), text: &str) {
    html.tag("text").class(class).set("x", Px(at.0)).set("y", Px(at.1)).text(text);
}

pub fn area(html: &mut Html, class: &str, from: (f64, f64), size: (f64, f64), title: &str) {
    let rect = html.tag("rect").class(class).set("x", Px(from.0)).set("y", Px(from.1));
    let rect = rect.set("width", Px(size.0.max(0.0))).set("height", Px(size.1.max(0.0)));
    if title.is_empty() {
        rect.empty();
    } else {
        rect.hold(|html| html.tag("title").text(title));
    }
}

/// Lines across the data at each mark of the axis at the left, and its labels.
pub fn left_axis(html: &mut Html, frame: &Frame, scale: &Scale, ticks: &[Tick]) {
    for tick in ticks {
        let y = scale.at(tick.value);
        line(html, if tick.value == 0.0 { "base" } else { "grid" }, (frame.x().0, y), (frame.x().1, y));
        label(html, "tick end", (frame.left - 8.0, y + 4.0), &tick.label);
    }
}

/// Marks below the data, their labels, and what the axis measures.
pub fn bottom_axis(html: &mut Html, frame: &Frame, scale: &Scale, ticks: &[Tick], measures: &str) {
    let y = frame.y().0;
    line(html, "base", (frame.x().0, y), (frame.x().1, y));
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks {
        let x = scale.at(tick.value);
        line(html, "base", (x, y), (x, y + 4.0));
        let half = text_width(&tick.label) / 2.0;
        let middle = x.min(frame.width - half - 1.0);
        if middle - half >= free_from {
            label(html, "tick middle", (middle, y + 18.0), &tick.label);
            free_from = middle + half + 6.0;
        }
    }
    let (from, to) = frame.x();
    label(html, "axis middle", (f64::midpoint(from, to), y + 36.0), measures);
}

/// A path through points; those in the middle of a level stretch are left out.
pub fn path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut text = String::new();
    let mut level: Option<String> = None;
    let mut last: Option<String> = None;
    for (x, y) in points {
        let (x, y) = (Px(x).to_string(), Px(y).to_string());
        if last.as_ref() == Some(&y) {
            level = Some(x);
            continue;
        }
        if let Some(x) = level.take() {
            text.push_str(&format!("H{x}"));
        }
        text.push_str(&format!("{}{x} {y}", if last.is_none() { 'M' } else { 'L' }));
        last = Some(y);
    }
    if let Some(x) = level {
        text.push_str(&format!("H{x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_hold_all_values() {
        for (low, high, about, first, last, step) in [
            (0.0, 0.93, 5, 0.0, 1.0, 0.2),
            (0.0, 7_300.0, 4, 0.0, 8_000.0, 2_000.0),
            (0.0, 12.0, 4, 0.0, 15.0, 5.0),
            (0.41, 0.47, 4, 0.4, 0.48, 0.02),
            (0.0, 0.0, 4, 0.0, 1.0, 0.25),
            (3.0, 3.0, 4, 3.0, 4.0, 0.25),
        ] {
            let marks = round_steps(low, high, about);
            let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
            assert!(near(marks[0], first) && near(marks[marks.len() - 1], last), "{low}..{high}: {marks:?}");
            assert!(near(marks[1] - marks[0], step), "{low}..{high}: {marks:?}");
        }
    }

    #[test]
    fn a_scale_runs_between_its_ends_and_not_past_them() {
        let scale = Scale::linear((0.0, 10.0), (100.0, 0.0));
        assert_eq!([scale.at(0.0), scale.at(5.0), scale.at(99.0), scale.at(f64::NAN)], [100.0, 50.0, 0.0, 100.0]);
        let log = Scale::log((0.1, 10.0), (0.0, 100.0));
        assert!((log.at(1.0) - 50.0).abs() < 1e-9);
        assert_eq!([log.at(0.0), log.at(1e9)], [0.0, 100.0]);
        assert_eq!(Scale::linear((1.0, 1.0), (0.0, 9.0)).at(1.0), 0.0);
    }

    #[test]
    fn time_is_marked_in_the_units_that_people_count_in() {
        let labels = |hours, about| time_ticks(hours, about).into_iter().map(|tick| tick.label).collect::<Vec<_>>();
        assert_eq!(labels(0.5, 3), ["0", "15 min", "30 min"]);
        assert_eq!(labels(60.0, 6), ["0", "12 h", "24 h", "36 h", "48 h", "60 h"]);
        assert_eq!(labels(24.0 * 30.0, 6), ["0", "5 d", "10 d", "15 d", "20 d", "25 d", "30 d"]);
        assert!(labels(24.0 * 365.0 * 40.0, 6).len() <= 7);
        assert_eq!(labels(0.0, 6), ["0"]);
    }

    #[test]
    fn waits_are_marked_as_finely_as_there_is_room() {
        let labels =
            |low, high, about| wait_ticks(low, high, about).into_iter().map(|tick| tick.label).collect::<Vec<_>>();
        assert_eq!(labels(0.01, 30.0, 4), ["1 min", "10 min", "1 h", "1 d"]);
        assert_eq!(labels(0.01, 30.0, 6), ["1 min", "10 min", "30 min", "1 h", "6 h", "1 d"]);
        assert_eq!(labels(0.012, 0.2, 4), ["1 min", "2 min", "5 min", "10 min"]);
    }

    #[test]
    fn money_on_an_axis_has_the_places_of_its_step() {
        assert_eq!([money(0.0, 0.2), money(0.4, 0.2), money(0.25, 0.25)], ["$0", "$0.40", "$0.25"]);
        assert_eq!(
            [money(7_500.0, 2_500.0), money(15_000.0, 5_000.0), money(60_000.0, 20_000.0)],
            ["$7,500", "$15,000", "$60k"]
        );
        assert_eq!([money(2_500_000.0, 500_000.0), whole(0.5, 0.5)], ["$2.5M", ""]);
    }

    #[test]
    fn a_path_names_a_height_only_where_it_changes() {
        assert_eq!(path([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 3.0), (4.0, 3.0)]), "M0 1H2L3 3H4");
        assert_eq!(path([]), "");
    }
}
