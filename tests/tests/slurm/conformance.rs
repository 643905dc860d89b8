//! The conformance suite of drivers over a real Slurm. The agents do nothing but live.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use leeway_drivers::conformance::{Bench, Ground};
use leeway_drivers::slurm::{Queue, SlurmConfig, SlurmMachines};
use leeway_drivers::{ClusterDriver, InstanceState, Launch, SlurmDriver, Token};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::market::OfferKey;
use leeway_model::resources::{Accelerators, CapacityType, MachineShape, MilliCpus};
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, InstallationId, JobId, Millis, Name, Rate, RunId};
use leeway_tests::servers::slurm::{GRACE, Slurm};

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
        name: name("gpu"),
        instance_type: "gpu".into(),
        cpus: MilliCpus(4_000),
        memory: Bytes::new(2 << 30),
        accelerators: Some(Accelerators { model: "A100".into(), count: 1 }),
        disk: Bytes::ZERO,
    };
    let on_demand = Some(Rate::parse_decimal("3.06").unwrap());
    let machines = Machines { shape: shape.clone(), count: None, on_demand, spot: None, reserved: None };
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
        offer: OfferKey { cluster: name("hpc"), shape: name("gpu"), capacity: CapacityType::Spot },
        cluster,
        shape,
        nodes,
        server: "http://127.0.0.1:9".into(),
        tokens: (0..nodes).map(|rank| Token::new([rank as u8; 16])).collect(),
        installation: installation(),
        stores: Vec::new(),
        deadline: Millis::from_secs(15),
    }
}

struct Place {
    slurm: Slurm,
    driver: SlurmDriver,
}

impl Place {
    fn new() -> Option<Self> {
        let slurm = Slurm::start(3)?;
        let driver = driver(&slurm);
        Some(Self { slurm, driver })
    }

    fn bench(&self) -> Bench<'_, fn(RunId, u32) -> Launch> {
        Bench { driver: &self.driver, ground: self, launch, patience: Duration::from_secs(30) }
    }
}

fn driver(slurm: &Slurm) -> SlurmDriver {
    // Claims its rank as an agent does, by making the file, and waits to be ended.
    let agent = slurm.shared().join("agent");
    let text = "#!/bin/sh\n\
        trap 'exit 0' TERM\n\
        echo '\"Nobody\"' > \"$3/agent.json.part\" && mv \"$3/agent.json.part\" \"$3/agent.json\"\n\
        while :; do sleep 0.2; done\n";
    std::fs::write(&agent, text).unwrap();
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).unwrap();
    let queue = |partition: &str| Queue { partition: partition.into(), qos: None };
    let queues = [(CapacityType::Spot, queue("spot")), (CapacityType::OnDemand, queue("ondemand"))].into();
    let machines = SlurmMachines { queues, gres: Some("gpu:a100:1".into()), constraint: None };
    let config = SlurmConfig {
        work_dir: slurm.shared().join("runs"),
        agent,
        commands: None,
        conf: Some(slurm.conf()),
        account: None,
        time_limit: Some(Millis::from_hours(1)),
        notice: Millis::from_secs(30),
        poll: Millis::from_secs(1),
        machines: [(name("gpu"), machines)].into(),
    };
    SlurmDriver::new(&installation(), [(name("hpc"), config)].into()).unwrap()
}

#[async_trait::async_trait]
impl Ground for Place {
    async fn take(&self, launch: &Launch) {
        let name = format!("--name=leeway.lab.{}", launch.run);
        self.slurm.run("scancel", &["--signal=KILL", "--full", &name]);
        self.slurm.run("scancel", &[&name]);
    }

    async fn warn(&self, _: &Launch) -> bool {
        // Somebody with a better partition wants every node.
        self.slurm.submit_other("ondemand", 3, 1);
        true
    }

    async fn make_foreign(&self) -> Option<Box<str>> {
        let options = ["--parsable", "--partition=spot", "--job-name=leeway.lab.j-77-r1", "--comment=somebody's"];
        let id = self.slurm.run("sbatch", &[&options[..], &["--output=/dev/null", "--wrap=exec sleep 600"]].concat());
        Some(id.trim().into())
    }

    async fn foreign_lives(&self, machine: &str) -> bool {
        self.slurm.run("squeue", &["-h", "-j", machine, "-o", "%T"]).trim() == "RUNNING"
    }

    async fn cut(&self, is_cut: bool) {
        // No command finds the controller.
        let (conf, away) = (self.slurm.conf(), self.slurm.conf().with_extension("away"));
        let (from, to) = if is_cut { (&conf, &away) } else { (&away, &conf) };
        if is_cut {
            std::fs::copy(from, to).unwrap();
            let broken = std::fs::read_to_string(from).unwrap().replace("SlurmctldPort=", "SlurmctldPort=1#");
            std::fs::write(from, broken).unwrap();
        } else {
            std::fs::rename(from, to).unwrap();
        }
    }
}

#[tokio::test]
async fn slurm_p_01_p_02_p_12_launches_are_adopted_and_gangs_are_whole() {
    let Some(place) = Place::new() else { return };
    place.bench().a_second_launch_adopts_what_the_first_made(run(1)).await;
    place.bench().p_12_a_gang_that_does_not_fit_leaves_no_machine(run(2), run(3)).await;
    let later = driver(&place.slurm);
    place.bench().p_02_a_new_driver_finds_what_an_earlier_one_launched(&later, run(4)).await;
}

#[tokio::test]
async fn slurm_p_10_p_11_p_14_what_is_taken_is_seen_and_what_is_not_ours_is_left() {
    let Some(place) = Place::new() else { return };
    place.bench().a_stop_is_idempotent_and_final(run(1), run(2)).await;
    place.bench().p_11_machines_that_were_taken_are_seen_gone(run(3)).await;
    place.bench().p_10_what_is_not_ours_is_neither_listed_nor_touched(run(4)).await;
    place.bench().only_a_run_that_is_gone_can_be_forgotten(run(6)).await;
    place.bench().p_14_without_a_listing_nothing_is_proven(run(5)).await;
}

#[tokio::test]
async fn slurm_i_01_a_preemption_is_told_with_the_time_that_is_left() {
    let Some(place) = Place::new() else { return };
    place.bench().a_warning_is_passed_on(run(1)).await;
    let launched = launch(run(2), 1);
    place.driver.launch(&launched).await.unwrap();
    place.slurm.submit_other("ondemand", 3, 1);
    let warned = leeway_tests::wait::eventually("a warning", || async {
        let seen = place.driver.observe(&name("hpc")).await.unwrap();
        seen.of(run(2)).find_map(|instance| instance.warning.clone())
    });
    let warning = warned.await;
    assert!(warning.left <= Millis::from_secs(GRACE), "{warning:?}");
    let gone = leeway_tests::wait::eventually("its end", || async {
        let seen = place.driver.observe(&name("hpc")).await.unwrap();
        seen.proves_gone(run(2)).then(|| seen.of(run(2)).next().map(|instance| instance.state))
    });
    assert_eq!(gone.await, Some(InstanceState::Gone));
    let jobs = place.slurm.of_run("lab", "j-2-r1");
    assert_eq!((jobs.len(), jobs[0]["job_state"].as_str()), (1, Some("PREEMPTED")), "it is not requeued");
}

#[tokio::test]
async fn slurm_p_07_what_slurm_refuses_is_refused_at_once_in_its_words() {
    let Some(place) = Place::new() else { return };
    let mut large = launch(run(1), 1);
    large.shape.memory = Bytes::new(1 << 45);
    let refused = place.driver.launch(&large).await.unwrap_err();
    assert_eq!(refused.class, LaunchErrorClass::Permanent);
    assert!(refused.message.contains("can not be satisfied"), "{refused}");
    let refused = place.driver.launch(&launch(run(2), 4)).await.unwrap_err();
    assert!(matches!(refused.class, LaunchErrorClass::Permanent | LaunchErrorClass::Capacity), "{refused}");
    assert!(place.slurm.living().is_empty());
}

#[tokio::test]
async fn slurm_capacity_follows_the_nodes() {
    let Some(place) = Place::new() else { return };
    let spec = launch(run(1), 1).cluster;
    let free = async |kind: CapacityType| {
        let told = place.driver.capacity(&spec).await.unwrap();
        told.into_iter().find(|one| one.offer.capacity == kind).unwrap().available
    };
    assert_eq!((free(CapacityType::Spot).await, free(CapacityType::OnDemand).await), (Some(3), Some(3)));
    place.driver.launch(&launch(run(1), 1)).await.unwrap();
    assert_eq!(free(CapacityType::Spot).await, Some(3), "what is ours counts");
    assert_eq!(free(CapacityType::OnDemand).await, Some(2), "we do not push ourselves aside");
    place.slurm.submit_other("spot", 1, 600);
    leeway_tests::wait::eventually("somebody's node", || async {
        (free(CapacityType::Spot).await == Some(2)).then_some(())
    })
    .await;
    assert_eq!(free(CapacityType::OnDemand).await, Some(2), "others give way");
    place.slurm.run("scontrol", &["update", "NodeName=n3", "State=DOWN", "Reason=test"]);
    leeway_tests::wait::eventually("a node that is down", || async {
        (free(CapacityType::OnDemand).await == Some(1)).then_some(())
    })
    .await;
    place.driver.stop(&name("hpc"), run(1), Millis::ZERO).await.unwrap();
}
