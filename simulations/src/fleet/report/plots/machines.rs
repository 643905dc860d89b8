//! Machines in use over time, spot below and everything else on top of it, a panel for each policy.

use super::super::chart::{self, Frame, Scale};
use super::super::format::{mean_count, short};
use super::super::html::Html;
use super::super::view::{Point, Policy, View};
use super::{POINTS, figure, marks, shade_shocks, tell, time_axis, zero_axis};

pub fn draw(html: &mut Html, view: &View) {
    type Both<'v, 'a> = (&'v Policy<'a>, Vec<Point>, Vec<Point>);
    let panels: Vec<Both> = view
        .policies
        .iter()
        .map(|policy| {
            let over_time = |of: &dyn Fn(&super::super::super::outcome::Sample) -> f64| {
                policy.over_time(view.hours, POINTS, false, of)
            };
            (policy, over_time(&|sample| sample.spot as f64), over_time(&|sample| sample.other as f64))
        })
        .collect();
    let mut how = "Machines that were paid for.".to_owned();
    if view.seeds() > 1 {
        how.push_str(" Means over the seeds.");
    }
    how.push_str(&view.cut_off());
    let entries = [("of-area spot".to_owned(), "spot"), ("of-area other".to_owned(), "on demand and reserved")];
    let legend = |html: &mut Html| super::legend(html, entries.into_iter().chain(super::shock_entry(view)));
    let most = panels
        .iter()
        .flat_map(|(_, spot, other)| spot.iter().zip(other).map(|(spot, other)| spot.mean + other.mean))
        .fold(1.0, f64::max);
    figure(html, "Machines in use", &how, legend, |html, page| {
        let panel = if page.is_narrow() { 112.0 } else { 124.0 };
        let whole = Frame::new(page, panel * panels.len() as f64 + 48.0);
        let says = |(policy, ..): &Both| format!("{} {:.0} % spot", policy.name, policy.summary.spot_share * 100.0);
        let says = format!("Machines in use over time: {}", panels.iter().map(says).collect::<Vec<_>>().join(", "));
        chart::svg(html, page, &whole, &says, |html| {
            for (number, (policy, spot, other)) in panels.iter().enumerate() {
                let top = panel * number as f64 + 26.0;
                let bottom = whole.height - (panel * (number as f64 + 1.0));
                let frame = Frame { top, bottom, ..whole };
                chart::label(html, "name start", (frame.left, top - 9.0), &short(policy.name, 40));
                let y = zero_axis(html, &frame, most, marks(most), chart::whole);
                let x = Scale::linear((0.0, view.hours.max(1.0 / 60.0)), frame.x());
                let edge = |upper: &dyn Fn(usize) -> f64, lower: &dyn Fn(usize) -> f64| {
                    let there = (0..spot.len()).map(|at| (x.at(spot[at].hour), y.at(upper(at))));
                    let back = (0..spot.len()).rev().map(|at| (x.at(spot[at].hour), y.at(lower(at))));
                    format!("{}Z", chart::path(there.chain(back)))
                };
                let low = |at: usize| spot[at].mean;
                let high = |at: usize| spot[at].mean + other[at].mean;
                html.tag("path").class("stack spot").set("d", edge(&low, &|_| 0.0)).empty();
                html.tag("path").class("stack other").set("d", edge(&high, &low)).empty();
                shade_shocks(html, view, &frame, &x);
                tell(html, page, &frame, &x, |hour| {
                    let at = spot.iter().rposition(|point| point.hour <= hour).unwrap_or(0);
                    let of = |line: &[Point]| line.get(at).map_or(0.0, |point| point.mean);
                    format!("{}: {} spot, {} other", policy.name, mean_count(of(spot)), mean_count(of(other)))
                });
            }
            time_axis(html, view, page, &whole);
        });
    });
}
