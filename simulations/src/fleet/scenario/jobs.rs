//! The jobs of a scenario: one stream in order of arrival, out of laws, recordings and single jobs.

use std::collections::BTreeMap;

use leeway_model::budget::BudgetSpec;
use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::job::{DataInput, JobSpec, MoneyTerms, Program, RetryPolicy, TimeTerms};
use leeway_model::resources::{Accelerators, MilliCpus, Quantity, ResourceRequest, SpotPolicy};
use leeway_model::{Bytes, Millis, Name, Timestamp};

use super::super::setup::{Arrival, WorkloadError};
use super::workload::{Ask, Capacity, Stream};
use super::{Error, Named};
use crate::generate::{Limit, params};
use crate::trace::{self, JobRecord, Status};

type Arrivals = Box<dyn Iterator<Item = Result<Arrival, WorkloadError>> + Send>;

/// All jobs in order of their arrival.
pub(super) fn stream(named: &Named, budgets: &[BudgetSpec], seed: u64) -> Result<Arrivals, Error> {
    let scenario = &named.scenario;
    let start = scenario.start;
    let mut streams: Vec<Arrivals> = Vec::new();
    let mut single: Vec<_> = scenario.jobs.iter().map(|job| (fixed(job), job.ask.clone())).collect();
    single.sort_by_key(|(record, _)| record.submitted);
    let known = budgets.to_vec();
    streams.push(Box::new(single.into_iter().map(move |(record, ask)| arrival(&record, &ask, start, &known))));
    for (number, of) in scenario.workload.iter().enumerate() {
        let field = format!("workload[{number}]");
        let (ask, known) = (of.ask.clone(), budgets.to_vec());
        let most = of.most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let length = scenario.length;
        match (law(named, &field, of)?, &of.trace) {
            (Some(law), _) => {
                // Each stream has luck of its own.
                let seed = crate::random::Lot::new(seed, [number as u64, 0, 0x6a6f_6273]).below(u64::MAX);
                let records = law.jobs(seed, Limit::until(length)).take(most);
                streams.push(Box::new(records.map(move |record| arrival(&record, &ask, start, &known))));
            }
            (None, Some(path)) => {
                let path = named.folder.join(path);
                let jobs = trace::open(&path, None, false)
                    .map_err(|error| named.wrong(format!("{field}.trace"), error.to_string()))?;
                let faster = of.faster;
                let timed = jobs.map(move |record| {
                    let mut record = record.map_err(|error| WorkloadError(error.to_string()))?;
                    record.submitted = Millis::from_secs_f64(record.submitted.as_secs_f64() / faster);
                    Ok::<_, WorkloadError>(record)
                });
                let within =
                    timed.take_while(move |record| record.as_ref().map_or(true, |record| record.submitted < length));
                streams.push(Box::new(within.take(most).map(move |record| arrival(&record?, &ask, start, &known))));
            }
            (None, None) => return Err(named.wrong(field, "give one of trace, generate and fitted")),
        }
    }
    Ok(Box::new(Merged { heads: streams.into_iter().map(Iterator::peekable).collect() }))
}

/// Streams as one, in order of arrival; at one instant the first stream goes first. A stream that fails ends all.
struct Merged {
    heads: Vec<std::iter::Peekable<Arrivals>>,
}

impl Iterator for Merged {
    type Item = Result<Arrival, WorkloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first: Option<(Millis, usize)> = None;
        for (number, head) in self.heads.iter_mut().enumerate() {
            let at = match head.peek() {
                Some(Ok(arrival)) => arrival.at,
                Some(Err(_)) => Millis::ZERO,
                None => continue,
            };
            if first.is_none_or(|(earliest, _)| at < earliest) {
                first = Some((at, number));
            }
        }
        self.heads[first?.1].next()
    }
}

/// The law of a stream, written out or fitted.
pub(super) fn law(named: &Named, field: &str, stream: &Stream) -> Result<Option<params::Workload>, Error> {
    match (&stream.generate, &stream.fitted, &stream.trace) {
        (Some(law), None, None) => {
            law.check().map_err(|(key, problem)| named.wrong(format!("{field}.generate.{key}"), problem))?;
            Ok(Some(law.clone()))
        }
        (None, Some(path), None) => {
            let path = named.folder.join(path);
            let law = named.params(&format!("{field}.fitted"), &path)?.workload;
            law.map(Some).ok_or_else(|| {
                named.wrong(format!("{field}.fitted"), format!("'{}' has no [workload]", path.display()))
            })
        }
        (None, None, Some(_)) => Ok(None),
        _ => Err(named.wrong(field, "give one of trace, generate and fitted")),
    }
}

pub(super) fn fixed(job: &super::workload::Fixed) -> JobRecord {
    JobRecord {
        name: job.name.clone(),
        submitted: job.at.unwrap_or(Millis::ZERO),
        runtime: job.runtime,
        nodes: job.nodes,
        gpus: job.gpus,
        accelerator: job.accelerator.clone(),
        cpus: 0,
        memory: Bytes::ZERO,
        team: job.team.clone(),
        user: job.user.clone(),
        status: Status::Unknown,
    }
}

fn arrival(record: &JobRecord, ask: &Ask, start: Timestamp, budgets: &[BudgetSpec]) -> Result<Arrival, WorkloadError> {
    let payer =
        |name: &str| budgets.iter().find(|budget| budget.name.as_str() == name).map(|budget| budget.name.clone());
    let budget = match &ask.budget {
        Some(name) => Some(payer(name).ok_or_else(|| WorkloadError(format!("there is no budget '{name}'")))?),
        None => payer(&plain(&record.team)),
    };
    let mut spec =
        spec_of(record, ask, start, budget).map_err(|problem| WorkloadError(format!("{}: {problem}", record.name)))?;
    let inputs = ask.input.iter().map(|input| (input.region.clone(), input.size)).collect();
    spec.data = ask
        .input
        .iter()
        .map(|input| DataInput {
            url: "data://input".into(),
            region: Some(input.region.clone()),
            size: Some(input.size),
        })
        .collect();
    let team = record.team.as_str().into();
    Ok(Arrival { at: record.submitted, spec, work: record.runtime, team, inputs, recorded: None })
}

/// What a submitter would have written.
pub(super) fn spec_of(
    record: &JobRecord,
    ask: &Ask,
    start: Timestamp,
    budget: Option<Name>,
) -> Result<JobSpec, String> {
    let (nodes, gpus) = match ask.gpus_per_machine {
        Some(each) if record.gpus > 0 => {
            let each = each.max(1);
            let all = record.gpus_total();
            (u32::try_from(all.div_ceil(u64::from(each))).unwrap_or(u32::MAX), each)
        }
        _ => (record.nodes, record.gpus),
    };
    let spot = match ask.capacity {
        Some(Capacity::Spot) => SpotPolicy::Spot,
        Some(Capacity::OnDemand) => SpotPolicy::OnDemand,
        Some(Capacity::Auto) | None => SpotPolicy::Auto,
    };
    let mut resources = Vec::new();
    if gpus > 0 {
        let models = ask.accelerator.as_ref().or(record.accelerator.as_ref());
        let models = models.ok_or("it asks for GPUs of no model; write ask.accelerator")?;
        for model in models.split('|').filter(|model| !model.is_empty()) {
            let model = leeway_market::accelerator::canonical(model).into();
            let accelerators = Some(Accelerators { model, count: gpus });
            resources.push(ResourceRequest { accelerators, spot, ..Default::default() });
        }
    } else {
        let cpus =
            (record.cpus > 0).then(|| Quantity { amount: MilliCpus(record.cpus.saturating_mul(1_000)), or_more: true });
        resources.push(ResourceRequest { cpus, spot, ..Default::default() });
    }
    let submitted = start.after(record.submitted);
    let deadline =
        ask.deadline.map(|times| submitted.after(Millis::from_secs_f64(record.runtime.as_secs_f64() * times)));
    let estimate = match ask.estimate {
        Some(share) if share <= 0.0 => None,
        share => Some(Millis::from_secs_f64(record.runtime.as_secs_f64() * share.unwrap_or(1.0))),
    };
    let checkpoint = ask.checkpoint.as_ref().map(|checkpoint| CheckpointPolicy {
        path: None,
        interval: checkpoint.every.map_or(Interval::Auto, Interval::Every),
        size: Some(checkpoint.size),
        save_time: Some(checkpoint.save),
        restore_time: Some(checkpoint.restore),
        keep: 1,
        restart_without: true,
    });
    let text = if record.name.is_empty() { "job" } else { &record.name };
    Ok(JobSpec {
        name: text.parse().map_err(|error: leeway_model::name::NameError| error.to_string())?,
        owner: plain(&record.user).parse().unwrap_or_else(|_| nobody()),
        nodes,
        resources,
        ordered: false,
        priority: ask.priority.unwrap_or(0),
        program: Program { run: "simulated".into(), ..Default::default() },
        money: MoneyTerms {
            budget,
            max_cost: ask.max_cost.map(|cost| cost.0),
            value_per_hour: ask.value_per_hour.map(|price| price.0),
        },
        time: TimeTerms { deadline, estimate, max_duration: None },
        data: Vec::new(),
        outputs: None,
        checkpoint,
        retry: RetryPolicy { infrastructure_failures: u32::MAX, ..Default::default() },
        depends_on: Vec::new(),
        policy: None,
        labels: BTreeMap::new(),
    })
}

fn nobody() -> Name {
    "nobody".parse().expect("it is a valid name")
}

/// A source's spelling as a name: lower case, with dashes for what a name may not hold.
fn plain(text: &str) -> String {
    let spelt: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    spelt.trim_matches('-').chars().take(63).collect::<String>().trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::feasible;
    use super::*;

    #[test]
    fn a_sources_spelling_becomes_a_name() {
        assert_eq!(plain("Vision_Lab 7"), "vision-lab-7");
        assert_eq!((plain("-ee9e8c-"), plain("")), ("ee9e8c".to_owned(), String::new()));
    }

    #[test]
    fn gpus_are_spread_over_the_machines_that_there_are() {
        let record = JobRecord {
            gpus: 8,
            nodes: 2,
            accelerator: Some("v100|p100".into()),
            ..feasible::sample(&params::Size::default())
        };
        let ask = Ask { gpus_per_machine: Some(4), ..Ask::default() };
        let spec = spec_of(&record, &ask, Timestamp::ZERO, None).unwrap();
        assert_eq!((spec.nodes, spec.resources.len()), (4, 2));
        assert_eq!(spec.resources[0].accelerators.as_ref().map(|a| a.count), Some(4));
    }
}
