//! How large a run of a scenario will be, reckoned before anything of it is made: what could not be held is refused by
//! the key that makes it so, and what will take long can be said beforehand.

use super::{Error, Named, jobs};

/// Most jobs of a run.
pub const JOBS_MAX: u64 = 10_000_000;
/// Most ticks of all the markets that a run makes up; each takes some 24 bytes.
pub const TICKS_MAX: u64 = 20_000_000;
/// A plan of more jobs or ticks than this, over all its runs, is said to take long.
const LONG: u64 = 5_000_000;

/// What a run will have to go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Jobs that are expected; those of recordings are not counted before they are read.
    pub jobs: u64,
    /// Ticks of markets that are made up.
    pub ticks: u64,
}

impl Extent {
    /// The larger of both, in each respect.
    pub fn max(self, other: Self) -> Self {
        Self { jobs: self.jobs.max(other.jobs), ticks: self.ticks.max(other.ticks) }
    }

    /// What to say before so many runs of at most this, if they will take long.
    pub fn warning(self, runs: u64) -> Option<String> {
        let Self { jobs, ticks } = self;
        let is_long = jobs.max(ticks).saturating_mul(runs) > LONG;
        let each = if runs == 1 { "a run".to_owned() } else { format!("each of {runs} runs") };
        is_long.then(|| format!("this will take long: {each} has up to {jobs} jobs and {ticks} ticks of markets"))
    }
}

impl Named {
    /// How large a run is.
    ///
    /// # Errors
    /// A key that makes it larger than can be held, and as [`setup`](Self::setup) for the laws of its jobs.
    pub fn extent(&self) -> Result<Extent, Error> {
        Ok(Extent { jobs: self.expected_jobs()?, ticks: self.made_up_ticks()? })
    }

    fn expected_jobs(&self) -> Result<u64, Error> {
        let scenario = &self.scenario;
        let mut sum = scenario.jobs.len() as u64;
        for (number, stream) in scenario.workload.iter().enumerate() {
            let field = format!("workload[{number}]");
            let Some(law) = jobs::law(self, &field, stream)? else { continue };
            let expected = law.arrivals.expected(scenario.length).ceil();
            let most = stream.most.unwrap_or(u64::MAX);
            // A number beyond what the type holds becomes its largest, which is refused below.
            let count = (expected as u64).min(most);
            sum = sum.saturating_add(count);
            if sum > JOBS_MAX {
                let key = if stream.generate.is_some() { "generate.arrivals.per_hour" } else { "fitted" };
                let rate = law.arrivals.per_hour;
                let problem = format!(
                    "{rate} jobs an hour for {} are {count} jobs; a run takes {JOBS_MAX} at most: lower the rate, shorten \
                     the length, or set {field}.most",
                    scenario.length
                );
                return Err(self.wrong(format!("{field}.{key}"), problem));
            }
        }
        Ok(sum)
    }

    fn made_up_ticks(&self) -> Result<u64, Error> {
        let mut sum: u64 = 0;
        for (number, cluster) in self.scenario.clusters.iter().enumerate() {
            let Some(market) = &cluster.market else { continue };
            let field = format!("clusters[{number}].market");
            let (key, gap) = match (&market.generate, &market.fitted) {
                (Some(params), _) => ("generate.gap_s", params.gap_s),
                (None, Some(path)) => {
                    let params = self.params(&format!("{field}.fitted"), &self.folder.join(path))?.market;
                    ("fitted", params.map_or(1, |params| params.gap_s))
                }
                (None, None) => continue,
            };
            let seconds = self.market_length().as_millis() / 1_000;
            let ticks = seconds / u64::from(gap.max(1));
            sum = sum.saturating_add(ticks);
            if sum > TICKS_MAX {
                let problem = format!(
                    "a price every {gap} s for {} are {ticks} ticks, and {sum} with the markets before it; a run holds \
                     {TICKS_MAX} at most: lengthen the gap, or shorten length or limit",
                    self.market_length()
                );
                return Err(self.wrong(format!("{field}.{key}"), problem));
            }
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_plans_are_said_to_be_long() {
        let of = Extent { jobs: 1_000_000, ticks: 10 };
        assert_eq!(of.warning(1), None);
        let told = of.warning(10).unwrap();
        assert!(told.contains("each of 10 runs has up to 1000000 jobs and 10 ticks"), "{told}");
        assert!(Extent { jobs: 0, ticks: TICKS_MAX }.warning(1).unwrap().contains("a run has"));
    }
}
