//! What was simulated, so that the page stands by itself: clusters and their markets, jobs, budgets, shocks and how the
//! world behaves.

use leeway_model::resources::Accelerators;

use super::super::scenario::workload::{Ask, Capacity, Fixed, Stream};
use super::super::setup::{ClusterPlan, Setup, Sight, Span};
use super::format::{count, listed, percent, plural};
use super::html::Html;
use super::plots::shock_text;
use super::tables::{Cell, Column, table};
use super::view::View;

/// Jobs written out one by one that are listed; more are counted.
const JOBS: usize = 12;

pub fn write(html: &mut Html, view: &View) {
    let scenario = &view.plan.scenario.scenario;
    if let Some(setup) = &view.setup {
        html.tag("h3").text("Clusters");
        clusters(html, setup);
        if scenario.clusters.iter().any(|cluster| cluster.market.is_some()) {
            let from =
                format!("Spot prices and capacity as they were with seed {}, over its whole length.", setup.seed);
            html.tag("p").class("aside").text(&from);
        }
    }
    html.tag("h3").text("Jobs");
    html.tag("ul").hold(|html| {
        if let Some(history) = &view.plan.history {
            html.tag("li").text(&format!("{} They were placed by {}.", scenario.about, history.policies_text()));
        }
        for stream in &scenario.workload {
            html.tag("li").text(&stream_text(stream));
        }
        for job in scenario.jobs.iter().take(JOBS) {
            html.tag("li").text(&fixed_text(job));
        }
        if let Some(more) = scenario.jobs.len().checked_sub(JOBS).filter(|more| *more > 0) {
            html.tag("li").text(&format!("{} more, written out one by one", count(more as f64)));
        }
    });
    if let Some(history) = &view.plan.history {
        html.tag("h3").text("What the replay assumes");
        html.tag("ul").hold(|html| history.assumptions().iter().for_each(|says| html.tag("li").text(says)));
    }
    let Some(setup) = &view.setup else { return };
    if !setup.shocks.is_empty() {
        html.tag("h3").text("Shocks");
        html.tag("ul").hold(|html| {
            for shock in &setup.shocks {
                html.tag("li").text(&format!("{}.", shock_text(view, shock)));
            }
        });
    }
    html.tag("h3").text("How the world behaves");
    html.tag("dl").class("facts").hold(|html| {
        for (what, value) in terms(view, setup) {
            html.tag("div").hold(|html| {
                html.tag("dt").text(what);
                html.tag("dd").text(&value);
            });
        }
    });
}

fn clusters(html: &mut Html, setup: &Setup) {
    let has_carbon = setup.clusters.iter().any(|plan| plan.carbon.is_some() && plan.watts.is_some());
    let mut columns = vec![
        Column("Cluster", ""),
        Column("Region", ""),
        Column("Machines", "At once, over spot and the rest"),
        Column("Type", ""),
        Column("On demand", "Dollars for a machine-hour"),
        Column(
            "Spot",
            "Dollars for a machine-hour: what is declared, or the least, the mean and the most of the market",
        ),
        Column("Spot capacity", "Share of the time in which there was any, and machines on average of the most"),
    ];
    if has_carbon {
        columns.push(Column("CO2", "Kilograms for a machine-hour"));
    }
    let row = |plan: &ClusterPlan| {
        let spec = &plan.spec;
        let region = match &spec.zone {
            Some(zone) => format!("{}, {zone}", spec.region),
            None => spec.region.to_string(),
        };
        let machines = plan.machines();
        let price = |rate: leeway_model::Rate| format!("${rate}");
        let on_demand = machines.and_then(|machines| machines.on_demand);
        let spot = machines.and_then(|machines| machines.spot);
        let market = plan.market.as_ref().filter(|trace| !trace.data.is_empty()).map(Market::of);
        let mut row = vec![
            Cell::text(spec.name.as_str()),
            Cell::text(region),
            match machines.and_then(|machines| machines.count) {
                Some(number) => Cell::number(count(f64::from(number)), f64::from(number)),
                None => Cell::number("no limit", f64::MAX),
            },
            Cell::text(machines.map_or_else(String::new, |machines| {
                let accelerators = machines.shape.accelerators.as_ref();
                let accelerators = accelerators.map(|Accelerators { model, count }| format!(", {count} x {model}"));
                format!("{}{}", machines.shape.instance_type, accelerators.unwrap_or_default())
            })),
            on_demand.map_or_else(|| Cell::text("none"), |rate| Cell::number(price(rate), rate.as_units_f64())),
            match (&market, spot) {
                (Some(market), _) => Cell::number(market.prices(), market.mean),
                (None, Some(rate)) => Cell::number(price(rate), rate.as_units_f64()),
                (None, None) => Cell::text("none"),
            },
            match (&market, spot) {
                (Some(market), _) => Cell::number(market.capacity(), market.there),
                (None, Some(_)) => Cell::text("always"),
                (None, None) => Cell::text("none"),
            },
        ];
        if has_carbon {
            let kilograms = plan.carbon.zip(plan.watts).map(|(grams, watts)| grams * watts / 1e6);
            row.push(kilograms.map_or_else(|| Cell::text("not known"), |kg| Cell::number(format!("{kg:.3} kg"), kg)));
        }
        row
    };
    table(html, &columns, setup.clusters.iter().map(row).collect());
}

/// A market in a few figures.
struct Market {
    least: f64,
    mean: f64,
    most: f64,
    /// Share of the ticks with any machine.
    there: f64,
    machines_mean: f64,
    machines_most: u32,
}

impl Market {
    fn of(trace: &leeway_market::trace::SpotTrace) -> Self {
        let ticks = trace.data.len() as f64;
        let mut market = Self {
            least: f64::INFINITY,
            mean: 0.0,
            most: 0.0,
            there: trace.data.iter().filter(|nodes| **nodes > 0).count() as f64 / ticks,
            machines_mean: trace.data.iter().map(|nodes| f64::from(*nodes)).sum::<f64>() / ticks,
            machines_most: trace.data.iter().copied().max().unwrap_or(0),
        };
        let starts =
            [(0, trace.spot)].into_iter().chain(trace.price_changes.iter().map(|change| (change.tick, change.rate)));
        let ends = trace.price_changes.iter().map(|change| change.tick).chain([trace.data.len() as u32]);
        for ((from, rate), to) in starts.zip(ends) {
            let (price, share) = (rate.as_units_f64(), f64::from(to.saturating_sub(from)) / ticks);
            if share > 0.0 {
                market.least = market.least.min(price);
                market.most = market.most.max(price);
                market.mean += price * share;
            }
        }
        market
    }

    fn prices(&self) -> String {
        let places = if self.most >= 1.0 { 2 } else { 4 };
        if self.least >= self.most {
            return format!("${:.places$}", self.mean);
        }
        format!("${:.places$} (${:.places$} to ${:.places$})", self.mean, self.least, self.most)
    }

    fn capacity(&self) -> String {
        let there = percent(self.there);
        format!("{there}, {:.1} of {}", self.machines_mean, count(f64::from(self.machines_most)))
    }
}

fn stream_text(stream: &Stream) -> String {
    let mut parts = Vec::new();
    if let Some(path) = &stream.trace {
        parts.push(format!("the recording {}", path.display()));
    }
    if let Some(path) = &stream.fitted {
        parts.push(format!("a law fitted to a recording, {}", path.display()));
    }
    if let Some(law) = &stream.generate {
        let rhythm = if law.arrivals.weekly.is_empty() { "" } else { " with a weekly rhythm" };
        let median = super::format::length(law.runtime.median() / 3_600.0);
        let nodes: Vec<u32> = law.sizes.iter().map(|size| size.nodes).collect();
        let most = nodes.iter().copied().max().unwrap_or(1);
        parts.push(format!(
            "a law: {} jobs an hour on average{rhythm}, half of them longer than {median}, none longer than {}, on up to {}",
            law.arrivals.per_hour,
            law.runtime_max,
            plural(f64::from(most), "machine", "machines"),
        ));
        if !law.teams.is_empty() {
            let names: Vec<String> = law.teams.iter().map(|team| team.name.clone()).collect();
            parts.push(format!("of {}", listed(&names)));
        }
    }
    if (stream.faster - 1.0).abs() > 1e-9 {
        parts.push(format!("{} times as fast as recorded", stream.faster));
    }
    if let Some(most) = stream.most {
        parts.push(format!("no more than {} jobs", count(most as f64)));
    }
    parts.extend(ask(&stream.ask));
    let text = format!("{}.", parts.join("; "));
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn fixed_text(job: &Fixed) -> String {
    let at = job.at.map_or_else(|| "at the start".to_owned(), |at| format!("after {at}"));
    let machines = plural(f64::from(job.nodes), "machine", "machines");
    let mut parts = vec![format!("{}: {} of work on {machines}, {at}", job.name, job.runtime)];
    if job.gpus > 0 {
        let model = job.accelerator.as_deref().unwrap_or("GPU");
        parts.push(format!("{} x {model} each", job.gpus));
    }
    if !job.team.is_empty() {
        parts.push(format!("of {}", job.team));
    }
    parts.extend(ask(&job.ask));
    format!("{}.", parts.join("; "))
}

/// What jobs ask for beside machines, in words.
fn ask(ask: &Ask) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = |text: Option<String>| parts.extend(text);
    part(ask.accelerator.as_ref().map(|model| format!("on {}", model.replace('|', " or "))));
    part(ask.gpus_per_machine.map(|gpus| format!("{gpus} accelerators of a machine each")));
    part(match ask.capacity {
        Some(Capacity::Spot) => Some("on spot only".into()),
        Some(Capacity::OnDemand) => Some("on demand only".into()),
        Some(Capacity::Auto) | None => None,
    });
    part(ask.checkpoint.as_ref().map(|saved| {
        let every = saved
            .every
            .map_or_else(|| "as often as the scheduler chooses".to_owned(), |every| format!("every {every}"));
        format!("checkpoints of {} {every} ({} to save, {} to restore)", saved.size, saved.save, saved.restore)
    }));
    part(ask.deadline.map(|times| format!("a deadline at {times} times their running time")));
    part(ask.estimate.map(|share| match share {
        0.0 => "running times not stated".into(),
        share => format!("running times stated as {share} times the true ones"),
    }));
    part(ask.value_per_hour.map(|value| format!("an hour earlier is worth ${}", value.0)));
    part(ask.max_cost.map(|most| format!("at most ${} each", most.0)));
    part(ask.priority.map(|priority| format!("priority {priority}")));
    part(ask.input.as_ref().map(|input| format!("{} of inputs in {}", input.size, input.region)));
    part(ask.budget.as_ref().map(|budget| format!("paid from {budget}")));
    parts
}

fn terms(view: &View, setup: &Setup) -> Vec<(&'static str, String)> {
    let terms = &setup.terms;
    let span = |span: &Span| {
        if span.low == span.high { span.low.to_string() } else { format!("{} to {}", span.low, span.high) }
    };
    let warned = 100_u32.saturating_sub(terms.unwarned_percent).saturating_sub(terms.short_percent);
    vec![
        ("Jobs arrive for", view.plan.scenario.scenario.length.to_string()),
        ("A run is given up after", setup.limit.to_string()),
        (
            "Policies see spot capacity",
            match terms.sight {
                Sight::Free => "at each change, for nothing".into(),
                Sight::Tried => "only by trying to launch".into(),
            },
        ),
        ("From the order to the machines", span(&terms.provision)),
        ("From the machines to the program", span(&terms.boot)),
        ("To give machines back", terms.release.to_string()),
        (
            "Warning before a machine is taken",
            format!(
                "{} for {warned} %, a tenth of it for {} %, none for {} %",
                terms.notice, terms.short_percent, terms.unwarned_percent
            ),
        ),
        ("Between two regions", format!("{}/s, shared", terms.between_regions)),
        ("Within a region", format!("{}/s, shared", terms.within_region)),
    ]
}
