//! `leeway jobs status`, and waiting for the end of a job.

use std::time::{Duration, Instant};

use leeway_proto::pb;
use serde_json::json;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;
use crate::{json, render};

/// How long to wait for the end of a job.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    /// Not longer than this; absent means for ever.
    pub timeout: Option<Duration>,
}

/// How long a server may be away while somebody waits: a restart is no reason to give up.
const SERVER_AWAY: Duration = Duration::from_secs(120);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(
    job_id: String,
    patience: Option<Patience>,
    client: Client,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let job = match patience {
        Some(patience) => wait(&job_id, patience, &client, terminal).await?,
        None => get(&job_id, &client).await?,
    };
    let request = pb::ListRunsRequest { job_id };
    let runs = client.ask(|| async { client.jobs().list_runs(request.clone()).await }).await?.runs;
    terminal.show(
        |view| render::jobs::status(&job, &runs, view),
        || json!({ "job": json::of("Job", &job), "runs": json::list("Run", &runs) }),
    )?;
    Ok(if patience.is_some() { Exit::of_job(job.state()) } else { Exit::Success })
}

/// The job as it stands.
pub(super) async fn get(job_id: &str, client: &Client) -> Result<pb::Job, Failure> {
    let request = pb::GetJobRequest { job_id: job_id.to_owned() };
    let answer = client.ask(|| async { client.jobs().get_job(request.clone()).await }).await;
    Ok(answer.map_err(Failure::about_job)?.job.unwrap_or_default())
}

/// The job when it has ended, or as it stands when the patience does. Tells of changes on the way.
pub(super) async fn wait(
    job_id: &str,
    patience: Patience,
    client: &Client,
    terminal: &Terminal,
) -> Result<pb::Job, Failure> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut told = None;
    // When it last answered; a server that never did is not waited for.
    let mut answered: Option<Instant> = None;
    loop {
        match get(job_id, client).await {
            Ok(job) => {
                answered = Some(Instant::now());
                let spent = patience.timeout.is_some_and(|timeout| start.elapsed() >= timeout);
                if Exit::of_job(job.state()) != Exit::JobUnfinished || spent {
                    return Ok(job);
                }
                if told != Some(job.state()) && terminal.lively {
                    terminal.remark(&render::jobs::change(&job));
                    told = Some(job.state());
                    pause = FIRST_PAUSE;
                }
            }
            Err(failure) => {
                let may_return = answered.is_some_and(|last| last.elapsed() < SERVER_AWAY);
                if !(failure.is_unreachable() && may_return) {
                    return Err(failure);
                }
            }
        }
        let left = patience.timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
        tokio::time::sleep(pause.min(left.unwrap_or(pause))).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
