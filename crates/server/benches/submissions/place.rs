//! What is submitted, and the server that takes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leeway_drivers::{ClusterDriver, DriverError, Instance, InstanceState, Launch, LaunchError, Observation};
use leeway_model::{Millis, Name, RunId};
use leeway_proto::pb;
use leeway_server::{Drivers, Parameters, Server, Settings};

/// The machines can take only jobs that want a V100.
const CONFIG: &str = r#"
installation = "bench"
listen = "127.0.0.1:0"
metrics_listen = "127.0.0.1:0"
default_budget = "team"
limits.open_jobs_per_owner = 4000000000
limits.submissions_per_second = 1000000

[[budgets]]
name = "team"
cap = "1000000000 USD"

[[clusters]]
name = "here"
region = "aws/us-east-1"

[[clusters.machines]]
name = "v100"
accelerator = "V100"
cpus = 8
memory = "61GiB"
count = 10000000
on_demand = "3.06 USD"
spot = "0.92 USD"
"#;

/// Machines that exist only as names in a set.
#[derive(Clone, Debug, Default)]
struct Pretender(Arc<Mutex<BTreeSet<RunId>>>);

#[tonic::async_trait]
impl ClusterDriver for Pretender {
    async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        self.0.lock().expect("nobody panics with the lock").insert(launch.run);
        Ok(vec![format!("i-{}", launch.run).into()])
    }

    async fn observe(&self, _: &Name) -> Result<Observation, DriverError> {
        let runs = self.0.lock().expect("nobody panics with the lock");
        let instance = |run: &RunId| Instance::new(*run, 0, format!("i-{run}").into(), InstanceState::Running);
        Ok(Observation { instances: runs.iter().map(instance).collect(), complete: true })
    }

    async fn stop(&self, _: &Name, run: RunId, _: Millis) -> Result<(), DriverError> {
        self.0.lock().expect("nobody panics with the lock").remove(&run);
        Ok(())
    }
}

/// A server over a store in a directory of the target folder: the temporary one is often in memory, where syncing costs
/// nothing.
pub struct Place {
    pub server: Server,
    data: tempfile::TempDir,
}

/// Machines of the cluster whose prices a storm moves.
pub const MOVED: usize = 1_000;

impl Place {
    pub async fn start() -> Self {
        Self::with(CONFIG).await
    }

    /// With a thousand machines more, which jobs look at and none takes.
    pub async fn with_market() -> Self {
        let mut config = CONFIG.to_owned();
        for machine in 0..MOVED {
            config += &format!(
                "\n[[clusters.machines]]\nname = \"m-{machine}\"\naccelerator = \"V100\"\naccelerators = 8\ncpus = 8\nmemory = \"61GiB\"\ncount = 4\non_demand = \"30 USD\"\nspot = \"9 USD\"\n"
            );
        }
        Self::with(&config).await
    }

    async fn with(config: &str) -> Self {
        let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be made");
        let settings = Settings::from_toml(config).expect("the settings are sound");
        let settings = Settings { data_dir: data.path().to_path_buf(), ..settings };
        let driver = Arc::new(Pretender::default()) as Arc<dyn ClusterDriver>;
        let name: Name = "local".parse().expect("it is a name");
        let drivers = Drivers { by_name: BTreeMap::from([(name, driver)]), ..Drivers::default() };
        let parameters =
            Parameters { drivers: Some(drivers), poll_every: Some(Duration::from_secs(10)), ..Parameters::default() };
        let server = Box::pin(leeway_server::start_with(settings, parameters)).await.expect("the server starts");
        Self { server, data }
    }

    pub async fn stop(self) {
        self.server.shutdown().await.expect("the server stops");
        self.data.close().expect("the directory can be removed");
    }
}

/// What the jobs of a measurement ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A machine that nobody has: the job waits.
    Nowhere,
    /// A machine that is free: the job is placed and launched.
    Here,
}

/// A training job as people write it.
pub fn spec(wish: Wish, number: usize) -> pb::JobSpec {
    let model = match wish {
        Wish::Nowhere => "H100",
        Wish::Here => "V100",
    };
    let text = |text: &str| text.to_owned();
    pb::JobSpec {
        name: format!("resnet50-sweep-{number}"),
        owner: text("ada"),
        nodes: 1,
        resources: vec![pb::ResourceRequest {
            accelerators: Some(pb::Accelerators { model: text(model), count: 1 }),
            spot: pb::SpotPolicy::Auto.into(),
            ..Default::default()
        }],
        program: Some(pb::Program {
            setup: Some(text("pip install -r requirements.txt")),
            run: text("python train.py --config configs/resnet50.yaml --epochs 90 --resume \"$LEEWAY_CKPT_DIR\""),
            env: BTreeMap::from([
                (text("OMP_NUM_THREADS"), text("8")),
                (text("WANDB_PROJECT"), text("resnet50-sweep")),
                (text("LEARNING_RATE"), format!("0.{number:06}")),
            ]),
            ..Default::default()
        }),
        money: Some(pb::MoneyTerms { max_cost_micros: Some(40_000_000), ..Default::default() }),
        time: Some(pb::TimeTerms { estimate_ms: Some(4 * 3_600_000), ..Default::default() }),
        data: vec![pb::DataInput {
            url: text("s3://datasets/imagenet-1k/"),
            region: Some(text("aws/us-east-1")),
            size_bytes: Some(150_000_000_000),
        }],
        checkpoint: Some(pb::CheckpointPolicy { size_bytes: Some(200_000_000), keep: 3, ..Default::default() }),
        labels: BTreeMap::from([(text("team"), text("vision")), (text("sweep"), text("lr-2024-11"))]),
        currency: text("USD"),
        ..Default::default()
    }
}

/// So many new prices of spot machines, no two rounds alike.
pub fn prices(round: usize, count: usize) -> pb::ObserveMarketRequest {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let price = |number: usize| pb::PriceObservation {
        offer: Some(pb::OfferKey {
            cluster: "here".into(),
            shape: format!("m-{}", (round * count + number) % MOVED),
            capacity: pb::CapacityType::Spot.into(),
        }),
        price: Some(pb::Price {
            rate_nanos_per_hour: 8_000_000_000 + ((round * 7 + number) % 1_000) as u64 * 1_000_000,
            currency: "USD".into(),
            observed_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
            source: pb::Source::Feed.into(),
        }),
    };
    pb::ObserveMarketRequest { prices: (0..count).map(price).collect(), ..Default::default() }
}

pub fn one(wish: Wish, number: usize) -> pb::SubmitJobRequest {
    pb::SubmitJobRequest {
        client_request_id: format!("sweep-7f3a9c-{number}"),
        spec: Some(spec(wish, number)),
        ..Default::default()
    }
}

pub fn batch(wish: Wish, number: usize, jobs: usize) -> pb::SubmitJobsRequest {
    let submission = |job| pb::Submission { spec: Some(spec(wish, number * jobs + job)), ..Default::default() };
    pb::SubmitJobsRequest {
        client_request_id: format!("batch-7f3a9c-{number}"),
        submissions: (0..jobs).map(submission).collect(),
    }
}
