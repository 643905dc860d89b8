//! What the demonstration starts with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use leeway_jobfile::Context;
use leeway_model::resources::Accelerators;
use leeway_model::{Currency, Micros, Millis, Rate};
use leeway_proto::pb;
use leeway_server::Settings;
use leeway_webhook::receiver::{Options, Receiver};
use leeway_webhook::sign::Secret;

use super::Args;
use super::markets::{self, CLUSTERS, Market};
use crate::client::Client;
use crate::commands::random_id;
use crate::failure::Failure;
use crate::terminal;
use crate::train::Training;

/// The training that the job does.
pub const TRAINING: Training = Training { seed: 7, steps: STEPS };
const STEPS: u64 = 2_000;
/// Sleep of each step, so that 2,000 of them take about half a minute.
const PACE_MS: u64 = 14;
/// How many seconds of the market pass in a real one.
const SPEED: u32 = 75;

const BUDGET: &str = "research";
const ENDPOINT: &str = "demo";

/// Everything that is ready before the server starts.
#[derive(Debug)]
pub struct Stage {
    pub settings: Settings,
    pub on_demand: Rate,
    pub markets: Vec<Market>,
    /// What a person should know about recordings that are followed.
    pub remark: Option<String>,
    accelerators: Option<Accelerators>,
    /// Removed when it is dropped, unless the folder is to be kept.
    _folder: Option<tempfile::TempDir>,
}

impl Stage {
    pub fn prepare(args: &Args) -> Result<Self, Failure> {
        if args.trace.len() > CLUSTERS {
            let message = format!("{} traces are given; there are {CLUSTERS} clusters", args.trace.len());
            return Err(Failure::usage(message));
        }
        let (folder, path) = folder(args.keep.as_deref())?;
        let (markets, remark) = if args.trace.is_empty() {
            (markets::builtin()?, None)
        } else {
            let (markets, told) = markets::recorded(&args.trace, &path.join("markets"))?;
            (markets, Some(told))
        };
        let on_demand = markets.iter().map(|market| market.on_demand).min().unwrap_or_default();
        // The shipped story ends a little above half of its budget, so that people see a threshold being crossed.
        let hours_of_budget = if args.trace.is_empty() { Millis::from_secs(1_600) } else { Millis::from_hours(4) };
        let cap = on_demand.cost(hours_of_budget);
        let settings =
            Settings::from_toml(&configuration(&path, &markets, cap)).context("the demonstration's settings")?;
        let accelerators = markets.first().and_then(|market| market.accelerators.clone());
        Ok(Self { settings, on_demand, markets, remark, accelerators, _folder: folder })
    }

    /// Submits the training; returns its job's id.
    pub async fn submit(&self, client: &Client) -> Result<String, Failure> {
        let accelerators = self.accelerators.clone();
        submit(client, Wanted { training: TRAINING, pace_ms: PACE_MS, accelerators }).await
    }

    pub fn budget(&self) -> pb::GetBudgetRequest {
        pb::GetBudgetRequest { name: BUDGET.into() }
    }
}

/// A receiver on loopback that checks every signature.
pub async fn receiver() -> Result<Receiver, Failure> {
    Ok(Receiver::start(Options::new(Vec::new())).await.context("the receiver of webhooks cannot listen")?)
}

pub async fn add_endpoint(client: &Client, receiver: &Receiver) -> Result<(), Failure> {
    let request = pb::AddEndpointRequest { name: ENDPOINT.into(), url: receiver.url(), ..Default::default() };
    let mut webhooks = client.webhooks();
    let answer = client.ask_once(webhooks.add_endpoint(request)).await?;
    let secret = answer.secret.context("the server reveals a new endpoint's secret")?;
    let secret = std::str::from_utf8(&secret.value).context("a webhook secret is text")?;
    receiver.trust(vec![secret.parse::<Secret>().context("a webhook secret")?]);
    Ok(())
}

/// A training as a job.
#[derive(Debug)]
pub struct Wanted {
    pub training: Training,
    /// Sleep of each step.
    pub pace_ms: u64,
    pub accelerators: Option<Accelerators>,
}

/// Submits a training; returns its job's id.
pub async fn submit(client: &Client, wanted: Wanted) -> Result<String, Failure> {
    let program = std::env::current_exe().context("this program's own path")?;
    let env = [
        ("PROGRAM", program.display().to_string()),
        ("STEPS", wanted.training.steps.to_string()),
        ("PACE_MS", wanted.pace_ms.to_string()),
    ];
    let context = Context {
        env_overrides: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<_, _>>(),
        owner: crate::commands::owner()?,
        base_dir: std::env::temp_dir(),
        home: None,
        now: terminal::now(),
        currency: Currency::USD,
    };
    let jobs = leeway_jobfile::parse(include_str!("job.yaml"), &context)
        .map_err(|errors| anyhow::anyhow!("the demonstration's job: {errors}"))?;
    let mut spec = jobs[0].spec.clone();
    for request in &mut spec.resources {
        request.accelerators = wanted.accelerators.clone();
    }
    let spec = pb::JobSpec::from_model(&spec, Currency::USD);
    let request = pb::SubmitJobRequest { client_request_id: random_id()?, spec: Some(spec), ..Default::default() };
    let answer = client.ask(|| async { client.jobs().submit_job(request.clone()).await }).await?;
    Ok(answer.submitted.unwrap_or_default().job_id)
}

/// A fresh folder: a temporary one, or the one that is to be kept.
pub fn folder(keep: Option<&Path>) -> Result<(Option<tempfile::TempDir>, PathBuf), Failure> {
    let Some(path) = keep else {
        let folder = tempfile::Builder::new().prefix("leeway-demo-").tempdir().context("no temporary folder")?;
        let path = folder.path().to_owned();
        return Ok((Some(folder), path));
    };
    std::fs::create_dir_all(path).map_err(|error| Failure::file(path, &error))?;
    let mut entries = std::fs::read_dir(path).map_err(|error| Failure::file(path, &error))?;
    if entries.next().is_some() {
        return Err(Failure::usage(format!("--keep '{}' is not empty; name a new folder", path.display())));
    }
    Ok((None, path.canonicalize().map_err(|error| Failure::file(path, &error))?))
}

/// The server's settings, as a file would state them.
fn configuration(folder: &Path, markets: &[Market], cap: Micros) -> String {
    let mut text = format!(
        r#"
installation = "demo"
data_dir = {folder:?}
listen = "127.0.0.1:0"
metrics_listen = "127.0.0.1:0"
default_budget = "{BUDGET}"

[log]
level = "off"

# One real second is more than a minute here: leases that a busy machine can still renew in time.
[lease]
ttl = "5m"
kill_grace = "2m"
margin = "1m"

[launch]
cooldown = "30m"

[money]
horizon = "7m"
stop_reserve = "3m"
extend_before = "2m"

[estimates]
launch_time = "1m"
restore_time = "1m"

[webhooks]
allow_http = true
allowed_networks = ["127.0.0.0/8"]
any_port = true

[[budgets]]
name = "{BUDGET}"
cap = "{cap} USD"

[clock]
speed = {SPEED}
"#
    );
    for market in markets {
        let accelerator = market
            .accelerators
            .as_ref()
            .map_or_else(String::new, |gpus| format!("accelerator = {:?}\naccelerators = {}", gpus.model, gpus.count));
        text += &format!(
            r#"
[[clusters]]
name = "{name}"
driver = "local"
region = "{region}"

[[clusters.machines]]
name = "gpu"
instance_type = {instance_type:?}
cpus = 8
memory = "61GiB"
{accelerator}
disk = "100GB"
count = 8
on_demand = "{on_demand} USD"
spot = "{spot} USD"

[clusters.market]
trace = {trace:?}
shape = "gpu"
notice = "0s"
end = "wrap"
"#,
            name = market.cluster,
            region = market.region,
            instance_type = market.instance_type,
            on_demand = market.on_demand,
            spot = market.spot,
            trace = market.trace,
        );
    }
    text
}
