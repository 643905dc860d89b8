//! What of a scenario's jobs could never be: said before anything runs, as far as the text tells.

use leeway_core::Config;
use leeway_model::budget::BudgetSpec;
use leeway_model::cluster::Machines;
use leeway_model::job::JobSpec;
use leeway_model::{Bytes, Millis, Timestamp};

use super::super::setup::ClusterPlan;
use super::build::MANY;
use super::jobs::{fixed, law, spec_of};
use super::workload::{Ask, Capacity};
use super::{Error, Named};
use crate::generate::params;
use crate::trace::{JobRecord, Status};

/// Refuses jobs that could never end.
pub(super) fn check(
    named: &Named,
    clusters: &[ClusterPlan],
    budgets: &[BudgetSpec],
    config: &Config,
) -> Result<(), Error> {
    let scenario = &named.scenario;
    if scenario.workload.is_empty() && scenario.jobs.is_empty() {
        return Err(named.wrong("workload", "there are no jobs; write a [[workload]] or [[jobs]]"));
    }
    let checks = Checks { named, clusters, budgets, config };
    for (number, job) in scenario.jobs.iter().enumerate() {
        let field = format!("jobs[{number}]");
        checks.ask(&field, &job.ask)?;
        checks.fits(&field, &fixed(job), &job.ask)?;
    }
    for (number, stream) in scenario.workload.iter().enumerate() {
        let field = format!("workload[{number}]");
        checks.ask(&field, &stream.ask)?;
        if !(0.001..=1_000.0).contains(&stream.faster) {
            return Err(named.wrong(format!("{field}.faster"), format!("{} is not from 0.001 to 1000", stream.faster)));
        }
        for (index, size) in law(named, &field, stream)?.iter().flat_map(|law| law.sizes.iter().enumerate()) {
            checks.fits(&format!("{field}.sizes[{index}]"), &sample(size), &stream.ask)?;
        }
    }
    Ok(())
}

struct Checks<'a> {
    named: &'a Named,
    clusters: &'a [ClusterPlan],
    budgets: &'a [BudgetSpec],
    config: &'a Config,
}

impl Checks<'_> {
    /// What jobs ask for beside machines.
    fn ask(&self, field: &str, ask: &Ask) -> Result<(), Error> {
        let wrong = |key: &str, problem: String| Err(self.named.wrong(format!("{field}.ask.{key}"), problem));
        let fastest = self.clusters.iter().map(|plan| plan.speed(self.config)).fold(0.0, f64::max);
        if let Some(deadline) = ask.deadline.filter(|deadline| deadline.is_nan() || deadline * fastest <= 1.0) {
            let least = 1.0 / fastest;
            let problem =
                format!("{deadline} times the runtime is too soon even without a wait; write more than {least}");
            return wrong("deadline", problem);
        }
        if let Some(share) = ask.estimate.filter(|share| !(0.0..=1_000.0).contains(share)) {
            return wrong("estimate", format!("{share} is not from 0 to 1000"));
        }
        let is_known = |name: &&String| self.budgets.iter().any(|budget| budget.name.as_str() == name.as_str());
        if let Some(name) = ask.budget.as_ref().filter(|name| !is_known(name)) {
            let known = self.budgets.iter().map(|budget| budget.name.as_str()).collect::<Vec<_>>().join(", ");
            return wrong("budget", format!("there is no budget '{name}', only {known}"));
        }
        Ok(())
    }

    /// That some cluster has all the machines of a job at once.
    fn fits(&self, field: &str, record: &JobRecord, ask: &Ask) -> Result<(), Error> {
        let spec = spec_of(record, ask, Timestamp::ZERO, None).map_err(|problem| self.named.wrong(field, problem))?;
        if spec.nodes == 0 || spec.nodes > MANY {
            let problem = format!("{} machines at once are not from 1 to {MANY}", spec.nodes);
            return Err(self.named.wrong(format!("{field}.nodes"), problem));
        }
        let mut machines = self.clusters.iter().flat_map(|plan| &plan.spec.machines);
        if machines.any(|machines| has_capacity(machines, ask.capacity) && has_machines(machines, &spec)) {
            return Ok(());
        }
        let wanted = spec.resources.first().and_then(|request| request.accelerators.as_ref());
        let wanted = wanted.map_or_else(|| "a machine".to_owned(), ToString::to_string);
        let kind = match ask.capacity {
            Some(Capacity::Spot) => " as spot",
            Some(Capacity::OnDemand) => " on demand",
            Some(Capacity::Auto) | None => "",
        };
        let never = format!("no cluster ever has {} of {wanted} at once{kind}, so it can never run", spec.nodes);
        Err(self.named.wrong(field, never))
    }
}

fn has_capacity(machines: &Machines, capacity: Option<Capacity>) -> bool {
    match capacity {
        Some(Capacity::Spot) => machines.spot.is_some(),
        Some(Capacity::OnDemand) => machines.on_demand.is_some() || machines.reserved.is_some(),
        Some(Capacity::Auto) | None => true,
    }
}

fn has_machines(machines: &Machines, spec: &JobSpec) -> bool {
    let shape = &machines.shape;
    machines.count.is_none_or(|count| count >= spec.nodes)
        && spec.resources.iter().any(|request| {
            request.accelerators.as_ref().is_none_or(|wanted| shape.accelerators.as_ref() == Some(wanted))
                && request.cpus.is_none_or(|cpus| cpus.accepts(shape.cpus))
        })
}

/// A job of this size.
pub(super) fn sample(size: &params::Size) -> JobRecord {
    JobRecord {
        name: "job".into(),
        submitted: Millis::ZERO,
        runtime: Millis::from_hours(1),
        nodes: size.nodes,
        gpus: size.gpus,
        accelerator: size.accelerator.clone(),
        cpus: size.cpus,
        memory: Bytes::ZERO,
        team: String::new(),
        user: String::new(),
        status: Status::Unknown,
    }
}
