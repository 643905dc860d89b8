//! From the launch to the proof that the machine is gone, with an agent that only talks.

use leeway_model::{JobId, RunId};
use leeway_proto::pb;
use leeway_proto::pb::agent_service_client::AgentServiceClient;
use leeway_proto::status::reason_of;
use leeway_webhook::receiver::{Options, Receiver};
use tonic::Code;

use crate::fake::{self, Pretender, caller, spec, submitted};

fn identity(agent: &str) -> Option<pb::AgentIdentity> {
    Some(pb::AgentIdentity { agent_id: agent.into(), boot_id: "boot".into(), pid: 1, version: "0".into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_from_launch_to_success_and_its_output_can_be_followed() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let id = submitted(&mut jobs, "1", spec("a")).await;
    let mut follow = jobs
        .stream_logs(pb::StreamLogsRequest { job_id: id.clone(), follow: true, ..Default::default() })
        .await
        .unwrap()
        .into_inner();
    let launch = fake::until("a launch", || async { driver.launches().pop() }).await;
    let mut agents = AgentServiceClient::new(fake::channel(&server).await);
    let me = caller(&launch);

    let register = |agent: &str| pb::RegisterRequest { caller: me.clone(), identity: identity(agent) };
    let assignment = agents.register(register("one")).await.unwrap().into_inner().assignment.unwrap();
    assert_eq!((assignment.world_size, assignment.lease_ttl_ms, assignment.next_seq), (1, 60_000, 1));
    let second = agents.register(register("two")).await.unwrap_err();
    assert_eq!(second.code(), Code::PermissionDenied, "n_08: {second}");

    let phase =
        pb::ReportPhaseRequest { caller: me.clone(), phase: pb::AgentPhase::Running.into(), ..Default::default() };
    agents.report_phase(phase).await.unwrap();
    fake::until_state(&mut jobs, &id, pb::JobState::Running).await;
    let renewal = pb::RenewLeaseRequest {
        caller: me.clone(),
        phase: pb::AgentPhase::Running.into(),
        progress: Some(pb::Progress { step: 5, total_steps: Some(9) }),
        notice_unavailable: false,
        store_full: false,
    };
    agents.renew_lease(renewal).await.unwrap();
    assert_eq!(fake::job(&mut jobs, &id).await.progress.unwrap().step, 5);

    let piece = |offset: u64, text: &str| pb::PushLogsRequest {
        caller: me.clone(),
        offset,
        data: text.to_owned().into_bytes().into(),
    };
    let pieces = vec![piece(0, "hello "), piece(0, "hello "), piece(6, "world\n")];
    let pushed = agents.push_logs(tokio_stream::iter(pieces)).await.unwrap().into_inner();
    assert_eq!(pushed.durable_offset, 12);
    let gap = agents.push_logs(tokio_stream::iter(vec![piece(99, "x")])).await.unwrap_err();
    assert_eq!((gap.code(), reason_of(&gap).as_deref()), (Code::OutOfRange, Some("LOG_GAP")));

    let exit = pb::ReportExitRequest {
        caller: me.clone(),
        exit: Some(pb::report_exit_request::Exit::ExitCode(0)),
        during_notice: false,
        phase: pb::AgentPhase::Finishing.into(),
    };
    agents.report_exit(exit).await.unwrap();
    fake::until_state(&mut jobs, &id, pb::JobState::Succeeded).await;
    fake::until("the machine to go", || async { driver.living().is_empty().then_some(()) }).await;
    let mut output = Vec::new();
    while let Some(piece) = follow.message().await.unwrap() {
        output.extend(piece.data);
    }
    assert_eq!(String::from_utf8(output).unwrap(), "hello world\n");

    let runs = fake::until("the run to be released", || {
        let (mut jobs, id) = (jobs.clone(), id.clone());
        async move {
            let runs = jobs.list_runs(pb::ListRunsRequest { job_id: id }).await.unwrap().into_inner().runs;
            (runs[0].state() == pb::RunState::Released).then_some(runs)
        }
    })
    .await;
    assert_eq!((runs.len(), runs[0].end.as_ref().unwrap().reason.as_str()), (1, "succeeded"));
    let mut budgets = pb::budget_service_client::BudgetServiceClient::new(fake::channel(&server).await);
    let ledger = budgets.list_ledger(pb::ListLedgerRequest { job_id: Some(id), ..Default::default() }).await.unwrap();
    let kinds: Vec<bool> = ledger
        .into_inner()
        .entries
        .iter()
        .map(|entry| {
            matches!(entry.kind, Some(pb::ledger_entry::Kind::HoldOpen(_) | pb::ledger_entry::Kind::HoldClose(_)))
        })
        .collect();
    assert!(kinds.first() == Some(&true) && kinds.last() == Some(&true), "a hold opens and closes: {kinds:?}");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn k_10_what_an_agent_says_of_a_full_store_stands_beside_its_job() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let id = submitted(&mut jobs, "1", spec("a")).await;
    let launch = fake::until("a launch", || async { driver.launches().pop() }).await;
    let mut agents = AgentServiceClient::new(fake::channel(&server).await);
    let me = caller(&launch);
    agents.register(pb::RegisterRequest { caller: me.clone(), identity: identity("one") }).await.unwrap();
    let phase =
        pb::ReportPhaseRequest { caller: me.clone(), phase: pb::AgentPhase::Running.into(), ..Default::default() };
    agents.report_phase(phase).await.unwrap();
    fake::until_state(&mut jobs, &id, pb::JobState::Running).await;
    let renewal = |store_full: bool| pb::RenewLeaseRequest {
        caller: me.clone(),
        phase: pb::AgentPhase::Running.into(),
        notice_unavailable: true,
        store_full,
        ..Default::default()
    };
    agents.renew_lease(renewal(false)).await.unwrap();
    assert_eq!(fake::job(&mut jobs, &id).await.reason, None);
    agents.renew_lease(renewal(true)).await.unwrap();
    assert_eq!(fake::job(&mut jobs, &id).await.reason.unwrap().code, "STORE_FULL");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn z_03_an_agent_speaks_only_for_its_own_run_and_rank() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    submitted(&mut jobs, "1", spec("a")).await;
    submitted(&mut jobs, "2", spec("b")).await;
    let launches = fake::until("two launches", || async {
        let launches = driver.launches();
        (launches.len() == 2).then_some(launches)
    })
    .await;
    let mut agents = AgentServiceClient::new(fake::channel(&server).await);
    let own = caller(&launches[0]).unwrap();
    let foreign = [
        pb::AgentCaller { run_id: launches[1].run.to_string(), ..own.clone() },
        pb::AgentCaller { rank: 1, ..own.clone() },
        pb::AgentCaller { run_id: RunId { epoch: 2, ..launches[0].run }.to_string(), ..own.clone() },
        pb::AgentCaller { token: vec![0; 32].into(), ..own.clone() },
    ];
    for caller in foreign {
        let error = agents.get_log_offset(pb::GetLogOffsetRequest { caller: Some(caller.clone()) }).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{caller:?}");
        let request = pb::RegisterRequest { caller: Some(caller), identity: identity("x") };
        assert_eq!(agents.register(request).await.unwrap_err().code(), Code::PermissionDenied);
    }
    agents.get_log_offset(pb::GetLogOffsetRequest { caller: Some(own) }).await.unwrap();
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p_11_a_machine_that_vanishes_is_noticed_and_the_job_goes_on_elsewhere() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let id = submitted(&mut jobs, "1", spec("a")).await;
    let first = fake::until("a launch", || async { driver.launches().pop() }).await.run;
    fake::until_launched(&mut jobs, &id).await;
    driver.vanish(first);
    let second =
        fake::until("a second launch", || async { driver.launches().into_iter().find(|l| l.run != first) }).await;
    assert_eq!(second.run, RunId { epoch: 2, ..first });
    let runs = jobs.list_runs(pb::ListRunsRequest { job_id: id }).await.unwrap().into_inner().runs;
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "lost");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p_10_a_machine_of_ours_that_belongs_to_no_run_is_ended() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    driver.plant(RunId { job: JobId(77), epoch: 3 });
    fake::until("the stranger to go", || async { driver.living().is_empty().then_some(()) }).await;
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn p_06_a_refused_launch_does_not_become_a_hot_loop() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    driver.refuse(true);
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let id = submitted(&mut jobs, "1", spec("a")).await;
    let list = || {
        let (mut jobs, id) = (jobs.clone(), id.clone());
        async move { jobs.list_runs(pb::ListRunsRequest { job_id: id }).await.unwrap().into_inner().runs }
    };
    // Spot and on-demand each refuse once and cool down.
    fake::until("two refusals", || async {
        let runs = list().await;
        (runs.len() == 2 && runs.iter().all(|run| run.state() == pb::RunState::Released)).then_some(())
    })
    .await;
    let waiting = fake::until_state(&mut jobs.clone(), &id, pb::JobState::Pending).await;
    assert_eq!(list().await.len(), 2, "{waiting:?}");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_market_takes_its_machines_and_the_job_moves_on() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let config = format!(
        "{}\n[clusters.market]\ntrace = \"builtin:aws-us-east-1.json\"\nend = \"wrap\"\n[clock]\nspeed = 600\n[lease]\nttl = \"20m\"\n[launch]\ndeadline = \"30m\"\n",
        fake::CONFIG.replace("on_demand = \"1 USD\"\nspot = \"0.3 USD\"", "on_demand = \"3.06 USD\"")
    );
    let server = fake::start_with(fake::settings(data.path(), &config), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let id = submitted(&mut jobs, "1", spec("a")).await;
    let launch = fake::until("a launch", || async { driver.launches().pop() }).await;
    assert_eq!(launch.offer.capacity, leeway_model::resources::CapacityType::Spot);
    fake::until("another run", || async { (driver.launches().len() >= 2).then_some(()) }).await;
    let runs = jobs.list_runs(pb::ListRunsRequest { job_id: id }).await.unwrap().into_inner().runs;
    let notice = runs[0].notice.as_ref().expect("the trace warns two minutes ahead");
    assert_eq!(notice.source, "trace");
    assert_eq!(runs[0].end.as_ref().unwrap().reason, "interrupted");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_is_signed_with_the_secret_that_was_shown_once() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut webhooks = pb::webhook_service_client::WebhookServiceClient::new(fake::channel(&server).await);
    let secret = vec![7; 32];
    let text = format!("whsec_{}", base64(&secret));
    let receiver = Receiver::start(Options::new(vec![text.parse().unwrap()])).await.unwrap();
    let add = |url: String| pb::AddEndpointRequest {
        name: "ops".into(),
        url,
        types: vec![],
        secret: Some(pb::SecretValue { value: secret.clone().into() }),
    };
    let bad = webhooks.add_endpoint(add("http://user:word@127.0.0.1/".into())).await.unwrap_err();
    assert_eq!(bad.code(), Code::InvalidArgument, "{bad}");
    let added = webhooks.add_endpoint(add(receiver.url())).await.unwrap().into_inner();
    assert_eq!(added.secret.unwrap().value, text.as_bytes());
    let again = webhooks.add_endpoint(add(receiver.url())).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists);
    let tested = webhooks.test_endpoint(pb::TestEndpointRequest { name: "ops".into() }).await.unwrap().into_inner();
    assert_eq!(tested.delivery_id, "o-1");
    fake::until("a verified delivery", || async { (receiver.events().len() == 1).then_some(()) }).await;
    fake::until("an empty outbox", || {
        let mut webhooks = webhooks.clone();
        async move {
            let left = webhooks.list_deliveries(pb::ListDeliveriesRequest::default()).await.unwrap().into_inner();
            left.deliveries.is_empty().then_some(())
        }
    })
    .await;
    server.shutdown().await.unwrap();
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
