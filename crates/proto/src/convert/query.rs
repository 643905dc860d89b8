//! Questions: which jobs, which offers, which page.

use std::collections::{BTreeMap, BTreeSet};

use leeway_model::cluster::Region;
use leeway_model::job::{Job, JobState};
use leeway_model::resources::{Accelerators, CapacityType};
use leeway_model::{JobId, Name, RunId};

use super::one_of;
use crate::check;
use crate::invalid::Within;
use crate::limits::{NAME_PREFIX_MAX, NODES_MAX, PAGE_DEFAULT, PAGE_MAX, PAGE_TOKEN_MAX, TAIL_LINES_MAX};
use crate::{Invalid, pb};

/// Which page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// 1 to 1,000.
    pub size: usize,
    /// Opaque here; empty for the first page.
    pub token: String,
}

/// Checks the two fields that every paged request has.
pub fn page(size: u32, token: String) -> Result<Page, Invalid> {
    let size = if size == 0 { PAGE_DEFAULT } else { check::between("page_size", size, 1..=PAGE_MAX)? };
    check::plain_text("page_token", token.clone(), 0..=PAGE_TOKEN_MAX)?;
    Ok(Page { size: size as usize, token })
}

/// Which jobs; every condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Any of these; all when empty.
    pub states: BTreeSet<JobState>,
    pub owner: Option<Name>,
    pub name_prefix: Option<String>,
    pub budget: Option<Name>,
    pub labels: BTreeMap<String, String>,
}

impl JobFilter {
    pub fn accepts(&self, job: &Job) -> bool {
        let spec = &job.spec;
        (self.states.is_empty() || self.states.contains(&job.state))
            && self.owner.as_ref().is_none_or(|owner| *owner == spec.owner)
            && self.name_prefix.as_ref().is_none_or(|prefix| spec.name.as_str().starts_with(prefix))
            && self.budget.as_ref().is_none_or(|budget| spec.money.budget.as_ref() == Some(budget))
            && self.labels.iter().all(|(key, value)| spec.labels.get(key) == Some(value))
    }
}

impl TryFrom<pb::JobFilter> for JobFilter {
    type Error = Invalid;

    fn try_from(wire: pb::JobFilter) -> Result<Self, Invalid> {
        check::labels("labels", &wire.labels)?;
        let states = check::list("states", wire.states, 0..=64, |number| one_of::<pb::JobState>("", number))?;
        if let Some(prefix) = &wire.name_prefix {
            check::plain_text("name_prefix", prefix.clone(), 0..=NAME_PREFIX_MAX)?;
        }
        Ok(Self {
            states: states.into_iter().collect(),
            owner: check::optional_name("owner", wire.owner.as_deref())?,
            name_prefix: wire.name_prefix,
            budget: check::optional_name("budget", wire.budget.as_deref())?,
            labels: wire.labels,
        })
    }
}

impl pb::ListJobsRequest {
    pub fn into_model(self) -> Result<(Page, JobFilter), Invalid> {
        Ok((page(self.page_size, self.page_token)?, filter(self.filter)?))
    }
}

impl pb::WatchJobsRequest {
    /// The version to resume after, and which jobs.
    pub fn into_model(self) -> Result<(Option<u64>, JobFilter), Invalid> {
        Ok((self.resume_version, filter(self.filter)?))
    }
}

fn filter(wire: Option<pb::JobFilter>) -> Result<JobFilter, Invalid> {
    wire.map_or_else(|| Ok(JobFilter::default()), |filter| JobFilter::try_from(filter).within("filter"))
}

/// Which offers; every condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferFilter {
    /// This model, at least so many.
    pub accelerators: Option<Accelerators>,
    pub region: Option<Region>,
    /// Any of these; all when empty.
    pub capacities: BTreeSet<CapacityType>,
    pub cluster: Option<Name>,
}

impl pb::ListOffersRequest {
    pub fn into_model(self) -> Result<(Page, OfferFilter), Invalid> {
        let capacities =
            check::list("capacities", self.capacities, 0..=64, |number| one_of::<pb::CapacityType>("", number))?;
        let filter = OfferFilter {
            accelerators: self.accelerators.map(Accelerators::try_from).transpose().within("accelerators")?,
            region: self.region.map(|region| check::region("region", &region)).transpose()?,
            capacities: capacities.into_iter().collect(),
            cluster: check::optional_name("cluster", self.cluster.as_deref())?,
        };
        Ok((page(self.page_size, self.page_token)?, filter))
    }
}

/// Which lines of the ledger; every condition must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFilter {
    pub budget: Option<Name>,
    pub job: Option<JobId>,
}

impl pb::ListLedgerRequest {
    pub fn into_model(self) -> Result<(Page, LedgerFilter), Invalid> {
        let filter = LedgerFilter {
            budget: check::optional_name("budget", self.budget.as_deref())?,
            job: self.job_id.map(|id| check::job_id("job_id", &id)).transpose()?,
        };
        Ok((page(self.page_size, self.page_token)?, filter))
    }
}

/// Which output of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuery {
    pub job: JobId,
    pub run: Option<RunId>,
    pub rank: Option<u32>,
    pub follow: bool,
    pub start: LogStart,
}

/// Where output begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// A byte, from 0.
    Offset(u64),
    /// That many lines before the present end.
    Tail(u32),
}

impl TryFrom<pb::StreamLogsRequest> for LogQuery {
    type Error = Invalid;

    fn try_from(wire: pb::StreamLogsRequest) -> Result<Self, Invalid> {
        let job = check::job_id("job_id", &wire.job_id)?;
        let run = wire.run_id.map(|id| check::run_id("run_id", &id)).transpose()?;
        if let Some(other) = run.filter(|run| run.job != job) {
            return Err(Invalid::new("run_id", format!("{other} is not a run of {job}; leave out one of the two")));
        }
        let rank = wire.rank.map(|rank| check::between("rank", rank, 0..=NODES_MAX - 1)).transpose()?;
        let start = match wire.start {
            None => LogStart::Offset(0),
            Some(pb::stream_logs_request::Start::Offset(offset)) if offset > 0 && (run.is_none() || rank.is_none()) => {
                return Err(Invalid::new("offset", "needs run_id and rank, which it counts from; set both"));
            }
            Some(pb::stream_logs_request::Start::Offset(offset)) => LogStart::Offset(offset),
            Some(pb::stream_logs_request::Start::TailLines(lines)) => {
                LogStart::Tail(check::between("tail_lines", lines, 0..=TAIL_LINES_MAX)?)
            }
        };
        Ok(Self { job, run, rank, follow: wire.follow, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_bound_and_a_default() {
        assert_eq!(page(0, String::new()).unwrap().size, 100);
        assert_eq!(page(1_000, String::new()).unwrap().size, 1_000);
        assert_eq!(page(1_001, String::new()).unwrap_err().field, "page_size");
        assert_eq!(page(1, "x".repeat(513)).unwrap_err().field, "page_token");
    }

    #[test]
    fn an_offset_into_the_log_needs_the_rank_that_it_counts_in() {
        let query = |job: &str, run: Option<&str>, rank, start| {
            let wire =
                pb::StreamLogsRequest { job_id: job.into(), run_id: run.map(Into::into), rank, follow: true, start };
            LogQuery::try_from(wire).map_err(|error| error.field)
        };
        use pb::stream_logs_request::Start;
        assert_eq!(query("j-1", Some("j-1-r2"), Some(0), Some(Start::Offset(5))).unwrap().start, LogStart::Offset(5));
        assert_eq!(query("j-1", None, None, None).unwrap().start, LogStart::Offset(0));
        assert_eq!(query("j-1", None, None, Some(Start::TailLines(9))).unwrap().start, LogStart::Tail(9));
        assert_eq!(query("j-1", Some("j-1-r2"), None, Some(Start::Offset(5))), Err("offset".into()));
        assert_eq!(query("j-1", Some("j-2-r2"), None, None), Err("run_id".into()));
        assert_eq!(query("j-1", None, Some(1_024), None), Err("rank".into()));
        assert_eq!(query("j-1", None, None, Some(Start::TailLines(100_001))), Err("tail_lines".into()));
    }
}
