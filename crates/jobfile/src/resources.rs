//! Machines: what one must have, which alternatives will do, and the settings that SkyPilot keeps beside them.

use std::collections::BTreeMap;

use leeway_model::resources::{Accelerators, ResourceRequest, SpotPolicy};
use leeway_model::{Bytes, Currency};

use crate::accelerators::{self, Choice};
use crate::error::{Code, Report};
use crate::fields::{Field, Fields, Level};
use crate::infra::Where;
use crate::recovery::{self, SkyPilotRecovery};
use crate::yaml::Value;
use crate::{infra, refused};

/// Most alternatives that one job may list.
pub const MAX_ALTERNATIVES: usize = 64;
/// Priorities reach from minus to plus this; a higher one goes first.
const MAX_PRIORITY: i64 = 1_000;

pub(crate) const LEVEL: Level = Level {
    name: "resources",
    known: &[
        "accelerators",
        "gpus",
        "cpus",
        "memory",
        "disk_size",
        "instance_type",
        "infra",
        "cloud",
        "region",
        "zone",
        "use_spot",
        "max_hourly_cost",
        "any_of",
        "ordered",
        "job_recovery",
        "spot_recovery",
        "priority",
        "autostop",
        "labels",
    ],
    refused: refused::RESOURCES,
};

const ALTERNATIVE: Level = Level {
    name: "an entry of any_of or ordered",
    known: &[
        "accelerators",
        "gpus",
        "cpus",
        "memory",
        "disk_size",
        "instance_type",
        "infra",
        "cloud",
        "region",
        "zone",
        "use_spot",
        "max_hourly_cost",
    ],
    refused: refused::ALTERNATIVE,
};

pub(crate) const AUTOSTOP: Level = Level {
    name: "autostop",
    known: &["idle_minutes", "down", "wait_for"],
    refused: &[
        crate::fields::Refused {
            name: "hook",
            problem: "Leeway runs no hooks",
            fix: "put the command at the end of run",
        },
        crate::fields::Refused { name: "hook_timeout", problem: "Leeway runs no hooks", fix: "remove it" },
    ],
};

/// Everything that a `resources` mapping says.
#[derive(Debug)]
pub(crate) struct Resources {
    pub requests: Vec<ResourceRequest>,
    pub ordered: bool,
    pub priority: i32,
    pub labels: BTreeMap<String, String>,
    pub recovery: Option<SkyPilotRecovery>,
    /// Whether `use_spot` was stated anywhere.
    pub states_spot: bool,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            requests: vec![ResourceRequest::default()],
            ordered: false,
            priority: 0,
            labels: BTreeMap::new(),
            recovery: None,
            states_spot: false,
        }
    }
}

/// One machine as a mapping states it apart from its accelerators, before alternatives inherit from the base.
#[derive(Clone, Debug, Default)]
struct Machine {
    request: ResourceRequest,
    place: Option<Where>,
    spot: Option<SpotPolicy>,
}

impl Machine {
    fn read(fields: &mut Fields<'_>, currency: Currency, report: &mut Report) -> Self {
        let request = ResourceRequest {
            cpus: fields.take("cpus").and_then(|field| field.cpus(report)),
            memory: fields.take("memory").and_then(|field| field.memory(report)),
            disk: fields.take("disk_size").and_then(|field| disk(&field, report)),
            instance_type: fields.take("instance_type").and_then(|field| instance_type(&field, report)),
            max_hourly_cost: fields.take("max_hourly_cost").and_then(|field| field.price(currency, report)),
            ..ResourceRequest::default()
        };
        let spot = fields.take("use_spot").and_then(|field| field.boolean(report));
        let spot = spot.map(|spot| if spot { SpotPolicy::Spot } else { SpotPolicy::OnDemand });
        Self { request, place: infra::read(fields, report), spot }
    }

    /// Fills what this alternative leaves open from the base, as SkyPilot does.
    fn inherit(self, base: &Self) -> Self {
        let (own, from) = (self.request, &base.request);
        Self {
            request: ResourceRequest {
                accelerators: None,
                cpus: own.cpus.or(from.cpus),
                memory: own.memory.or(from.memory),
                disk: own.disk.or(from.disk),
                instance_type: own.instance_type.or_else(|| from.instance_type.clone()),
                max_hourly_cost: own.max_hourly_cost.or(from.max_hourly_cost),
                ..ResourceRequest::default()
            },
            place: match self.place {
                Some(place) => Some(place.inherit(base.place.as_ref())),
                None => base.place.clone(),
            },
            spot: self.spot.or(base.spot),
        }
    }

    fn finish(self, accelerators: Option<Accelerators>) -> ResourceRequest {
        ResourceRequest {
            accelerators,
            infra: self.place.map(Where::into_infra).unwrap_or_default(),
            spot: self.spot.unwrap_or_default(),
            ..self.request
        }
    }
}

pub(crate) fn read(field: Field<'_>, currency: Currency, report: &mut Report) -> Option<Resources> {
    let mut fields = Fields::open(field, &LEVEL, report)?;
    fields.exclusive(
        "any_of",
        "ordered",
        "keep any_of when the bill may choose, ordered when your order counts",
        report,
    );
    fields.exclusive("job_recovery", "spot_recovery", "keep job_recovery; the other is its old name", report);
    let base_accelerators = take_accelerators(&mut fields, report);
    let base = Machine::read(&mut fields, currency, report);
    let ordered_list = fields.take("ordered");
    let ordered = ordered_list.is_some();
    let alternatives = ordered_list.or_else(|| fields.take("any_of"));

    let labels = fields.take("labels").map(|field| labels(field, report)).unwrap_or_default();
    let priority = fields.take("priority").and_then(|field| field.integer(-MAX_PRIORITY, MAX_PRIORITY, report));
    let recovery = match fields.take("job_recovery") {
        Some(field) => recovery::skypilot(field, report),
        None => fields.take("spot_recovery").and_then(|field| recovery::skypilot(field, report)),
    };
    if let Some(field) = fields.take("autostop") {
        autostop(field, report);
    }

    let rest = Resources {
        requests: Vec::new(),
        ordered,
        priority: priority.and_then(|priority| i32::try_from(priority).ok()).unwrap_or_default(),
        labels,
        recovery,
        states_spot: base.spot.is_some(),
    };
    match alternatives {
        None => Some(without_alternatives(base, base_accelerators.map(|(_, choice)| choice), rest)),
        Some(list) => with_alternatives(list, &base, base_accelerators, rest, currency, report),
    }
}

fn without_alternatives(base: Machine, accelerators: Option<Choice>, rest: Resources) -> Resources {
    let Some(choice) = accelerators else {
        return Resources { requests: vec![base.finish(None)], ..rest };
    };
    let ordered = choice.ordered && choice.any.len() > 1;
    let requests = choice.any.into_iter().map(|one| base.clone().finish(Some(one))).collect();
    Resources { requests, ordered, ..rest }
}

fn with_alternatives(
    list: Field<'_>,
    base: &Machine,
    base_accelerators: Option<(String, Choice)>,
    mut rest: Resources,
    currency: Currency,
    report: &mut Report,
) -> Option<Resources> {
    let (path, at) = (list.path.clone(), list.key_at);
    let items = list.items("write one entry for each machine, each beginning with '- '", report)?;
    if items.is_empty() || items.len() > MAX_ALTERNATIVES {
        let problem = format!("lists {} machines", items.len());
        report.at(Code::TooMany, at, &path, problem, format!("list 1 to {MAX_ALTERNATIVES}"));
        return None;
    }
    if let Some((base_path, choice)) = &base_accelerators
        && choice.any.len() > 1
    {
        let problem = format!("'{base_path}' and '{path}' both list alternatives");
        report.at(Code::Conflict, at, &path, problem, format!("write one entry of '{path}' for each accelerator"));
        return None;
    }
    for item in items {
        let Some(mut fields) = Fields::open(item, &ALTERNATIVE, report) else { continue };
        let accelerators = match (take_accelerators(&mut fields, report), &base_accelerators) {
            (Some((own_path, _)), Some((base_path, _))) => {
                let problem = format!("'{base_path}' and '{own_path}' both say which accelerator");
                let fix = "write accelerators either in resources or in every entry";
                report.at(Code::Conflict, fields.at(), &own_path, problem, fix);
                None
            }
            (Some((own_path, choice)), None) => {
                if choice.any.len() > 1 {
                    let fix = format!("write one entry of '{path}' for each accelerator");
                    report.at(Code::Conflict, fields.at(), &own_path, "lists alternatives inside an alternative", fix);
                }
                choice.any.into_iter().next()
            }
            (None, Some((_, choice))) => choice.any.first().cloned(),
            (None, None) => None,
        };
        let machine = Machine::read(&mut fields, currency, report).inherit(base);
        rest.states_spot |= machine.spot.is_some();
        rest.requests.push(machine.finish(accelerators));
    }
    Some(rest)
}

/// Accelerators by either name, with the path under which they stand.
fn take_accelerators(fields: &mut Fields<'_>, report: &mut Report) -> Option<(String, Choice)> {
    fields.exclusive("accelerators", "gpus", "keep accelerators; the other is the same", report);
    let field = match fields.take("accelerators") {
        Some(field) => field,
        None => fields.take("gpus")?,
    };
    let path = field.path.clone();
    accelerators::read(field, report).map(|choice| (path, choice))
}

fn disk(field: &Field<'_>, report: &mut Report) -> Option<Bytes> {
    let size = field.size_or_gb(report)?;
    if size.is_zero() {
        field.fail(Code::OutOfRange, "is not above zero", "write a number of GB such as 256", report);
        return None;
    }
    Some(size)
}

fn instance_type(field: &Field<'_>, report: &mut Report) -> Option<Box<str>> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'+');
    if let Value::Text(text) = &field.node.value
        && (1..=128).contains(&text.len())
        && text.bytes().all(plain)
    {
        return Some(text.as_ref().into());
    }
    let fix = "write the provider's own spelling, such as p3.2xlarge";
    field.fail(Code::InvalidValue, "is not an instance type", fix, report);
    None
}

/// Checked, then set aside: the machines of a run are always released when it ends.
fn autostop(field: Field<'_>, report: &mut Report) {
    const YEAR_MINUTES: i64 = 366 * 24 * 60;
    let path = field.path.clone();
    let understood = match &field.node.value {
        Value::Bool(..) => true,
        // -1 is never, 0 at once.
        Value::Number(_) => field.integer(-1, YEAR_MINUTES, report).is_some(),
        Value::Text(_) => field.length(report).is_some(),
        Value::Map(_) => Fields::open(field, &AUTOSTOP, report).is_some_and(|mut fields| {
            let idle = fields.take("idle_minutes");
            let idle = idle.is_none_or(|field| field.integer(0, YEAR_MINUTES, report).is_some());
            fields.take("down").is_none_or(|field| field.boolean(report).is_some()) && idle
        }),
        _ => {
            field.wrong_type("minutes, a length of time, or true or false", "remove it", report);
            false
        }
    };
    if understood {
        report.note(format!("{path}: nothing to do, because the machines of a run are always released when it ends"));
    }
}

/// Labels: at most 64, short keys without surprises.
pub(crate) fn labels(field: Field<'_>, report: &mut Report) -> BTreeMap<String, String> {
    const MAX_LABELS: usize = 64;
    let (path, at) = (field.path.clone(), field.key_at);
    let Some(entries) = field.entries(report) else { return BTreeMap::new() };
    if entries.len() > MAX_LABELS {
        let problem = format!("holds {} labels", entries.len());
        report.at(Code::TooMany, at, &path, problem, format!("keep at most {MAX_LABELS}"));
        return BTreeMap::new();
    }
    let mut labels = BTreeMap::new();
    for entry in entries {
        let field = Field { path: crate::fields::join(&path, &entry.key), key_at: entry.key_at, node: entry.node };
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/');
        if !(1..=63).contains(&entry.key.len()) || !entry.key.bytes().all(plain) {
            let fix = "write 1 to 63 letters, digits, '-', '_', '.' or '/'";
            report.at(Code::InvalidValue, field.key_at, &field.path, "is not the name of a label", fix);
            continue;
        }
        match field.literal() {
            Some(value) if value.len() <= 256 && !value.chars().any(char::is_control) => {
                labels.insert(entry.key.into_owned(), value.to_owned());
            }
            Some(_) => {
                let fix = "write at most 256 bytes without control characters";
                field.fail(Code::OutOfRange, "is not the value of a label", fix, report);
            }
            None => field.wrong_type("text", "write one piece of text, in quotes if it is true or false", report),
        }
    }
    labels
}
