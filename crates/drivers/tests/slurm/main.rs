//! The Slurm driver over a Slurm of this test's own, which can fail at every call. The real one is in the end-to-end
//! tests.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod fake;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fake::{FakeSlurm, Fault};
use leeway_drivers::conformance::{Bench, Ground};
use leeway_drivers::slurm::{Calls, Queue, SlurmConfig, SlurmMachines};
use leeway_drivers::{ClusterDriver, InstanceState, Launch, SlurmDriver, Token};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::market::OfferKey;
use leeway_model::resources::{CapacityType, MachineShape, MilliCpus};
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, InstallationId, JobId, Millis, Name, RunId};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn run(job: u64) -> RunId {
    RunId { job: JobId(job), epoch: 1 }
}

fn installation() -> InstallationId {
    InstallationId(name("lab"))
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
    let machines = Machines { shape: shape.clone(), count: None, on_demand: None, spot: None, reserved: None };
    let cluster = ClusterSpec {
        name: name("hpc"),
        driver: name("slurm"),
        region: "onprem/berlin".parse().unwrap(),
        zone: None,
        machines: vec![machines],
        checkpoints: "file:///nowhere".into(),
        labels: Default::default(),
    };
    Launch {
        run,
        offer: OfferKey { cluster: name("hpc"), shape: name("small"), capacity: CapacityType::Spot },
        cluster,
        shape,
        nodes,
        server: "http://127.0.0.1:9".into(),
        tokens: (0..nodes).map(|rank| Token::new([rank as u8; 16])).collect(),
        installation: installation(),
        stores: Vec::new(),
        deadline: Millis::from_secs(3),
    }
}

/// A cluster of three nodes that goes with its folder.
struct Place {
    folder: tempfile::TempDir,
    slurm: Arc<FakeSlurm>,
    driver: SlurmDriver,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let slurm = Arc::new(FakeSlurm::new(folder.path(), 3));
        let driver = driver(folder.path(), &slurm);
        Self { folder, slurm, driver }
    }

    fn bench(&self) -> Bench<'_, fn(RunId, u32) -> Launch> {
        Bench { driver: &self.driver, ground: self, launch, patience: Duration::from_secs(20) }
    }

    /// As after a restart of the server.
    fn another_driver(&self) -> SlurmDriver {
        driver(self.folder.path(), &self.slurm)
    }

    async fn state(&self, run: RunId) -> Option<InstanceState> {
        let seen = self.driver.observe(&name("hpc")).await.unwrap();
        seen.of(run).next().map(|instance| instance.state)
    }
}

fn driver(folder: &Path, slurm: &Arc<FakeSlurm>) -> SlurmDriver {
    let test = std::env::current_exe().unwrap();
    let agent: PathBuf = test.parent().unwrap().parent().unwrap().join("examples/idle_agent");
    let queue = |partition: &str| Queue { partition: partition.into(), qos: None };
    let queues = [(CapacityType::Spot, queue("spot")), (CapacityType::OnDemand, queue("ondemand"))].into();
    let config = SlurmConfig {
        work_dir: folder.join("shared"),
        agent,
        commands: None,
        conf: None,
        account: None,
        time_limit: None,
        notice: Millis::from_secs(30),
        poll: Millis::from_secs(5),
        machines: [(name("small"), SlurmMachines { queues, ..SlurmMachines::default() })].into(),
    };
    let calls: Arc<dyn Calls> = slurm.clone();
    SlurmDriver::over(&installation(), [(name("hpc"), config)].into(), |_| calls.clone()).unwrap()
}

fn job_name(run: RunId) -> String {
    format!("leeway.lab.{run}")
}

#[async_trait]
impl Ground for Place {
    async fn take(&self, launch: &Launch) {
        self.slurm.kill(&job_name(launch.run), "PREEMPTED");
    }

    async fn warn(&self, launch: &Launch) -> bool {
        self.slurm.change(&job_name(launch.run), |job| (job.preempted, job.end) = (1, 11));
        true
    }

    async fn make_foreign(&self) -> Option<Box<str>> {
        let user = rustix::process::getuid().as_raw();
        // Our name without our mark, our mark without our name, and both with another user.
        let mark = "leeway installation=lab run=j-77-r1";
        self.slurm.add("leeway.lab2.j-77-r1", mark, user);
        let id = self.slurm.add("leeway.lab.j-77-r1", "somebody's", user);
        self.slurm.kill("leeway.lab2.j-77-r1", "COMPLETED");
        Some(id.to_string().into())
    }

    async fn foreign_lives(&self, machine: &str) -> bool {
        self.slurm.lives(machine.parse().unwrap())
    }

    async fn cut(&self, is_cut: bool) {
        self.slurm.cut(is_cut);
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
    let later = place.another_driver();
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
async fn p_01_a_submission_whose_answer_is_lost_is_found_and_not_repeated() {
    let place = Place::new();
    place.slurm.fail("submit", Fault::After);
    let made = place.driver.launch(&launch(run(1), 2)).await.unwrap();
    assert_eq!(made.len(), 2);
    assert_eq!(place.slurm.count("submit"), 1);
    assert_eq!(place.slurm.living(&job_name(run(1))).len(), 1);
}

#[tokio::test]
async fn p_01_a_submission_that_never_arrived_fails_and_leaves_nothing() {
    let place = Place::new();
    place.slurm.fail("submit", Fault::Before);
    let refused = place.driver.launch(&launch(run(1), 1)).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Transient, "{refused}");
    assert!(place.slurm.living(&job_name(run(1))).is_empty());
    assert!(place.driver.observe(&name("hpc")).await.unwrap().proves_gone(run(1)));
}

#[tokio::test]
async fn p_01_a_repeated_submission_takes_no_second_set_of_nodes() {
    let place = Place::new();
    place.driver.launch(&launch(run(1), 1)).await.unwrap();
    let first = place.slurm.living(&job_name(run(1)));
    // As if a submission of an earlier process came late.
    place.slurm.add(&job_name(run(1)), "leeway installation=lab run=j-1-r1", rustix::process::getuid().as_raw());
    assert_eq!(place.state(run(1)).await, Some(InstanceState::Running));
    assert_eq!(place.slurm.living(&job_name(run(1))), first, "the one that waits is ended, the one that runs stays");
}

#[tokio::test]
async fn p_15_jobs_of_an_earlier_life_of_the_installation_are_not_taken_for_this_one() {
    let place = Place::new();
    let mark = |job: u64| format!("leeway installation=lab run=j-{job}-r1");
    let user = rustix::process::getuid().as_raw();
    place.slurm.add(&job_name(run(1)), &mark(1), user);
    place.slurm.kill(&job_name(run(1)), "COMPLETED");
    let living = place.slurm.add(&job_name(run(2)), &mark(2), user);
    for job in 1..=2 {
        let made = place.driver.launch(&launch(run(job), 1)).await.unwrap();
        let seen = place.driver.observe(&name("hpc")).await.unwrap();
        assert_eq!(
            seen.of(run(job)).map(|one| (one.id.clone(), one.state)).collect::<Vec<_>>(),
            [(made[0].clone(), InstanceState::Running)]
        );
    }
    assert!(!place.slurm.lives(living));
}

#[tokio::test]
async fn p_04_a_listing_that_fails_for_a_moment_fails_no_launch() {
    let place = Place::new();
    for fault in [Fault::Before, Fault::After, Fault::Before] {
        place.slurm.fail("jobs", fault);
    }
    let patient = Launch { deadline: Millis::from_secs(20), ..launch(run(1), 1) };
    place.driver.launch(&patient).await.unwrap();
}

#[tokio::test]
async fn p_08_a_stop_that_fails_is_finished_by_the_next_one() {
    for fault in [Fault::Before, Fault::After] {
        let place = Place::new();
        place.driver.launch(&launch(run(1), 1)).await.unwrap();
        place.slurm.fail("cancel", fault);
        let stopped = place.driver.stop(&name("hpc"), run(1), Millis::ZERO).await;
        assert!(stopped.is_err(), "{fault:?}");
        place.driver.stop(&name("hpc"), run(1), Millis::ZERO).await.unwrap();
        assert_eq!(place.state(run(1)).await, Some(InstanceState::Gone));
    }
}

#[tokio::test]
async fn p_06_a_job_that_waits_too_long_is_taken_back_with_slurms_reason() {
    let place = Place::new();
    place.driver.launch(&launch(run(1), 3)).await.unwrap();
    let refused = place.driver.launch(&launch(run(2), 1)).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Capacity);
    assert!(refused.message.contains("Resources"), "{refused}");
    assert!(place.slurm.living(&job_name(run(2))).is_empty());
}

#[tokio::test]
async fn p_07_what_can_never_run_is_refused_at_once_in_slurms_words() {
    let place = Place::new();
    place.slurm.refuse("submit", "sbatch: error: Batch job submission failed: Invalid account or account/partition");
    let refused = place.driver.launch(&launch(run(1), 1)).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Denied);
    assert!(refused.message.contains("Invalid account"), "{refused}");
    place.slurm.refuse("submit", "");
    let mut other = launch(run(2), 1);
    other.offer.capacity = CapacityType::Reserved;
    let refused = place.driver.launch(&other).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Invalid);
    assert!(refused.message.contains("no slurm partition for reserved machines 'small'"), "{refused}");
}

#[tokio::test]
async fn p_13_a_state_of_next_year_ends_nothing() {
    let place = Place::new();
    place.driver.launch(&launch(run(1), 1)).await.unwrap();
    place.slurm.change(&job_name(run(1)), |job| job.state = "ASCENDED".into());
    assert_eq!(place.state(run(1)).await, Some(InstanceState::Unknown));
}

#[tokio::test]
async fn p_09_a_job_that_is_no_longer_listed_is_not_gone_at_once() {
    let place = Place::new();
    place.driver.launch(&launch(run(1), 1)).await.unwrap();
    place.slurm.kill(&job_name(run(1)), "COMPLETED");
    place.slurm.forget_ended();
    let seen = place.driver.observe(&name("hpc")).await.unwrap();
    assert_eq!(seen.of(run(1)).next().unwrap().state, InstanceState::Unknown);
    assert!(!seen.proves_gone(run(1)));
}

#[tokio::test]
async fn one_listing_serves_all_that_ask_at_once() {
    let place = Place::new();
    place.slurm.delay(Duration::from_millis(50));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let driver = place.driver.clone();
        tasks.spawn(async move { driver.observe(&name("hpc")).await.is_ok() });
    }
    assert!(tasks.join_all().await.into_iter().all(|succeeded| succeeded));
    // The first to ask, and one for all who asked while that one was under way.
    let asked = place.slurm.count("jobs");
    assert!(asked <= 3, "{asked} listings");
}

#[tokio::test]
async fn capacity_counts_what_is_free_and_what_is_ours() {
    let place = Place::new();
    let spec = launch(run(1), 1).cluster;
    let told = place.driver.capacity(&spec).await.unwrap();
    let spot = told.iter().find(|one| one.offer.capacity == CapacityType::Spot).unwrap();
    assert_eq!(spot.available, Some(3));
}
