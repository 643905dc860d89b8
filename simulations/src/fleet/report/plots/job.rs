//! One job over its market: the same job under each policy with the first seed, where it stood, when it was interrupted,
//! and what spot machines cost and whether there were any at the time.

use leeway_model::run::EndReason;
use leeway_model::{Millis, Timestamp};

use super::super::super::outcome::{Ended, Stretch};
use super::super::super::setup::{ClusterPlan, Setup, ShockKind};
use super::super::chart::{self, Frame, Page, Scale};
use super::super::format::{dollars, length, moment, plural, short};
use super::super::html::{Html, Px};
use super::super::view::{Policy, View};
use super::{cross, figure};

/// Markets that are drawn above the job.
const MARKETS: usize = 4;

/// The job under each policy that ended it.
struct Shown<'a> {
    job: &'a Ended,
    under: Vec<(&'a Policy<'a>, &'a Ended)>,
    markets: Vec<Market<'a>>,
    from: Timestamp,
    hours: f64,
}

/// Spot machines of a cluster while the job was there.
struct Market<'a> {
    cluster: &'a ClusterPlan,
    /// Hours from the submission, price of a machine-hour, and whether there were as many machines as the job asks for.
    steps: Vec<(f64, f64, bool)>,
}

pub fn draw(html: &mut Html, view: &View) {
    let Some(shown) = shown(view) else { return };
    let job = shown.job;
    let mut how = format!(
        "The job that was interrupted most often with the first seed: {}, {} of {} work each.",
        job.name,
        plural(f64::from(job.nodes), "machine", "machines"),
        length(job.work.as_hours_f64())
    );
    if job.interruptions == 0 {
        how = how.replace("The job that was interrupted most often", "No job was interrupted; the longest");
    }
    if !shown.markets.is_empty() {
        how.push_str(" Above it the price of spot in its clusters, shaded while there were machines enough for it.");
    }
    let entries = [
        ("of-area spot", "on spot"),
        ("of-area other", "on demand or reserved"),
        ("of-area boot", "machines getting ready"),
        ("of-wait", "without machines"),
        ("of-cross", "interruption or loss"),
        ("of-deadline", "deadline"),
    ];
    let has_deadline = job.deadline.is_some();
    let entries = entries.into_iter().filter(|(class, _)| has_deadline || *class != "of-deadline");
    let legend = |html: &mut Html| super::legend(html, entries.map(|(class, text)| (class.to_owned(), text)));
    figure(html, "One job over its market", &how, legend, |html, page| plot(html, page, &shown));
}

fn shown<'a>(view: &'a View<'a>) -> Option<Shown<'a>> {
    let first = |policy: &'a Policy<'a>| policy.runs.first().map_or(&[][..], |ran| &ran.jobs[..]);
    let all = view.policies.iter().flat_map(first);
    // Of equals the one that came first, under the policy that stands first.
    let rank = |job: &&Ended| (job.interruptions, job.stretches.len(), job.turnaround());
    let job = all.filter(|job| !job.stretches.is_empty()).fold(None, |best: Option<&Ended>, job| match best {
        Some(best) if rank(&best) >= rank(&job) => Some(best),
        _ => Some(job),
    })?;
    let same = |policy: &'a Policy<'a>| {
        let is_it = |other: &&Ended| other.job == job.job && other.name == job.name;
        first(policy).iter().find(is_it).map(|found| (policy, found))
    };
    let under: Vec<_> = view.policies.iter().filter_map(same).collect();
    let ends = under.iter().map(|(_, job)| job.ended).chain(job.deadline);
    let hours = ends.map(|end| end.since(job.submitted).as_hours_f64()).fold(1.0 / 60.0, f64::max);
    let markets = view.setup.as_ref().map_or(Vec::new(), |setup| markets(setup, job, &under, hours));
    Some(Shown { job, under, markets, from: job.submitted, hours })
}

/// The markets of the clusters in which it stood under any policy.
fn markets<'a>(setup: &'a Setup, job: &Ended, under: &[(&Policy, &Ended)], hours: f64) -> Vec<Market<'a>> {
    let stood = |cluster: &ClusterPlan| {
        under.iter().any(|(_, job)| job.stretches.iter().any(|stretch| stretch.cluster == cluster.spec.name))
    };
    let mut markets = Vec::new();
    for (number, cluster) in setup.clusters.iter().enumerate() {
        let Some(trace) = cluster.market.as_ref().filter(|trace| stood(cluster) && !trace.data.is_empty()) else {
            continue;
        };
        let gap = trace.gap.as_millis().max(1);
        let mut prices = vec![trace.spot; trace.data.len()];
        for change in &trace.price_changes {
            if let Some(rest) = prices.get_mut(change.tick as usize..) {
                rest.fill(change.rate);
            }
        }
        let begin = job.submitted.since(setup.start).as_millis();
        let end = begin + (hours * 3_600_000.0) as u64;
        // No more steps than can be told apart.
        let stride = ((end - begin) / gap / 1_500 + 1) * gap;
        let mut steps: Vec<(f64, f64, bool)> = Vec::new();
        let mut at = begin - begin % gap;
        while at < end {
            let tick = (at / gap % trace.data.len() as u64) as usize;
            let shocks = setup.shocks.iter().filter(|shock| {
                let from = shock.at.as_millis();
                shock.clusters.contains(&number) && (from..from + shock.length.as_millis()).contains(&at)
            });
            let (mut price, mut machines) = (prices[tick].as_units_f64(), f64::from(trace.data[tick]));
            for shock in shocks {
                match shock.kind {
                    ShockKind::Price(factor) => price *= factor,
                    ShockKind::Capacity(share) => machines = (machines * share).floor(),
                }
            }
            let step = (price, machines >= f64::from(job.nodes));
            if steps.last().is_none_or(|(_, price, has)| (*price, *has) != step) {
                let hour = at.saturating_sub(begin) as f64 / 3_600_000.0;
                steps.push((hour, step.0, step.1));
            }
            at += stride;
        }
        markets.push(Market { cluster, steps });
    }
    markets.truncate(MARKETS);
    markets
}

fn plot(html: &mut Html, page: Page, shown: &Shown) {
    let (market, row) = if page.is_narrow() { (72.0, 62.0) } else { (64.0, 48.0) };
    let count = |of: usize| of as f64;
    let height = 26.0 + market * count(shown.markets.len()) + row * count(shown.under.len()) + 52.0;
    let mut frame = Frame::new(page, height);
    frame.top = 26.0;
    (frame.left, frame.right) = if page.is_narrow() { (8.0, 12.0) } else { (150.0, 24.0) };
    let x = Scale::linear((0.0, shown.hours), frame.x());
    let words = |(policy, job): &(&Policy, &Ended)| {
        let times = plural(f64::from(job.interruptions), "interruption", "interruptions");
        format!(
            "{}: {} after {}, {times}, {}",
            policy.name,
            job.state,
            job.turnaround(),
            dollars(job.cost.as_units_f64())
        )
    };
    let says = shown.under.iter().map(words).collect::<Vec<_>>().join("; ");
    let says = format!("One job over its market. {says}");
    let has_clusters = {
        let mut clusters = shown.under.iter().flat_map(|(_, job)| job.stretches.iter().map(|stretch| &stretch.cluster));
        clusters.next().is_some_and(|first| clusters.any(|other| other != first))
    };
    chart::svg(html, page, &frame, &says, |html| {
        for (number, market_of) in shown.markets.iter().enumerate() {
            draw_market(html, page, &frame, &x, market_of, frame.top + market * count(number), market);
        }
        for (number, one) in shown.under.iter().enumerate() {
            let top = frame.top + market * count(shown.markets.len()) + row * count(number);
            let middle = if page.is_narrow() { top + 42.0 } else { top + row / 2.0 };
            let (policy, job) = one;
            let result = format!("{}, {}", job.turnaround(), dollars(job.cost.as_units_f64()));
            if page.is_narrow() {
                chart::label(html, "name start", (frame.left, top + 18.0), &short(policy.name, 22));
                chart::label(html, "value end", (frame.x().1 - 5.0, top + 18.0), &result);
            } else {
                chart::label(html, "name end", (frame.left - 12.0, middle - 2.0), &short(policy.name, 20));
                chart::label(html, "tick end", (frame.left - 12.0, middle + 13.0), &result);
            }
            draw_job(html, &x, shown, job, middle, &words(one), has_clusters);
        }
        let (bottom, top) = frame.y();
        if let Some(deadline) = shown.job.deadline {
            let at = x.at(deadline.since(shown.from).as_hours_f64());
            chart::line(html, "deadline", (at, top - 6.0), (at, bottom));
            chart::label(html, "tick end", ((at + 28.0).min(frame.x().1 + 10.0), top - 11.0), "deadline");
        }
        let ticks = chart::time_ticks(shown.hours, if page.is_narrow() { 4 } else { 9 });
        let since = moment(shown.job.submitted);
        chart::bottom_axis(html, &frame, &x, &ticks, &format!("time since its submission at {since}"));
    });
}

fn draw_market(html: &mut Html, page: Page, frame: &Frame, x: &Scale, market: &Market, top: f64, height: f64) {
    let room = if page.is_narrow() { 24.0 } else { 8.0 };
    let (low, high) = (top + height - 8.0, top + room);
    let most = market.steps.iter().map(|(_, price, _)| *price).fold(0.0, f64::max);
    let least = market.steps.iter().map(|(_, price, _)| *price).fold(f64::INFINITY, f64::min);
    let y = Scale::linear((0.0, (most * 1.1).max(1e-9)), (low, high));
    let name = short(market.cluster.spec.name.as_str(), 18);
    let range = if least < most { format!("${least:.2} to ${most:.2}/h") } else { format!("${most:.2}/h") };
    if page.is_narrow() {
        chart::label(html, "name start", (frame.left, top + 16.0), &name);
        chart::label(html, "tick end", (frame.x().1 - 5.0, top + 16.0), &range);
    } else {
        let middle = f64::midpoint(low, high);
        chart::label(html, "name end", (frame.left - 12.0, middle - 2.0), &name);
        chart::label(html, "tick end", (frame.left - 12.0, middle + 13.0), &range);
    }
    chart::area(html, "market", (frame.x().0, high), (frame.x().1 - frame.x().0, low - high), "");
    let mut line = Vec::new();
    let ends = market.steps.iter().skip(1).map(|(from, ..)| *from).chain([x.from.1]);
    let mut there: Option<f64> = None;
    for ((from, price, has), to) in market.steps.iter().zip(ends) {
        line.extend([(x.at(*from), y.at(*price)), (x.at(to), y.at(*price))]);
        if *has {
            there.get_or_insert(x.at(*from));
        } else if let Some(since) = there.take() {
            chart::area(html, "there", (since, high), (x.at(*from) - since, low - high), "");
        }
    }
    if let Some(since) = there {
        chart::area(html, "there", (since, high), (frame.x().1 - since, low - high), "");
    }
    html.tag("path").class("line price").set("d", chart::path(line)).empty();
}

fn draw_job(html: &mut Html, x: &Scale, shown: &Shown, job: &Ended, middle: f64, words: &str, has_clusters: bool) {
    let at = |moment: Timestamp| x.at(moment.since(shown.from).as_hours_f64());
    let way = format!("M{} {m}H{}", Px(at(job.submitted)), Px(at(job.ended)), m = Px(middle));
    html.tag("path").class("wait").set("d", way).hold(|html| html.tag("title").text(words));
    for stretch in &job.stretches {
        let kind = if stretch.is_spot { "spot" } else { "other" };
        let started = stretch.started.unwrap_or(stretch.to).min(stretch.to);
        let title = stretch_words(stretch, shown.from);
        let (from, began, to) = (at(stretch.from), at(started), at(stretch.to));
        chart::area(html, "boot", (from, middle - 8.0), (began - from, 16.0), &title);
        chart::area(html, kind, (began, middle - 8.0), ((to - began).max(0.8), 16.0), &title);
        let name = stretch.cluster.as_str();
        if has_clusters && to - began > chart::text_width(name) + 8.0 {
            chart::label(html, "inside middle", (f64::midpoint(began, to), middle + 4.0), name);
        }
    }
    for stretch in &job.stretches {
        if matches!(stretch.end, Some(EndReason::Interrupted | EndReason::Lost)) {
            cross(html, "cross", (at(stretch.to), middle - 14.0), 4.0);
        }
    }
}

fn stretch_words(stretch: &Stretch, from: Timestamp) -> String {
    let kind = if stretch.is_spot { "spot" } else { "on demand or reserved" };
    let end = stretch.end.as_ref().map_or("over", EndReason::as_str);
    let since = |moment: Timestamp| -> Millis { moment.since(from) };
    format!("{}, {kind}: from {} to {}, {end}", stretch.cluster, since(stretch.from), since(stretch.to))
}
