//! Data directories that are in use, lost or damaged, and the commands of an operator.

use std::path::{Path, PathBuf};

use leeway_proto::pb;
use leeway_tests::api::{Api, shell};
use leeway_tests::{Config, Server, cli};

/// A server that has run some jobs and was stopped.
async fn with_history() -> (Server, Api, Vec<pb::Job>) {
    let mut server = Server::start(&Config::default()).await;
    let api = Api::of(&server);
    for number in 0..3 {
        let job = api.submit(&format!("request-{number}"), shell(&format!("job-{number}"), "true")).await;
        api.until_settled(&job).await;
    }
    let jobs = api.all_jobs().await;
    let (status, _) = server.terminate().await;
    assert_eq!(status.code(), Some(0));
    (server, api, jobs)
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[tokio::test]
async fn s_12_a_second_server_on_the_same_data_is_refused_and_the_first_is_unaffected() {
    let server = Server::start(&Config::default()).await;
    let config = server.config();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--config"];
    let mut command = cli::command(&arguments);
    command.arg(config);
    let second = cli::run(command).await;
    assert_eq!(second.code, 1, "{second:?}");
    assert!(second.err.contains("in use by process"), "{second:?}");
    let verify = server.cli(&["store", "verify", "data"]).await;
    assert_eq!((verify.code, verify.error_code().as_str()), (1, "STORE_LOCKED"), "{verify:?}");
    let api = Api::of(&server);
    let job = api.submit("1", shell("after", "true")).await;
    let (job, _) = api.until_settled(&job).await;
    assert_eq!(job.state(), pb::JobState::Succeeded);
}

#[tokio::test]
async fn s_07_a_store_without_its_journal_is_refused_and_nothing_is_made_in_its_place() {
    let (mut server, api, jobs) = with_history().await;
    let store = server.data().join("store");
    for lost in [store.clone(), store.join("journal")] {
        assert!(lost.exists(), "{}", lost.display());
        let away = server.folder().join("away");
        std::fs::rename(&lost, &away).unwrap();
        let around = lost.parent().unwrap();
        let before = entries(around);
        server.spawn();
        let status = server.ended().await;
        assert_eq!(status.code(), Some(1));
        assert!(server.log().contains("STORE_IDENTITY_MISMATCH"), "{}", server.log());
        assert_eq!(entries(around), before, "nothing was made");
        assert!(!lost.exists(), "{} was made anew", lost.display());
        std::fs::rename(&away, &lost).unwrap();
    }
    server.restart().await;
    assert_eq!(api.all_jobs().await, jobs);
}

#[tokio::test]
async fn s_05_s_06_a_damaged_or_lost_index_is_rebuilt_from_the_journal() {
    let (mut server, api, jobs) = with_history().await;
    let index = server.data().join("store/index");
    let harms: [fn(&Path); 4] = [
        |index| std::fs::remove_dir_all(index).unwrap(),
        |index| std::fs::write(index.join("db"), b"not a database at all").unwrap(),
        |index| std::fs::write(index.join("snap.0000000000000FFF.generating"), b"").unwrap(),
        |index| {
            let db = index.join("db");
            let mut bytes = std::fs::read(&db).unwrap();
            for place in (0..bytes.len()).step_by(97) {
                bytes[place] ^= 0x5a;
            }
            std::fs::write(db, bytes).unwrap();
        },
    ];
    for harm in harms {
        assert!(index.is_dir(), "{:?}", entries(&server.data().join("store")));
        harm(&index);
        server.restart().await;
        assert_eq!(api.all_jobs().await, jobs);
        let again = api.submit("request-0", shell("job-0", "true")).await;
        assert_eq!(again, jobs[0].job_id, "the index of request ids is whole, too");
        let (status, _) = server.terminate().await;
        assert_eq!(status.code(), Some(0));
    }
}

#[tokio::test]
async fn a_store_is_verified_exported_imported_and_rebuilt_by_an_operator() {
    let (mut server, api, jobs) = with_history().await;
    let sound = |ran: cli::Ran| assert_eq!(ran.ok().json()["problems"].as_array().unwrap().len(), 0);
    sound(server.cli(&["store", "verify", "data"]).await);
    server.cli(&["store", "export", "data", "rows.export"]).await.ok();
    server.cli(&["store", "rebuild", "data"]).await.ok();
    sound(server.cli(&["store", "verify", "data"]).await);
    server.cli(&["store", "import", "rows.export", "restored"]).await.ok();
    sound(server.cli(&["store", "verify", "restored"]).await);

    // The restored store takes the place of the old one; the keys are the operator's to bring back.
    let (data, folder) = (server.data(), server.folder().to_path_buf());
    std::fs::rename(data.join("store"), folder.join("old-store")).unwrap();
    std::fs::rename(folder.join("restored/store"), data.join("store")).unwrap();
    server.restart().await;
    assert_eq!(api.all_jobs().await, jobs);
    let job = api.submit("new", shell("new", "true")).await;
    assert!(jobs.iter().all(|known| known.job_id != job), "ids are not given twice");
    api.until_settled(&job).await;
}

#[tokio::test]
async fn s_03_a_store_without_its_mark_is_refused_until_an_operator_accepts_what_may_be_lost() {
    let (mut server, api, jobs) = with_history().await;
    let store = server.data().join("store");
    std::fs::remove_file(store.join("journal/head")).unwrap();
    std::fs::remove_dir_all(store.join("index")).unwrap();
    server.spawn();
    assert_eq!(server.ended().await.code(), Some(1));
    let log = server.log();
    assert!(log.contains("STORE_MARK_MISSING") || log.contains("journal/head"), "{log}");
    let verify = server.cli(&["store", "verify", "data"]).await;
    assert_eq!((verify.code, verify.json()["problems"][0]["code"].as_str()), (1, Some("STORE_MARK_MISSING")));
    let moved = server.cli(&["store", "adopt", "--moved", "data"]).await;
    assert_eq!((moved.code, moved.error_code().as_str()), (1, "STORE_MARK_MISSING"), "{moved:?}");
    server.cli(&["store", "adopt", "--restored", "data"]).await.ok();
    server.restart().await;
    assert_eq!(api.all_jobs().await, jobs);
}
