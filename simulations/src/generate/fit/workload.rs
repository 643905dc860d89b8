//! A workload from job traces: arrivals by the hour of the week, runtimes as a log-normal distribution, sizes and teams as
//! often as they were. Traces stream through; what is kept is bounded.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use leeway_model::Millis;

use super::{Error, Row, distance, shown, tidy, tidy_spread};
use crate::generate::arrivals::{Arrivals, WEEK};
use crate::generate::params::{Size, Team, Workload};
use crate::generate::spread::Spread;
use crate::trace::JobRecord;
use crate::trace::helios::Rates;

/// Shapes and teams that a parameter file has at most; rarer ones are left out of it.
const SIZES_MAX: usize = 64;
const TEAMS_MAX: usize = 32;
/// Different shapes, teams and users that are counted at most.
const KINDS_MAX: usize = 100_000;
/// Arrivals whose distances are looked at for the goodness of the fit.
const ARRIVALS_MAX: usize = 1_000_000;
/// Bins of the histogram of runtimes, over the logarithm of milliseconds from 1 ms to a century.
const BINS: usize = 8_192;
const BIN_WIDTH: f64 = 29.0 / BINS as f64;

const HOUR_MS: u64 = 3_600_000;

/// What was seen of jobs so far.
#[derive(Debug)]
pub struct Seen {
    jobs: u64,
    sum: f64,
    squares: f64,
    longest: Millis,
    bins: Vec<u64>,
    sizes: BTreeMap<Shape, u64>,
    teams: BTreeMap<String, (u64, HashSet<u64>)>,
    users: usize,
    arrivals: Hours,
    rates: Hours,
}

type Shape = (u32, u32, u32, u64, Option<String>);

/// Arrivals by the hour of the week.
#[derive(Debug, Default)]
struct Hours {
    count: Vec<f64>,
    /// Hours of each kind that were watched.
    watched: Vec<f64>,
    /// Times of a trace, one trace after the other, for the goodness of the fit.
    times: Vec<Vec<u64>>,
    kept: usize,
}

impl Hours {
    fn add(&mut self, at_ms: u64, count: f64) {
        self.count.resize(WEEK, 0.0);
        self.count[(at_ms / HOUR_MS) as usize % WEEK] += count;
    }

    /// Says that all arrivals between these moments were seen.
    fn watch(&mut self, from_ms: u64, to_ms: u64) {
        self.watched.resize(WEEK, 0.0);
        self.count.resize(WEEK, 0.0);
        let mut at = from_ms;
        while at < to_ms {
            // A century has a million hours, so this ends soon enough.
            let end = ((at / HOUR_MS + 1) * HOUR_MS).min(to_ms);
            self.watched[(at / HOUR_MS) as usize % WEEK] += (end - at) as f64 / HOUR_MS as f64;
            at = end;
        }
    }

    fn is_empty(&self) -> bool {
        self.watched.iter().sum::<f64>() <= 0.0
    }
}

impl Default for Seen {
    fn default() -> Self {
        Self {
            jobs: 0,
            sum: 0.0,
            squares: 0.0,
            longest: Millis::ZERO,
            bins: vec![0; BINS],
            sizes: BTreeMap::new(),
            teams: BTreeMap::new(),
            users: 0,
            arrivals: Hours::default(),
            rates: Hours::default(),
        }
    }
}

impl Seen {
    /// Takes in a job. `has_arrivals` says whether its moment of submission means anything.
    pub fn add(&mut self, job: &JobRecord, has_arrivals: bool) {
        self.jobs += 1;
        let logarithm = (job.runtime.as_millis().max(1) as f64).ln();
        self.sum += logarithm;
        self.squares += logarithm * logarithm;
        self.longest = self.longest.max(job.runtime);
        self.bins[((logarithm / BIN_WIDTH) as usize).min(BINS - 1)] += 1;
        let shape = (job.nodes, job.gpus, job.cpus, job.memory.get() >> 20, job.accelerator.clone());
        let is_known = self.sizes.contains_key(&shape);
        if is_known || self.sizes.len() < KINDS_MAX {
            *self.sizes.entry(shape).or_default() += 1;
        }
        self.add_owner(job);
        // What is there in the first millisecond did not arrive then: it is what was there before.
        if has_arrivals && !job.submitted.is_zero() {
            let at = job.submitted.as_millis();
            self.arrivals.add(at, 1.0);
            if self.arrivals.kept < ARRIVALS_MAX
                && let Some(times) = self.arrivals.times.last_mut()
            {
                self.arrivals.kept += 1;
                times.push(at);
            }
        }
    }

    fn add_owner(&mut self, job: &JobRecord) {
        if job.team.is_empty() || (!self.teams.contains_key(&job.team) && self.teams.len() >= KINDS_MAX) {
            return;
        }
        let (jobs, users) = self.teams.entry(job.team.clone()).or_default();
        *jobs += 1;
        if self.users < KINDS_MAX {
            let mut hasher = DefaultHasher::new();
            job.user.hash(&mut hasher);
            self.users += usize::from(users.insert(hasher.finish()));
        }
    }

    /// A trace begins whose jobs follow.
    pub fn begin(&mut self) {
        self.arrivals.times.push(Vec::new());
    }

    /// The trace whose jobs came is over; its last job was submitted at this moment.
    pub fn end(&mut self, last: Millis, has_arrivals: bool) {
        if has_arrivals {
            self.arrivals.watch(0, last.as_millis());
        }
    }

    /// Takes in a series of rates. Its weeks begin with Monday.
    pub fn add_rates(&mut self, rates: &Rates) {
        let slot = rates.slot.as_millis();
        let from = rates.since_monday.as_millis();
        for (index, count) in (0_u64..).zip(&rates.submitted) {
            self.rates.add(from + index * slot, f64::from(*count));
        }
        self.rates.watch(from, from + slot * rates.submitted.len() as u64);
    }

    /// The workload that these jobs show, and how well.
    pub fn fit(&self) -> Result<(Workload, Vec<Row>), Error> {
        if self.jobs == 0 {
            return Err(Error::NoJobs);
        }
        let hours = if self.rates.is_empty() { &self.arrivals } else { &self.rates };
        if hours.is_empty() || hours.count.iter().sum::<f64>() <= 0.0 {
            return Err(Error::NoArrivals);
        }
        let (arrivals, arrivals_row) = arrivals(hours);
        let (runtime, runtime_row) = self.runtime();
        let (sizes, left_out) = self.sizes();
        let teams = self.teams();
        let in_sizes = format!("{} shapes, {:.1} % of the jobs", sizes.len(), 100.0 * (1.0 - left_out));
        let rows = vec![
            arrivals_row,
            runtime_row,
            Row::new("sizes", in_sizes, self.jobs),
            Row::new("teams", format!("{}", teams.len()), self.teams.values().map(|(jobs, _)| jobs).sum()),
        ];
        let workload = Workload { runtime_max: self.longest.max(Millis::new(1)), arrivals, runtime, sizes, teams };
        workload.check().map_err(|(field, problem)| Error::Impossible { field, problem })?;
        Ok((workload, rows))
    }

    fn runtime(&self) -> (Spread, Row) {
        let count = self.jobs as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        let spread = tidy_spread(Spread::LogNormal { mu: mean - 1_000_f64.ln(), sigma: variance.sqrt() });
        let mut below = 0_u64;
        let mut distance = 0.0_f64;
        // Within a bin nothing is known, so its ends are compared.
        for (bin, jobs) in self.bins.iter().enumerate() {
            below += jobs;
            let end_s = ((bin + 1) as f64 * BIN_WIDTH).exp() / 1_000.0;
            distance = distance.max((below as f64 / count - (1.0 - spread.survival(end_s))).abs());
        }
        (spread, Row { distance: Some(distance), ..Row::new("runtimes", shown(&spread), self.jobs) })
    }

    /// The most frequent shapes, and the share of jobs that have another one.
    fn sizes(&self) -> (Vec<Size>, f64) {
        let mut shapes: Vec<(&Shape, u64)> = self.sizes.iter().map(|(shape, jobs)| (shape, *jobs)).collect();
        shapes.sort_by_key(|(shape, jobs)| (std::cmp::Reverse(*jobs), *shape));
        shapes.truncate(SIZES_MAX);
        let kept: u64 = shapes.iter().map(|(_, jobs)| jobs).sum();
        let size = |((nodes, gpus, cpus, memory_mib, accelerator), jobs): (&Shape, u64)| Size {
            weight: jobs as f64,
            nodes: *nodes,
            gpus: *gpus,
            cpus: *cpus,
            memory_mib: *memory_mib,
            accelerator: accelerator.clone(),
        };
        (shapes.into_iter().map(size).collect(), 1.0 - kept as f64 / self.jobs as f64)
    }

    /// The largest teams, named by their rank: who they were is not for a file that is passed on.
    fn teams(&self) -> Vec<Team> {
        let mut teams: Vec<(u64, u32)> = (self.teams.values())
            .map(|(jobs, users)| (*jobs, u32::try_from(users.len().max(1)).unwrap_or(u32::MAX)))
            .collect();
        teams.sort_by_key(|team| std::cmp::Reverse(*team));
        teams.truncate(TEAMS_MAX);
        let team = |(rank, (jobs, users)): (usize, (u64, u32))| Team {
            name: format!("team-{}", rank + 1),
            weight: jobs as f64,
            users,
        };
        teams.into_iter().enumerate().map(team).collect()
    }
}

/// The rate and its rhythm. An hour's factor is taken towards 1 by as much as one expected arrival weighs, so that an hour
/// that was seen once is no rule. Below two weeks there is only a rhythm of the day, below two days none.
fn arrivals(hours: &Hours) -> (Arrivals, Row) {
    let watched: f64 = hours.watched.iter().sum();
    let total: f64 = hours.count.iter().sum();
    let per_hour = tidy(total / watched);
    let (period, rhythm) = if watched >= 336.0 { (WEEK, "week") } else { (24, "day") };
    let fold = |values: &[f64]| -> Vec<f64> {
        (0..period).map(|hour| values.iter().skip(hour).step_by(period).sum()).collect()
    };
    let (count, seen) = (fold(&hours.count), fold(&hours.watched));
    let factor = |hour: usize| (count[hour % period] + 1.0) / (per_hour * seen[hour % period] + 1.0);
    let mut weekly: Vec<f64> = if watched >= 48.0 { (0..WEEK).map(factor).collect() } else { Vec::new() };
    let mean = weekly.iter().sum::<f64>() / weekly.len().max(1) as f64;
    weekly.iter_mut().for_each(|factor| *factor = round(*factor / mean));
    let swing = || weekly.iter().copied().fold(0.0, f64::max);
    let found = if weekly.is_empty() {
        format!("{per_hour:.3} an hour")
    } else {
        format!("{per_hour:.3} an hour, up to {:.1} times that over the {rhythm}", swing())
    };
    let arrivals = Arrivals { per_hour, weekly };
    let distance = hours.times.iter().any(|times| times.len() > 2).then(|| rescaled(&arrivals, &hours.times));
    (arrivals, Row { distance, ..Row::new("arrivals", found, total as u64) })
}

/// Three decimals are more than an hour's factor is known to.
fn round(factor: f64) -> f64 {
    (factor * 1_000.0).round() / 1_000.0
}

/// How far arrivals are from a Poisson process of this rate: the expected number between two of them is exponential if
/// they are one (the theorem of time rescaling).
fn rescaled(arrivals: &Arrivals, traces: &[Vec<u64>]) -> f64 {
    let mut steps = Vec::new();
    for times in traces {
        let mut last = 0.0;
        for at in times {
            let amount = arrivals.expected(Millis::new(*at));
            steps.push(amount - last);
            last = amount;
        }
    }
    steps.sort_by(f64::total_cmp);
    distance::of_draws(&steps, |amount| (-amount).exp())
}
