//! What a restart keeps.

use leeway_server::Parameters;

use crate::fake::{self, Pretender, impossible, spec, submitted};

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_jobs_runs_and_request_ids_and_orders_nothing_twice() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let running = submitted(&mut jobs, "1", spec("a")).await;
    let waiting = submitted(&mut jobs, "2", impossible("b")).await;
    fake::until_launched(&mut jobs, &running).await;
    let before = fake::job(&mut jobs, &waiting).await;
    drop(jobs);
    server.shutdown().await.unwrap();

    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let after = fake::job(&mut jobs, &waiting).await;
    assert_eq!((after.version, after.submitted_ms), (before.version, before.submitted_ms));
    assert_eq!(submitted(&mut jobs, "1", spec("a")).await, running, "a_03: the same request finds the same job");
    assert_eq!(fake::job(&mut jobs, &running).await.newest_run_id.unwrap(), format!("{running}-r1"));
    assert_eq!(driver.launches().len(), 1);
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn s_07_a_lost_store_is_refused_and_none_is_made_in_its_place() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    fake::start(data.path(), &driver).await.shutdown().await.unwrap();
    let store = data.path().join("store");
    let away = data.path().join("away");
    std::fs::rename(&store, &away).unwrap();
    let again =
        || Box::pin(leeway_server::start_with(fake::settings(data.path(), fake::CONFIG), Parameters::default()));
    let error = again().await.unwrap_err().to_string();
    assert!(error.starts_with("STORE_IDENTITY_MISMATCH"), "{error}");
    assert!(!store.exists());
    std::fs::rename(&away, &store).unwrap();
    let other = fake::CONFIG.replace("installation = \"test\"", "installation = \"other\"");
    let settings = fake::settings(data.path(), &other);
    let error = Box::pin(leeway_server::start_with(settings, Parameters::default())).await.unwrap_err().to_string();
    assert!(error.starts_with("STORE_IDENTITY_MISMATCH"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s_12_a_second_server_on_one_data_directory_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let settings = fake::settings(data.path(), fake::CONFIG);
    let error = Box::pin(leeway_server::start_with(settings, Parameters::default())).await.unwrap_err();
    assert!(format!("{error:#}").contains("in use"), "{error:#}");
    let mut jobs = fake::jobs(&server).await;
    submitted(&mut jobs, "1", impossible("a")).await;
    server.shutdown().await.unwrap();
}
