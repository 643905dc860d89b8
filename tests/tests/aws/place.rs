//! A cluster over the proxy, and launches in it.

use std::time::Duration;

use leeway_aws::{AwsConfig, AwsDriver};
use leeway_drivers::conformance::{Bench, Ground};
use leeway_drivers::{ClusterDriver, Instance, InstanceState, Launch, Token};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::market::OfferKey;
use leeway_model::resources::{CapacityType, MachineShape, MilliCpus};
use leeway_model::{Bytes, InstallationId, JobId, Millis, Name, RunId};
use leeway_tests::servers::ec2::Ec2;
use tempfile::TempDir;

pub fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub fn run(job: u64) -> RunId {
    RunId { job: JobId(job), epoch: 1 }
}

pub fn spec() -> ClusterSpec {
    let shape = MachineShape {
        name: name("small"),
        instance_type: "t3.small".into(),
        cpus: MilliCpus(2_000),
        memory: Bytes::from_gib(2),
        accelerators: None,
        disk: Bytes::ZERO,
    };
    let machines = Machines { shape, count: None, on_demand: None, spot: None, reserved: None };
    ClusterSpec {
        name: name("east"),
        driver: name("aws"),
        region: "aws/us-east-1".parse().unwrap(),
        zone: Some("us-east-1a".into()),
        machines: vec![machines],
        checkpoints: "file:///nowhere".into(),
        labels: Default::default(),
    }
}

pub fn launch(run: RunId, nodes: u32) -> Launch {
    let cluster = spec();
    Launch {
        run,
        offer: OfferKey { cluster: name("east"), shape: name("small"), capacity: CapacityType::Spot },
        shape: cluster.machines[0].shape.clone(),
        cluster,
        nodes,
        server: "http://127.0.0.1:9".into(),
        tokens: (0..nodes).map(|rank| Token::new([rank as u8; 16])).collect(),
        installation: InstallationId(name("lab")),
        stores: Vec::new(),
        deadline: Millis::from_secs(15),
    }
}

pub struct Place {
    pub ec2: Ec2,
    pub driver: AwsDriver,
    folder: TempDir,
}

impl Place {
    pub async fn new() -> Option<Self> {
        let ec2 = Ec2::start().await?;
        ec2.plan().room = Some(3);
        let folder = tempfile::tempdir().unwrap();
        let driver = driver(&ec2, &folder).await;
        let place = Self { ec2, driver, folder };
        // A process that has just begun proves no absence.
        leeway_tests::wait::eventually("a listing that proves something", || async {
            place.driver.observe(&name("east")).await.unwrap().complete.then_some(())
        })
        .await;
        Some(place)
    }

    pub async fn another_driver(&self) -> AwsDriver {
        driver(&self.ec2, &self.folder).await
    }

    pub fn bench(&self) -> Bench<'_, fn(RunId, u32) -> Launch> {
        Bench { driver: &self.driver, ground: self, launch, patience: Duration::from_secs(30) }
    }

    pub async fn seen(&self, run: RunId) -> Vec<Instance> {
        let seen = self.driver.observe(&name("east")).await.unwrap();
        seen.of(run).cloned().collect()
    }

    pub async fn state(&self, run: RunId) -> Option<InstanceState> {
        self.seen(run).await.first().map(|instance| instance.state)
    }
}

async fn driver(ec2: &Ec2, folder: &TempDir) -> AwsDriver {
    let config = AwsConfig {
        region: "us-east-1".into(),
        zone: Some("us-east-1a".into()),
        endpoint: Some(ec2.url()),
        profile: None,
        credentials: Some(ec2.credentials()),
        image: "ami-12c6146b".into(),
        subnet: None,
        security_groups: Vec::new(),
        instance_profile: None,
        agent: "leeway".into(),
        work_dir: ec2.work_dir(),
        metadata: ec2.url(),
        max_lifetime: Millis::from_hours(1),
        visibility: Millis::from_secs(2),
        poll: Millis::from_secs(1),
    };
    let installation = InstallationId(name("lab"));
    AwsDriver::new(&installation, [(name("east"), config)].into(), folder.path()).await.unwrap()
}

#[async_trait::async_trait]
impl Ground for Place {
    async fn take(&self, launch: &Launch) {
        for instance in self.seen(launch.run).await {
            self.ec2.terminate(&instance.id).await;
        }
    }

    async fn warn(&self, _: &Launch) -> bool {
        // EC2 tells the instance alone.
        false
    }

    async fn make_foreign(&self) -> Option<Box<str>> {
        let tags = [("leeway:installation", "lab2"), ("leeway:cluster", "east"), ("leeway:run", "j-4-r1")];
        Some(self.ec2.make(&tags).await.into())
    }

    async fn foreign_lives(&self, machine: &str) -> bool {
        self.ec2.living().iter().any(|id| id == machine)
    }

    async fn cut(&self, is_cut: bool) {
        self.ec2.plan().is_cut = is_cut;
    }
}
