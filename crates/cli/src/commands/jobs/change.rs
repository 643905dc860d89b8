//! `leeway jobs cancel` and `leeway jobs retry`.

use leeway_proto::pb;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;
use crate::{json, render};

/// Cancels each job by itself: one that is not there does not keep the others alive.
pub(super) async fn cancel(job_ids: Vec<String>, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let actor = super::super::owner()?.to_string();
    let mut cancelled = Vec::new();
    let mut failures = Vec::new();
    for job_id in job_ids {
        let request = pb::CancelJobRequest { job_id: job_id.clone(), actor: actor.clone() };
        match client.ask(|| async { client.jobs().cancel_job(request.clone()).await }).await {
            Ok(answer) => cancelled.extend(answer.job),
            Err(failure) => failures.push((job_id, failure.about_job())),
        }
    }
    // The only job's refusal is the command's.
    if cancelled.is_empty() && failures.len() == 1 {
        return Err(failures.remove(0).1);
    }
    let exit = failures.iter().map(|(_, failure)| failure.exit).next().unwrap_or(Exit::Success);
    terminal.show(
        |_| cancelled.iter().map(render::jobs::change).collect::<Vec<_>>().join("\n"),
        || {
            let failed = failures.iter().map(|(job_id, failure)| {
                let mut value = failure.to_json();
                value["job_id"] = job_id.as_str().into();
                value
            });
            serde_json::json!({
                "jobs": json::list("Job", &cancelled),
                "failed": failed.collect::<Vec<_>>(),
            })
        },
    )?;
    for (job_id, failure) in &failures {
        terminal.remark(&format!("{}: {}", render::plain(job_id), failure.message));
    }
    Ok(exit)
}

pub(super) async fn retry(job_id: String, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let answer = client.ask_once(client.jobs().retry_job(pb::RetryJobRequest { job_id })).await;
    let pb::RetryJobResponse { job, warnings } = answer.map_err(Failure::about_job)?;
    let job = job.unwrap_or_default();
    let value = || {
        let mut value = json::of("Job", &job);
        value["warnings"] = json::list("Reason", &warnings);
        value
    };
    terminal.show(|_| render::jobs::change(&job) + &render::jobs::warnings(&warnings), value)?;
    Ok(Exit::Success)
}
