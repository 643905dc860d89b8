//! The answer first, in sentences, and beside it whatever would make it worth less.

use super::super::study::{self, Summary};
use super::format::{change, count, dollars, listed, mean_count, per_hour, plural};
use super::view::{Policy, View};

/// The policy that people have without a scheduler.
const ON_DEMAND: &str = "on-demand";

/// The answer: one sentence, and what else must be said with it.
pub struct Answer {
    pub sentence: String,
    pub more: Vec<String>,
}

pub fn answer(view: &View) -> Answer {
    let Some(best) = view.cheapest() else {
        return Answer { sentence: "No job did any work, so there is no cost to compare.".into(), more: Vec::new() };
    };
    let of = &best.summary;
    let Some(first) = view.policies.first().filter(|_| view.policies.len() > 1) else {
        let sentence = format!(
            "{} did an hour of useful work for {}: {} in all for {}.",
            best.name,
            per_hour(of.cost_per_work_hour),
            dollars(of.cost),
            plural(of.jobs, "job", "jobs")
        );
        return Answer { sentence, more: Vec::new() };
    };
    let mut more = Vec::new();
    let sentence = if best.number == first.number {
        let against = |policy: &Policy| {
            let of = &policy.summary;
            format!("{} costs {}", policy.name, apart(of, true))
        };
        more.push(format!("{}.", listed(&view.policies[1..].iter().map(against).collect::<Vec<_>>())));
        format!(
            "{} is the cheapest: {} for an hour of useful work; no other policy costs less.",
            best.name,
            per_hour(of.cost_per_work_hour)
        )
    } else {
        format!(
            "{} is the cheapest: {} for an hour of useful work, {} than {}.",
            best.name,
            per_hour(of.cost_per_work_hour),
            apart(of, false),
            first.name
        )
    };
    if view.seeds() > 1 && of.against_low < 0.0 && of.against_high > 0.0 && best.number != first.number {
        more.push(format!("The interval holds zero, so these seeds do not tell it from {}.", first.name));
    }
    let has_on_demand = view.policies.iter().any(|policy| policy.name == ON_DEMAND);
    if has_on_demand && first.name != ON_DEMAND && best.name != ON_DEMAND {
        let against = view.against(ON_DEMAND);
        if let Some(of) = against.iter().find(|of| of.policy == best.name) {
            more.push(format!("Against {ON_DEMAND} it is {}.", apart(of, false)));
        }
    }
    if let Some(flaw) = flaw(of) {
        let clean = view
            .policies
            .iter()
            .filter(|policy| policy.summary.cost_per_work_hour > 0.0 && self::flaw(&policy.summary).is_none())
            .min_by(|a, b| a.summary.cost_per_work_hour.total_cmp(&b.summary.cost_per_work_hour));
        more.push(match clean {
            Some(clean) => format!(
                "But it {flaw}. Of those that met every deadline and finished every job, {} is the cheapest, at {} for an \
                 hour of work.",
                clean.name,
                per_hour(clean.summary.cost_per_work_hour)
            ),
            None => format!("But it {flaw}, and no other policy met every deadline and finished every job."),
        });
    }
    Answer { sentence, more }
}

/// "52.3 % less (95 % interval 54.0 % less to 50.1 % less)".
fn apart(of: &Summary, is_costing: bool) -> String {
    let side = |share: f64| {
        let word = match (share < 0.0, is_costing) {
            (true, _) => "less",
            (false, _) => "more",
        };
        format!("{:.1} % {word}", share.abs() * 100.0)
    };
    if of.cost_against_first.is_nan() {
        return "not comparable, as the first policy paid nothing,".into();
    }
    let mean = side(of.cost_against_first);
    if of.runs < 2 {
        return format!("{mean} (one seed, so no interval)");
    }
    format!("{mean} (95 % interval from {} to {})", side(of.against_low), side(of.against_high))
}

/// What a policy is cheap at the price of.
fn flaw(of: &Summary) -> Option<String> {
    let missed = (of.missed > 0.0)
        .then(|| format!("missed {} of {} deadlines", mean_count(of.missed), mean_count(of.with_deadline)));
    let open = (of.open > 0.0).then(|| format!("left {} jobs unfinished", mean_count(of.open)));
    let parts: Vec<String> = [missed, open].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| listed(&parts))
}

/// A figure that stands by itself.
pub struct Tile {
    pub what: &'static str,
    pub value: String,
    pub note: String,
    pub is_bad: bool,
}

pub fn tiles(view: &View) -> Vec<Tile> {
    let Some(best) = view.cheapest().or(view.policies.first()) else { return Vec::new() };
    let of = &best.summary;
    let is_alone = view.policies.len() == 1;
    let mut tiles = vec![Tile {
        what: if is_alone { "An hour of work" } else { "Cheapest hour of work" },
        value: per_hour(of.cost_per_work_hour),
        note: best.name.to_owned(),
        is_bad: false,
    }];
    tiles.push(match view.policies.first().filter(|first| !is_alone && first.number != best.number) {
        Some(first) => Tile {
            what: "Against the first policy",
            value: change(of.cost_against_first),
            note: format!("an hour of work beside {}", first.name),
            is_bad: false,
        },
        None => Tile {
            what: "Whole cost",
            value: dollars(of.cost),
            note: if view.seeds() > 1 { format!("{}, mean of the seeds", best.name) } else { best.name.to_owned() },
            is_bad: false,
        },
    });
    let missed: u64 = view.rows.iter().map(|row| row.missed).sum();
    let with_deadline: u64 = view.rows.iter().map(|row| row.with_deadline).sum();
    if with_deadline > 0 {
        tiles.push(Tile {
            what: "Deadlines missed",
            value: count(missed as f64),
            note: format!("of {}, over all runs", count(with_deadline as f64)),
            is_bad: missed > 0,
        });
    }
    let open: u64 = view.rows.iter().map(|row| row.open).sum();
    let jobs: u64 = view.rows.iter().map(|row| row.jobs + row.open).sum();
    tiles.push(Tile {
        what: "Jobs left over",
        value: count(open as f64),
        note: format!("of {}, over all runs", count(jobs as f64)),
        is_bad: open > 0,
    });
    if with_deadline == 0 {
        tiles.push(Tile {
            what: "Machine time on spot",
            value: format!("{:.0} %", of.spot_share * 100.0),
            note: best.name.to_owned(),
            is_bad: false,
        });
    }
    tiles
}

/// What a reader must know before the tables: what `study` warns of, and what went wrong in the runs themselves.
pub fn warnings(view: &View) -> Vec<String> {
    let mut warnings = Vec::new();
    for policy in &view.policies {
        let sum =
            |figure: &dyn Fn(&study::Row) -> u64| policy.runs.iter().map(|ran| figure(&ran.row)).sum::<u64>() as f64;
        let missed = sum(&|row| row.missed);
        if missed > 0.0 {
            let of = count(sum(&|row| row.with_deadline));
            warnings.push(format!("{} missed {} of {of} deadlines", policy.name, count(missed)));
        }
        let failed = sum(&|row| row.failed);
        if failed > 0.0 {
            warnings.push(format!("{}: {} failed", policy.name, plural(failed, "job", "jobs")));
        }
        let overrun = policy.runs.iter().map(|ran| ran.row.overrun_micros).max().unwrap_or(0) as f64 / 1e6;
        if overrun > 0.0 {
            warnings.push(format!("{} overran its budgets, by {} at the most", policy.name, dollars(overrun)));
        }
        let open = sum(&|row| row.open);
        if open > 0.0 {
            let states =
                policy.runs.iter().map(|ran| study::open_states(&ran.outcome)).find(|states| !states.is_empty());
            let states = states.map_or(String::new(), |states| format!(" (in one run {states})"));
            warnings.push(format!("{} left {} unfinished{states}", policy.name, plural(open, "job", "jobs")));
        }
        let mut refusals: Vec<(&str, u64, &str)> = Vec::new();
        for (code, (number, example)) in policy.runs.iter().flat_map(|ran| &ran.outcome.refusals.0) {
            match refusals.iter_mut().find(|(known, ..)| known == code) {
                Some((_, sum, _)) => *sum += number,
                None => refusals.push((code, *number, example)),
            }
        }
        for (code, number, example) in refusals {
            let times = plural(number as f64, "time", "times");
            warnings.push(format!("{}: the scheduler refused {times} with {code}, such as: {example}", policy.name));
        }
    }
    if !view.rows.is_empty() {
        warnings.extend(study::warnings(&view.rows));
    }
    warnings
}
