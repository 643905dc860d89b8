//! Orders to a running program: notices, stops, checkpoints, intervals.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::time::{Duration, Instant};

use leeway_agent::exit;
use leeway_drivers::run_dir::NoticeSource;
use leeway_model::Millis;
use leeway_proto::pb;
use leeway_proto::pb::directive::Directive;
use leeway_proto::pb::report_exit_request::Exit;
use rustix::process::Signal;
use support::metadata::Metadata;
use support::server::Heard;
use support::{Agent, Server, assignment, eventually, store_url};

const SAVE: &str = r#"
    save() {
        mkdir -p "$LEEWAY_CKPT_DIR/s-$1.tmp"; echo "$1" > "$LEEWAY_CKPT_DIR/s-$1.tmp/n"
        mv "$LEEWAY_CKPT_DIR/s-$1.tmp" "$LEEWAY_CKPT_DIR/s-$1"; : > "$LEEWAY_CKPT_DIR/s-$1/READY"
    }
"#;

fn saving(run: &str, store: &std::path::Path) -> pb::Assignment {
    pb::Assignment { checkpoint_base_url: Some(store_url(store)), ..assignment(&format!("{SAVE}{run}")) }
}

const WAIT: &str = "echo ready; while :; do sleep 0.05; done";

#[tokio::test]
async fn after_a_notice_the_last_checkpoint_is_committed_before_the_exit_is_reported() {
    let store = tempfile::tempdir().unwrap();
    let run = format!("trap 'cat \"$LEEWAY_NOTICE_FILE\"; save 42; exit 75' TERM; {WAIT}");
    let server = Server::start(saving(&run, store.path()));
    let mut agent = Agent::start(&server);
    agent.said("ready").await;
    server.listened_to().await;
    server.notice(30_000, true);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let state = server.state();
    let last: Vec<&Heard> = state.heard.iter().filter(|heard| !matches!(heard, Heard::Phase(..))).collect();
    let [Heard::Commit(commit), Heard::Exit(exit)] = last[..] else { panic!("{last:?}") };
    assert_eq!((commit.step, commit.after_notice), (42, true));
    assert_eq!((&exit.exit, exit.during_notice), (&Some(Exit::ExitCode(75)), true));
    let log = String::from_utf8_lossy(&state.log);
    assert!(log.contains(r#""kind":"interruption""#) && log.contains(r#""seconds_left":29"#), "{log}");
}

#[tokio::test]
async fn i_01_a_warning_that_only_the_machine_hears_reaches_program_and_server() {
    let store = tempfile::tempdir().unwrap();
    let run = format!("trap 'cat \"$LEEWAY_NOTICE_FILE\"; save 42; exit 75' TERM; {WAIT}");
    let server = Server::start(saving(&run, store.path()));
    let source = NoticeSource::Signal { left: Millis::from_secs(20), source: "slurm".into() };
    let mut agent = Agent::start_with(&server, "j-7-r3", vec![source]);
    agent.said("ready").await;
    // As Slurm does: to every process of the step. The program takes no harm from it.
    for process in agent.program().unwrap().members().unwrap() {
        process.signal(Signal::URG).unwrap();
    }
    agent.signal(Signal::URG);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let state = server.state();
    let notices = state.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0].source, "slurm");
    assert!((15_000..=20_000).contains(&notices[0].time_left_ms), "{notices:?}");
    assert_eq!(state.commits().len(), 1, "the last checkpoint was saved");
    let exit = state.exit().unwrap();
    assert_eq!((exit.exit, exit.during_notice), (Some(Exit::ExitCode(75)), true));
    assert!(String::from_utf8_lossy(&state.log).contains("the provider will take this machine in 20 s (slurm)"));
}

#[tokio::test]
async fn i_01_ec2s_metadata_recommends_and_then_warns() {
    let store = tempfile::tempdir().unwrap();
    let run = format!("trap 'save 1' USR1; trap 'save 42; exit 75' TERM; {WAIT}");
    let server = Server::start(saving(&run, store.path()));
    let metadata = Metadata::start().await;
    let mut agent = Agent::start_with(&server, "j-7-r3", vec![NoticeSource::Ec2 { metadata: metadata.url() }]);
    agent.said("ready").await;
    metadata.told().rebalance = true;
    eventually("a checkpoint before any notice", || server.state().commits().len() == 1).await;
    assert!(server.state().notices().is_empty(), "a recommendation is no notice");
    metadata.told().session_over = true;
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap() + Duration::from_secs(90);
    let time = leeway_model::Timestamp::from_millis(i64::try_from(soon.as_millis()).unwrap());
    metadata.told().interruption = Some(time.to_string());
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let state = server.state();
    let notices = state.notices();
    assert_eq!((notices.len(), notices[0].source.as_str()), (1, "ec2"));
    assert!((60_000..=90_000).contains(&notices[0].time_left_ms), "{notices:?}");
    assert_eq!(state.commits().last().map(|commit| commit.step), Some(42));
    assert!(metadata.told().sessions >= 2, "a session that ran out is renewed");
}

#[tokio::test]
async fn i_08_metadata_that_cannot_be_heard_is_told_and_the_job_goes_on() {
    let server = Server::start(assignment(WAIT));
    let metadata = Metadata::start().await;
    metadata.told().broken = true;
    let agent = Agent::start_with(&server, "j-7-r3", vec![NoticeSource::Ec2 { metadata: metadata.url() }]);
    agent.said("ready").await;
    eventually("the server is told", || server.state().notice_unavailable).await;
    assert!(agent.program_lives());
    metadata.told().broken = false;
    eventually("and told again", || !server.state().notice_unavailable).await;
}

#[tokio::test]
async fn k_15_a_program_that_ignores_sigterm_is_killed_at_the_deadline() {
    let server = Server::start(assignment(&format!("trap '' TERM; {WAIT}")));
    let mut agent = Agent::start(&server);
    agent.said("ready").await;
    server.listened_to().await;
    let told = Instant::now();
    server.notice(1_500, true);
    let exit = server.exit().await;
    assert!(told.elapsed() >= Duration::from_millis(1_400), "it had until its deadline: {:?}", told.elapsed());
    assert_eq!((exit.exit, exit.during_notice), (Some(Exit::Signal(9)), true));
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
}

#[tokio::test]
async fn k_16_a_shell_that_does_not_pass_signals_on_does_not_keep_them_from_its_children() {
    let store = tempfile::tempdir().unwrap();
    // The outer shell waits for the inner one and would only die of the signal.
    let inner = "trap 'sleep 0.5; save 7; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let run = format!("export -f save; bash -c '{}'; echo over", inner.replace('\'', "'\\''"));
    let server = Server::start(saving(&run, store.path()));
    let mut agent = Agent::start(&server);
    agent.said("ready").await;
    server.listened_to().await;
    server.notice(30_000, true);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let commits = server.state().commits().len();
    assert_eq!(commits, 1, "{}", server.log());
}

#[tokio::test]
async fn an_order_that_only_a_renewal_carries_is_obeyed_as_well() {
    let server = Server::start(assignment(WAIT));
    let mut agent = Agent::start(&server);
    agent.said("ready").await;
    let stop = pb::StopDirective { grace_ms: 5_000, reason: "cancelled".into() };
    server.state().standing_order = Some(pb::Directive { directive: Some(Directive::Stop(stop)) });
    let exit = server.exit().await;
    assert_eq!((exit.exit, exit.during_notice), (Some(Exit::Signal(15)), true));
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
}

#[tokio::test]
async fn sigterm_to_the_agent_is_a_stop() {
    let server = Server::start(assignment(&format!("trap 'echo bye; exit 4' TERM; {WAIT}")));
    let mut agent = Agent::start(&server);
    agent.said("ready").await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let exit = server.state().exit().unwrap();
    assert_eq!((exit.exit, exit.during_notice), (Some(Exit::ExitCode(4)), true));
    assert!(server.log().ends_with("bye\n"));
}

#[tokio::test]
async fn a_stop_during_setup_is_an_interruption_and_the_program_never_starts() {
    let setup = Some("echo ready; sleep 600".into());
    let server = Server::start(pb::Assignment { setup, ..assignment("echo ran") });
    let mut agent = Agent::start(&server);
    agent.said("ready").await;
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let exit = server.state().exit().unwrap();
    assert_eq!((exit.phase(), exit.during_notice), (pb::AgentPhase::Setup, true));
    assert!(!server.log().contains("ran"));
}

#[tokio::test]
async fn only_a_program_that_catches_the_signal_is_asked_for_a_checkpoint() {
    let store = tempfile::tempdir().unwrap();
    let run = format!("sleep 600 & trap 'save 5' USR1; {WAIT}");
    let server = Server::start(saving(&run, store.path()));
    let agent = Agent::start(&server);
    agent.said("ready").await;
    server.listened_to().await;
    let before = agent.program().unwrap().members().unwrap();
    server.order(Directive::CheckpointNow(pb::CheckpointNowDirective {}));
    assert_eq!(server.commit(1).await[0].step, 5);
    let sleeper = |members: &[leeway_drivers::process::ProcessId]| {
        members.iter().filter(|member| before.contains(member)).count()
    };
    assert!(sleeper(&agent.program().unwrap().members().unwrap()) >= 2, "no process died of the signal");
    server.order(Directive::Interval(pb::IntervalDirective { interval_ms: 120_000 }));
    eventually("the new interval is written", || agent.file("control/interval") == "120\n").await;
}
