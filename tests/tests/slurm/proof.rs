//! Slurm, EC2, this host and one object store at once: a job that loses its place on one finishes on another, though the
//! server dies in between.

use leeway_proto::pb;
use leeway_proto::pb::ledger_entry::Kind;
use leeway_tests::api::{Api, on_spot};
use leeway_tests::cluster::Machine;
use leeway_tests::servers::ec2::Ec2;
use leeway_tests::servers::slurm::Slurm;
use leeway_tests::wait::eventually;
use leeway_tests::{Config, Server, binary, cli};

const STEPS: u64 = 700;
const EVERY: u64 = 50;

/// The nearer to the end, the dearer: Slurm, then EC2, then this host.
fn config(slurm: &Slurm, ec2: &Ec2) -> Config {
    let more = format!(
        r#"
[[stores]]
url = "s3://checkpoints"
region = "us-east-1"
endpoint = "{s3}"
credentials = "{credentials}"

[[clusters]]
name = "hpc"
driver = "slurm"
region = "onprem/hpc"
checkpoints = "s3://checkpoints/all"

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
on_demand = "3600 USD"
spot = "1 USD"

[clusters.machines.slurm]
partition = "ondemand"
spot_partition = "spot"

[[clusters]]
name = "east"
driver = "aws"
region = "aws/us-east-1"
zone = "us-east-1a"
checkpoints = "s3://checkpoints/all"

[clusters.aws]
endpoint = "{ec2}"
metadata = "{ec2}"
credentials = "{credentials}"
image = "ami-12c6146b"
agent = "{agent}"
work_dir = "{instances}"
visibility = "2s"
poll = "1s"

[[clusters.machines]]
name = "small"
instance_type = "t3.small"
cpus = 2
memory = "2GiB"
on_demand = "20 USD"
spot = "10 USD"
"#,
        s3 = ec2.s3(),
        ec2 = ec2.url(),
        credentials = ec2.credentials().display(),
        instances = ec2.work_dir().display(),
        shared = slurm.shared().display(),
        agent = binary::leeway().display(),
        conf = slurm.conf().display(),
    );
    Config { lease_ttl: "20s", more, ..Config::default() }
}

fn training() -> pb::JobSpec {
    let program = binary::leeway().display().to_string();
    let run =
        format!("exec '{program}' train --steps {STEPS} --pace-ms 20 --checkpoint-every {EVERY} --log-every {EVERY}");
    pb::JobSpec {
        checkpoint: Some(pb::CheckpointPolicy { interval_ms: Some(3_600_000), keep: 2, ..Default::default() }),
        ..on_spot("training", &run)
    }
}

#[tokio::test]
async fn slurm_a_job_preempted_on_slurm_finishes_on_ec2_though_the_server_is_killed_in_a_launch() {
    let Some(slurm) = Slurm::start(1) else { return };
    let Some(ec2) = Ec2::start().await else { return };
    ec2.make_bucket("checkpoints").await;
    {
        let mut plan = ec2.plan();
        plan.boots = true;
        plan.launch_delay = std::time::Duration::from_secs(3);
    }
    let mut server = Server::start(&config(&slurm, &ec2)).await;
    let api = Api::of(&server);
    let job = api.submit("1", training()).await;

    // It begins on Slurm's preemptible partition, and saves.
    eventually("two checkpoints", || async {
        let job = api.job(&job).await;
        job.checkpoint.filter(|checkpoint| checkpoint.step >= 2 * EVERY)
    })
    .await;
    let runs = api.runs(&job).await;
    assert_eq!(runs[0].offer.as_ref().unwrap().cluster, "hpc", "{runs:?}");
    // A job with a better partition takes the node, and keeps it.
    slurm.submit_other("ondemand", 1, 600);
    // The server dies while EC2 works on the launch of the next run.
    eventually("a launch at EC2", || async { (ec2.count("RunInstances") > 0).then_some(()) }).await;
    server.restart().await;

    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?} {runs:?}\n{}", ec2.said());
    let places: Vec<&str> = runs.iter().map(|run| run.offer.as_ref().unwrap().cluster.as_str()).collect();
    assert_eq!(places, ["hpc", "east"], "{runs:?}");
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "interrupted");
    assert!(runs[1].restored_from.as_ref().unwrap().step >= 2 * EVERY, "it goes on from a checkpoint in the store");
    assert_eq!(runs[0].steps_redone, 0, "it saved after the warning");
    let output = api.output(&job, &runs[1].run_id).await;
    let digest = output.lines().find_map(|line| line.strip_prefix("digest ")).unwrap_or_else(|| panic!("{output}"));
    let reference = cli::leeway(&["train", "--digest-only", "--steps", &STEPS.to_string()]).await.ok();
    assert_eq!(digest, reference.out.trim());

    // No orphan anywhere.
    assert_eq!(slurm.living(), ["\"other\""]);
    eventually("no instance", || async { ec2.living().is_empty().then_some(()) }).await;
    assert!(Machine::all(&server.data()).is_empty(), "nothing ran on this host");
    assert_eq!(slurm.of_run("e2e", &runs[0].run_id).len(), 1, "one job was submitted to Slurm");

    // The ledger is exact: what was charged is what the job cost, and nothing is held.
    let charge = |line: &pb::LedgerEntry| match &line.kind {
        Some(Kind::Post(post)) => post.amount_micros,
        Some(Kind::ForcePost(post)) => post.amount_micros,
        _ => 0,
    };
    let charged: i64 = api.ledger().await.iter().map(charge).sum();
    assert_eq!(charged, ended.posted.unwrap().total_micros);
    let budget = api.budget("team").await;
    assert_eq!(budget.held_micros, 0, "{budget:?}");
    assert_eq!(budget.posted_micros, charged, "{budget:?}");
}
