//! Results as one page that stands by itself: no network, no fonts, no scripts of others. It can be sent by mail, printed,
//! and read without scripts; equal results make equal bytes.
//!
//! The page has the answer first, what speaks against it next, then the tables and the drawings, and at its end what was
//! simulated. `view` sorts the results, `headline` says them in sentences, `tables` and `plots` show them, `setting` tells
//! of the scenario; `chart`, `html` and `format` are what those are written with. A further figure of a policy is a
//! column of `tables::cost`.

use std::path::Path;

use super::scenario::build::Choice;
use super::study::{Plan, Ran};

mod chart;
pub mod format;
mod headline;
mod html;
mod plots;
mod setting;
mod tables;
mod view;

use format::{count, listed, moment, plural};
use html::Html;
use view::View;

const STYLE: &str = include_str!("report/style.css");
const SCRIPT: &str = include_str!("report/script.js");

/// A page of the results of a plan: one policy with one seed, or several with several. The jobs of the first seed, where
/// they were kept, make one more drawing: a job over its market.
pub fn page(plan: &Plan, ran: &[Ran]) -> String {
    let choice = ran.first().and_then(|ran| {
        let policy = ran.row.policy.parse().ok()?;
        Some(Choice { policy, seed: ran.row.seed, checked: false })
    });
    // The scenario was read before the runs; if a file of it is gone since, the page does without what it told.
    let setup = choice.and_then(|choice| plan.setup(&choice).ok());
    let view = View::new(plan, ran, setup);
    let mut html = Html::default();
    html.raw("<!DOCTYPE html>\n");
    html.tag("html").set("lang", "en").hold(|html| {
        html.tag("head").hold(|html| head(html, &view));
        html.tag("body").hold(|html| body(html, &view));
    });
    html.finish()
}

fn head(html: &mut Html, view: &View) {
    html.tag("meta").set("charset", "utf-8").empty();
    html.tag("meta").set("name", "viewport").set("content", "width=device-width, initial-scale=1").empty();
    // The browser itself sees to it that the page asks nobody for anything.
    let nothing = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
    html.tag("meta").set("http-equiv", "Content-Security-Policy").set("content", nothing).empty();
    html.tag("meta").set("name", "color-scheme").set("content", "light dark").empty();
    html.tag("title").text(&format!("{}: simulation report", name(view)));
    html.tag("style").hold(|html| html.raw(STYLE));
}

fn body(html: &mut Html, view: &View) {
    html.tag("main").hold(|html| {
        html.tag("header").hold(|html| heading(html, view));
        answer(html, view);
        warnings(html, view);
        section(html, "Cost", |html| {
            plots::cost::draw(html, view);
            tables::cost(html, view);
            plots::series::spending(html, view);
        });
        if !view.plan.scenario.scenario.budgets.is_empty() {
            section(html, "Budgets", |html| tables::budgets(html, view));
        }
        let has_deadlines = view.any(|row| row.with_deadline > 0);
        section(html, if has_deadlines { "Deadlines and waiting" } else { "Waiting" }, |html| {
            tables::service(html, view);
            plots::waits::draw(html, view);
            plots::series::queue(html, view);
        });
        section(html, "Machines", |html| {
            tables::machines(html, view);
            plots::machines::draw(html, view);
            tables::clusters(html, view);
            plots::job::draw(html, view);
        });
        if tables::has_teams(view) {
            section(html, "Teams", |html| tables::teams(html, view));
        }
        section(html, "What was simulated", |html| setting::write(html, view));
        section(html, "How to read this", |html| method(html, view));
    });
    html.tag("script").hold(|html| html.raw(SCRIPT));
}

fn section(html: &mut Html, title: &str, inner: impl FnOnce(&mut Html)) {
    html.tag("section").hold(|html| {
        html.tag("h2").text(title);
        inner(html);
    });
}

fn heading(html: &mut Html, view: &View) {
    let scenario = &view.plan.scenario.scenario;
    html.tag("p").class("eyebrow").text("Leeway simulation report");
    html.tag("h1").text(name(view));
    html.tag("p").class("about").text(&scenario.about);
    let jobs: Vec<u64> = view.rows.iter().map(|row| row.jobs + row.open).collect();
    let (least, most) = (jobs.iter().min().copied().unwrap_or(0), jobs.iter().max().copied().unwrap_or(0));
    let jobs = if least == most {
        plural(most as f64, "job", "jobs")
    } else {
        format!("{} to {} jobs", count(least as f64), count(most as f64))
    };
    let policies: Vec<String> = view.policies.iter().map(|policy| policy.name.to_owned()).collect();
    let facts = [
        format!("{} from {}", scenario.length, moment(scenario.start)),
        jobs,
        plural(scenario.clusters.len() as f64, "cluster", "clusters"),
        if policies.len() == 1 {
            format!("policy {}", listed(&policies))
        } else {
            plural(policies.len() as f64, "policy", "policies")
        },
        seeds(view),
    ];
    html.tag("ul").class("chips").hold(|html| {
        for fact in &facts {
            html.tag("li").text(fact);
        }
    });
}

/// The scenario's name; of a file without the way to it, which is nobody else's business.
fn name<'v>(view: &'v View) -> &'v str {
    let path = Path::new(&view.plan.scenario.name);
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(&view.plan.scenario.name)
}

fn seeds(view: &View) -> String {
    let seeds = &view.plan.seeds;
    let is_row = seeds.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1));
    match &seeds[..] {
        [] => "no seed".into(),
        [one] => format!("seed {one}"),
        [first, .., last] if is_row => format!("{} seeds, {first} to {last}", count(seeds.len() as f64)),
        many => format!("{} seeds", count(many.len() as f64)),
    }
}

fn answer(html: &mut Html, view: &View) {
    let answer = headline::answer(view);
    html.tag("section").class("answer").hold(|html| {
        html.tag("p").class("sentence").text(&answer.sentence);
        for more in &answer.more {
            html.tag("p").text(more);
        }
        html.tag("div").class("tiles").hold(|html| {
            for tile in headline::tiles(view) {
                html.tag("div").class(if tile.is_bad { "tile bad" } else { "tile" }).hold(|html| {
                    html.tag("p").class("what").text(tile.what);
                    html.tag("p").class("value").text(&tile.value);
                    html.tag("p").class("note").text(&tile.note);
                });
            }
        });
    });
}

fn warnings(html: &mut Html, view: &View) {
    let warnings = headline::warnings(view);
    if warnings.is_empty() {
        return;
    }
    html.tag("section").class("warnings").hold(|html| {
        html.tag("h2").text("Before you rely on this");
        html.tag("ul").hold(|html| {
            for warning in &warnings {
                html.tag("li").text(&sentence(warning));
            }
        });
    });
}

/// A text with a stop at its end.
fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn method(html: &mut Html, view: &View) {
    let mut says = vec![
        "The scheduler, its ledger and its policies are those of production; the clusters, the markets and the jobs are \
         simulated.",
        "An hour of useful work is an hour of one machine of relative speed 1 doing work that was not lost, for a job that \
         succeeded. The cost of such an hour bears what interruptions and failed jobs wasted.",
    ];
    if view.seeds() > 1 {
        says.push(
            "A seed is the same weather for every policy: the same jobs at the same moments, the same markets, the same luck. \
             Differences are therefore taken seed by seed. Figures of a policy are means over its seeds; intervals are those of \
             the mean, at 95 %, by a bootstrap over the seeds.",
        );
    }
    if view.policies.len() > 1 {
        says.push("\"Against the first\" is the cost of an hour of work under a policy divided by that under the first policy with the same seed, less one.");
    }
    says.push(
        "Waits and turnarounds are known to within a twentieth. Points over time are samples; what came and went between two of \
         them is not drawn.",
    );
    says.push("Utilization counts machines that were paid for, whether or not their program had begun.");
    html.tag("ul").hold(|html| {
        for say in says {
            html.tag("li").text(say);
        }
    });
}
