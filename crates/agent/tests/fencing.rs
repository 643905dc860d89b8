//! At most one run of a job has effects: what ends a program when the lease does.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::time::{Duration, Instant};

use leeway_agent::exit;
use leeway_proto::pb;
use rustix::process::Signal;
use support::server::Heard;
use support::{Agent, Server, assignment, eventually, store_url};

fn short_lease(run: &str, ttl_ms: u64) -> pb::Assignment {
    pb::Assignment { lease_ttl_ms: ttl_ms, ..assignment(run) }
}

#[tokio::test]
async fn n_02_without_renewals_the_program_is_dead_by_the_end_of_lease_and_grace() {
    let server = Server::start(short_lease("trap '' TERM; while :; do sleep 0.05; done", 1_500));
    let mut agent = Agent::start(&server);
    agent.program_runs().await;
    eventually("the lease was renewed", || server.state().renewals > 2).await;
    let began = Instant::now();
    server.state().silent = true;
    eventually("the program is dead", || !agent.program_lives()).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1_300), "killed before its lease was over: {took:?}");
    assert_eq!(agent.ended().await, Some(exit::OVER.into()));
    assert_eq!(server.state().exit(), None, "nothing is reported without a lease");
}

/// Runs a program to its end while nobody answers, and waits until its lease is over as well.
async fn ends_unheard(server: &Server, agent: &Agent) {
    agent.program_runs().await;
    eventually("the lease was renewed", || server.state().renewals > 2).await;
    let began = Instant::now();
    server.state().silent = true;
    std::fs::write(agent.dir.path().join("work/go"), "").unwrap();
    eventually("the program has ended", || !agent.program_lives()).await;
    assert!(began.elapsed() < Duration::from_millis(2_500), "this machine is too slow for a lease so short");
    eventually("the lease is over, twice", || began.elapsed() > Duration::from_millis(6_000)).await;
    assert!(agent.process().is_some(), "the agent keeps what it knows");
}

const LAST_WORDS: &str = "until [ -e go ]; do sleep 0.05; done; echo last words; exit 7";

#[tokio::test]
async fn n_02_how_a_program_ended_within_its_lease_is_told_when_the_server_is_back() {
    let server = Server::start(short_lease(LAST_WORDS, 2_500));
    let mut agent = Agent::start(&server);
    ends_unheard(&server, &agent).await;
    server.state().silent = false;
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let exit = server.state().exit().expect("the exit is told").exit;
    assert_eq!(exit, Some(pb::report_exit_request::Exit::ExitCode(7)));
    assert!(String::from_utf8_lossy(&server.state().log).contains("last words"), "the output comes with it");
}

#[tokio::test]
async fn n_04_how_a_program_ended_is_not_told_when_its_run_was_given_up() {
    let server = Server::start(short_lease(LAST_WORDS, 2_500));
    let mut agent = Agent::start(&server);
    ends_unheard(&server, &agent).await;
    server.state().stale = true;
    assert_eq!(agent.ended().await, Some(exit::OVER.into()));
    assert_eq!(server.state().exit(), None);
}

#[tokio::test]
async fn n_02_a_checkpoint_is_not_published_after_the_lease_though_the_exit_is_told() {
    let store = tempfile::tempdir().unwrap();
    let run = r#"
        until [ -e go ]; do sleep 0.05; done
        mkdir "$LEEWAY_CKPT_DIR/s-1.tmp"; echo 1 > "$LEEWAY_CKPT_DIR/s-1.tmp/n"
        mv "$LEEWAY_CKPT_DIR/s-1.tmp" "$LEEWAY_CKPT_DIR/s-1"; : > "$LEEWAY_CKPT_DIR/s-1/READY""#;
    let checkpoint_base_url = Some(store_url(store.path()));
    let server = Server::start(pb::Assignment { checkpoint_base_url, ..short_lease(run, 2_500) });
    let mut agent = Agent::start(&server);
    ends_unheard(&server, &agent).await;
    agent.said("the last checkpoint could not be published in time").await;
    server.state().silent = false;
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    assert!(server.state().exit().is_some());
    assert_eq!(server.state().commits(), []);
}

#[tokio::test]
async fn n_01_a_break_that_is_shorter_than_the_lease_is_survived() {
    let mut server = Server::start(short_lease("until [ -e go ]; do sleep 0.05; done", 20_000));
    let mut agent = Agent::start(&server);
    agent.program_runs().await;
    server.cut_off();
    let renewals = server.state().renewals;
    server.restart();
    eventually("renewed again", || server.state().renewals > renewals).await;
    std::fs::write(agent.dir.path().join("work/go"), "").unwrap();
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
}

#[tokio::test]
async fn t_04_an_agent_that_was_frozen_kills_before_it_does_anything_else() {
    let store = tempfile::tempdir().unwrap();
    // The program saves all the time, so that there is always something that could be published wrongly.
    let run = r#"
        n=0
        while :; do
            n=$((n + 1)); mkdir -p "$LEEWAY_CKPT_DIR/s-$n.tmp"; echo $n > "$LEEWAY_CKPT_DIR/s-$n.tmp/n"
            mv "$LEEWAY_CKPT_DIR/s-$n.tmp" "$LEEWAY_CKPT_DIR/s-$n"; : > "$LEEWAY_CKPT_DIR/s-$n/READY"
            sleep 0.05
        done"#;
    let checkpoint_base_url = Some(store_url(store.path()));
    let server = Server::start(pb::Assignment { checkpoint_base_url, ..short_lease(run, 2_000) });
    let mut agent = Agent::start(&server);
    server.commit(1).await;
    agent.signal(Signal::STOP);
    let frozen = Instant::now();
    // What was already under way may still arrive; nothing new may.
    eventually("the lease is over", || frozen.elapsed() > Duration::from_millis(3_000)).await;
    assert!(agent.program_lives(), "nobody else kills it");
    let heard = || {
        let state = server.state();
        (state.commits().len(), state.renewals)
    };
    let before = heard();
    let thawed = Instant::now();
    agent.signal(Signal::CONT);
    eventually("the program is dead", || !agent.program_lives()).await;
    assert!(thawed.elapsed() < Duration::from_secs(3), "the grace was used up while frozen: {:?}", thawed.elapsed());
    assert_eq!(agent.ended().await, Some(exit::OVER.into()));
    assert_eq!(heard(), before);
    assert_eq!(server.state().exit(), None);
}

#[tokio::test]
async fn n_04_a_stale_epoch_kills_at_once() {
    let server = Server::start(assignment("trap '' TERM; while :; do sleep 0.05; done"));
    let mut agent = Agent::start(&server);
    agent.program_runs().await;
    server.state().stale = true;
    assert_eq!(agent.ended().await, Some(exit::OVER.into()));
    assert!(!agent.program_lives());
    assert!(!server.state().heard.iter().any(|heard| matches!(heard, Heard::Exit(_))));
}

#[tokio::test]
async fn n_08_a_second_agent_runs_nothing() {
    let server = Server::start(assignment("echo started; while :; do sleep 0.05; done"));
    let first = Agent::start(&server);
    first.said("started").await;
    let mut same_machine = first.second();
    assert_eq!(same_machine.ended().await, Some(exit::RANK_TAKEN.into()));
    let mut other_machine = Agent::start(&server);
    assert_eq!(other_machine.ended().await, Some(exit::OVER.into()), "the server accepts one agent a rank");
    assert!(!other_machine.program_lives());
    assert!(first.program_lives(), "the first is not disturbed");
    std::mem::forget(same_machine);
}

#[tokio::test]
async fn n_06_a_program_whose_agent_died_can_be_found_and_killed() {
    let server = Server::start(assignment("setsid sleep 600 & sleep 600"));
    let agent = Agent::start(&server);
    agent.program_runs().await;
    agent.signal(Signal::KILL);
    eventually("the agent is dead", || agent.process().is_none()).await;
    let tree = agent.program().unwrap();
    assert!(!tree.members().unwrap().is_empty());
    eventually("all of it is dead", || tree.kill().unwrap()).await;
}
