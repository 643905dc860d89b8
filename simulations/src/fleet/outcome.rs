//! What came of a run: a row for each job as it ends, sums, and points over time.

use std::collections::BTreeMap;

use leeway_model::budget::Budget;
use leeway_model::job::{Job, JobState};
use leeway_model::resources::CapacityType;
use leeway_model::run::{EndReason, Run};
use leeway_model::{Bytes, JobId, Micros, Millis, Name, Term, Timestamp};
use serde::Serialize;

use super::regret::{OverOptimum, Why};
use super::world::jobs::Known;
use super::world::place::Place;

/// A job that has ended, its cost settled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ended {
    pub job: JobId,
    pub name: Box<str>,
    pub team: Box<str>,
    pub state: JobState,
    /// Code of the reason, where it failed.
    pub failure: Option<Box<str>>,
    pub submitted: Timestamp,
    pub first_start: Option<Timestamp>,
    pub ended: Timestamp,
    pub deadline: Option<Timestamp>,
    pub nodes: u32,
    /// Useful work at relative speed 1.
    pub work: Millis,
    /// Work that was done and lost.
    pub lost: Millis,
    pub runs: u32,
    pub interruptions: u32,
    /// Machine time that was paid for, spot and other.
    pub spot: Millis,
    pub other: Millis,
    pub cost: Micros,
    /// Part of it for moving bytes between regions.
    pub egress: Micros,
    /// What its hours from submission to end were worth, where somebody said.
    pub time_value: Micros,
    /// Kilograms of CO2, as far as they are known.
    pub carbon: f64,
    /// Where it was, in the order of time.
    pub stretches: Box<[Stretch]>,
    /// Its number in the history that it comes from.
    #[serde(skip)]
    pub source: Option<JobId>,
    /// Cost over the least that it could have cost alone, or why there is no such figure; nothing without a deadline.
    #[serde(skip)]
    pub over_optimum: Option<Result<f64, Why>>,
}

/// Machines of a job in one place, from when they are paid for until they are given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stretch {
    pub cluster: Name,
    pub is_spot: bool,
    pub from: Timestamp,
    /// When its program began, if it did.
    pub started: Option<Timestamp>,
    pub to: Timestamp,
    pub end: Option<EndReason>,
}

impl Stretch {
    fn of(run: &Run) -> Option<Self> {
        let (from, to) = run.launched.zip(run.released)?;
        Some(Self {
            cluster: run.offer.cluster.clone(),
            is_spot: run.offer.capacity == CapacityType::Spot,
            from,
            started: run.started,
            to,
            end: run.end.clone(),
        })
    }
}

impl Ended {
    pub(super) fn of<'a>(known: &Known, job: &Job, runs: impl Iterator<Item = &'a Run>, places: &[Place]) -> Self {
        let mut ended = Self {
            job: job.id,
            name: job.spec.name.as_str().into(),
            team: known.team.clone(),
            state: job.state,
            failure: job.reason.as_ref().filter(|_| job.state == JobState::Failed).map(|reason| reason.code.clone()),
            submitted: job.submitted,
            first_start: known.first_start,
            ended: job.ended.unwrap_or(job.since),
            deadline: job.spec.time.deadline,
            nodes: job.spec.nodes,
            work: known.work,
            lost: known.lost,
            runs: 0,
            interruptions: 0,
            spot: Millis::ZERO,
            other: Millis::ZERO,
            cost: job.posted.total(),
            egress: [Term::InputEgress, Term::CheckpointMove, Term::OutputEgress]
                .into_iter()
                .fold(Micros::ZERO, |sum, term| sum.saturating_add(job.posted.get(term))),
            time_value: Micros::ZERO,
            carbon: 0.0,
            stretches: Box::default(),
            source: known.source,
            over_optimum: None,
        };
        ended.time_value = job.spec.money.value_per_hour.map_or(Micros::ZERO, |value| value.cost(ended.turnaround()));
        let mut stretches = Vec::new();
        for run in runs {
            let Some(stretch) = Stretch::of(run) else { continue };
            let machines = stretch.to.since(stretch.from).saturating_mul(u64::from(run.nodes));
            let time = if stretch.is_spot { &mut ended.spot } else { &mut ended.other };
            *time = time.saturating_add(machines);
            ended.runs += 1;
            ended.interruptions += u32::from(matches!(run.end, Some(EndReason::Interrupted | EndReason::Lost)));
            let carbon = places.iter().find(|place| place.name == run.offer.cluster).and_then(|place| place.carbon);
            ended.carbon += carbon.unwrap_or(0.0) * machines.as_hours_f64();
            stretches.push(stretch);
        }
        stretches.sort_by_key(|stretch| stretch.from);
        ended.stretches = stretches.into();
        ended
    }

    pub fn missed_deadline(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.state != JobState::Succeeded || self.ended > deadline)
    }

    /// From its submission to the first start of its program.
    pub fn wait(&self) -> Option<Millis> {
        self.first_start.map(|start| start.since(self.submitted))
    }

    /// From its submission to its end.
    pub fn turnaround(&self) -> Millis {
        self.ended.since(self.submitted)
    }
}

/// Sums over jobs that have ended, all of them or those of a team.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    pub jobs: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub with_deadline: u64,
    pub missed: u64,
    pub interruptions: u64,
    pub cost: Micros,
    pub egress: Micros,
    pub time_value: Micros,
    /// Machine-hours of useful work, which is that of jobs that succeeded, of work done twice, and that were paid for as
    /// spot and otherwise.
    pub work_hours: f64,
    pub lost_hours: f64,
    pub spot_hours: f64,
    pub other_hours: f64,
    pub carbon_kg: f64,
    /// Sum of the hours before the first start, for the mean.
    pub wait_hours: f64,
    pub turnaround_hours: f64,
}

impl Sums {
    pub fn add(&mut self, ended: &Ended) {
        self.jobs += 1;
        match ended.state {
            JobState::Succeeded => self.succeeded += 1,
            JobState::Cancelled => self.cancelled += 1,
            _ => self.failed += 1,
        }
        self.with_deadline += u64::from(ended.deadline.is_some());
        self.missed += u64::from(ended.missed_deadline());
        self.interruptions += u64::from(ended.interruptions);
        self.cost = self.cost.saturating_add(ended.cost);
        self.egress = self.egress.saturating_add(ended.egress);
        self.time_value = self.time_value.saturating_add(ended.time_value);
        let nodes = f64::from(ended.nodes);
        // Whatever a job did that came to nothing was of no use, and its cost is borne by the rest.
        if ended.state == JobState::Succeeded {
            self.work_hours += ended.work.as_hours_f64() * nodes;
        }
        self.lost_hours += ended.lost.as_hours_f64() * nodes;
        self.spot_hours += ended.spot.as_hours_f64();
        self.other_hours += ended.other.as_hours_f64();
        self.carbon_kg += ended.carbon;
        self.wait_hours += ended.wait().map_or(0.0, Millis::as_hours_f64);
        self.turnaround_hours += ended.turnaround().as_hours_f64();
    }
}

/// Sums of a run, and how waits are spread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub all: Sums,
    pub by_team: BTreeMap<Box<str>, Sums>,
    pub waits: Spread,
    pub turnarounds: Spread,
    pub over_optimum: OverOptimum,
    /// Jobs that failed, by the code of the reason.
    pub failures: BTreeMap<Box<str>, u64>,
    pub launches_refused: u64,
    /// Runs whose machines a market took.
    pub machines_taken: u64,
}

impl Totals {
    pub(super) fn add(&mut self, ended: &Ended) {
        self.all.add(ended);
        if let Some(team) = self.by_team.get_mut(&ended.team) {
            team.add(ended);
        } else {
            let mut sums = Sums::default();
            sums.add(ended);
            self.by_team.insert(ended.team.clone(), sums);
        }
        if let Some(wait) = ended.wait() {
            self.waits.add(wait);
        }
        self.turnarounds.add(ended.turnaround());
        if let Some(measured) = ended.over_optimum {
            self.over_optimum.add(measured);
        }
        if let Some(reason) = &ended.failure {
            *self.failures.entry(reason.clone()).or_default() += 1;
        }
    }

    pub fn ended(&self) -> u64 {
        self.all.jobs
    }
}

/// How lengths are spread, in buckets that grow by a twentieth, so that ten million of them need no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread {
    buckets: BTreeMap<i32, u64>,
    count: u64,
}

impl Spread {
    const GROWTH: f64 = 1.05;

    pub fn add(&mut self, length: Millis) {
        let bucket = (1.0 + length.as_millis() as f64).ln() / Self::GROWTH.ln();
        *self.buckets.entry(bucket.round() as i32).or_default() += 1;
        self.count += 1;
    }

    /// The length that this share of all does not pass, to within a twentieth; zero when there are none.
    pub fn quantile(&self, share: f64) -> Millis {
        let wanted = (self.count as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        let mut lengths = self.parts().skip_while(|(_, count)| {
            seen += count;
            seen < wanted
        });
        lengths.next().map_or(Millis::ZERO, |(length, _)| length)
    }

    /// Lengths to within a twentieth, shortest first, each with how many there are.
    pub fn parts(&self) -> impl Iterator<Item = (Millis, u64)> + '_ {
        let length = |bucket: &i32| Millis::new((Self::GROWTH.powi(*bucket) - 1.0).round() as u64);
        self.buckets.iter().map(move |(bucket, count)| (length(bucket), *count))
    }
}

/// What the scheduler did not take, by its code, with an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals(pub BTreeMap<&'static str, (u64, Box<str>)>);

impl Refusals {
    pub(super) fn count(&mut self, code: &'static str, message: &str) {
        self.0.entry(code).or_insert_with(|| (0, message.into())).0 += 1;
    }
}

/// One point over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// Since the start.
    pub at: Millis,
    /// Machines that were paid for.
    pub spot: u64,
    pub other: u64,
    /// Jobs that waited for a place.
    pub queued: u64,
    /// Posted to the budgets so far.
    pub spent: Micros,
}

/// How much of a cluster was used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlaceUse {
    pub cluster: Name,
    pub spot_hours: f64,
    pub other_hours: f64,
}

impl PlaceUse {
    pub(super) fn of(place: &Place) -> Self {
        let [spot, other] = place.use_of.total.map(|millis| millis as f64 / 3_600_000.0);
        Self { cluster: place.name.clone(), spot_hours: spot, other_hours: other }
    }
}

/// A budget at the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BudgetUse {
    pub budget: Name,
    pub parent: Option<Name>,
    pub cap: Micros,
    pub posted: Micros,
    pub held: Micros,
    /// Posted past a hold.
    pub overrun: Micros,
}

impl BudgetUse {
    pub(super) fn of(budget: &Budget) -> Self {
        Self {
            budget: budget.spec.name.clone(),
            parent: budget.spec.parent.clone(),
            cap: budget.spec.cap,
            posted: budget.posted,
            held: budget.held,
            overrun: budget.overrun,
        }
    }
}

/// All that came of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Whether every job ended before the run was given up.
    pub is_complete: bool,
    /// Jobs that had not ended, and where they stood.
    pub open: u64,
    pub open_states: BTreeMap<JobState, u64>,
    /// What they waited for, by its code, with an example.
    pub open_reasons: BTreeMap<Box<str>, (u64, Box<str>)>,
    pub totals: Totals,
    pub refusals: Refusals,
    pub length: Millis,
    pub samples: Vec<Sample>,
    pub places: Vec<PlaceUse>,
    pub budgets: Vec<BudgetUse>,
    pub moved_between_regions: Bytes,
    /// Events of the world, and those that the scheduler took.
    pub events: u64,
    pub steps: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_knows_its_quantiles_to_a_twentieth() {
        let mut spread = Spread::default();
        assert_eq!(spread.quantile(0.5), Millis::ZERO);
        (0..=1_000).for_each(|number| spread.add(Millis::new(number * 1_000)));
        for (share, expected) in [(0.5, 500_000.0), (0.9, 900_000.0), (1.0, 1_000_000.0)] {
            let found = spread.quantile(share).as_millis() as f64;
            assert!((found / expected - 1.0).abs() < 0.05, "{share}: {found}");
        }
        assert_eq!(spread.quantile(0.0), Millis::ZERO);
    }
}
