//! Servers, agents, programs and machines that go away, and what becomes of the job.

use leeway_proto::pb;
use leeway_tests::api::{Api, shell};
use leeway_tests::cluster::Machine;
use leeway_tests::wait::eventually;
use leeway_tests::{Config, Server, binary, cli};

/// The output of a run as soon as it has at least so many lines.
async fn lines(api: &Api, job: &str, run: &str, at_least: usize) -> Vec<String> {
    eventually(&format!("{at_least} lines of {run}"), || async {
        let output = api.output(job, run).await;
        let lines: Vec<String> = output.lines().map(str::to_owned).collect();
        (lines.len() >= at_least).then_some(lines)
    })
    .await
}

/// Counts slowly, so that something can happen meanwhile.
fn counting(to: u32) -> String {
    format!("for i in $(seq 1 {to}); do echo $i; sleep 0.1; done")
}

#[tokio::test]
async fn n_01_a_running_job_is_taken_over_by_the_next_server_with_its_output_whole_and_in_order() {
    let mut server = Server::start(&Config { lease_ttl: "20s", ..Config::default() }).await;
    let api = Api::of(&server);
    let job = api.submit("1", shell("counting", &counting(50))).await;
    let run = format!("{job}-r1");
    api.until(&job, &[pb::JobState::Running]).await;
    for seen in [5, 25] {
        lines(&api, &job, &run, seen).await;
        server.restart().await;
    }
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    assert_eq!(runs.len(), 1, "it was never started again: {runs:?}");
    assert_eq!(runs[0].run_id, run);
    let wanted: Vec<String> = (1..=50).map(|number| number.to_string()).collect();
    assert_eq!(lines(&api, &job, &run, 50).await, wanted);
}

#[tokio::test]
async fn o_01_a_server_that_is_told_to_stop_ends_well_and_its_jobs_go_on() {
    let mut server = Server::start(&Config { lease_ttl: "20s", ..Config::default() }).await;
    let api = Api::of(&server);
    let job = api.submit("1", shell("counting", &counting(40))).await;
    api.until(&job, &[pb::JobState::Running]).await;
    let (status, took) = server.terminate().await;
    assert_eq!(status.code(), Some(0));
    assert!(took.as_secs() < 10, "{took:?}");
    let machine = Machine::of(&server.data(), "here", &format!("{job}-r1"), 0);
    assert!(machine.agent().lives().unwrap() && !machine.program().is_empty(), "the job goes on without it");
    server.restart().await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!((ended.state(), runs.len()), (pb::JobState::Succeeded, 1));
}

#[tokio::test]
async fn n_02_a_server_away_for_longer_than_the_lease_finds_the_job_ended_and_starts_a_new_epoch() {
    let mut server = Server::start(&Config { lease_ttl: "2s", ..Config::default() }).await;
    let api = Api::of(&server);
    let file = server.folder().join("epochs");
    let script = format!(
        "echo $LEEWAY_EPOCH >> '{0}'; test $LEEWAY_EPOCH -gt 1 || while :; do sleep 0.05; echo $LEEWAY_EPOCH >> '{0}'; done",
        file.display()
    );
    let job = api.submit("1", shell("waiting", &script)).await;
    api.until(&job, &[pb::JobState::Running]).await;
    server.kill9();
    let machine = Machine::of(&server.data(), "here", &format!("{job}-r1"), 0);
    let agent = machine.agent();
    eventually("the agent's end with its lease", || async { (!agent.lives().unwrap()).then_some(()) }).await;
    assert!(machine.program().is_empty(), "the program does not outlive the lease");
    server.restart().await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "lost");
    let text = std::fs::read_to_string(&file).unwrap();
    let epochs: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(epochs.is_sorted() && epochs.last() == Some(&2), "two epochs at once: {epochs:?}");
}

#[tokio::test]
async fn n_02_a_program_that_ended_while_the_server_was_away_for_longer_than_the_lease_is_not_run_again() {
    let mut server = Server::start(&Config { lease_ttl: "2s", ..Config::default() }).await;
    let api = Api::of(&server);
    let go = server.folder().join("go");
    let script = format!("until [ -e '{}' ]; do sleep 0.05; done; echo all done", go.display());
    let job = api.submit("1", shell("patient", &script)).await;
    api.until(&job, &[pb::JobState::Running]).await;
    server.kill9();
    let away = std::time::Instant::now();
    std::fs::write(&go, "").unwrap();
    let machine = Machine::of(&server.data(), "here", &format!("{job}-r1"), 0);
    let agent = machine.agent();
    let lease = std::time::Duration::from_secs(2);
    eventually("the end of the program, and of the lease long after it", || async {
        (machine.program().is_empty() && away.elapsed() > lease * 4).then_some(())
    })
    .await;
    assert!(agent.lives().unwrap(), "the agent keeps what it knows");
    server.restart().await;
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?}");
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "succeeded");
    assert!(api.output(&job, &runs[0].run_id).await.contains("all done"), "its last output is not lost");
}

const STEPS: u64 = 360;
const EVERY: u64 = 40;

/// A real training that takes about seven seconds and saves every 40 steps.
fn training() -> pb::JobSpec {
    let program = binary::leeway().display().to_string();
    let run =
        format!("exec '{program}' train --steps {STEPS} --pace-ms 20 --checkpoint-every {EVERY} --log-every {EVERY}");
    pb::JobSpec {
        checkpoint: Some(pb::CheckpointPolicy { interval_ms: Some(3_600_000), keep: 2, ..Default::default() }),
        retry: Some(pb::RetryPolicy { user_failures: 3, infrastructure_failures: 3, ..Default::default() }),
        ..shell("training", &run)
    }
}

/// Trains, lets something happen to the machine in the middle, and checks that no more than one interval was lost and that
/// the result is the same to the last bit.
async fn training_survives(harm: impl FnOnce(&Machine)) -> Vec<pb::Run> {
    let server = Server::start(&Config { lease_ttl: "3s", ..Config::default() }).await;
    let api = Api::of(&server);
    let job = api.submit("1", training()).await;
    eventually("two checkpoints", || async {
        let job = api.job(&job).await;
        job.checkpoint.filter(|checkpoint| checkpoint.step >= 2 * EVERY)
    })
    .await;
    harm(&Machine::of(&server.data(), "here", &format!("{job}-r1"), 0));
    let (ended, runs) = api.until_settled(&job).await;
    assert_eq!(ended.state(), pb::JobState::Succeeded, "{ended:?} {runs:?}");
    assert_eq!(runs.len(), 2, "{runs:?}");
    let restored = runs[1].restored_from.as_ref().expect("it goes on from a checkpoint");
    assert!(restored.step >= 2 * EVERY, "{restored:?}");
    assert!(runs[0].steps_redone <= EVERY, "more than one interval was lost: {runs:?}");
    let output = api.output(&job, &runs[1].run_id).await;
    assert!(output.contains(&format!("resumed at step {} ", restored.step)), "{output}");
    let digest = output.lines().find_map(|line| line.strip_prefix("digest ")).unwrap_or_else(|| panic!("{output}"));
    let reference = cli::leeway(&["train", "--digest-only", "--steps", &STEPS.to_string()]).await.ok();
    assert_eq!(digest, reference.out.trim());
    runs
}

#[tokio::test]
async fn i_03_a_machine_that_is_lost_without_notice_costs_at_most_one_interval() {
    let runs = training_survives(Machine::lose).await;
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "lost");
}

#[tokio::test]
async fn n_06_an_agent_that_is_killed_leaves_no_second_program_and_the_job_goes_on() {
    let runs = training_survives(Machine::kill_agent).await;
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "lost");
}

#[tokio::test]
async fn a_program_that_is_killed_is_started_again_from_its_checkpoint() {
    let runs = training_survives(Machine::kill_program).await;
    let end = runs[0].end.as_ref().unwrap();
    assert_eq!((end.reason.as_str(), end.exit_code), ("failed", Some(137)));
}
