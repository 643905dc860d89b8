//! `leeway demo`: the main job in less than a minute, on this machine alone.
//!
//! A real server on loopback with its store in a fresh folder, three local clusters that follow three spot markets, and
//! a real training submitted over gRPC. The markets take its machines twice, once with a notice and once without; the
//! training ends with the same weights as one that was never interrupted.
//!
//! ```text
//! markets  which market each cluster follows
//! setup    settings of the server, the job, the receiver of webhooks
//! follow   what happens while it runs
//! report   what it came to, for people and for programs
//! slurm    the same on a real Slurm cluster, which takes a node for real
//! ```

mod follow;
mod markets;
mod report;
mod setup;
mod slurm;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use leeway_proto::pb;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::render;
use crate::terminal::Terminal;
use crate::train;

use report::Report;
use setup::Stage;

const AFTER: &str = "\
It needs nothing but this program, listens on loopback only, and removes its folder when it ends. While it runs, one \
second on the wall is about one minute of the market, so an hour of training takes half a minute.

With --trace the clusters follow recorded markets instead of the built-in story: files of the format spot-trace-v1 (see \
crates/market/README.md) that sell the same machine. Where fewer than three are given, the others are zones of the same \
family from the first file's folder, else other times of a recording; the output says which.

With --slurm the training begins on the preemptible partition of the Slurm cluster that this host can reach; a job that \
needs its node takes it, the server is killed with -9 in the middle of the next launch, and the training ends on this host. \
Where the nodes are other machines, name a folder that they share with --keep. That job asks for one node, exclusively, \
for two minutes at most.

Examples:
  leeway demo
  leeway --json demo
  leeway demo --trace us-east-1c_v100_1.json
  leeway demo --trace us-east-1c_v100_1.json --trace us-west-2b_v100_1.json
  leeway demo --keep /tmp/leeway-demo
  leeway demo --slurm
  leeway demo --slurm --partition gpu --spot-partition scavenge --keep /shared/leeway-demo";

/// Survive two lost machines for real, and see the bill
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// A recorded market for the next cluster; up to three times, and one is enough.
    #[arg(long, value_name = "FILE")]
    pub trace: Vec<PathBuf>,
    /// Keep the server's folder here, to look at its store and logs afterwards; it must be empty or absent.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Begin on a Slurm cluster, and be preempted there for real.
    #[arg(long, conflicts_with = "trace")]
    pub slurm: bool,
    /// The partition whose jobs take nodes from the other; found by itself where there is such a pair.
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// The partition whose jobs may be preempted.
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub spot_partition: Option<String>,
}

/// A demonstration that takes longer than this has gone wrong.
const PATIENCE: Duration = Duration::from_secs(180);

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    if args.slurm {
        return slurm::run(args, terminal);
    }
    let stage = Stage::prepare(args)?;
    leeway_server::observability::init(&stage.settings.log);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
    let report = runtime.block_on(Box::pin(async {
        tokio::select! {
            report = perform(&stage, terminal) => report,
            () = told_to_end() => Err(Failure::new(Exit::Error, "INTERRUPTED", "the demonstration was interrupted")),
        }
    }));
    // The agents of an interrupted demonstration end by themselves when their server is gone and their lease is over.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let report = report?;
    terminal.show(|view| report.text(view), || report.json())?;
    Ok(if report.proves_the_point() { Exit::Success } else { Exit::Error })
}

/// Until somebody presses Ctrl-C or asks this process to end; so that its folder is removed all the same.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let heard = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => {
                signals.recv().await;
            }
            // Without a handler the signal ends the process at once, as it always did.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = heard(SignalKind::interrupt()) => {}
        () = heard(SignalKind::terminate()) => {}
        () = heard(SignalKind::hangup()) => {}
    }
}

async fn perform(stage: &Stage, terminal: &Terminal) -> Result<Report, Failure> {
    let begun = Instant::now();
    let receiver = setup::receiver().await?;
    let server = leeway_server::start(stage.settings.clone()).await?;
    let client = Client::new(&format!("http://{}", server.grpc_addr))?;
    terminal.remark(&format!(
        "server on http://{}, {} clusters, markets at {} times real time",
        server.grpc_addr,
        stage.settings.clusters.len(),
        stage.settings.clock_speed
    ));
    if let Some(remark) = &stage.remark {
        for market in &stage.markets {
            terminal.remark(&format!("  {} follows {}", market.cluster, render::plain(&market.follows)));
        }
        terminal.remark(&format!("  {remark}"));
    }
    setup::add_endpoint(&client, &receiver).await?;
    let job_id = stage.submit(&client).await?;
    // The same training without any interruption, meanwhile, for the proof at the end.
    let reference = tokio::task::spawn_blocking(|| train::digest(setup::TRAINING));
    let ended = tokio::time::timeout(PATIENCE, follow::until_settled(&client, &job_id, &receiver, terminal)).await;
    let settled = ended.map_err(|_| anyhow::anyhow!("the job did not end within {} s", PATIENCE.as_secs()))??;
    let digest = digest_from_logs(&client, &job_id).await?;
    let reference = reference.await.context("training without interruption")?;
    let budget = client.ask(|| async { client.budgets().get_budget(stage.budget()).await }).await?.budget;
    let webhooks = follow::webhooks(&client, &receiver).await?;
    server.shutdown().await?;
    Ok(Report {
        job: settled.job,
        runs: settled.runs,
        budget: budget.unwrap_or_default(),
        webhooks,
        digest,
        reference,
        on_demand: stage.on_demand,
        markets: stage.markets.clone(),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// The digest that the program printed at its end.
async fn digest_from_logs(client: &Client, job_id: &str) -> Result<Option<String>, Failure> {
    let request = pb::StreamLogsRequest { job_id: job_id.to_owned(), ..Default::default() };
    let mut stream = client.ask(|| async { client.jobs().stream_logs(request.clone()).await }).await?;
    let mut text = Vec::new();
    while let Some(chunk) = stream.message().await? {
        text.extend_from_slice(&chunk.data);
    }
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().rev().find_map(|line| line.strip_prefix("digest ")).map(str::to_owned))
}
