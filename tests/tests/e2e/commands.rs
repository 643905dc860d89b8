//! The commands against a real server: exit codes, dry runs, configurations, and a task file of SkyPilot.

use std::time::Duration;

use leeway_proto::pb;
use leeway_tests::api::Api;
use leeway_tests::{Config, Server, cli};
use serde_json::Value;

fn write(server: &Server, path: &str, text: &str) {
    let path = server.folder().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn job_id(launched: &Value) -> String {
    launched["submitted"][0]["job_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn exit_codes_tell_a_script_what_became_of_a_job() {
    let server = Server::start(&Config::default()).await;
    write(&server, "good.yaml", "run: 'true'\n");
    write(&server, "bad.yaml", "run: exit 3\nretry: {user_failures: 0}\n");
    write(&server, "long.yaml", "run: sleep 600\n");
    assert_eq!(server.cli(&["jobs", "launch", "good.yaml", "--wait"]).await.code, 0);
    assert_eq!(server.cli(&["jobs", "launch", "bad.yaml", "--wait"]).await.code, 100);

    let long = job_id(&server.cli(&["jobs", "launch", "long.yaml"]).await.ok().json());
    let timed = server.cli(&["jobs", "status", &long, "--wait", "--timeout", "1s"]).await;
    assert_eq!(timed.code, 101, "{timed:?}");
    assert_eq!(server.cli(&["jobs", "status", "j-4711"]).await.code, 102);
    server.cli(&["jobs", "cancel", &long]).await.ok();
    let cancelled = server.cli(&["jobs", "status", &long, "--wait", "--timeout", "50s"]).await;
    assert_eq!(cancelled.code, 103, "{cancelled:?}");

    write(&server, "wrong.yaml", "rnu: 'true'\n");
    let wrong = server.cli(&["jobs", "launch", "wrong.yaml"]).await;
    assert_eq!((wrong.code, wrong.error_code().as_str()), (2, "INVALID_JOB_FILE"));
    let mut nobody = cli::command(&["--json", "jobs", "queue"]);
    // Port 1 is nobody's on any machine that runs tests.
    nobody.env("LEEWAY_SERVER", "http://127.0.0.1:1");
    assert_eq!(cli::run(nobody).await.code, 4);
}

#[tokio::test]
async fn a_dry_run_shows_every_term_and_every_rejection_and_submits_nothing() {
    let server = Server::start(&Config::default()).await;
    write(&server, "job.yaml", "run: 'true'\nestimate: 1h\nresources: {accelerators: V100:1, use_spot: false}\n");
    let shown = server.cli(&["jobs", "launch", "job.yaml", "--dryrun"]).await.ok().json();
    let evaluation = &shown["dryrun"][0]["evaluation"];
    let candidates = evaluation["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 1, "{evaluation:#}");
    assert_eq!(candidates[0]["offer"]["capacity"], "on-demand");
    let lines = candidates[0]["bill"]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 8, "every term is shown: {lines:#?}");
    let sum: i64 = lines.iter().map(|line| line["amount_micros"].as_i64().unwrap()).sum();
    assert_eq!(sum, candidates[0]["bill"]["total_micros"].as_i64().unwrap());
    assert!(sum >= 3_600_000_000, "an hour there costs 3,600 USD");
    let rejections = evaluation["rejections"].as_array().unwrap();
    assert_eq!(rejections.len(), 1, "{evaluation:#}");
    assert_eq!(
        (&rejections[0]["rule"], &rejections[0]["offer"]["capacity"]),
        (&"capacity-type".into(), &"spot".into())
    );
    let queue = server.cli(&["jobs", "queue", "--all"]).await.ok().json();
    assert!(queue.to_string().find("j-1").is_none(), "nothing was submitted: {queue:#}");
}

#[tokio::test]
async fn an_unknown_key_of_the_configuration_is_refused_with_the_nearest_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("leeway.toml");
    std::fs::write(&config, "data_dir = 'data'\n[lease]\nttll = '60s'\n").unwrap();
    let refused = cli::leeway(&["--json", "serve", "--config", config.to_str().unwrap()]).await;
    assert_eq!((refused.code, refused.error_code().as_str()), (2, "INVALID_CONFIG"), "{refused:?}");
    assert!(refused.err.contains("lease.ttl"), "{refused:?}");
    assert!(!folder.path().join("data").exists(), "nothing was made");
}

const SKYPILOT: &str = r#"
name: sky-task
num_nodes: 1
resources:
  accelerators: V100:1
  cpus: 4+
  memory: 16+
  use_spot: false
workdir: ./project
file_mounts:
  inputs/words: ./words
envs:
  GREETING: hello
  WHOM: null
setup: |
  echo "setting up $GREETING"
  tr a-z A-Z < inputs/words/one.txt > upper.txt
run: |
  bash greet.sh
  cat upper.txt
"#;

#[tokio::test]
async fn a_task_file_of_skypilot_is_launched_as_it_is() {
    let server = Server::start(&Config::default()).await;
    write(&server, "tasks/task.yaml", SKYPILOT);
    write(&server, "tasks/project/greet.sh", "echo \"$GREETING, $WHOM, from $(basename \"$0\")\"\n");
    write(&server, "tasks/words/one.txt", "mounted\n");
    let missing = server.cli(&["jobs", "launch", "tasks/task.yaml"]).await;
    assert_eq!(missing.code, 2, "WHOM has no value: {missing:?}");
    let arguments = ["jobs", "launch", "tasks/task.yaml", "--env", "WHOM=you", "--wait"];
    let launched = server.cli(&arguments).await.ok().json();
    let job = job_id(&launched);
    let output = Api::of(&server).output(&job, &format!("{job}-r1")).await;
    assert_eq!(output, "setting up hello\nhello, you, from greet.sh\nMOUNTED\n");
    let runs = Api::of(&server).runs(&job).await;
    assert_eq!(runs[0].offer.as_ref().unwrap().capacity(), pb::CapacityType::OnDemand);

    // The same files are kept once.
    let again = tokio::time::timeout(Duration::from_secs(50), server.cli(&arguments)).await.unwrap().ok().json();
    assert_ne!(job_id(&again), job);
    let uploads = std::fs::read_dir(server.data().join("uploads")).unwrap().count();
    assert_eq!(uploads, 2, "one archive for each folder");
}
