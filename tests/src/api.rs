//! Jobs, budgets, the ledger and logs over gRPC. Questions are asked again while the server is away.

use std::time::{Duration, Instant};

use leeway_proto::pb;
use leeway_proto::pb::budget_service_client::BudgetServiceClient;
use leeway_proto::pb::job_service_client::JobServiceClient;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use crate::server::Server;
use crate::wait::{PATIENCE, eventually, within};

/// One connection to a server; it comes back by itself when the server does.
#[derive(Clone, Debug)]
pub struct Api {
    pub channel: Channel,
}

impl Api {
    pub fn of(server: &Server) -> Self {
        let endpoint = Channel::from_shared(server.url()).unwrap().connect_timeout(Duration::from_secs(2));
        Self { channel: endpoint.timeout(Duration::from_secs(20)).connect_lazy() }
    }

    pub fn jobs(&self) -> JobServiceClient<Channel> {
        JobServiceClient::new(self.channel.clone())
    }

    pub fn budgets(&self) -> BudgetServiceClient<Channel> {
        BudgetServiceClient::new(self.channel.clone())
    }

    /// Submits under a request id and returns the job's id.
    pub async fn submit(&self, request_id: &str, spec: pb::JobSpec) -> String {
        let request =
            pb::SubmitJobRequest { client_request_id: request_id.into(), spec: Some(spec), ..Default::default() };
        let answer = asked(|| async { self.jobs().submit_job(request.clone()).await }).await;
        answer.submitted.unwrap().job_id
    }

    pub async fn job(&self, id: &str) -> pb::Job {
        let request = pb::GetJobRequest { job_id: id.into() };
        asked(|| async { self.jobs().get_job(request.clone()).await }).await.job.unwrap()
    }

    pub async fn runs(&self, id: &str) -> Vec<pb::Run> {
        let request = pb::ListRunsRequest { job_id: id.into() };
        asked(|| async { self.jobs().list_runs(request.clone()).await }).await.runs
    }

    /// Every job there is, oldest first.
    pub async fn all_jobs(&self) -> Vec<pb::Job> {
        let mut request = pb::ListJobsRequest { page_size: 1_000, ..Default::default() };
        let mut jobs = Vec::new();
        loop {
            let page = asked(|| async { self.jobs().list_jobs(request.clone()).await }).await;
            jobs.extend(page.jobs);
            if page.next_page_token.is_empty() {
                jobs.reverse();
                return jobs;
            }
            request.page_token = page.next_page_token;
        }
    }

    pub async fn cancel(&self, id: &str) {
        let request = pb::CancelJobRequest { job_id: id.into(), actor: String::new() };
        asked(|| async { self.jobs().cancel_job(request.clone()).await }).await;
    }

    pub async fn budget(&self, name: &str) -> pb::Budget {
        let request = pb::GetBudgetRequest { name: name.into() };
        asked(|| async { self.budgets().get_budget(request.clone()).await }).await.budget.unwrap()
    }

    /// Every line of the ledger, oldest first.
    pub async fn ledger(&self) -> Vec<pb::LedgerEntry> {
        let mut request = pb::ListLedgerRequest { page_size: 1_000, ..Default::default() };
        let mut lines = Vec::new();
        loop {
            let page = asked(|| async { self.budgets().list_ledger(request.clone()).await }).await;
            lines.extend(page.entries);
            if page.next_page_token.is_empty() {
                return lines;
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Waits until a job is in one of these states.
    pub async fn until(&self, id: &str, states: &[pb::JobState]) -> pb::Job {
        let what = format!("{id} in {states:?}");
        let found = eventually(&what, || async {
            let job = self.job(id).await;
            states.contains(&job.state()).then_some(job)
        });
        found.await
    }

    /// Waits until a job has ended and all its machines are proven gone, so that its cost is final.
    pub async fn until_settled(&self, id: &str) -> (pb::Job, Vec<pb::Run>) {
        let what = format!("the end of {id}");
        let found = within(PATIENCE, &what, || async {
            // In this order: what is read of the job after its last run was settled is final.
            let runs = self.runs(id).await;
            let job = self.job(id).await;
            let settled = is_ended(&job) && runs.iter().all(|run| run.state() == pb::RunState::Released);
            settled.then_some((job, runs))
        });
        found.await
    }

    /// What a run of a job has printed so far.
    pub async fn output(&self, id: &str, run: &str) -> String {
        let request =
            pb::StreamLogsRequest { job_id: id.into(), run_id: Some(run.into()), rank: Some(0), ..Default::default() };
        let mut stream = asked(|| async { self.jobs().stream_logs(request.clone()).await }).await;
        let mut bytes = Vec::new();
        while let Some(piece) = stream.message().await.unwrap() {
            assert_eq!(piece.offset, bytes.len() as u64, "output comes whole and in order");
            bytes.extend_from_slice(&piece.data);
        }
        String::from_utf8(bytes).unwrap()
    }
}

pub fn is_ended(job: &pb::Job) -> bool {
    matches!(job.state(), pb::JobState::Succeeded | pb::JobState::Failed | pb::JobState::Cancelled)
}

/// Asks until a server answers; any other refusal fails the test.
pub async fn asked<T, F: Future<Output = Result<Response<T>, Status>>>(mut ask: impl FnMut() -> F) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer.into_inner(),
            Err(status) if is_away(&status) && begun.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            Err(status) => panic!("refused: {status:?}"),
        }
    }
}

/// Whether nobody answered, so that the caller cannot know what became of its request.
pub fn is_away(status: &Status) -> bool {
    // A connection that breaks in the middle of an answer is told in any of these ways.
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal | Code::DeadlineExceeded
    )
}

/// As [`shell`], on machines that may be taken.
pub fn on_spot(name: &str, run: &str) -> pb::JobSpec {
    let resources = vec![pb::ResourceRequest { spot: pb::SpotPolicy::Spot.into(), ..Default::default() }];
    pb::JobSpec { resources, ..shell(name, run) }
}

/// A job of shell text that any machine can run.
pub fn shell(name: &str, run: &str) -> pb::JobSpec {
    pb::JobSpec {
        name: name.into(),
        owner: "tester".into(),
        nodes: 1,
        resources: vec![pb::ResourceRequest { spot: pb::SpotPolicy::OnDemand.into(), ..Default::default() }],
        program: Some(pb::Program { run: run.into(), ..Default::default() }),
        time: Some(pb::TimeTerms { estimate_ms: Some(10_000), ..Default::default() }),
        ..Default::default()
    }
}
