//! What a restart keeps.

use leeway_proto::pb;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_found_before_anything_is_made() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for key in ["listen", "metrics_listen"] {
        let line = format!("{key} = \"{}\"", taken.local_addr().unwrap());
        let config = fake::CONFIG.replace(&format!("\n{key} = \"127.0.0.1:0\""), &format!("\n{line}"));
        assert!(config.contains(&line));
        let settings = fake::settings(&data, &config);
        let error = Box::pin(leeway_server::start_with(settings, Parameters::default())).await.unwrap_err();
        assert!(error.to_string().starts_with(&format!("{key}: cannot listen on")), "{error:#}");
        assert!(!data.exists(), "nothing is left of a start that could not be");
    }
}

/// Cap of the budget and count of the cluster's machines, or `None` without the cluster.
async fn declared(server: &leeway_server::Server) -> (i64, Option<u32>) {
    let channel = fake::channel(server).await;
    let mut budgets = pb::budget_service_client::BudgetServiceClient::new(channel.clone());
    let request = pb::GetBudgetRequest { name: "team".into() };
    let budget = budgets.get_budget(request).await.unwrap().into_inner().budget.unwrap();
    let mut clusters = pb::cluster_service_client::ClusterServiceClient::new(channel);
    let clusters = clusters.list_clusters(pb::ListClustersRequest {}).await.unwrap().into_inner().clusters;
    let count = clusters.first().map(|cluster| cluster.spec.as_ref().unwrap().machines[0].count.unwrap());
    (budget.spec.unwrap().cap_micros / 1_000_000, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_over_the_api_stands_until_the_declaration_itself_is_changed() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let start = async |config: &str| fake::start_with(fake::settings(data.path(), config), &driver).await;
    let server = start(fake::CONFIG).await;
    assert_eq!(declared(&server).await, (1_000, Some(2)));
    let channel = fake::channel(&server).await;
    let mut budgets = pb::budget_service_client::BudgetServiceClient::new(channel.clone());
    let spec = pb::BudgetSpec { name: "team".into(), cap_micros: 5_000_000_000, ..Default::default() };
    budgets.set_budget(pb::SetBudgetRequest { spec: Some(spec), ..Default::default() }).await.unwrap();
    let mut clusters = pb::cluster_service_client::ClusterServiceClient::new(channel.clone());
    clusters.remove_cluster(pb::RemoveClusterRequest { name: "here".into() }).await.unwrap();
    drop((budgets, clusters, channel));
    server.shutdown().await.unwrap();

    let server = start(fake::CONFIG).await;
    assert_eq!(declared(&server).await, (5_000, None), "a restart takes nothing back");
    server.shutdown().await.unwrap();

    let changed = fake::CONFIG.replace("cap = \"1000 USD\"", "cap = \"2000 USD\"").replace("count = 2", "count = 3");
    let server = start(&changed).await;
    assert_eq!(declared(&server).await, (2_000, Some(3)), "a changed declaration wins");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn s_14_beside_a_restored_store_a_machine_that_is_nobody_s_is_reported_and_left_until_confirmed() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    assert!(!installation(&server).await.report_only);
    server.shutdown().await.unwrap();
    let (store, export) = (data.path().join("store"), data.path().join("x.export"));
    leeway_store::export(&store, &export, leeway_store::Options::small()).unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    leeway_store::import(&export, &store, "restored-1", leeway_store::Options::small()).unwrap();

    let stranger = "j-77-r3".parse().unwrap();
    driver.plant(stranger);
    let server = fake::start(data.path(), &driver).await;
    assert!(installation(&server).await.report_only);
    let looks = driver.looks();
    fake::until("some looks at the cluster", || async { (driver.looks() > looks + 5).then_some(()) }).await;
    assert_eq!(driver.living(), [stranger], "it is reported and left alone");
    server.shutdown().await.unwrap();

    let confirmed = format!("confirm_restore = \"restored-1\"\n{}", fake::CONFIG);
    let server = fake::start_with(fake::settings(data.path(), &confirmed), &driver).await;
    assert!(!installation(&server).await.report_only);
    fake::until("the stranger's end", || async { driver.living().is_empty().then_some(()) }).await;
    server.shutdown().await.unwrap();
}

async fn installation(server: &leeway_server::Server) -> pb::Installation {
    let mut clusters = pb::cluster_service_client::ClusterServiceClient::new(fake::channel(server).await);
    clusters.get_installation(pb::GetInstallationRequest {}).await.unwrap().into_inner().installation.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_says_what_it_is_and_in_which_currency() {
    let data = tempfile::tempdir().unwrap();
    let config = fake::CONFIG.replace("USD", "EUR").replace("installation = ", "currency = \"EUR\"\ninstallation = ");
    let server = fake::start_with(fake::settings(data.path(), &config), &Pretender::default()).await;
    let told = installation(&server).await;
    assert_eq!((told.installation_id.as_str(), told.currency.as_str()), ("test", "EUR"));
    assert_eq!((told.default_policy.as_str(), told.default_budget.as_deref()), ("whole-bill", Some("team")));
    assert!(told.policies.contains(&"cheapest".to_owned()) && told.drivers == ["local"]);
    let mut jobs = fake::jobs(&server).await;
    let euros = pb::JobSpec { currency: told.currency, ..spec("a") };
    submitted(&mut jobs, "1", euros).await;
    server.shutdown().await.unwrap();
}
