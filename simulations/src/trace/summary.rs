//! A trace in numbers, added up while it streams.

use std::collections::BTreeSet;

use leeway_model::Millis;
use serde::Serialize;

use super::record::JobRecord;

/// Teams that are told apart at most.
const TEAMS_MAX: usize = 100_000;

/// What a trace amounts to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    pub jobs: u64,
    /// Milliseconds from the start of the trace to the last submission.
    pub span_ms: u64,
    /// Jobs that ask for no GPU.
    pub jobs_without_gpus: u64,
    /// Jobs on more than one node.
    pub gangs: u64,
    /// GPUs of the largest job.
    pub gpus_max: u64,
    pub gpu_hours: f64,
    pub node_hours: f64,
    pub longest_ms: u64,
    pub teams: usize,
    #[serde(skip)]
    names: BTreeSet<String>,
}

impl Summary {
    pub fn add(&mut self, job: &JobRecord) {
        self.jobs += 1;
        self.span_ms = self.span_ms.max(job.submitted.as_millis());
        self.jobs_without_gpus += u64::from(job.gpus == 0);
        self.gangs += u64::from(job.nodes > 1);
        self.gpus_max = self.gpus_max.max(job.gpus_total());
        self.gpu_hours += job.gpu_hours();
        self.node_hours += job.node_hours();
        self.longest_ms = self.longest_ms.max(job.runtime.as_millis());
        if !job.team.is_empty() && self.names.len() < TEAMS_MAX && !self.names.contains(&job.team) {
            self.names.insert(job.team.clone());
            self.teams = self.names.len();
        }
    }

    /// From the start of the trace to the last submission.
    pub const fn span(&self) -> Millis {
        Millis::new(self.span_ms)
    }
}
