//! Jobs of the real binary on a real Slurm.

use std::fmt::Write as _;

use leeway_proto::pb;
use leeway_tests::api::{Api, on_spot, shell};
use leeway_tests::servers::slurm::Slurm;
use leeway_tests::wait::eventually;
use leeway_tests::{Config, Server, binary, cli};

/// A Slurm cluster that is far cheaper than the machines on this host.
fn config(slurm: &Slurm) -> Config {
    let more = format!(
        r#"
[[clusters]]
name = "hpc"
driver = "slurm"
region = "onprem/hpc"
checkpoints = "file://{shared}/checkpoints"

[clusters.slurm]
work_dir = "{shared}/runs"
agent = "{agent}"
conf = "{conf}"
poll = "1s"

[[clusters.machines]]
name = "gpu"
cpus = 4
memory = "2GiB"
accelerator = "A100"
accelerators = 1
on_demand = "36 USD"
spot = "18 USD"

[clusters.machines.slurm]
partition = "ondemand"
spot_partition = "spot"
"#,
        shared = slurm.shared().display(),
        agent = binary::leeway().display(),
        conf = slurm.conf().display(),
    );
    Config { lease_ttl: "20s", more, ..Config::default() }
}

/// Counts in its checkpoint directory; a step takes a tenth of a second. Saves when it is told to end.
fn counting(to: u32) -> pb::JobSpec {
    let mut script = String::from("i=0\n");
    let _ = write!(
        script,
        "[ -z \"$LEEWAY_RESTORE_DIR\" ] || i=$(cat \"$LEEWAY_RESTORE_DIR/step\")\n\
         save() {{ d=\"$LEEWAY_CKPT_DIR/step-$i\"; mkdir -p \"$d.tmp\"; echo $i > \"$d.tmp/step\"\n\
           rm -rf \"$d\"; mv \"$d.tmp\" \"$d\"; echo $i > \"$d/READY\"; }}\n\
         trap 'save; exit 75' TERM\n\
         while [ $i -lt {to} ]; do i=$((i+1)); echo $i; echo \"{{\\\"step\\\": $i, \\\"total_steps\\\": {to}}}\" > \"$LEEWAY_PROGRESS_FILE\"\n\
           [ $((i % 20)) != 0 ] || save; sleep 0.1; done\n"
    );
    pb::JobSpec {
        checkpoint: Some(pb::CheckpointPolicy { keep: 2, ..Default::default() }),
        ..on_spot("counting", &script)
    }
}

#[tokio::test]
async fn slurm_a_job_runs_where_slurm_puts_it_and_is_paid_for() {
    let Some(slurm) = Slurm::start(2) else { return };
    let server = Server::start(&config(&slurm)).await;
    let api = Api::of(&server);
    let gang =
        pb::JobSpec { nodes: 2, ..on_spot("gang", "echo \"rank $LEEWAY_RANK of $LEEWAY_WORLD_SIZE: $LEEWAY_NODES\"") };
    let job = api.submit("1", gang).await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0].offer.as_ref().unwrap().cluster, "hpc");
    let output = api.output(&job, &format!("{job}-r1")).await;
    assert!(output.contains("rank 0 of 2: n1\nn2"), "{output}");
    let jobs = slurm.of_run("e2e", &format!("{job}-r1"));
    assert_eq!(
        (jobs.len(), jobs[0]["job_state"].as_str(), jobs[0]["partition"].as_str()),
        (1, Some("COMPLETED"), Some("spot"))
    );
    assert!(ended.posted.unwrap().total_micros > 0);
    assert_eq!(slurm.living(), [] as [&str; 0]);
}

#[tokio::test]
async fn slurm_i_01_a_preempted_job_saves_and_goes_on_elsewhere() {
    let Some(slurm) = Slurm::start(1) else { return };
    let server = Server::start(&config(&slurm)).await;
    let api = Api::of(&server);
    let job = api.submit("1", counting(150)).await;
    api.until(&job, &[pb::JobState::Running]).await;
    eventually("some steps", || async {
        (api.output(&job, &format!("{job}-r1")).await.lines().count() > 30).then_some(())
    })
    .await;
    slurm.submit_other("ondemand", 1, 600);
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    assert!(runs.len() >= 2, "{runs:?}");
    let end = runs[0].end.as_ref().unwrap();
    assert_eq!(
        (end.reason.as_str(), runs[0].offer.as_ref().unwrap().cluster.as_str()),
        ("interrupted", "hpc"),
        "{runs:?}"
    );
    assert_eq!(runs.last().unwrap().offer.as_ref().unwrap().cluster, "here");
    assert_eq!(runs[0].steps_redone, 0, "it saved after the warning: {runs:?}");
    let last = api.output(&job, &runs.last().unwrap().run_id).await;
    assert!(last.lines().next().unwrap().parse::<u32>().unwrap() > 30, "{last}");
    assert_eq!(slurm.living(), ["\"other\""]);
}

#[tokio::test]
async fn slurm_p_01_a_server_killed_while_a_launch_is_in_flight_adopts_it() {
    let Some(slurm) = Slurm::start(1) else { return };
    let mut server = Server::start(&config(&slurm)).await;
    let api = Api::of(&server);
    // Its job waits in Slurm's queue for a while, so that the launch is in flight when the server dies.
    let other = slurm.submit_other("ondemand", 1, 600);
    let only_there = pb::JobSpec {
        resources: vec![pb::ResourceRequest {
            infra: Some(pb::Infra { cluster_or_provider: Some("hpc".into()), ..Default::default() }),
            spot: pb::SpotPolicy::OnDemand.into(),
            ..Default::default()
        }],
        ..shell("patient", "echo done")
    };
    let job = api.submit("1", only_there).await;
    let run = format!("{job}-r1");
    eventually("a job in Slurm's queue", || async { (!slurm.of_run("e2e", &run).is_empty()).then_some(()) }).await;
    let says = eventually("Slurm's reason", || async {
        let explained = server.cli(&["jobs", "explain", &job]).await.ok().json();
        explained["cluster_says"].as_str().filter(|says| says.contains("Resources")).map(str::to_owned)
    });
    assert!(says.await.starts_with("PENDING"), "explain shows why it waits");
    server.restart().await;
    slurm.run("scancel", &[&other]);
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!((ended.state(), runs.len()), (pb::JobState::Succeeded, 1), "{ended:?} {runs:?}");
    assert_eq!(slurm.of_run("e2e", &run).len(), 1, "it was submitted once");
    assert_eq!(slurm.living(), [] as [&str; 0]);
}

#[tokio::test]
async fn slurm_the_demonstration_is_preempted_for_real_and_ends_with_the_same_weights() {
    let Some(slurm) = Slurm::start(1) else { return };
    let mut command = cli::command(&["--json", "demo", "--slurm"]);
    command.env("SLURM_CONF", slurm.conf());
    let told = cli::run(command).await.ok().json();
    assert_eq!(
        (told["job_state"].as_str(), told["digest_matches"].as_bool()),
        (Some("succeeded"), Some(true)),
        "{told}"
    );
    let runs = told["runs"].as_array().unwrap();
    assert_eq!(runs[0]["end_reason"], "interrupted", "{told}");
    assert_eq!(runs[0]["cluster"], "slurm/node", "{told}");
    assert_eq!(
        (runs.last().unwrap()["cluster"].as_str(), told["budget"]["held_micros"].as_i64()),
        (Some("here/node"), Some(0))
    );
    assert_eq!(slurm.living(), [] as [&str; 0]);
}

#[tokio::test]
async fn slurm_the_demonstration_says_what_to_do_where_there_is_none() {
    let mut command = cli::command(&["--json", "demo", "--slurm"]);
    command.env("SLURM_CONF", "/nowhere/slurm.conf").env("PATH", "/nowhere");
    let told = cli::run(command).await;
    assert_eq!((told.code, told.error_code()), (1, "SLURM_UNAVAILABLE".to_owned()), "{told:?}");
    assert!(told.err.contains("SLURM_CONF"), "{told:?}");
}
