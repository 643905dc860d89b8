//! One document of a job file: the fields of the whole job, and how the parts come together in a specification.

use leeway_model::Text;
use leeway_model::job::{JobSpec, MoneyTerms, Program, TimeTerms};
use leeway_model::resources::SpotPolicy;

use crate::error::{Code, Report};
use crate::fields::{Field, Fields, Level};
use crate::files::Folders;
use crate::resources::Resources;
use crate::{Context, JobFile, checkpoint, data, environment, files, recovery, refused, resources};

/// Most machines of a gang.
pub const MAX_NODES: i64 = 1_024;
/// Longest `setup` or `run`, in bytes.
pub const MAX_SCRIPT_BYTES: usize = 512 << 10;

pub(crate) const LEVEL: Level = Level {
    name: "a job",
    known: &[
        "name",
        "owner",
        "num_nodes",
        "setup",
        "run",
        "envs",
        "secrets",
        "workdir",
        "file_mounts",
        "inputs",
        "outputs",
        "resources",
        "labels",
        "deadline",
        "budget",
        "data",
        "checkpoint",
        "max_cost",
        "value_per_hour",
        "spot_policy",
        "retry",
        "max_duration",
        "estimate",
        "depends_on",
        "policy",
    ],
    refused: refused::JOB,
};

/// A job with the dependencies that can be settled only when every document is read.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub job: Option<JobFile>,
    pub name: Option<Text>,
    pub depends_on: Option<Field<'a>>,
}

pub(crate) fn read<'a>(document: Field<'a>, default_name: &str, context: &Context, report: &mut Report) -> Draft<'a> {
    let Some(mut fields) = Fields::open(document, &LEVEL, report) else {
        return Draft { job: None, name: None, depends_on: None };
    };
    let depends_on = fields.take_even_empty("depends_on");
    let name = match fields.take("name") {
        Some(field) => display_name(&field, report),
        None => default_name.parse().ok(),
    };
    let job = assemble(&mut fields, name.clone(), context, report);
    Draft { job, name, depends_on }
}

fn assemble(fields: &mut Fields<'_>, name: Option<Text>, context: &Context, report: &mut Report) -> Option<JobFile> {
    let folders = Folders { base: &context.base_dir, home: context.home.as_deref() };
    let environment = environment::read(fields.take("envs"), fields.take("secrets"), &context.env_overrides, report);
    let setup = fields.take("setup").and_then(|field| script(field, report));
    let run = take_run(fields, report);
    let workdir = fields.take("workdir").and_then(|field| files::workdir(field, &environment, folders, report));
    let mounts = fields.take("file_mounts").map(|field| files::mounts(field, &environment, folders, report));
    let nodes = fields.take("num_nodes").and_then(|field| field.integer(1, MAX_NODES, report));

    fields.exclusive("data", "inputs", "keep data; it can say the region too", report);
    let inputs = match fields.take_stated("data", report) {
        Some(field) => data::data(field, &environment, report),
        None => fields.take("inputs").map(|field| data::inputs(field, &environment, report)).unwrap_or_default(),
    };
    let outputs = fields.take("outputs").and_then(|field| data::outputs(field, &environment, report));

    let job_labels = fields.take("labels");
    let resources = match fields.take("resources") {
        Some(field) => resources::read(field, context.currency, report).unwrap_or_default(),
        None => Resources::default(),
    };
    let resources = with_labels(resources, job_labels, report);
    let resources = with_spot_policy(resources, fields.take_stated("spot_policy", report), report);

    let owner = fields.take_stated("owner", report).map(|field| identity(&field, report));
    let policy = take_policy(fields, &resources, report);
    let money = MoneyTerms {
        budget: fields.take_stated("budget", report).and_then(|field| identity(&field, report)),
        max_cost: fields.take_stated("max_cost", report).and_then(|field| field.money(context.currency, report)),
        value_per_hour: fields
            .take_stated("value_per_hour", report)
            .and_then(|field| field.money_per_hour(context.currency, report)),
    };
    let deadline = fields.take_stated("deadline", report).and_then(|field| field.deadline(context.now, report));
    let time = TimeTerms {
        deadline: deadline.map(|(at, _)| at),
        estimate: fields.take_stated("estimate", report).and_then(|field| field.length(report)),
        max_duration: fields.take_stated("max_duration", report).and_then(|field| field.length(report)),
    };
    let checkpoint = fields.take_stated("checkpoint", report).map(|field| checkpoint::read(field, report));
    let retry = recovery::policy(resources.recovery.as_ref(), fields.take_stated("retry", report), report);

    let may_be_interrupted = resources.requests.iter().any(|request| request.spot != SpotPolicy::OnDemand);
    if may_be_interrupted && checkpoint.is_none() {
        report.note(
            "no checkpoint is kept and spot capacity may be used: an interruption starts the job again from nothing; \
             add 'checkpoint', or forbid spot with spot_policy: on-demand",
        );
    }
    if [&setup, &run].into_iter().flatten().any(|script| script.contains("SKYPILOT_")) {
        report.note(
            "of the variables that begin with SKYPILOT_, Leeway sets NODE_RANK, NUM_NODES, NODE_IPS and TASK_ID; its own \
             are LEEWAY_RANK, LEEWAY_WORLD_SIZE, LEEWAY_NODES and LEEWAY_JOB_ID",
        );
    }
    let spec = JobSpec {
        name: name?,
        owner: owner.unwrap_or_else(|| Some(context.owner.clone()))?,
        nodes: nodes.map_or(Some(1), |nodes| u32::try_from(nodes).ok())?,
        resources: resources.requests,
        ordered: resources.ordered,
        priority: resources.priority,
        program: Program { setup, run: run?, env: environment.env, ..Program::default() },
        money,
        time,
        data: inputs,
        outputs,
        checkpoint: checkpoint.flatten(),
        retry: retry?,
        depends_on: Vec::new(),
        policy,
        labels: resources.labels,
    };
    Some(JobFile {
        spec,
        deadline_in: deadline.and_then(|(_, length)| length),
        secrets: environment.secrets,
        workdir,
        mounts: mounts.unwrap_or_default(),
        depends_on: Vec::new(),
        notes: report.take_notes(),
    })
}

pub(crate) fn display_name(field: &Field<'_>, report: &mut Report) -> Option<Text> {
    let text = field.clone().text(report)?;
    match text.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            let fix = "write 1 to 256 bytes of visible text";
            let error: leeway_model::NameError = error;
            field.fail(Code::InvalidValue, format!("is not a name: {error}"), fix, report);
            None
        }
    }
}

fn identity(field: &Field<'_>, report: &mut Report) -> Option<leeway_model::Name> {
    let text = field.clone().text(report)?;
    let name = text.parse().ok();
    if name.is_none() {
        let fix = "use 1 to 63 of a-z, 0-9 and '-', starting and ending with a letter or digit";
        field.fail(Code::InvalidValue, "is not a name", fix, report);
    }
    name
}

fn take_run(fields: &mut Fields<'_>, report: &mut Report) -> Option<Box<str>> {
    let Some(field) = fields.take("run") else {
        let fix = "write the commands of the job; Leeway keeps no machines without one";
        report.at(Code::MissingField, fields.at(), "run", "is missing", fix);
        return None;
    };
    script(field, report)
}

fn script(field: Field<'_>, report: &mut Report) -> Option<Box<str>> {
    let text = field.clone().text(report)?;
    if text.len() > MAX_SCRIPT_BYTES {
        let problem = format!("has {} bytes; at most {MAX_SCRIPT_BYTES} are allowed", text.len());
        let fix = "put it into a file in the working directory and call that";
        report.at(Code::OutOfRange, field.node.at, &field.path, problem, fix);
        return None;
    }
    Some(text.into())
}

fn with_labels(mut resources: Resources, field: Option<Field<'_>>, report: &mut Report) -> Resources {
    let Some(field) = field else { return resources };
    if !resources.labels.is_empty() {
        let problem = "'resources.labels' and 'labels' both label the job";
        report.at(Code::Conflict, field.key_at, &field.path, problem, "keep one of them");
        return resources;
    }
    resources.labels = resources::labels(field, report);
    resources
}

fn with_spot_policy(mut resources: Resources, field: Option<Field<'_>>, report: &mut Report) -> Resources {
    let Some(field) = field else { return resources };
    if resources.states_spot {
        let problem = "'resources.use_spot' and 'spot_policy' both say it";
        report.at(Code::Conflict, field.key_at, &field.path, problem, "keep spot_policy; it can also say auto");
        return resources;
    }
    let choices = [("spot", SpotPolicy::Spot), ("on-demand", SpotPolicy::OnDemand), ("auto", SpotPolicy::Auto)];
    if let Some(spot) = field.choice(&choices, report) {
        resources.requests.iter_mut().for_each(|request| request.spot = spot);
    }
    resources
}

fn take_policy(fields: &mut Fields<'_>, resources: &Resources, report: &mut Report) -> Option<leeway_model::Name> {
    let theirs = resources.recovery.as_ref().and_then(|recovery| recovery.policy.clone());
    let Some(field) = fields.take_stated("policy", report) else { return theirs };
    if theirs.is_some() {
        let problem = "'resources.job_recovery' and 'policy' both choose a policy";
        report.at(Code::Conflict, field.key_at, &field.path, problem, "keep policy");
    }
    identity(&field, report)
}
