//! The demonstration on a Slurm cluster: the training begins on its preemptible partition, a job with a better partition
//! takes the node for real, the server is killed in the middle of the next launch, and the training ends all the same.
//!
//! The server is a process of its own here, since it is to be killed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use leeway_model::Rate;
use leeway_proto::pb;
use leeway_webhook::receiver::Receiver;
use tokio::sync::watch;

use super::report::Report;
use super::setup;
use super::{Args, PATIENCE, digest_from_logs, follow};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;
use crate::train::{self, Training};

const TRAINING: Training = Training { seed: 7, steps: 1_500 };
/// Sleep of each step: about twenty seconds in all.
const PACE_MS: u64 = 14;
/// The node is taken once there is a checkpoint at this step or later.
const TAKEN_AFTER: u64 = 340;
const BUDGET: &str = "research";
const ON_DEMAND: &str = "3.06";
const SPOT: &str = "0.92";
/// The job that takes the node keeps it for so long at most.
const TAKER_SECS: u32 = 120;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Two partitions over the same nodes.
#[derive(Debug)]
struct Partitions {
    better: String,
    spot: String,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    let partitions = partitions(args)?;
    let (_folder, path) = setup::folder(args.keep.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
    let report = runtime.block_on(Box::pin(async {
        tokio::select! {
            report = perform(&path, &partitions, terminal) => report,
            () = super::told_to_end() => Err(Failure::new(Exit::Error, "INTERRUPTED", "the demonstration was interrupted")),
        }
    }));
    runtime.shutdown_timeout(Duration::from_secs(1));
    let report = report?;
    terminal.show(|view| report.text(view), || report.json())?;
    let interrupted = |run: &pb::Run| run.end.as_ref().is_some_and(|end| end.reason == "interrupted");
    let recovered = report.runs.iter().any(interrupted);
    Ok(if report.proves_the_point() && recovered { Exit::Success } else { Exit::Error })
}

async fn perform(folder: &Path, partitions: &Partitions, terminal: &Terminal) -> Result<Report, Failure> {
    let begun = Instant::now();
    let mut server = Server::prepare(folder, partitions)?;
    server.start()?;
    let client = Client::new(&server.url())?;
    let request = pb::GetInstallationRequest {};
    client.ask(|| async { client.clusters().get_installation(request).await }).await?;
    terminal.remark(&format!(
        "server on {}, Slurm's partition '{}' as spot, '{}' takes its nodes, this host as the other place",
        server.url(),
        partitions.spot,
        partitions.better
    ));
    let receiver = setup::receiver().await?;
    setup::add_endpoint(&client, &receiver).await?;
    let job_id =
        setup::submit(&client, setup::Wanted { training: TRAINING, pace_ms: PACE_MS, accelerators: None }).await?;
    let reference = tokio::task::spawn_blocking(|| train::digest(TRAINING));
    let (done, ended) = watch::channel(false);
    let trouble = trouble(&client, &job_id, &mut server, partitions, terminal, ended);
    let following = async {
        let settled = follow_to_the_end(&client, &job_id, &receiver, terminal).await;
        // Whoever makes trouble listens as long as this runs.
        let _ = done.send(true);
        settled
    };
    let (settled, taker) = tokio::join!(following, trouble);
    let taker = taker?;
    let settled = settled?;
    let digest = digest_from_logs(&client, &job_id).await?;
    let reference = reference.await.context("training without interruption")?;
    let request = pb::GetBudgetRequest { name: BUDGET.into() };
    let budget = client.ask(|| async { client.budgets().get_budget(request.clone()).await }).await?.budget;
    let webhooks = follow::webhooks(&client, &receiver).await?;
    drop(taker);
    server.kill()?;
    Ok(Report {
        job: settled.job,
        runs: settled.runs,
        budget: budget.unwrap_or_default(),
        webhooks,
        digest,
        reference,
        on_demand: Rate::parse_decimal(ON_DEMAND).context("a price")?,
        markets: Vec::new(),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

async fn follow_to_the_end(
    client: &Client,
    job_id: &str,
    receiver: &Receiver,
    terminal: &Terminal,
) -> Result<follow::Settled, Failure> {
    let ended = tokio::time::timeout(PATIENCE, follow::until_settled(client, job_id, receiver, terminal)).await;
    ended.map_err(|_| anyhow::anyhow!("the job did not end within {} s", PATIENCE.as_secs()))?
}

/// Takes the node once the training has saved, and kills the server in the next launch. Returns the job that took the
/// node; it is cancelled when that is dropped.
async fn trouble(
    client: &Client,
    job_id: &str,
    server: &mut Server,
    partitions: &Partitions,
    terminal: &Terminal,
    mut ended: watch::Receiver<bool>,
) -> Result<Option<Taker>, Failure> {
    let mut taker = None;
    loop {
        let request = pb::ListRunsRequest { job_id: job_id.to_owned() };
        let runs = client.ask(|| async { client.jobs().list_runs(request.clone()).await }).await?.runs;
        if let (None, Some(first)) = (&taker, runs.first()) {
            let saved = first.checkpoint_seq > 0 && first.progress.as_ref().is_some_and(|one| one.step >= TAKEN_AFTER);
            if saved {
                let took = Taker::take(partitions, &server.installation, &first.run_id)?;
                terminal.remark(&format!(
                    "  {:>5}  somebody's job takes node {} on '{}'",
                    "", took.node, partitions.better
                ));
                taker = Some(took);
            }
        }
        if runs.len() > 1 {
            server.kill()?;
            server.start()?;
            terminal.remark(&format!(
                "  {:>5}  the server was killed while {} was launched, and started again",
                "",
                runs[runs.len() - 1].run_id
            ));
            return Ok(taker);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = ended.wait_for(|ended| *ended) => return Ok(taker),
        }
    }
}

/// Somebody else's job on the node of our run.
#[derive(Debug)]
struct Taker {
    id: String,
    node: String,
}

impl Taker {
    fn take(partitions: &Partitions, installation: &str, run_id: &str) -> Result<Self, Failure> {
        let name = format!("--name=leeway.{installation}.{run_id}");
        let node = slurm("squeue", &["--noheader", &name, "--format=%N"])?.trim().to_owned();
        let (partition, nodelist) = (format!("--partition={}", partitions.better), format!("--nodelist={node}"));
        let sleep = format!("--wrap=exec sleep {TAKER_SECS}");
        let options = ["--parsable", "--job-name=leeway-demo-taker", "--exclusive", "--nodes=1", "--output=/dev/null"];
        let id = slurm("sbatch", &[&options[..], &[&partition, &nodelist, &sleep]].concat())?;
        Ok(Self { id: id.trim().to_owned(), node })
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        if let Err(error) = slurm("scancel", &[&self.id]) {
            eprintln!("Slurm's job {} was not cancelled; it ends by itself: {}", self.id, error.message);
        }
    }
}

/// `leeway serve` as a process.
#[derive(Debug)]
struct Server {
    /// Of this demonstration alone: Slurm still knows the jobs of the last one.
    installation: String,
    config: PathBuf,
    log: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Server {
    fn prepare(folder: &Path, partitions: &Partitions) -> Result<Self, Failure> {
        let config = folder.join("leeway.toml");
        let installation: String = format!("demo-{}", crate::commands::random_id()?).chars().take(20).collect();
        std::fs::write(&config, configuration(folder, &installation, partitions)?)
            .map_err(|error| Failure::file(&config, &error))?;
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.context("no free port")?.port();
        Ok(Self { installation, config, log: folder.join("server.log"), port, child: None })
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(&self.log)?;
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command = Command::new(std::env::current_exe().context("this program's own path")?);
        command.arg("serve").arg("--config").arg(&self.config);
        command.args(["--listen", &listen, "--metrics-listen", "127.0.0.1:0"]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LEEWAY_")) {
            command.env_remove(name);
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
        self.child = Some(child.context("the server does not start")?);
        Ok(())
    }

    /// As `kill -9` does.
    fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn configuration(folder: &Path, installation: &str, partitions: &Partitions) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("this program's own path")?;
    let conf = match std::env::var("SLURM_CONF") {
        Ok(conf) => format!("conf = {conf:?}"),
        Err(_) => String::new(),
    };
    Ok(format!(
        r#"
installation = "{installation}"
data_dir = {data:?}
default_budget = "{BUDGET}"

[lease]
ttl = "20s"
kill_grace = "2s"
margin = "2s"

[money]
meter_every = "1s"

[launch]
cooldown = "10m"

[estimates]
launch_time = "5s"
restore_time = "1s"

[webhooks]
allow_http = true
allowed_networks = ["127.0.0.0/8"]
any_port = true

[[budgets]]
name = "{BUDGET}"
cap = "5 USD"

[[clusters]]
name = "slurm"
driver = "slurm"
region = "onprem/slurm"
checkpoints = {checkpoints:?}

[clusters.slurm]
work_dir = {runs:?}
agent = {program:?}
poll = "1s"
{conf}

[[clusters.machines]]
name = "node"
cpus = 1
memory = "256MiB"
spot = "{SPOT} USD"

[clusters.machines.slurm]
spot_partition = {spot:?}

[[clusters]]
name = "here"
driver = "local"
region = "onprem/here"
checkpoints = {checkpoints:?}

[[clusters.machines]]
name = "node"
cpus = 1
memory = "256MiB"
count = 1
on_demand = "{ON_DEMAND} USD"
"#,
        data = folder.join("data"),
        checkpoints = format!("file://{}", folder.join("checkpoints").display()),
        runs = folder.join("runs"),
        spot = partitions.spot,
    ))
}

/// The partitions that were named, or a pair of which one preempts the other.
fn partitions(args: &Args) -> Result<Partitions, Failure> {
    let listed = slurm("scontrol", &["--oneliner", "show", "partition"])?;
    let found = pair(&listed);
    let named = |given: &Option<String>, found: Option<String>, flag: &str| {
        let missing = || {
            Failure::usage("no pair of partitions was found of which one preempts the other".to_owned())
                .advise(format!("name them with --partition and --spot-partition; {flag} is missing"))
        };
        given.clone().or(found).ok_or_else(missing)
    };
    let (better, spot) = found.unzip();
    Ok(Partitions {
        better: named(&args.partition, better, "--partition")?,
        spot: named(&args.spot_partition, spot, "--spot-partition")?,
    })
}

/// The preemptible partition of the lowest tier, and a better one.
fn pair(listed: &str) -> Option<(String, String)> {
    let mut known: Vec<(u32, bool, String)> = Vec::new();
    for line in listed.lines() {
        let field = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        if field("State") != Some("UP") {
            continue;
        }
        let tier = field("PriorityTier")?.parse().ok()?;
        let gives_way = field("PreemptMode").is_some_and(|mode| mode != "OFF");
        known.push((tier, gives_way, field("PartitionName")?.to_owned()));
    }
    let (low, _, spot) = known.iter().filter(|(_, gives_way, _)| *gives_way).min_by_key(|(tier, ..)| *tier)?;
    let (.., better) = known.iter().filter(|(tier, ..)| tier > low).max_by_key(|(tier, ..)| *tier)?;
    Some((better.clone(), spot.clone()))
}

fn slurm(command: &str, arguments: &[&str]) -> Result<String, Failure> {
    let run = || -> anyhow::Result<String> {
        let output = Command::new(command).args(arguments).stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } = output.with_context(|| format!("'{command}' cannot be run"))?;
        if !status.success() {
            bail!("'{command}': {}", String::from_utf8_lossy(&stderr).trim());
        }
        Ok(String::from_utf8(stdout)?)
    };
    run().map_err(|error| {
        Failure::new(Exit::Error, "SLURM_UNAVAILABLE", format!("Slurm does not answer: {error:#}"))
            .advise("run it where Slurm's commands work, with SLURM_CONF set if need be")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_partition_that_gives_way_and_a_better_one() {
        let line = |name: &str, tier: u32, mode: &str, state: &str| {
            format!(
                "PartitionName={name} AllowGroups=ALL PriorityTier={tier} PreemptMode={mode} State={state} TotalNodes=2\n"
            )
        };
        let listed =
            line("gpu", 10, "OFF", "UP") + &line("scavenge", 1, "REQUEUE", "UP") + &line("old", 99, "OFF", "DOWN");
        assert_eq!(pair(&listed), Some(("gpu".into(), "scavenge".into())));
        assert_eq!(pair(&line("gpu", 10, "OFF", "UP")), None);
        assert_eq!(pair(&line("scavenge", 1, "REQUEUE", "UP")), None);
        assert_eq!(pair(""), None);
    }
}
