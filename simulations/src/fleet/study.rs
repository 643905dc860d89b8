//! Policies on a scenario: every policy with every seed, on all cores, and what the differences are worth.
//!
//! A seed is the same weather for every policy: the same jobs at the same moments, the same markets, the same luck of
//! each run. So policies are compared seed by seed, and the interval is that of the paired difference.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use leeway_core::PolicySet;
use leeway_model::job::JobState;
use leeway_model::{Micros, Name};
use serde::{Deserialize, Serialize};

use super::history::{AS_RECORDED, History};
use super::outcome::{Ended, Outcome};
use super::report::format::{per_hour, plural};
use super::run::{self, Progress};
use super::scenario::build::Choice;
use super::scenario::{self, Named};
use super::setup::Setup;
use super::store::Fleeting;
use crate::{parallel, stats};

/// Fewer runs than this are said to be few.
const FEW: usize = 10;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub scenario: Named,
    /// What is run instead of the scenario, which then only has its name and its facts.
    pub history: Option<Arc<History>>,
    pub policies: Vec<Name>,
    pub seeds: Vec<u64>,
    pub threads: usize,
    pub checked: bool,
}

impl Plan {
    /// A run of the plan.
    ///
    /// # Errors
    /// A scenario that does not hold.
    pub fn setup(&self, choice: &Choice) -> Result<Setup, scenario::Error> {
        match &self.history {
            Some(history) => Ok(history.setup(choice)),
            None => self.scenario.setup(choice),
        }
    }

    /// What a reader should know of its results.
    pub fn warnings(&self, rows: &[Row]) -> Vec<String> {
        let course = if self.history.is_some() { "a history" } else { "one seed" };
        warnings(rows, course)
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Scenario(#[from] scenario::Error),
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error("there is no policy '{name}'; there are {known}")]
    Policy { name: String, known: String },
}

/// The figures of one run, in the units that their names say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub policy: String,
    pub seed: u64,
    pub complete: bool,
    pub jobs: u64,
    pub succeeded: u64,
    pub failed: u64,
    /// Had not ended when the run was given up, or were never taken.
    pub open: u64,
    pub refused: u64,
    pub with_deadline: u64,
    pub missed: u64,
    pub interruptions: u64,
    pub cost_micros: i64,
    pub egress_micros: i64,
    pub overrun_micros: i64,
    /// What the hours of jobs from submission to end were worth, of those that say it.
    #[serde(default)]
    pub time_value_micros: i64,
    /// Dollars for a machine-hour of useful work.
    pub cost_per_work_hour: f64,
    pub work_hours: f64,
    pub lost_hours: f64,
    pub spot_hours: f64,
    pub other_hours: f64,
    pub carbon_kg: f64,
    pub wait_mean_hours: f64,
    pub wait_p50_hours: f64,
    pub wait_p90_hours: f64,
    pub wait_max_hours: f64,
    pub turnaround_mean_hours: f64,
    pub turnaround_p90_hours: f64,
    pub length_hours: f64,
    /// Jobs with a deadline whose optimum is known, and what half of them, nine of ten and the worst paid over it.
    #[serde(default)]
    pub over_optimum_jobs: u64,
    #[serde(default)]
    pub over_optimum_p50: Option<f64>,
    #[serde(default)]
    pub over_optimum_p90: Option<f64>,
    #[serde(default)]
    pub over_optimum_worst: Option<f64>,
}

impl Row {
    pub fn of(policy: &str, seed: u64, outcome: &Outcome) -> Self {
        let sums = &outcome.totals.all;
        let each = |sum: f64| if sums.jobs > 0 { sum / sums.jobs as f64 } else { 0.0 };
        let wait = |share: f64| outcome.totals.waits.quantile(share).as_hours_f64();
        let overrun = outcome.budgets.iter().filter(|budget| budget.parent.is_none());
        Self {
            policy: policy.to_owned(),
            seed,
            complete: outcome.is_complete,
            jobs: sums.jobs,
            succeeded: sums.succeeded,
            failed: sums.failed,
            open: outcome.open,
            refused: outcome.refusals.0.values().map(|(count, _)| count).sum(),
            with_deadline: sums.with_deadline,
            missed: sums.missed,
            interruptions: sums.interruptions,
            cost_micros: sums.cost.get(),
            egress_micros: sums.egress.get(),
            overrun_micros: overrun.fold(Micros::ZERO, |sum, budget| sum.saturating_add(budget.overrun)).get(),
            time_value_micros: sums.time_value.get(),
            cost_per_work_hour: if sums.work_hours > 0.0 { sums.cost.as_units_f64() / sums.work_hours } else { 0.0 },
            work_hours: sums.work_hours,
            lost_hours: sums.lost_hours,
            spot_hours: sums.spot_hours,
            other_hours: sums.other_hours,
            carbon_kg: sums.carbon_kg,
            wait_mean_hours: each(sums.wait_hours),
            wait_p50_hours: wait(0.5),
            wait_p90_hours: wait(0.9),
            wait_max_hours: wait(1.0),
            turnaround_mean_hours: each(sums.turnaround_hours),
            turnaround_p90_hours: outcome.totals.turnarounds.quantile(0.9).as_hours_f64(),
            length_hours: outcome.length.as_hours_f64(),
            over_optimum_jobs: outcome.totals.over_optimum.jobs(),
            over_optimum_p50: outcome.totals.over_optimum.quantile(0.5),
            over_optimum_p90: outcome.totals.over_optimum.quantile(0.9),
            over_optimum_worst: outcome.totals.over_optimum.quantile(1.0),
        }
    }

    pub fn cost(&self) -> Micros {
        Micros::new(self.cost_micros)
    }
}

/// One run with everything that came of it.
#[derive(Clone, Debug)]
pub struct Ran {
    pub row: Row,
    pub outcome: Outcome,
    /// The jobs of the run, as far as they were asked for.
    pub jobs: Vec<Ended>,
}

/// Figures of a policy over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub policy: String,
    pub runs: usize,
    pub cost: f64,
    pub cost_low: f64,
    pub cost_high: f64,
    pub cost_per_work_hour: f64,
    /// Against the first policy, seed by seed: mean of cost / cost - 1, with its 95 % interval.
    pub cost_against_first: f64,
    pub against_low: f64,
    pub against_high: f64,
    pub jobs: f64,
    pub succeeded: f64,
    pub open: f64,
    pub missed: f64,
    pub with_deadline: f64,
    pub interruptions: f64,
    pub egress: f64,
    /// What the hours of jobs from submission to end were worth, of those that say it.
    pub time_value: f64,
    pub lost_hours: f64,
    pub spot_share: f64,
    pub carbon_kg: f64,
    pub wait_p50_hours: f64,
    pub wait_p90_hours: f64,
    pub wait_max_hours: f64,
    pub turnaround_p90_hours: f64,
    /// Means over the seeds, and the worst of all; none where no job of the policy has an optimum.
    pub over_optimum_p50: Option<f64>,
    pub over_optimum_p90: Option<f64>,
    pub over_optimum_worst: Option<f64>,
}

impl Summary {
    /// Dollars for an hour of work, for people; a dash where no work was done.
    pub fn work_hour(&self) -> String {
        if self.succeeded == 0.0 && self.cost_per_work_hour == 0.0 {
            return "-".into();
        }
        per_hour(self.cost_per_work_hour)
    }
}

/// Runs every policy with every seed, and keeps the jobs of those seeds that `keep_jobs` names. `done` is told of each run
/// as it ends, from any thread.
///
/// # Errors
/// The first that any run has.
pub fn study(
    plan: &Plan,
    keep_jobs: &(dyn Fn(u64) -> bool + Sync),
    done: &(dyn Fn(&Row) + Sync),
) -> Result<Vec<Ran>, Error> {
    let count = plan.policies.len() * plan.seeds.len();
    let one = |number: usize| {
        let (policy, seed) = (&plan.policies[number / plan.seeds.len()], plan.seeds[number % plan.seeds.len()]);
        let ran = run_one(plan, policy, seed, keep_jobs(seed), &mut |_| {});
        if let Ok(ran) = &ran {
            done(&ran.row);
        }
        ran
    };
    parallel::map(count, plan.threads, &one).into_iter().collect()
}

/// What policies compute once serves all runs; it changes none of them.
static INSTALLED: LazyLock<PolicySet> = LazyLock::new(leeway_policies::all);

/// One run of a plan.
///
/// # Errors
/// A policy or scenario that does not hold, or a workload that cannot be read.
pub fn run_one(
    plan: &Plan,
    policy: &Name,
    seed: u64,
    keep_jobs: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ran, Error> {
    let policies = INSTALLED.clone();
    let is_recorded = plan.history.is_some() && policy.as_str() == AS_RECORDED;
    if policies.get(policy).is_none() && !is_recorded {
        let known = policies.names().map(Name::as_str).collect::<Vec<_>>().join(", ");
        return Err(Error::Policy { name: policy.to_string(), known });
    }
    let setup = plan.setup(&Choice { policy: policy.clone(), seed, checked: plan.checked })?;
    let mut jobs = Vec::new();
    let mut keep = |ended: &Ended| {
        if keep_jobs {
            jobs.push(ended.clone());
        }
    };
    let outcome = run::run(setup, policies, Fleeting::default(), &mut keep, progress)?;
    Ok(Ran { row: Row::of(policy.as_str(), seed, &outcome), outcome, jobs })
}

/// Each policy over its seeds, in the order in which they were asked for.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let mut order: Vec<&str> = Vec::new();
    for row in rows {
        if !order.contains(&row.policy.as_str()) {
            order.push(&row.policy);
        }
    }
    let Some(first) = order.first().copied() else { return Vec::new() };
    let base: BTreeMap<u64, &Row> = rows.iter().filter(|row| row.policy == first).map(|row| (row.seed, row)).collect();
    let of = |policy: &&str| {
        let own: Vec<&Row> = rows.iter().filter(|row| row.policy == **policy).collect();
        let each = |figure: &dyn Fn(&Row) -> f64| own.iter().map(|row| figure(row)).collect::<Vec<f64>>();
        let mean = |figure: &dyn Fn(&Row) -> f64| stats::mean(&each(figure));
        let known_mean = |figure: &dyn Fn(&Row) -> Option<f64>| {
            let known: Vec<f64> = own.iter().filter_map(|row| figure(row)).collect();
            (!known.is_empty()).then(|| stats::mean(&known))
        };
        let costs = each(&|row| row.cost().as_units_f64());
        let against: Vec<f64> = own
            .iter()
            .filter_map(|row| base.get(&row.seed).map(|base| (row, base)))
            .filter(|(row, base)| base.cost_per_work_hour > 0.0 && row.work_hours > 0.0)
            .map(|(row, base)| row.cost_per_work_hour / base.cost_per_work_hour - 1.0)
            .collect();
        let (cost_low, cost_high) = stats::interval(&costs, "cost");
        // The same draws for every policy, as their seeds are the same.
        let (against_low, against_high) =
            if against.is_empty() { (f64::NAN, f64::NAN) } else { stats::interval(&against, "against") };
        let hours = mean(&|row| row.spot_hours + row.other_hours);
        Summary {
            policy: (*policy).to_owned(),
            runs: own.len(),
            cost: stats::mean(&costs),
            cost_low,
            cost_high,
            cost_per_work_hour: mean(&|row| row.cost_per_work_hour),
            cost_against_first: stats::mean(&against),
            against_low,
            against_high,
            jobs: mean(&|row| row.jobs as f64),
            succeeded: mean(&|row| row.succeeded as f64),
            open: mean(&|row| row.open as f64),
            missed: mean(&|row| row.missed as f64),
            with_deadline: mean(&|row| row.with_deadline as f64),
            interruptions: mean(&|row| row.interruptions as f64),
            egress: mean(&|row| row.egress_micros as f64 / 1e6),
            time_value: mean(&|row| row.time_value_micros as f64 / 1e6),
            lost_hours: mean(&|row| row.lost_hours),
            spot_share: if hours > 0.0 { mean(&|row| row.spot_hours) / hours } else { 0.0 },
            carbon_kg: mean(&|row| row.carbon_kg),
            wait_p50_hours: mean(&|row| row.wait_p50_hours),
            wait_p90_hours: mean(&|row| row.wait_p90_hours),
            wait_max_hours: mean(&|row| row.wait_max_hours),
            turnaround_p90_hours: mean(&|row| row.turnaround_p90_hours),
            over_optimum_p50: known_mean(&|row| row.over_optimum_p50),
            over_optimum_p90: known_mean(&|row| row.over_optimum_p90),
            over_optimum_worst: own.iter().filter_map(|row| row.over_optimum_worst).reduce(f64::max),
        }
    };
    order.iter().map(of).collect()
}

/// What a reader should know of results of which a single one is of this `course`, such as "one seed".
pub fn warnings(rows: &[Row], course: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let runs = rows.iter().filter(|row| row.policy == rows[0].policy).count();
    if runs == 1 {
        let text = format!("{course} is one course of events; another may differ, and there is no interval");
        warnings.push(text);
    } else if runs < FEW {
        warnings.push(format!("{runs} seeds for each policy are few; intervals over fewer than {FEW} are rough"));
    }
    let open: u64 = rows.iter().map(|row| row.open).sum();
    if open > 0 {
        let jobs = if open == 1 { "job" } else { "jobs" };
        warnings
            .push(format!("{open} {jobs} had not ended when a run was given up; what they cost so far is not counted"));
    }
    let refused: u64 = rows.iter().map(|row| row.refused).sum();
    if refused > 0 {
        warnings.push(format!("{refused} submissions and reports were refused by the scheduler"));
    }
    let mut of_seed = BTreeMap::new();
    if rows.iter().any(|row| *of_seed.entry(row.seed).or_insert(row.succeeded) != row.succeeded) {
        warnings.push(
            "not every policy finished the same jobs; compare the cost of an hour of work rather than the whole cost"
                .into(),
        );
    }
    warnings
}

/// What jobs that had not ended waited for, a sentence for each policy and reason, over all its runs.
pub fn left_over(ran: &[Ran]) -> Vec<String> {
    let mut counts: Vec<(&str, &str, &str, u64)> = Vec::new();
    for ran in ran {
        for (code, (count, example)) in &ran.outcome.open_reasons {
            match counts.iter_mut().find(|known| known.0 == ran.row.policy && known.1 == &**code) {
                Some(known) => known.3 += count,
                None => counts.push((&ran.row.policy, code, example, *count)),
            }
        }
    }
    let told = |(policy, code, example, count): (&str, &str, &str, u64)| {
        let jobs = plural(count as f64, "job was", "jobs were");
        format!("under {policy} {jobs} left over with {code}, such as: {example}")
    };
    counts.into_iter().map(told).collect()
}

/// The states of jobs that had not ended, for a sentence.
pub fn open_states(outcome: &Outcome) -> String {
    let part = |(state, count): (&JobState, &u64)| format!("{count} {state}");
    outcome.open_states.iter().map(part).collect::<Vec<_>>().join(", ")
}
