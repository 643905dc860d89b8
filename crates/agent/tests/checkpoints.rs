//! Publishing, committing and restoring, with real programs and a store in a folder.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

mod support;

use std::path::Path;

use leeway_agent::exit;
use leeway_data::{JobAt, open_store};
use leeway_drivers::{ClusterDriver, Launch, LocalDriver, Token};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::market::OfferKey;
use leeway_model::resources::{CapacityType, MachineShape, MilliCpus};
use leeway_model::{Bytes, JobId, Millis, Name, RunId};
use leeway_proto::pb;
use support::server::Heard;
use support::{Agent, Server, TOKEN, assignment, eventually, installation, store_url};

const SAVE: &str = r#"
    save() {
        rm -rf "$LEEWAY_CKPT_DIR/s-$1.tmp"; mkdir -p "$LEEWAY_CKPT_DIR/s-$1.tmp"; echo "$1" > "$LEEWAY_CKPT_DIR/s-$1.tmp/n"
        mv "$LEEWAY_CKPT_DIR/s-$1.tmp" "$LEEWAY_CKPT_DIR/s-$1"; : > "$LEEWAY_CKPT_DIR/s-$1/READY"
    }
    await() { until [ -e "$1" ]; do sleep 0.05; done; }
"#;

fn saving(run: &str, store: &Path) -> pb::Assignment {
    pb::Assignment { checkpoint_base_url: Some(store_url(store)), ..assignment(&format!("{SAVE}{run}")) }
}

fn let_go(agent: &Agent, file: &str) {
    std::fs::write(agent.dir.path().join("work").join(file), "").unwrap();
}

#[tokio::test]
async fn k_14_only_what_is_marked_ready_is_published_and_older_copies_go() {
    let store = tempfile::tempdir().unwrap();
    let half =
        r#"mkdir -p "$LEEWAY_CKPT_DIR/s-9"; echo 9 > "$LEEWAY_CKPT_DIR/s-9/n"; save 1; await one; save 2; await two"#;
    let server = Server::start(saving(half, store.path()));
    let mut agent = Agent::start(&server);
    server.commit(1).await;
    let_go(&agent, "one");
    server.commit(2).await;
    eventually("the older copy is removed", || !agent.dir.path().join("checkpoints/s-1").exists()).await;
    assert!(agent.dir.path().join("checkpoints/s-2").exists(), "the newest copy stays");
    let_go(&agent, "two");
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let commits: Vec<_> = server.state().commits().iter().map(|commit| (commit.seq, commit.step)).collect();
    assert_eq!(commits, [(1, 1), (2, 2)]);
}

#[tokio::test]
async fn k_08_a_lost_reply_to_a_commit_is_repeated_with_the_same_number() {
    let store = tempfile::tempdir().unwrap();
    let server = Server::start(saving("save 3", store.path()));
    server.state().lose_commit_replies = 2;
    let mut agent = Agent::start(&server);
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    assert_eq!(server.state().commits().iter().map(|commit| commit.seq).collect::<Vec<_>>(), [1]);
    assert_eq!(server.state().lose_commit_replies, 0);
    let job = JobAt { installation: installation(), job: JobId(7) };
    let notes = open_store(&store_url(store.path())).unwrap().list_pending(&job).await.unwrap().0;
    assert_eq!(notes, [], "the note that was left meanwhile is removed again");
}

#[tokio::test]
async fn n_03_a_commit_that_cannot_be_told_leaves_a_note_in_the_store() {
    let store = tempfile::tempdir().unwrap();
    let server = Server::start(saving("save 4; await never", store.path()));
    server.state().unreachable_commits = true;
    let _agent = Agent::start(&server);
    let job = JobAt { installation: installation(), job: JobId(7) };
    let repository = open_store(&store_url(store.path())).unwrap();
    let end = tokio::time::Instant::now() + std::time::Duration::from_secs(40);
    let whole = loop {
        let notes = repository.list_pending(&job).await.unwrap().0;
        if let Some(whole) = leeway_data::pending::whole(&notes).pop() {
            break whole;
        }
        assert!(tokio::time::Instant::now() < end, "no note was left");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!((whole.id.epoch, whole.id.seq, whole.step), (3, 1, 4));
    server.state().unreachable_commits = false;
    assert_eq!(server.commit(1).await[0].manifest_sha256[..], whole.manifests[0][..]);
}

#[tokio::test]
async fn k_03_a_damaged_checkpoint_is_reported_and_the_one_before_is_restored() {
    let store = tempfile::tempdir().unwrap();
    let base = store_url(store.path());
    let server = Server::start(saving("save 10; await one; save 20; await two", store.path()));
    let mut agent = Agent::start(&server);
    let run: RunId = "j-7-r3".parse().unwrap();
    server.commit(1).await;
    let good = server.state().newest(run, &base).unwrap();
    let_go(&agent, "one");
    server.commit(2).await;
    let_go(&agent, "two");
    agent.ended().await;
    let bad = server.state().newest(run, &base).unwrap();
    std::fs::write(store.path().join("lab/j-7/3/2/rank0/data/n"), "99\n").unwrap();

    let run = "cat $LEEWAY_RESTORE_DIR/n; echo step $LEEWAY_RESTORE_STEP $LEEWAY_START_REASON";
    let start_reason = pb::StartReason::Interrupted.into();
    let server =
        Server::start(pb::Assignment { restore: Some((&bad).into()), start_reason, ..saving(run, store.path()) });
    server.state().instead = vec![(&good).into()];
    let mut agent = Agent::start_as(&server, "j-7-r4");
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let log = server.log();
    assert!(log.ends_with("10\nstep 10 interrupted\n"), "{log}");
    assert!(server.state().heard.contains(&Heard::Damage(bad.id)));
    assert!(server.state().heard.contains(&Heard::Phase(pb::AgentPhase::Running, Some(10))));

    let server = Server::start(pb::Assignment { restore: Some((&bad).into()), ..saving(run, store.path()) });
    server.state().no_checkpoint_left = true;
    let mut agent = Agent::start_as(&server, "j-7-r5");
    assert_eq!(agent.ended().await, Some(exit::REPORTED.into()));
    let exit = server.state().exit().unwrap();
    assert_eq!(exit.phase(), pb::AgentPhase::Restoring, "k_04: the program never started");
}

/// Counts to 300, saving now and then; checks that it never goes back behind what was restored and never skips.
const COUNTER: &str = r#"
    n=0
    if [ -n "$LEEWAY_RESTORE_DIR" ]; then
        n=$(cat "$LEEWAY_RESTORE_DIR/n")
        [ "$n" = "$LEEWAY_RESTORE_STEP" ] || { echo "restored $n, told $LEEWAY_RESTORE_STEP"; exit 78; }
    fi
    trap 'save $n; exit 75' TERM
    while [ "$n" -lt 300 ]; do
        n=$((n + 1))
        echo "$n 300" > "$LEEWAY_PROGRESS_FILE"
        [ $((n % 20)) = 0 ] && save "$n"
        sleep 0.01
    done
    echo "counted to $n"
"#;

fn launch(run: RunId, server: &Server) -> Launch {
    let name = |text: &str| text.parse::<Name>().unwrap();
    let shape = MachineShape {
        name: name("small"),
        instance_type: "small".into(),
        cpus: MilliCpus(1_000),
        memory: Bytes::ZERO,
        accelerators: None,
        disk: Bytes::ZERO,
    };
    let machines = Machines { shape: shape.clone(), count: Some(1), on_demand: None, spot: None, reserved: None };
    Launch {
        stores: Vec::new(),
        run,
        offer: OfferKey { cluster: name("here"), shape: name("small"), capacity: CapacityType::Spot },
        cluster: ClusterSpec {
            name: name("here"),
            driver: name("local"),
            region: "onprem/berlin".parse().unwrap(),
            zone: None,
            machines: vec![machines],
            checkpoints: "file:///nowhere".into(),
            labels: Default::default(),
        },
        shape,
        nodes: 1,
        server: server.url(),
        tokens: vec![Token::new(*TOKEN)],
        installation: installation(),
        deadline: Millis::from_secs(30),
    }
}

#[tokio::test]
async fn a_counter_that_loses_its_machine_again_and_again_ends_exactly() {
    let (store, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let base = store_url(store.path());
    let driver = LocalDriver::new(root.path().to_path_buf(), support::agent_program()).unwrap();
    let cluster: Name = "here".parse().unwrap();
    let mut restore: Option<leeway_model::checkpoint::CheckpointRef> = None;
    for epoch in 1..=20 {
        let run = RunId { job: JobId(7), epoch };
        let assigned = pb::Assignment { restore: restore.as_ref().map(Into::into), ..saving(COUNTER, store.path()) };
        let server = Server::start(assigned);
        driver.launch(&launch(run, &server)).await.unwrap();
        // Every second run is taken without a word, the others are warned; the last is left alone.
        let commits = if epoch % 3 == 0 { 1 } else { 2 };
        let enough = || server.state().commits().len() >= commits || server.state().exit().is_some();
        eventually("it saved, or ended", enough).await;
        if epoch <= 5 && epoch % 2 == 0 {
            driver.stop(&cluster, run, Millis::from_secs(20)).await.unwrap();
        } else if epoch <= 5 {
            driver.lose(&cluster, run).await.unwrap();
        } else {
            server.exit().await;
        }
        let mut gone = false;
        while !gone {
            gone = driver.observe(&cluster).await.unwrap().proves_gone(run);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let newest = server.state().newest(run, &base);
        let before = restore.as_ref().map_or(0, |reference| reference.step);
        assert!(newest.as_ref().is_none_or(|newest| newest.step > before), "k_7: {newest:?} after {before}");
        restore = newest.or(restore);
        let exit = server.state().exit().and_then(|exit| exit.exit);
        if exit == Some(pb::report_exit_request::Exit::ExitCode(0)) {
            assert!(server.log().ends_with("counted to 300\n"), "{}", server.log());
            return;
        }
        let saved = exit == Some(pb::report_exit_request::Exit::ExitCode(75));
        assert!(exit.is_none() || saved, "{exit:?}: {}", server.log());
    }
    panic!("the counter never ended");
}
