//! Submitting, listing, cancelling, explaining.

use leeway_proto::pb;
use leeway_proto::status::reason_of;
use tonic::Code;

use crate::fake::{self, Pretender, impossible, spec, submit, submitted};

#[tokio::test(flavor = "multi_thread")]
async fn a_01_a_hundred_equal_requests_at_once_make_one_job() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let jobs = fake::jobs(&server).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let mut jobs = jobs.clone();
        calls.spawn(async move { jobs.submit_job(submit("same", spec("a"))).await.unwrap().into_inner().submitted });
    }
    let answers: Vec<pb::Submitted> = calls.join_all().await.into_iter().map(Option::unwrap).collect();
    assert!(answers.iter().all(|answer| answer.job_id == answers[0].job_id));
    assert_eq!(answers.iter().filter(|answer| answer.replayed).count(), 99);
    let listed = jobs.clone().list_jobs(pb::ListJobsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.jobs.len(), 1);
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_02_the_same_request_id_with_another_body_is_refused_and_creates_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    submitted(&mut jobs, "id", spec("a")).await;
    let error = jobs.submit_job(submit("id", spec("b"))).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
    assert_eq!(reason_of(&error).as_deref(), Some("IDEMPOTENCY_KEY_REUSED"));
    let mut other = spec("b");
    other.owner = "you".into();
    submitted(&mut jobs, "id", other).await;
    let listed = jobs.list_jobs(pb::ListJobsRequest::default()).await.unwrap().into_inner();
    let names: Vec<_> = listed.jobs.iter().map(|job| job.spec.as_ref().unwrap().owner.as_str()).collect();
    assert_eq!(names, ["you", "me"], "a request id belongs to its owner");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_01_a_deadline_that_counts_from_the_submission_is_the_same_request_when_it_is_sent_again() {
    const HOUR_MS: i64 = 3_600_000;
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let timed = |length: i64| pb::JobSpec {
        time: Some(pb::TimeTerms { deadline_in_ms: Some(length as u64), ..Default::default() }),
        ..spec("a")
    };
    let first = submitted(&mut jobs, "id", timed(HOUR_MS)).await;
    // Later, so that the same length leads to another instant.
    let job = jobs.get_job(pb::GetJobRequest { job_id: first.clone() }).await.unwrap().into_inner().job.unwrap();
    let deadline = job.spec.unwrap().time.unwrap().deadline_ms.unwrap();
    let taken = job.submitted_ms - (deadline - HOUR_MS);
    assert!((0..10_000).contains(&taken), "it counts from when the job was taken, not {taken} ms before");
    assert_eq!(submitted(&mut jobs, "id", timed(HOUR_MS)).await, first);
    let error = jobs.submit_job(submit("id", timed(2 * HOUR_MS))).await.unwrap_err();
    assert_eq!(reason_of(&error).as_deref(), Some("IDEMPOTENCY_KEY_REUSED"));
    let mut both = timed(HOUR_MS);
    both.time.as_mut().unwrap().deadline_ms = Some(deadline);
    let error = jobs.submit_job(submit("both", both)).await.unwrap_err();
    assert!(error.message().contains("exclude each other"), "{error}");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_submissions_share_flushes() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let jobs = fake::jobs(&server).await;
    let before = (server.metrics().flushes.get(), server.metrics().steps.get());
    let mut calls = tokio::task::JoinSet::new();
    for client in 0..64 {
        let mut jobs = jobs.clone();
        calls.spawn(async move {
            for turn in 0..10 {
                submitted(&mut jobs, &format!("{client}-{turn}"), impossible("a")).await;
            }
        });
    }
    calls.join_all().await;
    let flushes = server.metrics().flushes.get() - before.0;
    let steps = server.metrics().steps.get() - before.1;
    assert!(steps >= 640, "{steps}");
    assert!(flushes <= 320, "{flushes} flushes for {steps} steps");
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_has_a_result_in_each_place_and_is_replayed_as_a_whole() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    let item = |spec: pb::JobSpec, after: &[u32]| pb::Submission {
        spec: Some(spec),
        depends_on_batch: after.to_vec(),
        ..Default::default()
    };
    let mut bad = spec("bad");
    bad.nodes = 0;
    let mut poor = spec("poor");
    poor.money = Some(pb::MoneyTerms { budget: Some("nobody".into()), ..Default::default() });
    let batch = pb::SubmitJobsRequest {
        client_request_id: "batch".into(),
        submissions: vec![item(spec("first"), &[]), item(bad, &[]), item(spec("second"), &[0]), item(poor, &[])],
    };
    let answer = jobs.submit_jobs(batch.clone()).await.unwrap().into_inner();
    let shown = |answer: &pb::SubmitJobsResponse| -> Vec<String> {
        use pb::submission_result::Result;
        let one = |result: &pb::SubmissionResult| match result.result.as_ref().unwrap() {
            Result::Submitted(job) => job.job_id.clone(),
            Result::Error(error) => format!("{} {}", error.reason, error.field),
        };
        answer.results.iter().map(one).collect()
    };
    assert_eq!(shown(&answer), ["j-1", "INVALID_FIELD spec.nodes", "j-2", "UNKNOWN_BUDGET "]);
    assert_eq!(fake::job(&mut jobs, "j-2").await.state(), pb::JobState::Waiting);
    let again = jobs.submit_jobs(batch).await.unwrap().into_inner();
    assert_eq!(shown(&again)[..3], shown(&answer)[..3]);
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_10_pages_follow_each_other_and_foreign_tokens_are_refused() {
    let data = tempfile::tempdir().unwrap();
    let server = fake::start(data.path(), &Pretender::default()).await;
    let mut jobs = fake::jobs(&server).await;
    for number in 0..7 {
        submitted(&mut jobs, &number.to_string(), impossible(if number % 2 == 0 { "even" } else { "odd" })).await;
    }
    let ask = |token: &str, prefix: Option<&str>| pb::ListJobsRequest {
        page_size: 2,
        page_token: token.into(),
        filter: Some(pb::JobFilter { name_prefix: prefix.map(Into::into), ..Default::default() }),
    };
    let mut seen = Vec::new();
    let mut token = String::new();
    let mut pages = 0;
    loop {
        let page = jobs.list_jobs(ask(&token, Some("even"))).await.unwrap().into_inner();
        seen.extend(page.jobs.iter().map(|job| job.job_id.clone()));
        pages += 1;
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
        assert_eq!(jobs.list_jobs(ask(&token, None)).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert_eq!(seen, ["j-7", "j-5", "j-3", "j-1"]);
    assert_eq!(pages, 2);
    assert_eq!(jobs.list_jobs(ask("forged", None)).await.unwrap_err().code(), Code::InvalidArgument);
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_07_cancel_and_retry_in_the_states_that_a_client_can_reach() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let cancel = |id: &str| pb::CancelJobRequest { job_id: id.into(), actor: String::new() };

    // Pending: at once. Again: no error, no change.
    let pending = submitted(&mut jobs, "1", impossible("pending")).await;
    let first = jobs.cancel_job(cancel(&pending)).await.unwrap().into_inner().job.unwrap();
    assert_eq!(first.state(), pb::JobState::Cancelled);
    let second = jobs.cancel_job(cancel(&pending)).await.unwrap().into_inner().job.unwrap();
    assert_eq!(second.version, first.version);

    // Starting: its machine goes first.
    let starting = submitted(&mut jobs, "2", spec("starting")).await;
    fake::until("a machine", || async { (!driver.living().is_empty()).then_some(()) }).await;
    jobs.cancel_job(cancel(&starting)).await.unwrap();
    fake::until_state(&mut jobs, &starting, pb::JobState::Cancelled).await;
    assert_eq!(driver.living(), []);

    // Unknown, and not even an id.
    assert_eq!(jobs.cancel_job(cancel("j-99")).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(jobs.cancel_job(cancel("../j")).await.unwrap_err().code(), Code::InvalidArgument);

    // A cancelled job may be tried again, a pending one not.
    let retry = |id: &str| pb::RetryJobRequest { job_id: id.into() };
    let again = jobs.retry_job(retry(&pending)).await.unwrap().into_inner().job.unwrap();
    assert_eq!(again.state(), pb::JobState::Pending);
    assert_eq!(jobs.retry_job(retry(&pending)).await.unwrap_err().code(), Code::FailedPrecondition);
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_ranks_and_rejects_and_submits_nothing() {
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let ask = |spec| pb::DryRunJobRequest { spec: Some(spec) };
    let found = jobs.dry_run_job(ask(spec("a"))).await.unwrap().into_inner().evaluation.unwrap();
    let capacities: Vec<_> = found.candidates.iter().map(|c| c.offer.as_ref().unwrap().capacity()).collect();
    assert_eq!(capacities, [pb::CapacityType::Spot, pb::CapacityType::OnDemand]);
    let none = jobs.dry_run_job(ask(impossible("a"))).await.unwrap().into_inner().evaluation.unwrap();
    assert_eq!((none.candidates.len(), none.rejections.len()), (0, 2));
    assert_eq!(none.reason.unwrap().code, "NO_PLACE");
    let listed = jobs.list_jobs(pb::ListJobsRequest::default()).await.unwrap().into_inner();
    assert!(listed.jobs.is_empty() && driver.launches().is_empty());

    let id = submitted(&mut jobs, "1", impossible("b")).await;
    let explained = jobs.explain_job(pb::ExplainJobRequest { job_id: id }).await.unwrap().into_inner();
    assert!(explained.evaluation.unwrap().candidates.is_empty());
    assert!(explained.decisions.is_empty());
    server.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn z_04_a_secret_is_in_no_file_and_no_answer_and_reaches_only_the_agent() {
    const CANARY: &str = "canary-3f9c1a7e";
    let data = tempfile::tempdir().unwrap();
    let driver = Pretender::default();
    let server = fake::start(data.path(), &driver).await;
    let mut jobs = fake::jobs(&server).await;
    let mut request = submit("1", spec("a"));
    request.secrets.insert("TOKEN".into(), pb::SecretValue { value: CANARY.into() });
    let id = jobs.submit_job(request).await.unwrap().into_inner().submitted.unwrap().job_id;
    let shown = format!("{:?}", fake::job(&mut jobs, &id).await);
    assert!(!shown.contains(CANARY) && shown.contains("TOKEN"));
    let launch = fake::until("a launch", || async { driver.launches().pop() }).await;
    let mut agents = pb::agent_service_client::AgentServiceClient::new(fake::channel(&server).await);
    let identity = pb::AgentIdentity { agent_id: "a".into(), boot_id: "b".into(), pid: 1, version: "0".into() };
    let request = pb::RegisterRequest { caller: fake::caller(&launch), identity: Some(identity) };
    let assignment = agents.register(request).await.unwrap().into_inner().assignment.unwrap();
    assert_eq!(assignment.secrets["TOKEN"].value, CANARY.as_bytes());
    server.shutdown().await.unwrap();
    let mut folders = vec![data.path().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "{}", path.display());
        }
    }
}
