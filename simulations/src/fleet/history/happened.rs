//! What the recorded jobs cost when it happened, and how far the model is from that.

use std::collections::BTreeMap;

use leeway_model::job::{Job, JobState};
use leeway_model::run::{EndReason, LaunchErrorClass};
use leeway_model::{JobId, Micros};
use serde::Serialize;

use super::super::outcome::{Ended, Outcome, Totals};
use super::super::study::{self, Ran, Row, Summary};
use super::super::world::jobs::Known;
use super::History;
use crate::stats;

/// What tables call the record.
pub const AS_IT_HAPPENED: &str = "as it happened";

/// The jobs that had ended by the end of the history, with what the ledger posted for them.
#[derive(Clone, Debug)]
pub struct Happened {
    /// As if it had been a run.
    pub ran: Ran,
    /// The same, beside nothing else.
    pub summary: Summary,
    /// Posted for jobs that had not ended.
    pub open_cost: Micros,
}

/// The simulated cost under the recorded policy beside the recorded one, over the jobs that ended both times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    pub policy: String,
    pub jobs: u64,
    /// Ended then, and not in every simulated run.
    pub left_out: u64,
    pub recorded: f64,
    /// Mean over the seeds.
    pub simulated: f64,
    /// simulated / recorded - 1; none where nothing was paid.
    pub difference: Option<f64>,
}

impl History {
    pub fn happened(&self) -> Happened {
        let (mut totals, mut jobs, mut open_cost) = (Totals::default(), Vec::new(), Micros::ZERO);
        let mut open_states: BTreeMap<JobState, u64> = BTreeMap::new();
        for job in self.past.jobs.values() {
            if job.state.is_terminal() {
                let ended = self.ended(job);
                totals.add(&ended);
                jobs.push(ended);
            } else {
                *open_states.entry(job.state).or_default() += 1;
                open_cost = open_cost.saturating_add(self.charged(job));
            }
        }
        for run in self.past.runs.values() {
            let refused = EndReason::LaunchFailed { class: LaunchErrorClass::Capacity };
            totals.launches_refused += u64::from(run.end.as_ref() == Some(&refused));
        }
        let outcome = Outcome {
            is_complete: open_states.is_empty(),
            open: open_states.values().sum(),
            open_states,
            totals,
            length: self.length(),
            ..Outcome::default()
        };
        let row = Row::of(AS_IT_HAPPENED, 0, &outcome);
        let mut summary = study::summaries(std::slice::from_ref(&row)).remove(0);
        summary.cost_against_first = f64::NAN;
        (summary.against_low, summary.against_high) = (f64::NAN, f64::NAN);
        Happened { ran: Ran { row, outcome, jobs }, summary, open_cost }
    }

    fn charged(&self, job: &Job) -> Micros {
        self.past.charged.get(&job.id).copied().unwrap_or(Micros::ZERO)
    }

    fn ended(&self, job: &Job) -> Ended {
        let work = &self.work[&job.id];
        let runs = || self.past.runs_of(job.id);
        let mut known = Known::of(&job.spec, work.work, job.spec.owner.as_str().into(), None);
        known.first_start = runs().filter_map(|run| run.started).min();
        known.lost = work.lost;
        known.source = Some(job.id);
        let mut ended = Ended::of(&known, job, runs(), &[]);
        // The ledger has the last word.
        ended.cost = self.charged(job);
        ended
    }

    /// Compares the runs of a policy with the record; their jobs must have been kept.
    pub fn check(&self, happened: &Happened, policy: &str, ran: &[Ran]) -> Check {
        let runs: Vec<BTreeMap<JobId, Micros>> = ran
            .iter()
            .filter(|ran| ran.row.policy == policy)
            .map(|ran| ran.jobs.iter().filter_map(|job| Some((job.source?, job.cost))).collect())
            .collect();
        let (both, out): (Vec<&Ended>, Vec<&Ended>) = happened
            .ran
            .jobs
            .iter()
            .partition(|job| job.source.is_some_and(|id| runs.iter().all(|run| run.contains_key(&id))));
        let sum = |costs: &mut dyn Iterator<Item = Micros>| costs.fold(Micros::ZERO, Micros::saturating_add);
        let recorded = sum(&mut both.iter().map(|job| job.cost)).as_units_f64();
        let of_run = |run: &BTreeMap<JobId, Micros>| {
            sum(&mut both.iter().filter_map(|job| run.get(&job.source?).copied())).as_units_f64()
        };
        let simulated = stats::mean(&runs.iter().map(of_run).collect::<Vec<_>>());
        Check {
            policy: policy.to_owned(),
            jobs: both.len() as u64,
            left_out: out.len() as u64,
            recorded,
            simulated,
            difference: (recorded > 0.0).then(|| simulated / recorded - 1.0),
        }
    }
}
