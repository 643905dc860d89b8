//! The answer first, in sentences, and beside it whatever would make it worth less.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::study::{self, Summary};
use super::format::{change, count, dollars, listed, per_hour, plural};
use super::view::{Policy, View};

/// The policy that people have without a scheduler.
const ON_DEMAND: &str = "on-demand";

/// The answer: one sentence, and what else must be said with it.
pub struct Answer {
    pub sentence: String,
    pub more: Vec<String>,
}

pub fn answer(view: &View) -> Answer {
    let mut answer = compared(view);
    if let (Some(history), Some((_, check))) = (&view.plan.history, &view.happened) {
        let says = format!("How far to trust this: {}.", history.check_text(check));
        answer.more.push(says.replace(" %", "\u{a0}%"));
    }
    answer
}

fn compared(view: &View) -> Answer {
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
        return Answer { sentence, more: flaw(of).map(|flaw| format!("But it {flaw}.")).into_iter().collect() };
    };
    let mut more = Vec::new();
    let sentence = if best.number == first.number {
        let against = |policy: &Policy| {
            let of = &policy.summary;
            if of.cost_against_first.is_nan() {
                return format!("{} cannot be compared, for it did no work", policy.name);
            }
            format!("{} costs {}", policy.name, apart(of))
        };
        more.push(format!("{}.", listed(&view.policies[1..].iter().map(against).collect::<Vec<_>>())));
        format!(
            "{} costs the least: {} for an hour of useful work; no other policy undercuts it.",
            best.name,
            per_hour(of.cost_per_work_hour)
        )
    } else {
        format!(
            "{} costs the least: {} for an hour of useful work, {} than {}.",
            best.name,
            per_hour(of.cost_per_work_hour),
            apart(of),
            first.name
        )
    };
    if view.seeds() > 1 && of.against_low < 0.0 && of.against_high > 0.0 && best.number != first.number {
        more.push(format!("The interval holds zero, so these seeds do not tell it from {}.", first.name));
    }
    let has_on_demand = view.policies.iter().any(|policy| policy.name == ON_DEMAND);
    if has_on_demand && first.name != ON_DEMAND && best.name != ON_DEMAND {
        let against = view.against(ON_DEMAND);
        if let Some(of) = against.iter().find(|of| of.policy == best.name && !of.cost_against_first.is_nan()) {
            more.push(format!("Against {ON_DEMAND} it is {}.", apart(of)));
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
                "But it {flaw}. Of those that met every deadline and did every job, {} costs the least, at {} for an \
                 hour of work.",
                clean.name,
                per_hour(clean.summary.cost_per_work_hour)
            ),
            None => format!("But it {flaw}, and no other policy met every deadline and did every job."),
        });
    }
    // A number and its sign stay on one line.
    let joined = |text: &String| text.replace(" %", "\u{a0}%");
    Answer { sentence: joined(&sentence), more: more.iter().map(joined).collect() }
}

/// "52.3 % less (95 % interval 54.0 % less to 50.1 % less)".
fn apart(of: &Summary) -> String {
    let side = |share: f64| format!("{:.1} % {}", share.abs() * 100.0, if share < 0.0 { "less" } else { "more" });
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
    let all = of.jobs + of.open;
    // Means of several runs have a place, as in the tables.
    let number = |value: f64| if of.runs > 1 { format!("{value:.1}") } else { count(value) };
    let part = |is_there: bool, text: String| is_there.then_some(text);
    let undone = of.jobs - of.succeeded;
    let missed = part(of.missed > 0.0, format!("missed {} of {:.0} deadlines", number(of.missed), of.with_deadline));
    let undone = part(undone > 0.0, format!("ended {} of {all:.0} jobs without success", number(undone)));
    let open = part(of.open > 0.0, format!("left {} of {all:.0} jobs unfinished", number(of.open)));
    let parts: Vec<String> = [missed, undone, open].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}{}", listed(&parts), if of.runs > 1 { " in a run on average" } else { "" }))
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
            note: format!("for an hour of work, beside {}", first.name),
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
    let jobs: u64 = view.rows.iter().map(|row| row.jobs + row.open).sum();
    let undone = jobs - view.rows.iter().map(|row| row.succeeded).sum::<u64>().min(jobs);
    tiles.push(Tile {
        what: "Jobs not done",
        value: count(undone as f64),
        note: format!("of {}, over all runs", count(jobs as f64)),
        is_bad: undone > 0,
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

/// " (NO_PROGRESS 12, PROGRAM_FAILED 3)", the most frequent first.
fn failures(policy: &Policy) -> String {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, count) in policy.runs.iter().flat_map(|ran| &ran.outcome.totals.failures) {
        *sums.entry(code).or_default() += count;
    }
    let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|(code, number)| (Reverse(*number), *code));
    let parts: Vec<String> = sums.iter().map(|(code, number)| format!("{code} {}", count(*number as f64))).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// What a reader must know before the tables: what `study` warns of, and what went wrong in the runs themselves.
pub fn warnings(view: &View) -> Vec<String> {
    let mut warnings = Vec::new();
    if let (Some(history), Some((happened, _))) = (&view.plan.history, &view.happened) {
        warnings.extend(history.notes(happened));
    }
    for policy in &view.policies {
        let sum =
            |figure: &dyn Fn(&study::Row) -> u64| policy.runs.iter().map(|ran| figure(&ran.row)).sum::<u64>() as f64;
        let mut faults = Vec::new();
        let missed = sum(&|row| row.missed);
        if missed > 0.0 {
            faults.push(format!("missed {} of {} deadlines", count(missed), count(sum(&|row| row.with_deadline))));
        }
        let failed = sum(&|row| row.failed);
        if failed > 0.0 {
            faults.push(format!("ended {} in failure{}", plural(failed, "job", "jobs"), failures(policy)));
        }
        let open = sum(&|row| row.open);
        if open > 0.0 {
            let states =
                policy.runs.iter().map(|ran| study::open_states(&ran.outcome)).find(|states| !states.is_empty());
            let states = states.map_or(String::new(), |states| format!(" (in one run {states})"));
            faults.push(format!("left {} unfinished{states}", plural(open, "job", "jobs")));
        }
        let overrun = policy.runs.iter().map(|ran| ran.row.overrun_micros).max().unwrap_or(0) as f64 / 1e6;
        if overrun > 0.0 {
            faults.push(format!("overran its budgets by {} at the most", dollars(overrun)));
        }
        if !faults.is_empty() {
            let over = if policy.runs.len() > 1 { " over all seeds" } else { "" };
            warnings.push(format!("{} {}{over}", policy.name, listed(&faults)));
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
        warnings.extend(view.plan.warnings(&view.rows));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(runs: u64) -> Summary {
        let outcome = super::super::super::Outcome::default();
        let rows: Vec<study::Row> = (0..runs)
            .map(|seed| study::Row {
                jobs: 10,
                succeeded: 10,
                with_deadline: 5,
                cost_micros: 1_000_000,
                cost_per_work_hour: 0.5,
                ..study::Row::of("b", seed, &outcome)
            })
            .collect();
        study::summaries(&rows).remove(0)
    }

    #[test]
    fn a_difference_is_said_with_its_interval_or_with_the_lack_of_one() {
        let many = Summary { cost_against_first: -0.523, against_low: -0.54, against_high: 0.01, ..summary(5) };
        assert_eq!(apart(&many), "52.3 % less (95 % interval from 54.0 % less to 1.0 % more)");
        assert_eq!(apart(&Summary { runs: 1, ..many.clone() }), "52.3 % less (one seed, so no interval)");
        let none = Summary { cost_against_first: f64::NAN, ..many };
        assert!(apart(&none).contains("not comparable"));
    }

    #[test]
    fn a_policy_that_did_no_work_has_no_cost_of_an_hour_and_is_not_the_cheaper_one() {
        let outcome = super::super::super::Outcome::default();
        let of = |policy: &str, work_hours: f64, cost_per_work_hour: f64| study::Row {
            work_hours,
            cost_per_work_hour,
            succeeded: work_hours as u64,
            ..study::Row::of(policy, 1, &outcome)
        };
        let summaries = study::summaries(&[of("a", 10.0, 0.5), of("idle", 0.0, 0.0), of("free", 10.0, 0.0)]);
        let shown: Vec<String> = summaries.iter().map(Summary::work_hour).collect();
        assert_eq!(shown, ["$0.5000", "-", "$0.0000"]);
        assert!(summaries[1].cost_against_first.is_nan());
        assert_eq!(summaries[2].cost_against_first, -1.0);
    }

    #[test]
    fn what_a_low_cost_hides_is_said() {
        assert_eq!(flaw(&summary(2)), None);
        let bad = Summary { missed: 1.5, succeeded: 8.0, open: 1.0, ..summary(2) };
        let says = "missed 1.5 of 5 deadlines, ended 2.0 of 11 jobs without success and left 1.0 of 11 jobs unfinished \
                    in a run on average";
        assert_eq!(flaw(&bad).as_deref(), Some(says));
    }
}
