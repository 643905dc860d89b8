//! A server to test against: three offers, one budget, and a driver whose machines exist only in a table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leeway_drivers::{ClusterDriver, DriverError, Instance, InstanceState, Launch, LaunchError, Observation};
use leeway_model::{Currency, Millis, Name, RunId};
use leeway_proto::pb;
use leeway_proto::testing::minimal_job_spec;
use leeway_server::drivers::TakesBack;
use leeway_server::{Drivers, Parameters, Server, Settings};
use leeway_store::Options;
use tonic::transport::Channel;

pub type Jobs = pb::job_service_client::JobServiceClient<Channel>;

/// Machines in a table.
#[derive(Clone, Debug, Default)]
pub struct Pretender(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    launches: Vec<Launch>,
    machines: BTreeMap<RunId, u32>,
    stopped: BTreeSet<RunId>,
    looks: u64,
    refuse: bool,
}

impl Pretender {
    pub fn launches(&self) -> Vec<Launch> {
        self.0.lock().unwrap().launches.clone()
    }

    pub fn living(&self) -> Vec<RunId> {
        self.0.lock().unwrap().machines.keys().copied().collect()
    }

    /// How often somebody looked what is there.
    pub fn looks(&self) -> u64 {
        self.0.lock().unwrap().looks
    }

    /// A machine that nobody ordered.
    pub fn plant(&self, run: RunId) {
        self.0.lock().unwrap().machines.insert(run, 1);
    }

    /// A machine is gone, and nobody says so.
    pub fn vanish(&self, run: RunId) {
        self.0.lock().unwrap().machines.remove(&run);
    }

    pub fn refuse(&self, refuse: bool) {
        self.0.lock().unwrap().refuse = refuse;
    }
}

#[tonic::async_trait]
impl ClusterDriver for Pretender {
    async fn launch(&self, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
        let mut table = self.0.lock().unwrap();
        if table.refuse {
            return Err(LaunchError::new(leeway_model::run::LaunchErrorClass::Capacity, "none left"));
        }
        table.launches.push(launch.clone());
        if !table.stopped.contains(&launch.run) {
            table.machines.insert(launch.run, launch.nodes);
        }
        Ok((0..launch.nodes).map(|rank| format!("{}-{rank}", launch.run).into()).collect())
    }

    async fn observe(&self, _cluster: &Name) -> Result<Observation, DriverError> {
        let mut table = self.0.lock().unwrap();
        table.looks += 1;
        let instance = |(run, rank): (RunId, u32)| {
            Instance::new(run, rank, format!("{run}-{rank}").into(), InstanceState::Running)
        };
        let machines = table.machines.iter().flat_map(|(run, nodes)| (0..*nodes).map(|rank| (*run, rank)));
        Ok(Observation { instances: machines.map(instance).collect(), complete: true })
    }

    async fn stop(&self, _cluster: &Name, run: RunId, _grace: Millis) -> Result<(), DriverError> {
        let mut table = self.0.lock().unwrap();
        table.stopped.insert(run);
        table.machines.remove(&run);
        Ok(())
    }
}

#[tonic::async_trait]
impl TakesBack for Pretender {
    async fn take_back(&self, _cluster: &Name, run: RunId) -> Result<(), DriverError> {
        self.0.lock().unwrap().machines.remove(&run);
        Ok(())
    }
}

pub const CONFIG: &str = r#"
installation = "test"
listen = "127.0.0.1:0"
metrics_listen = "127.0.0.1:0"
default_budget = "team"

[webhooks]
allow_http = true
allowed_networks = ["127.0.0.0/8"]
any_port = true

[[budgets]]
name = "team"
cap = "1000 USD"

[[clusters]]
name = "here"
region = "onprem/here"

[[clusters.machines]]
name = "small"
cpus = 4
memory = "8GiB"
count = 2
on_demand = "1 USD"
spot = "0.3 USD"
"#;

pub fn settings(data: &Path, config: &str) -> Settings {
    Settings { data_dir: data.to_path_buf(), ..Settings::from_toml(config).unwrap() }
}

pub async fn start(data: &Path, driver: &Pretender) -> Server {
    start_with(settings(data, CONFIG), driver).await
}

pub async fn start_with(settings: Settings, driver: &Pretender) -> Server {
    let name: Name = "local".parse().unwrap();
    let drivers = Drivers {
        by_name: BTreeMap::from([(name.clone(), Arc::new(driver.clone()) as Arc<dyn ClusterDriver>)]),
        taking: BTreeMap::from([(name, Arc::new(driver.clone()) as Arc<dyn TakesBack>)]),
    };
    let parameters = Parameters {
        drivers: Some(drivers),
        store: Some(Options::small()),
        poll_every: Some(Duration::from_millis(20)),
        services: None,
    };
    Box::pin(leeway_server::start_with(settings, parameters)).await.unwrap()
}

pub async fn channel(server: &Server) -> Channel {
    let url = format!("http://{}", server.grpc_addr);
    Channel::from_shared(url).unwrap().connect().await.unwrap()
}

pub async fn jobs(server: &Server) -> Jobs {
    Jobs::new(channel(server).await)
}

/// A job that any machine can run.
pub fn spec(name: &str) -> pb::JobSpec {
    let mut spec = pb::JobSpec::from_model(&minimal_job_spec(), Currency::USD);
    spec.name = name.to_owned();
    spec.money = None;
    spec.owner = "me".to_owned();
    spec.policy = None;
    spec.depends_on = Vec::new();
    spec.resources = vec![pb::ResourceRequest { spot: pb::SpotPolicy::Auto.into(), ..Default::default() }];
    spec
}

/// A job that no machine here can run.
pub fn impossible(name: &str) -> pb::JobSpec {
    let mut spec = spec(name);
    let accelerators = Some(pb::Accelerators { model: "H100".into(), count: 8 });
    spec.resources = vec![pb::ResourceRequest { accelerators, ..Default::default() }];
    spec
}

pub fn submit(id: &str, spec: pb::JobSpec) -> pb::SubmitJobRequest {
    pb::SubmitJobRequest { client_request_id: id.into(), spec: Some(spec), ..Default::default() }
}

pub async fn submitted(jobs: &mut Jobs, id: &str, spec: pb::JobSpec) -> String {
    jobs.submit_job(submit(id, spec)).await.unwrap().into_inner().submitted.unwrap().job_id
}

pub async fn job(jobs: &mut Jobs, id: &str) -> pb::Job {
    jobs.get_job(pb::GetJobRequest { job_id: id.into() }).await.unwrap().into_inner().job.unwrap()
}

/// Waits until a condition holds; fails after a while that no machine is too slow for.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let waiting = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap_or_else(|_| panic!("waited too long: {what}"))
}

pub async fn until_state(jobs: &mut Jobs, id: &str, state: pb::JobState) -> pb::Job {
    until(state.as_str_name(), || {
        let mut jobs = jobs.clone();
        async move {
            let job = job(&mut jobs, id).await;
            (job.state() == state).then_some(job)
        }
    })
    .await
}

/// Waits until the scheduler knows that a job's newest run has its machines.
pub async fn until_launched(jobs: &mut Jobs, id: &str) -> pb::Run {
    until("a launch that is known", || {
        let mut jobs = jobs.clone();
        async move {
            let runs = jobs.list_runs(pb::ListRunsRequest { job_id: id.into() }).await.unwrap().into_inner().runs;
            runs.into_iter().next_back().filter(|run| run.launched_ms.is_some())
        }
    })
    .await
}

/// An agent's words for the first rank of a run.
pub fn caller(launch: &Launch) -> Option<pb::AgentCaller> {
    Some(pb::AgentCaller {
        run_id: launch.run.to_string(),
        rank: 0,
        token: launch.tokens[0].as_bytes().to_vec().into(),
        sequence: 1,
    })
}
