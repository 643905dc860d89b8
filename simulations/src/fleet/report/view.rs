//! The results as the page looks at them: by policy, in the order in which they were asked for.

use std::collections::BTreeMap;

use super::super::history::{AS_IT_HAPPENED, Check, Happened};
use super::super::outcome::{Outcome, Sample};
use super::super::setup::Setup;
use super::super::study::{self, Plan, Ran, Row, Summary};
use crate::stats;

/// Everything that a part of the page may need.
pub struct View<'a> {
    pub plan: &'a Plan,
    pub policies: Vec<Policy<'a>>,
    pub rows: Vec<Row>,
    /// Hours that drawings over time show: those of the longest run, or until nothing changes any more in any run.
    pub hours: f64,
    /// Whether runs went on longer than that.
    pub is_cut_off: bool,
    /// The world of the first policy and the first seed, where it can still be made.
    pub setup: Option<Setup>,
    /// Of a history: what happened, and how far the model is from it under the first policy.
    pub happened: Option<(Happened, Check)>,
}

/// A policy and its runs.
#[derive(Clone)]
pub struct Policy<'a> {
    pub name: &'a str,
    /// Its place in the order, which is also its colour.
    pub number: usize,
    pub summary: Summary,
    pub runs: Vec<&'a Ran>,
}

/// What a quantity was over the runs of a policy at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub hour: f64,
    pub low: f64,
    pub mean: f64,
    pub high: f64,
}

impl<'a> View<'a> {
    pub fn new(plan: &'a Plan, ran: &'a [Ran], setup: Option<Setup>) -> Self {
        let rows: Vec<Row> = ran.iter().map(|ran| ran.row.clone()).collect();
        let of = |(number, summary): (usize, Summary)| {
            let runs: Vec<&Ran> = ran.iter().filter(|ran| ran.row.policy == summary.policy).collect();
            Policy { name: runs.first().map_or("", |ran| &ran.row.policy), number, summary, runs }
        };
        let policies = study::summaries(&rows).into_iter().enumerate().map(of).collect();
        let length = rows.iter().map(|row| row.length_hours).fold(0.0, f64::max);
        let busy = ran.iter().map(|ran| busy_until(&ran.outcome.samples)).fold(0.0, f64::max) * 1.04;
        let is_cut_off = busy > 0.0 && busy < 0.75 * length;
        let happened = plan.history.as_ref().zip(plan.policies.first()).map(|(history, first)| {
            let happened = history.happened();
            let check = history.check(&happened, first.as_str(), ran);
            (happened, check)
        });
        Self { plan, policies, rows, hours: if is_cut_off { busy } else { length }, is_cut_off, setup, happened }
    }

    /// What to say where runs went on longer than the drawings.
    pub fn cut_off(&self) -> String {
        if self.is_cut_off { " Nothing changed after the end of the axis.".into() } else { String::new() }
    }

    /// The policies, and before them what happened, as a row of its own.
    pub fn listed(&self) -> Vec<Policy<'_>> {
        let happened = self.happened.as_ref().map(|(happened, _)| Policy {
            name: AS_IT_HAPPENED,
            number: usize::MAX,
            summary: happened.summary.clone(),
            runs: vec![&happened.ran],
        });
        happened.into_iter().chain(self.policies.iter().cloned()).collect()
    }

    pub fn seeds(&self) -> usize {
        self.policies.iter().map(|policy| policy.runs.len()).max().unwrap_or(0)
    }

    /// How each policy compares with the one of this name, seed by seed, as [`study::summaries`] has it.
    pub fn against(&self, name: &str) -> Vec<Summary> {
        let (mut first, rest): (Vec<Row>, Vec<Row>) = self.rows.iter().cloned().partition(|row| row.policy == name);
        first.extend(rest);
        study::summaries(&first)
    }

    /// The policy whose hour of work costs least; of equals the first.
    pub fn cheapest(&self) -> Option<&Policy<'a>> {
        self.policies
            .iter()
            .filter(|policy| policy.summary.cost_per_work_hour > 0.0)
            .min_by(|a, b| a.summary.cost_per_work_hour.total_cmp(&b.summary.cost_per_work_hour))
    }

    /// Any of a run's figures over all policies and seeds, such as whether there are jobs with deadlines.
    pub fn any(&self, figure: impl Fn(&Row) -> bool) -> bool {
        self.rows.iter().any(figure)
    }

    pub fn outcomes(&self) -> impl Iterator<Item = &'a Outcome> + '_ {
        self.policies.iter().flat_map(|policy| policy.runs.iter().map(|ran| &ran.outcome))
    }
}

/// The hour of the first point after which all points are the same.
fn busy_until(samples: &[Sample]) -> f64 {
    let is_change = |pair: &[Sample]| Sample { at: pair[1].at, ..pair[0] } != pair[1];
    let last = samples.windows(2).rposition(is_change);
    last.map_or(0.0, |before| samples[before + 1].at.as_hours_f64())
}

impl Policy<'_> {
    pub fn mean(&self, figure: impl Fn(&Ran) -> f64) -> f64 {
        stats::mean(&self.runs.iter().map(|ran| figure(ran)).collect::<Vec<_>>())
    }

    /// A quantity over time, from zero to `hours` at so many points. After its end a run keeps the last value if
    /// `stays`, else it is at zero.
    pub fn over_time(&self, hours: f64, points: u32, stays: bool, quantity: impl Fn(&Sample) -> f64) -> Vec<Point> {
        let mut at: Vec<usize> = vec![0; self.runs.len()];
        let mut line = Vec::new();
        for number in 0..=points {
            let hour = hours * f64::from(number) / f64::from(points.max(1));
            let values: Vec<f64> = self
                .runs
                .iter()
                .zip(&mut at)
                .filter_map(|(ran, at)| {
                    let samples = &ran.outcome.samples;
                    let is_next_due =
                        |at: usize| samples.get(at + 1).is_some_and(|next| next.at.as_hours_f64() <= hour);
                    while is_next_due(*at) {
                        *at += 1;
                    }
                    let is_over = !stays && hour > ran.row.length_hours;
                    samples.get(*at).map(|sample| if is_over { 0.0 } else { quantity(sample) })
                })
                .collect();
            if values.is_empty() {
                continue;
            }
            line.push(Point {
                hour,
                low: values.iter().copied().fold(f64::INFINITY, f64::min),
                mean: stats::mean(&values),
                high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            });
        }
        line
    }

    /// Waits of all runs in hours, shortest first, each with how many jobs waited so long.
    pub fn waits(&self) -> Vec<(f64, u64)> {
        let mut parts: BTreeMap<u64, u64> = BTreeMap::new();
        for (length, count) in self.runs.iter().flat_map(|ran| ran.outcome.totals.waits.parts()) {
            *parts.entry(length.as_millis()).or_default() += count;
        }
        parts.into_iter().map(|(millis, count)| (millis as f64 / 3_600_000.0, count)).collect()
    }
}
