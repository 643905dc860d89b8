//! Jobs one at a time, so that ten million of them need no more memory than one.

use leeway_model::{Bytes, Millis};

use super::arrivals::Times;
use super::params::{Size, Team, Workload};
use super::spread::{Spread, unit};
use crate::random::{Stream, stream};
use crate::trace::{JobRecord, Status};

/// Where a workload ends; at the first of both that is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub jobs: Option<u64>,
    /// No job is submitted at or after this moment.
    pub until: Option<Millis>,
}

impl Limit {
    pub const fn jobs(jobs: u64) -> Self {
        Self { jobs: Some(jobs), until: None }
    }

    pub const fn until(until: Millis) -> Self {
        Self { jobs: None, until: Some(until) }
    }
}

impl Workload {
    /// The jobs of a seed in the order of their submission. Moments, sizes, runtimes and owners have streams of their
    /// own: another rate of arrival leaves the n-th job as large and as long as it was.
    pub fn jobs(&self, seed: u64, limit: Limit) -> Generated {
        Generated {
            times: self.arrivals.times(stream(seed, "arrivals")),
            sizes: Choice::new(self.sizes.iter().map(|size| (size.weight, size.clone()))),
            teams: Choice::new(self.teams.iter().map(|team| (team.weight, team.clone()))),
            runtime: self.runtime,
            runtime_max: self.runtime_max,
            of_size: stream(seed, "sizes"),
            of_runtime: stream(seed, "runtimes"),
            of_team: stream(seed, "teams"),
            limit,
            made: 0,
        }
    }
}

/// See [`Workload::jobs`].
#[derive(Clone, Debug)]
pub struct Generated {
    times: Times,
    sizes: Choice<Size>,
    teams: Choice<Team>,
    runtime: Spread,
    runtime_max: Millis,
    of_size: Stream,
    of_runtime: Stream,
    of_team: Stream,
    limit: Limit,
    made: u64,
}

impl Iterator for Generated {
    type Item = JobRecord;

    fn next(&mut self) -> Option<JobRecord> {
        if self.limit.jobs.is_some_and(|jobs| self.made >= jobs) {
            return None;
        }
        let submitted = self.times.next()?;
        if self.limit.until.is_some_and(|until| submitted >= until) {
            return None;
        }
        let size = self.sizes.draw(&mut self.of_size)?;
        let secs = self.runtime.draw(&mut self.of_runtime);
        let (team, user) = match self.teams.draw(&mut self.of_team) {
            Some(team) => (team.name.clone(), format!("{}-{}", team.name, self.of_team.below(team.users.into()) + 1)),
            None => (String::new(), String::new()),
        };
        self.made += 1;
        Some(JobRecord {
            name: format!("job-{}", self.made),
            submitted,
            runtime: Millis::from_secs_f64(secs).clamp(Millis::new(1), self.runtime_max.max(Millis::new(1))),
            nodes: size.nodes,
            gpus: size.gpus,
            accelerator: size.accelerator.clone(),
            cpus: size.cpus,
            memory: Bytes::new(size.memory_mib.saturating_mul(1 << 20)),
            team,
            user,
            status: Status::Unknown,
        })
    }
}

/// One of several, each as often as its weight says.
#[derive(Clone, Debug)]
pub(super) struct Choice<T> {
    /// Sums of weights up to and with each entry.
    upto: Vec<f64>,
    values: Vec<T>,
}

impl<T> Choice<T> {
    pub fn new(weighted: impl Iterator<Item = (f64, T)>) -> Self {
        let mut choice = Self { upto: Vec::new(), values: Vec::new() };
        let mut sum = 0.0;
        for (weight, value) in weighted {
            sum += weight;
            choice.upto.push(sum);
            choice.values.push(value);
        }
        choice
    }

    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub fn draw(&self, stream: &mut Stream) -> Option<&T> {
        let at = unit(stream) * self.upto.last()?;
        let index = self.upto.partition_point(|upto| *upto <= at);
        self.values.get(index).or(self.values.last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::arrivals::Arrivals;

    fn workload() -> Workload {
        let size = |weight, nodes, gpus| Size { weight, nodes, gpus, ..Size::default() };
        let team = |name: &str, weight| Team { name: name.to_owned(), weight, users: 3 };
        Workload {
            arrivals: Arrivals::constant(60.0),
            runtime: Spread::LogNormal { mu: 8.0, sigma: 1.0 },
            runtime_max: Millis::from_hours(24),
            sizes: vec![size(3.0, 1, 1), size(1.0, 2, 8)],
            teams: vec![team("vision", 1.0), team("speech", 1.0)],
        }
    }

    #[test]
    fn equal_seeds_give_equal_jobs_and_others_give_others() {
        let jobs = |seed| workload().jobs(seed, Limit::jobs(500)).collect::<Vec<_>>();
        assert_eq!(jobs(4), jobs(4));
        assert_ne!(jobs(4), jobs(5));
    }

    #[test]
    fn another_rate_of_arrival_leaves_sizes_and_runtimes_as_they_were() {
        let shapes = |per_hour| {
            let workload = Workload { arrivals: Arrivals::constant(per_hour), ..workload() };
            let shape = |job: JobRecord| (job.name, job.nodes, job.gpus, job.runtime, job.team, job.user);
            workload.jobs(4, Limit::jobs(100)).map(shape).collect::<Vec<_>>()
        };
        assert_eq!(shapes(5.0), shapes(500.0));
    }

    #[test]
    fn jobs_end_at_the_limit_and_have_the_sizes_of_their_weights() {
        let jobs: Vec<_> = workload().jobs(1, Limit::until(Millis::from_hours(200))).collect();
        assert!((11_000..13_000).contains(&jobs.len()), "{}", jobs.len());
        assert!(
            jobs.iter().all(|job| job.submitted < Millis::from_hours(200) && job.runtime <= Millis::from_hours(24))
        );
        let large = jobs.iter().filter(|job| job.nodes == 2).count() as f64 / jobs.len() as f64;
        assert!((large - 0.25).abs() < 0.02, "{large}");
        assert_eq!(workload().jobs(1, Limit { jobs: Some(7), until: Some(Millis::MAX) }).count(), 7);
    }
}
