//! `leeway jobs explain`.

use leeway_proto::pb;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;
use crate::{json, render};

pub(super) async fn run(job_id: String, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let request = pb::ExplainJobRequest { job_id };
    let ask = || async { client.jobs().explain_job(request.clone()).await };
    let answer = client.ask(ask).await.map_err(Failure::about_job)?;
    terminal.show(|view| render::decisions::explain(&answer, view), || json::of("ExplainJobResponse", &answer))?;
    Ok(Exit::Success)
}
