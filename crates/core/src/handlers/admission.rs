//! What must hold of what comes in, beside what its types say. The shells refuse most of it earlier and with better
//! words; this border is the one that nothing passes by.

use std::collections::BTreeMap;

use leeway_model::budget::Refusal;
use leeway_model::checkpoint::Interval;
use leeway_model::cluster::ClusterSpec;
use leeway_model::job::{JobSpec, JobState};
use leeway_model::resources::{Accelerators, ResourceRequest};
use leeway_model::{Bytes, Millis, Name};

use crate::reply::{Refused, RefusedKind};
use crate::scheduler::Scheduler;

/// Most machines of a gang: each has its own entries in the row of its run.
const NODES_MAX: u32 = 65_536;

impl Scheduler {
    /// What must hold of a job's spec beside what its types say.
    pub(crate) fn check_spec(&self, spec: &JobSpec) -> Result<(), Refused> {
        let invalid = |code, message: String| Err(Refused::new(RefusedKind::Invalid, code, message));
        if spec.nodes == 0 || spec.resources.is_empty() {
            return invalid("NOTHING_ASKED", "a job asks for at least one machine of at least one kind".into());
        }
        if spec.nodes > NODES_MAX {
            return invalid("TOO_MANY_NODES", format!("nodes is {}; ask for at most {NODES_MAX}", spec.nodes));
        }
        for (position, request) in spec.resources.iter().enumerate() {
            if let Some((field, fix)) = impossible(request) {
                return invalid("INVALID_RESOURCES", format!("resources[{position}].{field}: {fix}"));
            }
        }
        if spec.checkpoint.as_ref().is_some_and(|policy| policy.interval == Interval::Every(Millis::ZERO)) {
            return invalid("INVALID_CHECKPOINT", "checkpoint.interval is 0; write a length or 'auto'".into());
        }
        if let Some(policy) = &spec.policy
            && self.policies.get(policy).is_none()
        {
            let known: Vec<&str> = self.policies.names().map(Name::as_str).collect();
            return invalid("UNKNOWN_POLICY", format!("policy '{policy}' is unknown; use one of {}", known.join(", ")));
        }
        if let Some(deadline) = spec.time.deadline
            && deadline <= self.now
        {
            return invalid("DEADLINE_PAST", format!("deadline {deadline} is not in the future"));
        }
        let refused = |code, message: String| Err(Refused::new(RefusedKind::Precondition, code, message));
        match spec.money.budget.as_ref().or(self.config.default_budget.as_ref()) {
            None => {
                let refusal = Refusal::NoBudget;
                return refused(refusal.code(), refusal.to_string());
            }
            Some(budget) if !self.tables.budgets.contains(budget) => {
                let refusal = Refusal::UnknownBudget { budget: budget.clone() };
                return refused(refusal.code(), refusal.to_string());
            }
            Some(_) => {}
        }
        for other in &spec.depends_on {
            match self.job(*other).map(|job| job.state) {
                None => {
                    return invalid("UNKNOWN_DEPENDENCY", format!("depends_on names {other}, which does not exist"));
                }
                Some(state @ (JobState::Failed | JobState::Cancelled)) => {
                    return refused(
                        "DEPENDENCY_FAILED",
                        format!("depends_on names {other}, which {}", super::jobs::ended(state)),
                    );
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl Scheduler {
    /// Whether the owner may have one more job that has not ended, beside those `taken` from the same batch.
    pub(crate) fn check_room<'a>(&self, spec: &'a JobSpec, taken: &mut BTreeMap<&'a Name, u64>) -> Result<(), Refused> {
        let limit = self.config.open_jobs_per_owner;
        let new = taken.entry(&spec.owner).or_default();
        let open = self.open_jobs.get(&spec.owner).copied().unwrap_or(0) + *new;
        if open >= limit {
            let message = format!(
                "'{}' has {open} jobs that have not ended, and the limit is {limit}; wait until some have, or cancel some",
                spec.owner
            );
            return Err(Refused::new(RefusedKind::Exhausted, "TOO_MANY_JOBS", message));
        }
        *new += 1;
        Ok(())
    }
}

/// What must hold of a cluster's declaration.
pub(super) fn check_cluster(spec: &ClusterSpec) -> Result<(), Refused> {
    let mut names: Vec<&Name> = spec.machines.iter().map(|machines| &machines.shape.name).collect();
    names.sort();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("cluster '{}' declares machine shape '{}' twice", spec.name, twice[0]);
        return Err(Refused::new(RefusedKind::Invalid, "DUPLICATE_SHAPE", message));
    }
    for machines in &spec.machines {
        let shape = &machines.shape;
        if shape.accelerators.as_ref().is_some_and(is_nothing) {
            let message = format!(
                "machine shape '{}' of cluster '{}' has accelerators without a model or with count 0; leave them out",
                shape.name, spec.name
            );
            return Err(Refused::new(RefusedKind::Invalid, "INVALID_SHAPE", message));
        }
    }
    Ok(())
}

/// The field of a request that no machine can answer, or that asks for nothing, and what to write instead.
fn impossible(request: &ResourceRequest) -> Option<(&'static str, &'static str)> {
    if request.accelerators.as_ref().is_some_and(is_nothing) {
        return Some(("accelerators", "name a model and a count of at least 1, or leave it out"));
    }
    if request.cpus.is_some_and(|cpus| cpus.amount.0 == 0) {
        return Some(("cpus", "ask for more than 0, or leave it out"));
    }
    if request.memory.is_some_and(|memory| memory.amount == Bytes::ZERO) {
        return Some(("memory", "ask for more than 0, or leave it out"));
    }
    None
}

fn is_nothing(accelerators: &Accelerators) -> bool {
    accelerators.count == 0 || accelerators.model.is_empty()
}
