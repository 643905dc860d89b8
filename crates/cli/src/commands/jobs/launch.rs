//! `leeway jobs launch`: from a file to accepted jobs, or to what would become of them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use leeway_jobfile::{Context, Dependency, JobFile, limits};
use leeway_model::Currency;
use leeway_proto::pb;
use serde_json::{Value, json};

use super::super::{Online, owner, random_id};
use super::{LaunchArgs, LogsArgs, follow, given, status, upload};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::terminal::{self, Terminal};
use crate::{json, render};

pub(super) fn run(args: LaunchArgs, context: &Online<'_>) -> Result<Exit, Failure> {
    let terminal = context.terminal;
    let (jobs, currency) = read(&args, context)?;
    for note in notes(&jobs) {
        terminal.remark(&note);
    }
    context.with(|client| async move {
        if args.dryrun {
            return dry_run(&jobs, currency, &client, terminal).await;
        }
        launch(&args, jobs, currency, &client, terminal).await
    })
}

/// What there is to remark about the jobs; what holds of several of them is said once.
fn notes(jobs: &[JobFile]) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for note in jobs.iter().flat_map(|job| &job.notes) {
        match counts.iter_mut().find(|(known, _)| *known == note.as_str()) {
            Some((_, count)) => *count += 1,
            None => counts.push((note.as_str(), 1)),
        }
    }
    let line = |(note, count): (&str, usize)| match count {
        1 => format!("note: {note}"),
        count => format!("note: of {count} jobs: {note}"),
    };
    counts.into_iter().map(line).collect()
}

/// The jobs of the file with what the command line changes of them, and the currency of their amounts.
fn read(args: &LaunchArgs, online: &Online<'_>) -> Result<(Vec<JobFile>, Currency), Failure> {
    let lookup = |name: &str| std::env::var_os(name);
    let variables = given::variables(&args.env, &lookup)?;
    let secrets = given::secrets(&args.secret, &lookup)?;
    if let Some(name) = variables.keys().find(|name| secrets.contains_key(*name)) {
        let name = render::plain(name);
        return Err(Failure::usage(format!("'{name}' is given with --env and with --secret; use one of them")));
    }
    let text = text(&args.file)?;
    let currency = online.currency(&text)?;
    let context = Context {
        // A secret that the file names gets its value from here, too; those it does not name are moved below.
        env_overrides: variables.into_iter().chain(secrets.clone()).collect(),
        owner: owner()?,
        base_dir: base_dir(&args.file)?,
        home: std::env::var_os("HOME").map(PathBuf::from),
        now: terminal::now(),
        currency,
    };
    let mut jobs = leeway_jobfile::parse(&text, &context).map_err(|errors| invalid(&args.file, &errors, &secrets))?;
    if args.name.is_some() && jobs.len() > 1 {
        return Err(Failure::usage(format!("--name names one job and the file has {}; name them there", jobs.len())));
    }
    for job in &mut jobs {
        for (name, value) in &secrets {
            job.spec.program.env.remove(name);
            job.secrets.insert(name.clone(), value.clone());
        }
        if let Some(name) = &args.name {
            job.spec.name = name.parse().map_err(|error| Failure::usage(format!("--name: {error}")))?;
        }
        if let Some(budget) = &args.budget {
            job.spec.money.budget = Some(budget.clone());
        }
        if let Some(policy) = &args.policy {
            job.spec.policy = Some(policy.clone());
        }
    }
    Ok((jobs, currency))
}

/// The file's text, no more of it than a job file may have and one byte, so that the parser can refuse it.
fn text(path: &Path) -> Result<String, Failure> {
    let failed = |error: &std::io::Error| Failure::file(path, error);
    let most = limits::MAX_FILE_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    } else {
        let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
        file.take(most).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        // Cut in the middle of a letter, it is too long anyhow: the parser says so.
        Err(error) if error.as_bytes().len() as u64 >= most => {
            Ok(String::from_utf8_lossy(error.as_bytes()).into_owned())
        }
        Err(error) => {
            let place = error.utf8_error().valid_up_to();
            let message = format!("'{}' is not UTF-8 text at byte {place}; save it as UTF-8", path.display());
            Err(Failure::new(Exit::Usage, "NOT_UTF8", message))
        }
    }
}

/// Relative paths of a file begin where the file lies; of standard input, where the command runs.
fn base_dir(path: &Path) -> Result<PathBuf, Failure> {
    let folder = if path == Path::new("-") { None } else { path.parent() };
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.canonicalize().map_err(|error| Failure::file(folder, &error))
}

fn invalid(path: &Path, errors: &leeway_jobfile::Errors, secrets: &BTreeMap<String, String>) -> Failure {
    let line = |error: &leeway_jobfile::Error| match (error.position, error.path.strip_prefix("--env ")) {
        // What was typed stands in no file.
        (None, Some(name)) if secrets.contains_key(name) => {
            format!("--secret {}", error.to_string().replacen("--env ", "", 1))
        }
        (None, Some(_)) => error.to_string(),
        (None, None) => format!("{}: {error}", path.display()),
        (Some(_), _) => format!("{}:{error}", path.display()),
    };
    let mut message = errors.iter().map(line).collect::<Vec<_>>().join("\n");
    if errors.omitted() > 0 {
        message += &format!("\nand {} more", errors.omitted());
    }
    let details = serde_json::to_value(errors).unwrap_or(Value::Null);
    Failure::new(Exit::Usage, "INVALID_JOB_FILE", message).with_details(details)
}

/// The job as it travels, without what was not uploaded yet.
fn wire(job: &JobFile, currency: Currency) -> pb::JobSpec {
    let mut spec = pb::JobSpec::from_model(&job.spec, currency);
    if let Some(length) = job.deadline_in {
        // The server counts from when it takes the job, so that the same file is the same request when it is sent again.
        let time = spec.time.get_or_insert_default();
        (time.deadline_ms, time.deadline_in_ms) = (None, Some(length.as_millis()));
    }
    let program = spec.program.get_or_insert_default();
    program.secret_names = job.secrets.keys().cloned().collect();
    let before = job.depends_on.iter().filter_map(|one| match one {
        Dependency::Job(id) => Some(id.to_string()),
        Dependency::Document(_) => None,
    });
    spec.depends_on = before.collect();
    spec
}

async fn dry_run(jobs: &[JobFile], currency: Currency, client: &Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut found = Vec::with_capacity(jobs.len());
    for job in jobs {
        upload::check(job)?;
        let request = pb::DryRunJobRequest { spec: Some(wire(job, currency)) };
        let answer = client.ask(|| async { client.jobs().dry_run_job(request.clone()).await }).await?;
        let limits =
            render::decisions::limits(request.spec.as_ref().unwrap_or(&pb::JobSpec::default()), 0, currency.as_str());
        found.push((job.spec.name.as_str(), limits, answer));
    }
    terminal.show(
        |view| {
            let texts =
                found.iter().map(|(name, limits, answer)| render::decisions::dry_run(name, answer, limits, view));
            texts.collect::<Vec<_>>().join("\n\n")
        },
        || {
            let one = |(name, _, answer): &(&str, String, pb::DryRunJobResponse)| {
                let mut value = json::of("DryRunJobResponse", answer);
                value["name"] = (*name).into();
                value
            };
            json!({ "dryrun": found.iter().map(one).collect::<Vec<_>>() })
        },
    )?;
    let fits =
        |answer: &pb::DryRunJobResponse| answer.evaluation.as_ref().is_some_and(|one| !one.candidates.is_empty());
    let all_fit = found.iter().all(|(_, _, answer)| fits(answer));
    Ok(if all_fit { Exit::Success } else { Exit::NothingFits })
}

async fn launch(
    args: &LaunchArgs,
    jobs: Vec<JobFile>,
    currency: Currency,
    client: &Client,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let request_id = match &args.request_id {
        Some(id) => id.clone(),
        None => random_id()?,
    };
    let mut submissions = Vec::with_capacity(jobs.len());
    for job in &jobs {
        let mut spec = wire(job, currency);
        upload::all(job, spec.program.get_or_insert_default(), client, terminal).await?;
        submissions.push(submission(job, spec));
    }
    let results = submit(&request_id, submissions, client).await.map_err(|failure| {
        if !failure.is_unreachable() && failure.code != "DEADLINE_EXCEEDED" {
            return failure;
        }
        // Somebody may have answered whom we did not hear.
        let advice = failure.advice.clone().map(|advice| format!("{advice};\n  ")).unwrap_or_default();
        failure.advise(format!("{advice}then launch again with --request-id {request_id}: nothing is submitted twice"))
    })?;

    let mut accepted = Vec::new();
    let mut refused = None;
    let mut report = Vec::with_capacity(results.len());
    for (job, result) in jobs.iter().zip(results) {
        let name = job.spec.name.as_str();
        match result {
            Ok(submitted) => {
                if !terminal.json {
                    terminal.text(&render::jobs::submitted(name, &submitted))?;
                }
                let mut value = json::of("Submitted", &submitted);
                value["name"] = name.into();
                value["notes"] = job.notes.clone().into();
                report.push(value);
                accepted.push(submitted.job_id);
            }
            Err(error) => {
                let failure = item_failure(name, &error);
                terminal.remark(&format!("error: {}", failure.message));
                report.push(json!({ "name": name, "error": json::of("ItemError", &error) }));
                refused.get_or_insert(failure.exit);
            }
        }
    }
    let mut value = json!({ "request_id": request_id, "submitted": report });
    if terminal.json && args.follow {
        // The first line of the stream, so that a script knows the jobs while it reads their output.
        value["kind"] = "submitted".into();
        terminal.value(&value)?;
    }
    let ended = attend(args, &accepted, client, terminal).await?;
    if terminal.json && !args.follow {
        if args.wait {
            value["jobs"] = json::list("Job", &ended.jobs);
        }
        terminal.value(&value)?;
    }
    Ok(refused.unwrap_or(ended.exit))
}

fn submission(job: &JobFile, spec: pb::JobSpec) -> pb::Submission {
    let sealed = |value: &String| pb::SecretValue { value: value.clone().into() };
    let before = job.depends_on.iter().filter_map(|one| match one {
        Dependency::Job(_) => None,
        Dependency::Document(index) => u32::try_from(*index).ok(),
    });
    pb::Submission {
        spec: Some(spec),
        secrets: job.secrets.iter().map(|(name, value)| (name.clone(), sealed(value))).collect(),
        depends_on_batch: before.collect(),
    }
}

type Outcome = Result<pb::Submitted, pb::ItemError>;

/// Submits under one id, as often as it takes to be answered.
async fn submit(request_id: &str, mut jobs: Vec<pb::Submission>, client: &Client) -> Result<Vec<Outcome>, Failure> {
    let client_request_id = request_id.to_owned();
    let is_one = jobs.len() == 1;
    if let Some(one) = jobs.pop_if(|one| is_one && one.depends_on_batch.is_empty()) {
        let request = pb::SubmitJobRequest { client_request_id, spec: one.spec, secrets: one.secrets };
        let answer = client.ask(|| async { client.jobs().submit_job(request.clone()).await }).await?;
        return Ok(vec![Ok(answer.submitted.unwrap_or_default())]);
    }
    let request = pb::SubmitJobsRequest { client_request_id, submissions: jobs };
    let answer = client.ask(|| async { client.jobs().submit_jobs(request.clone()).await }).await?;
    let (asked, told) = (request.submissions.len(), answer.results.len());
    if asked != told {
        let message =
            format!("the server answered for {told} of {asked} jobs; see 'leeway jobs queue' for what it took");
        return Err(Failure::new(Exit::Error, "WRONG_ANSWER", message));
    }
    let outcome = |one: pb::SubmissionResult| match one.result {
        Some(pb::submission_result::Result::Submitted(submitted)) => Ok(submitted),
        Some(pb::submission_result::Result::Error(error)) => Err(error),
        None => Err(pb::ItemError { message: "the server said nothing about it".into(), ..pb::ItemError::default() }),
    };
    Ok(answer.results.into_iter().map(outcome).collect())
}

fn item_failure(name: &str, error: &pb::ItemError) -> Failure {
    let status = tonic::Status::new(tonic::Code::from_i32(i32::try_from(error.status).unwrap_or(2)), &error.message);
    let failure = Failure::from(status);
    Failure { message: format!("{}: {}", render::plain(name), render::plain(&failure.message)), ..failure }
}

struct Ended {
    exit: Exit,
    jobs: Vec<pb::Job>,
}

/// Waits for the jobs or shows their output, as was asked. The first that did not succeed gives the exit code.
async fn attend(
    args: &LaunchArgs,
    accepted: &[String],
    client: &Client,
    terminal: &Terminal,
) -> Result<Ended, Failure> {
    let mut ended = Ended { exit: Exit::Success, jobs: Vec::new() };
    for job_id in accepted {
        let exit = if args.follow {
            let logs = LogsArgs { job: job_id.clone(), follow: true, run: None, rank: None, tail: None };
            follow::run(logs, client.clone(), terminal).await?
        } else if args.wait {
            let job = status::wait(job_id, status::Patience::default(), client, terminal).await?;
            if !terminal.json {
                terminal.text(&render::jobs::ended(&job))?;
            }
            let exit = Exit::of_job(job.state());
            ended.jobs.push(job);
            exit
        } else {
            Exit::Success
        };
        if ended.exit == Exit::Success {
            ended.exit = exit;
        }
    }
    Ok(ended)
}
