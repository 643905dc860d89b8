//! Hard constraints: whether an offer may take a job at all, and whether it can now.

use leeway_model::decision::{Rejection, Rule};
use leeway_model::job::JobSpec;
use leeway_model::market::Source;
use leeway_model::resources::{MachineShape, MilliCpus, ResourceRequest};
use leeway_model::{Bytes, Rate, Timestamp};

use super::fleet::{Fleet, OfferId, Slot};
use crate::config::Config;

/// Whether a machine answers one of a job's alternatives, or the first rule that it fails.
pub fn fits(request: &ResourceRequest, slot: &Slot) -> Result<(), Rule> {
    is_shape(request, &slot.shape)?;
    if !in_place(request, slot) {
        return Err(Rule::Place);
    }
    if !slot.offer.key.capacity.allowed_by(request.spot) {
        return Err(Rule::CapacityType);
    }
    Ok(())
}

/// Whether a shape of machine answers an alternative, wherever it stands and however it is paid.
pub fn is_shape(request: &ResourceRequest, shape: &MachineShape) -> Result<(), Rule> {
    if let Some(wanted) = &request.accelerators
        && shape.accelerators.as_ref() != Some(wanted)
    {
        return Err(Rule::Accelerator);
    }
    if request.cpus.is_some_and(|cpus| !cpus.accepts(shape.cpus)) {
        return Err(Rule::Cpus);
    }
    if request.memory.is_some_and(|memory| !memory.accepts(shape.memory)) {
        return Err(Rule::Memory);
    }
    if request.disk.is_some_and(|disk| shape.disk < disk) {
        return Err(Rule::Disk);
    }
    if request.instance_type.as_ref().is_some_and(|wanted| !is_type(shape, wanted)) {
        return Err(Rule::InstanceType);
    }
    Ok(())
}

/// Whether a size of machine answers an alternative.
pub fn is_of_size(request: &ResourceRequest, cpus: MilliCpus, memory: Bytes) -> bool {
    request.cpus.is_none_or(|wanted| wanted.accepts(cpus)) && request.memory.is_none_or(|wanted| wanted.accepts(memory))
}

fn is_type(shape: &MachineShape, wanted: &str) -> bool {
    &*shape.instance_type == wanted || shape.name.as_str() == wanted
}

fn in_place(request: &ResourceRequest, slot: &Slot) -> bool {
    let infra = &request.infra;
    let cluster = slot.offer.key.cluster.as_str();
    infra.cluster_or_provider.as_ref().is_none_or(|want| &**want == cluster || **want == *slot.region.provider())
        && infra.region.as_ref().is_none_or(|want| **want == *slot.region.name())
        && infra.zone.as_ref().is_none_or(|want| slot.zone.as_ref() == Some(want))
}

/// Position of the first alternative that the offer answers. Where it answers none, the rule that the alternative
/// nearest to it failed: rules stand in the order in which [`fits`] asks them.
pub fn alternative(spec: &JobSpec, slot: &Slot) -> Result<usize, Rule> {
    let mut failed = Rule::Accelerator;
    for (position, request) in spec.resources.iter().enumerate() {
        match fits(request, slot) {
            Ok(()) => return Ok(position),
            Err(rule) => failed = failed.max(rule),
        }
    }
    Err(failed)
}

/// Position of the first alternative that the offer answers and can take now. Where none is, the rule that stands
/// between it and the first that it answers.
pub fn alternative_now(
    config: &Config,
    fleet: &Fleet,
    id: OfferId,
    spec: &JobSpec,
    now: Timestamp,
) -> Result<usize, Rule> {
    let first = alternative(spec, fleet.slot(id))?;
    alternative_from(first, config, fleet, id, spec, now)
}

/// As [`alternative_now`], where the first alternative that the offer answers is known.
pub fn alternative_from(
    first: usize,
    config: &Config,
    fleet: &Fleet,
    id: OfferId,
    spec: &JobSpec,
    now: Timestamp,
) -> Result<usize, Rule> {
    let slot = fleet.slot(id);
    let judge = |position: usize| can_now(config, fleet, id, &spec.resources[position], spec.nodes, now);
    let Err(rule) = judge(first) else { return Ok(first) };
    // One alternative may cap the price of an hour where another does not.
    let mut later = first + 1..spec.resources.len();
    later.find(|&position| fits(&spec.resources[position], slot).is_ok() && judge(position).is_ok()).ok_or(rule)
}

/// Whether an offer that fits can take `nodes` machines now.
pub fn can_now(
    config: &Config,
    fleet: &Fleet,
    id: OfferId,
    request: &ResourceRequest,
    nodes: u32,
    now: Timestamp,
) -> Result<(), Rule> {
    let slot = fleet.slot(id);
    let Some(price) = &slot.offer.price else {
        return Err(Rule::NoPrice);
    };
    if !slot.ready {
        return Err(Rule::ClusterNotReady);
    }
    if price.currency != config.currency {
        return Err(Rule::CurrencyUnknown);
    }
    if price.source != Source::Declared && now.since(price.observed) > config.price_max_age {
        return Err(Rule::StalePrice);
    }
    if request.max_hourly_cost.is_some_and(|most| price.rate > most) {
        return Err(Rule::MaxHourlyCost);
    }
    if slot.offer.cooling_until.is_some_and(|until| now < until) {
        return Err(Rule::CoolingDown);
    }
    if fleet.free(id).is_some_and(|free| free < nodes) {
        return Err(Rule::NoCapacity);
    }
    Ok(())
}

/// The most that the alternatives which a machine answers would pay for it an hour.
pub fn highest_limit(spec: &JobSpec, slot: &Slot) -> Option<Rate> {
    let answered = spec.resources.iter().filter(|request| fits(request, slot).is_ok());
    answered.filter_map(|request| request.max_hourly_cost).max()
}

/// The rejection with what was asked and what is there, for people.
pub fn explain(rule: Rule, spec: &JobSpec, fleet: &Fleet, id: OfferId, now: Timestamp) -> Rejection {
    let slot = fleet.slot(id);
    let shape = &slot.shape;
    let detail = match rule {
        Rule::Accelerator => {
            let wanted: Vec<String> =
                spec.resources.iter().filter_map(|r| r.accelerators.as_ref()).map(|a| a.to_string()).collect();
            let have = shape.accelerators.as_ref().map_or("no accelerator".to_owned(), |a| a.to_string());
            format!("asked for {}, has {have}", wanted.join(" or "))
        }
        Rule::Cpus => format!("has {} CPUs", shape.cpus),
        Rule::Memory => format!("has {:.0} GiB of memory", shape.memory.as_gib_f64()),
        Rule::Disk => format!("has {} of disk", shape.disk),
        Rule::InstanceType => format!("is a {}", shape.instance_type),
        Rule::Place => format!("lies in {}", slot.region),
        Rule::CapacityType => format!("is {}", slot.offer.key.capacity),
        Rule::MaxHourlyCost => match (&slot.offer.price, highest_limit(spec, slot)) {
            (Some(price), Some(limit)) => format!("costs {} an hour; max_hourly_cost is {limit}", price.rate),
            _ => "has no price".into(),
        },
        Rule::NoPrice => match slot.offer.price_fault {
            Some((fault, count)) => format!("no usable price; the last of {count} was refused: {}", fault.code()),
            None => "no price is known".into(),
        },
        Rule::StalePrice => match &slot.offer.price {
            Some(price) => format!("the last price is {} old", now.since(price.observed)),
            None => "has no price".into(),
        },
        Rule::CurrencyUnknown => "is priced in another currency".into(),
        Rule::ClusterNotReady => "its cluster takes no new runs".into(),
        Rule::NoCapacity => match fleet.free(id) {
            Some(free) => format!("asked for {} machines, {free} free", spec.nodes),
            None => "no capacity".into(),
        },
        Rule::CoolingDown => match slot.offer.cooling_until {
            Some(until) => format!("refused or lost a run; cools down until {until}"),
            None => "cooling".into(),
        },
        Rule::MaxCost => "the expected bill passes what the job may still cost".into(),
        Rule::DataUnreachable => "an input cannot be reached from there".into(),
        Rule::Policy => "the policy does not use this kind of capacity".into(),
    };
    Rejection { offer: slot.offer.key.clone(), rule, detail: detail.into() }
}
