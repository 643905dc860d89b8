//! From registration to the reported exit, with real programs.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use leeway_agent::exit;
use leeway_proto::pb;
use leeway_proto::pb::report_exit_request::Exit;
use sha2::{Digest, Sha256};
use support::{Agent, Server, assignment, eventually};

#[tokio::test]
async fn a_program_runs_to_its_end_and_everything_is_reported_in_order() {
    let server =
        Server::start(pb::Assignment { setup: Some("echo made > made".into()), ..assignment("cat made; exit 7") });
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let state = server.state();
    assert_eq!(state.exit().unwrap().exit, Some(Exit::ExitCode(7)));
    assert!(!state.exit().unwrap().during_notice);
    use pb::AgentPhase::{Finishing, Running, Setup};
    assert_eq!(state.phases(), [Setup, Running, Finishing]);
    assert!(matches!(state.heard.last(), Some(support::server::Heard::Exit(_))), "nothing comes after the exit");
    assert_eq!(String::from_utf8_lossy(&state.log), "made\n");
}

#[tokio::test]
async fn z_06_the_program_sees_its_variables_and_nothing_of_the_agents() {
    let secret = pb::SecretValue { value: "s3cret".into() };
    let server = Server::start(pb::Assignment {
        env: [("A".to_owned(), "one two".to_owned()), ("LEEWAY_EPOCH".to_owned(), "99".to_owned())].into(),
        secrets: [("KEY".to_owned(), secret)].into(),
        interval_ms: Some(90_500),
        checkpoint_base_url: Some("memory:".into()),
        world_size: 2,
        node_addresses: vec!["10.0.0.1".into(), "10.0.0.2".into()],
        ..assignment("env; cat \"$LEEWAY_CONTROL_FILE\"; ls -a \"$LEEWAY_CKPT_DIR/..\"; cat ../token ../*.json")
    });
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let log = server.log();
    for line in [
        "A=one two\n",
        "KEY=s3cret\n",
        "LEEWAY_JOB_ID=j-7\n",
        "LEEWAY_EPOCH=3\n",
        "LEEWAY_RANK=0\n",
        "LEEWAY_WORLD_SIZE=2\n",
        "LEEWAY_NODES=10.0.0.1\n10.0.0.2\n",
        "LEEWAY_START_REASON=first\n",
        "LEEWAY_CKPT_INTERVAL=91\n",
        "\n91\n",
    ] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    for word in ["LEEWAY_RESTORE", "must-not-be-passed-on", "token-that-nobody-prints"] {
        assert!(!log.contains(word), "{word} is in {log}");
    }
    let environment = log.split("LEEWAY_CONTROL_FILE").next().unwrap();
    assert!(!environment.contains(&server.url()), "the server's address is in the environment: {environment}");
}

#[tokio::test]
async fn uploads_are_fetched_by_digest_and_unpacked() {
    let pack = |name: &str, text: &str| {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes()).unwrap();
        let bytes = tar.into_inner().unwrap();
        let sha256 = Sha256::digest(&bytes).to_vec();
        (pb::Upload { sha256: sha256.clone().into(), size_bytes: bytes.len() as u64 }, (sha256, bytes))
    };
    let (work, work_bytes) = pack("src/main.txt", &"work ".repeat(500));
    let (data, data_bytes) = pack("labels.txt", "labels");
    let mount = |path: &str| pb::Mount { path: path.into(), upload: Some(data.clone()) };
    let server = Server::start(pb::Assignment {
        workdir: Some(work),
        mounts: vec![mount("in/labels.txt"), mount("~/deep")],
        ..assignment("wc -c < src/main.txt; cat in/labels.txt ~/deep/labels.txt")
    });
    server.state().uploads = [work_bytes, data_bytes.clone()].into();
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    assert_eq!(server.log(), "2500\nlabelslabels");

    let server = Server::start(pb::Assignment { mounts: vec![mount("in")], ..assignment("true") });
    server.state().uploads = [(data_bytes.0, b"something else".to_vec())].into();
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let error = server.state().exit().unwrap();
    assert!(matches!(&error.exit, Some(Exit::AgentError(text)) if text.contains("digest")), "{error:?}");
    assert_eq!(error.phase(), pb::AgentPhase::Setup);
}

#[tokio::test]
async fn a_failed_setup_is_the_exit_and_the_program_never_starts() {
    let server = Server::start(pb::Assignment { setup: Some("exit 9".into()), ..assignment("echo ran") });
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let exit = server.state().exit().unwrap();
    assert_eq!((&exit.exit, exit.phase()), (&Some(Exit::ExitCode(9)), pb::AgentPhase::Setup));
    assert_eq!(server.log(), "");
}

#[tokio::test]
async fn children_do_not_outlive_the_main_process() {
    let server = Server::start(assignment("sleep 600 & setsid sleep 600 & exit 0"));
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    assert!(!agent.program_lives());
    assert_eq!(server.state().exit().unwrap().exit, Some(Exit::ExitCode(0)));
}

#[tokio::test]
async fn progress_is_reported_as_the_program_writes_it() {
    let run = r#"echo '{"step":5,"total":20}' > "$LEEWAY_PROGRESS_FILE"; until [ -e go ]; do sleep 0.05; done"#;
    let server = Server::start(assignment(run));
    let mut agent = Agent::start(&server);
    let said = |step| Some(pb::Progress { step, total_steps: Some(20) });
    eventually("progress is heard", || server.state().progress == said(5)).await;
    std::fs::write(agent.dir.path().join("control/progress"), "9 20\n{\"step\":1").unwrap();
    eventually("progress is heard", || server.state().progress == said(9)).await;
    std::fs::write(agent.dir.path().join("work/go"), "").unwrap();
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
}

#[tokio::test]
async fn n_01_output_and_exit_outlive_a_restart_of_the_server() {
    let run = "for n in $(seq 1 3000); do echo line $n; done; until [ -e go ]; do sleep 0.05; done; echo last; exit 3";
    let mut server = Server::start(assignment(run));
    let mut agent = Agent::start(&server);
    eventually("output arrives", || server.log().contains("line 3000\n")).await;
    server.cut_off();
    // The server lost what was not durable: a third of the output, in the middle of a line.
    server.state().log.truncate(10_001);
    std::fs::write(agent.dir.path().join("work/go"), "").unwrap();
    agent.said("last").await;
    eventually("the program has ended", || !agent.program_lives()).await;
    server.restart();
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let expected: String = (1..=3000).map(|n| format!("line {n}\n")).collect::<String>() + "last\n";
    assert_eq!(server.log(), expected);
    assert_eq!(server.state().exit().unwrap().exit, Some(Exit::ExitCode(3)));
    let exits = server.state().heard.iter().filter(|heard| matches!(heard, support::server::Heard::Exit(_))).count();
    assert_eq!(exits, 1);
}

#[tokio::test]
async fn an_agent_finds_a_server_that_moved() {
    let server = Server::start(assignment("true"));
    let gone = Server::start(assignment("false"));
    let address = gone.url();
    drop(gone);
    let elsewhere = Server::start(assignment("false"));
    elsewhere.state().silent = true;
    let mut agent = Agent::start(&elsewhere);
    assert_ne!(address, server.url());
    eventually("the agent knocked", || elsewhere.state().highest_sequence > 0).await;
    let mut assigned = agent.dir.assignment().unwrap().unwrap();
    assigned.server = server.url();
    agent.dir.assign(&assigned).unwrap();
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    assert_eq!(server.state().exit().unwrap().exit, Some(Exit::ExitCode(0)));
}
