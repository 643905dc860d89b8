//! The local driver over real processes.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use leeway_drivers::conformance::{Bench, Ground};
use leeway_drivers::run_dir::{Claim, RankDir};
use leeway_drivers::{ClusterDriver, DriverErrorClass, InstanceState, Launch, LocalDriver, Token};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::market::OfferKey;
use leeway_model::resources::{CapacityType, MachineShape, MilliCpus};
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, InstallationId, JobId, Millis, Name, RunId};

fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("examples/idle_agent")
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn run(job: u64) -> RunId {
    RunId { job: JobId(job), epoch: 1 }
}

fn launch(run: RunId, nodes: u32) -> Launch {
    let shape = MachineShape {
        name: name("small"),
        instance_type: "small".into(),
        cpus: MilliCpus(1_000),
        memory: Bytes::new(1 << 30),
        accelerators: None,
        disk: Bytes::ZERO,
    };
    let machines = Machines { shape: shape.clone(), count: Some(3), on_demand: None, spot: None, reserved: None };
    let cluster = ClusterSpec {
        name: name("here"),
        driver: name("local"),
        region: "onprem/berlin".parse().unwrap(),
        zone: None,
        machines: vec![machines],
        checkpoints: "file:///nowhere".into(),
        labels: Default::default(),
    };
    Launch {
        run,
        offer: OfferKey { cluster: name("here"), shape: name("small"), capacity: CapacityType::OnDemand },
        cluster,
        shape,
        nodes,
        server: "http://127.0.0.1:9".into(),
        tokens: (0..nodes).map(|rank| Token::new([rank as u8; 16])).collect(),
        installation: InstallationId(name("test")),
        stores: Vec::new(),
        deadline: Millis::from_secs(20),
    }
}

struct Host {
    driver: LocalDriver,
    root: PathBuf,
}

#[async_trait::async_trait]
impl Ground for Host {
    async fn take(&self, launch: &Launch) {
        self.driver.lose(&launch.cluster.name, launch.run).await.unwrap();
    }

    async fn warn(&self, _: &Launch) -> bool {
        false
    }

    async fn make_foreign(&self) -> Option<Box<str>> {
        let folder = self.root.join("here/somebodys");
        std::fs::create_dir_all(&folder).unwrap();
        Some(folder.display().to_string().into())
    }

    async fn foreign_lives(&self, machine: &str) -> bool {
        Path::new(machine).is_dir()
    }

    async fn cut(&self, is_cut: bool) {
        let (here, away) = (self.root.clone(), self.root.with_extension("away"));
        let (from, to) = if is_cut { (here, away) } else { (away, here) };
        std::fs::rename(from, to).unwrap();
    }
}

/// Over a root of its own that goes with it.
struct Place {
    _folder: tempfile::TempDir,
    host: Host,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        Self { host: Host { driver: driver(&root), root }, _folder: folder }
    }

    fn bench(&self) -> Bench<'_, fn(RunId, u32) -> Launch> {
        Bench { driver: &self.host.driver, ground: &self.host, launch, patience: Duration::from_secs(20) }
    }
}

fn driver(root: &Path) -> LocalDriver {
    LocalDriver::new(root.to_path_buf(), program()).unwrap()
}

async fn state(driver: &LocalDriver, run: RunId) -> Option<InstanceState> {
    let seen = driver.observe(&name("here")).await.unwrap();
    assert!(seen.complete);
    seen.of(run).next().map(|instance| instance.state)
}

async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while !done().await {
        assert!(tokio::time::Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Tells the idle agents of the cluster to behave in some way.
fn wish(root: &Path, what: &str) {
    std::fs::create_dir_all(root.join("here")).unwrap();
    std::fs::write(root.join("here").join(what), "").unwrap();
}

fn agent(rank: &RankDir) -> leeway_drivers::process::ProcessId {
    match rank.claimed().unwrap() {
        Some(Claim::Agent { process, .. }) => process,
        other => panic!("no agent: {other:?}"),
    }
}

#[tokio::test]
async fn p_01_a_second_launch_adopts() {
    Place::new().bench().a_second_launch_adopts_what_the_first_made(run(1)).await;
}

#[tokio::test]
async fn p_12_a_gang_is_all_or_nothing() {
    Place::new().bench().p_12_a_gang_that_does_not_fit_leaves_no_machine(run(1), run(2)).await;
}

#[tokio::test]
async fn stops_are_idempotent_and_final() {
    Place::new().bench().a_stop_is_idempotent_and_final(run(1), run(2)).await;
}

#[tokio::test]
async fn p_02_a_restarted_server_finds_its_runs() {
    let place = Place::new();
    let later = driver(&place.host.root);
    place.bench().p_02_a_new_driver_finds_what_an_earlier_one_launched(&later, run(1)).await;
}

#[tokio::test]
async fn p_11_p_10_p_14_what_is_taken_is_seen_and_what_is_not_seen_proves_nothing() {
    let place = Place::new();
    place.bench().p_11_machines_that_were_taken_are_seen_gone(run(1)).await;
    place.bench().p_10_what_is_not_ours_is_neither_listed_nor_touched(run(2)).await;
    place.bench().p_14_without_a_listing_nothing_is_proven(run(3)).await;
    place.bench().a_warning_is_passed_on(run(4)).await;
    place.bench().only_a_run_that_is_gone_can_be_forgotten(run(5)).await;
}

#[tokio::test]
async fn n_06_a_program_that_outlived_its_agent_is_killed_and_then_gone() {
    let root = tempfile::tempdir().unwrap();
    wish(root.path(), "program");
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 1)).await.unwrap();
    let rank = driver.rank_dir(&name("here"), run(1), 0);
    let tree = rank.job(&rank.claimed().unwrap().unwrap()).unwrap().unwrap();
    eventually("the program runs", async || !tree.members().unwrap().is_empty()).await;
    assert!(agent(&rank).signal(rustix::process::Signal::KILL).unwrap());
    eventually("the agent is dead", async || !agent(&rank).lives().unwrap()).await;
    assert_eq!(tree.members().unwrap().len(), 1);
    eventually("it is gone", async || state(&driver, run(1)).await == Some(InstanceState::Gone)).await;
    assert_eq!(tree.members().unwrap(), []);
}

#[tokio::test]
async fn n_07_after_a_reboot_nothing_of_before_is_there() {
    let root = tempfile::tempdir().unwrap();
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 1)).await.unwrap();
    let rank = driver.rank_dir(&name("here"), run(1), 0);
    let process = agent(&rank);
    let file = rank.path().join("agent.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(&*process.boot_id, "the-boot-before")).unwrap();
    assert_eq!(state(&driver, run(1)).await, Some(InstanceState::Gone));
    assert!(process.lives().unwrap(), "whoever has that number now is not touched");
    process.signal(rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn an_agent_that_ignores_the_stop_is_killed_with_its_program() {
    let root = tempfile::tempdir().unwrap();
    for what in ["program", "deaf"] {
        wish(root.path(), what);
    }
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 2)).await.unwrap();
    driver.stop(&name("here"), run(1), Millis::new(1)).await.unwrap();
    assert_eq!(state(&driver, run(1)).await, Some(InstanceState::Stopping));
    eventually("it is gone", async || state(&driver, run(1)).await == Some(InstanceState::Gone)).await;
}

#[tokio::test]
async fn t_04_a_run_that_is_given_up_is_killed_at_once_though_its_agent_hangs() {
    let root = tempfile::tempdir().unwrap();
    wish(root.path(), "program");
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 1)).await.unwrap();
    let rank = driver.rank_dir(&name("here"), run(1), 0);
    let tree = rank.job(&rank.claimed().unwrap().unwrap()).unwrap().unwrap();
    eventually("the program runs", async || !tree.members().unwrap().is_empty()).await;
    assert!(agent(&rank).signal(rustix::process::Signal::STOP).unwrap());
    driver.stop(&name("here"), run(1), Millis::ZERO).await.unwrap();
    assert_eq!(tree.members().unwrap(), [], "its next epoch may begin now");
    assert_eq!(state(&driver, run(1)).await, Some(InstanceState::Gone));
}

#[tokio::test]
async fn a_lost_machine_vanishes_without_grace() {
    let root = tempfile::tempdir().unwrap();
    for what in ["program", "deaf"] {
        wish(root.path(), what);
    }
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 2)).await.unwrap();
    driver.lose(&name("here"), run(1)).await.unwrap();
    let seen = driver.observe(&name("here")).await.unwrap();
    assert!(seen.proves_gone(run(1)) && seen.of(run(1)).count() == 2, "{seen:?}");
    let refused = driver.launch(&launch(run(1), 2)).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Transient, "p_15: the token belongs to a machine that has ended");
}

#[tokio::test]
async fn only_a_run_that_is_gone_can_be_forgotten() {
    let root = tempfile::tempdir().unwrap();
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 1)).await.unwrap();
    let refused = driver.forget(&name("here"), run(1)).await.unwrap_err();
    assert_eq!(refused.class, DriverErrorClass::Invalid);
    driver.lose(&name("here"), run(1)).await.unwrap();
    driver.forget(&name("here"), run(1)).await.unwrap();
    driver.forget(&name("here"), run(1)).await.unwrap();
    assert_eq!(state(&driver, run(1)).await, None);
    assert!(!root.path().join("here/j-1-r1").exists());
}

#[tokio::test]
async fn each_trouble_of_a_launch_has_its_class() {
    let root = tempfile::tempdir().unwrap();
    let over = |program: PathBuf| LocalDriver::new(root.path().to_path_buf(), program).unwrap();
    let class = async |driver: LocalDriver, launch: Launch| driver.launch(&launch).await.unwrap_err().class;

    let missing = over("/does/not/exist".into());
    assert_eq!(class(missing, launch(run(1), 1)).await, LaunchErrorClass::Invalid);
    let plain = root.path().join("plain-file");
    std::fs::write(&plain, "").unwrap();
    assert_eq!(class(over(plain), launch(run(2), 1)).await, LaunchErrorClass::Denied);
    assert_eq!(class(over(program()), launch(run(3), 4)).await, LaunchErrorClass::Capacity);
    assert_eq!(
        class(over(program()), Launch { tokens: Vec::new(), ..launch(run(4), 1) }).await,
        LaunchErrorClass::Invalid
    );
    wish(root.path(), "broken");
    let broken = over(program()).launch(&launch(run(5), 2)).await.unwrap_err();
    assert_eq!(broken.class, LaunchErrorClass::Transient);
    assert!(broken.message.contains("this machine is broken"), "{broken}");
    let seen = over(program()).observe(&name("here")).await.unwrap();
    assert!(seen.complete && seen.instances.iter().all(|instance| instance.state == InstanceState::Gone), "{seen:?}");
}

#[tokio::test]
async fn p_14_what_cannot_be_read_makes_an_observation_incomplete() {
    let root = tempfile::tempdir().unwrap();
    let driver = driver(root.path());
    driver.launch(&launch(run(1), 1)).await.unwrap();
    let record = root.path().join("here/j-1-r1/launch.json");
    let whole = std::fs::read(&record).unwrap();
    std::fs::write(&record, "{").unwrap();
    let seen = driver.observe(&name("here")).await.unwrap();
    assert!(!seen.complete && !seen.proves_gone(run(1)));
    std::fs::write(&record, whole).unwrap();
    driver.lose(&name("here"), run(1)).await.unwrap();
    std::fs::remove_dir_all(root.path()).unwrap();
    assert!(driver.observe(&name("here")).await.is_err(), "without its root nothing is proven");
}
