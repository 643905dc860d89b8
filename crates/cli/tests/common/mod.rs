//! A server that answers what a test tells it to, and the real binary against it.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::{BTreeMap, VecDeque};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use leeway_proto::pb;
use leeway_proto::pb::job_service_server::{JobService, JobServiceServer};
use leeway_proto::pb::upload_service_server::{UploadService, UploadServiceServer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status, Streaming};

type Answer<T> = Result<Response<T>, Status>;
type Pieces<T> = std::pin::Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

/// What the fake knows and what it heard.
#[derive(Debug, Default)]
pub struct State {
    /// States that each job goes through, one for each look; the last one stays.
    pub jobs: BTreeMap<String, VecDeque<pb::JobState>>,
    /// Machines of each job; 0 counts as one.
    pub nodes: u32,
    /// Why each job stands where it stands, and what it cost.
    pub reason: Option<pb::Reason>,
    pub posted: Option<pb::Bill>,
    /// Output by job, cut into pieces; an empty piece breaks the connection once.
    pub logs: BTreeMap<String, Vec<&'static str>>,
    /// Submissions as they came, also those that got no answer.
    pub submissions: Vec<pb::SubmitJobRequest>,
    pub batches: Vec<pb::SubmitJobsRequest>,
    /// So many of the next submissions are kept and answered with UNAVAILABLE.
    pub deaf: usize,
    /// How dry runs are answered.
    pub evaluation: pb::Evaluation,
    /// What is said of every job's deadline.
    pub warnings: Vec<pb::Reason>,
    pub dry_runs: usize,
    /// Archives by digest.
    pub uploads: BTreeMap<Vec<u8>, Vec<u8>>,
    pub uploads_received: usize,
}

/// The fake on a port of its own.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    pub state: Arc<Mutex<State>>,
    url: String,
}

impl Fake {
    pub async fn start(state: State) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Self { state: Arc::new(Mutex::new(state)), url };
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let serving = tonic::transport::Server::builder()
            .add_service(JobServiceServer::new(fake.clone()))
            .add_service(UploadServiceServer::new(fake.clone()))
            .serve_with_incoming(incoming);
        tokio::spawn(serving);
        fake
    }

    /// With one job that goes through these states.
    pub async fn with_job(states: &[pb::JobState]) -> Self {
        let jobs = [("j-42".to_owned(), states.iter().copied().collect())].into();
        Self::start(State { jobs, ..State::default() }).await
    }

    /// Runs the real binary against this server.
    pub async fn leeway(&self, arguments: &[&str]) -> Ran {
        leeway(&self.url, arguments).await
    }

    fn job(&self, id: &str) -> Result<pb::Job, Status> {
        let mut state = self.state.lock().unwrap();
        let states = state.jobs.get_mut(id).ok_or_else(|| Status::not_found(format!("there is no job {id}")))?;
        let now = if states.len() > 1 { states.pop_front() } else { states.front().copied() };
        let spec = pb::JobSpec { nodes: state.nodes.max(1), ..pb::JobSpec::default() };
        let (reason, posted) = (state.reason.clone(), state.posted.clone());
        let (job_id, state) = (id.into(), now.unwrap().into());
        Ok(pb::Job { job_id, spec: Some(spec), state, reason, posted, currency: "USD".into(), ..pb::Job::default() })
    }
}

/// How a run of the binary ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn error(&self) -> Value {
        serde_json::from_str::<Value>(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"))["error"].clone()
    }
}

/// Writes a job file and gives its path.
pub fn job_file(dir: &tempfile::TempDir, text: &str) -> String {
    let path = dir.path().join("job.yaml");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Runs the real binary.
pub async fn leeway(server: &str, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.args(arguments).env_remove("LEEWAY_CURRENCY").env("LEEWAY_OWNER", "tester").env("LEEWAY_SERVER", server);
    let Output { status, stdout, stderr } =
        tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    Ran {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

#[tonic::async_trait]
impl JobService for Fake {
    type WatchJobsStream = Pieces<pb::WatchJobsResponse>;
    type StreamLogsStream = Pieces<pb::StreamLogsResponse>;

    async fn submit_job(&self, request: Request<pb::SubmitJobRequest>) -> Answer<pb::SubmitJobResponse> {
        let mut state = self.state.lock().unwrap();
        let request = request.into_inner();
        let replayed = state.submissions.iter().any(|one| one.client_request_id == request.client_request_id);
        state.submissions.push(request);
        if state.deaf > 0 {
            state.deaf -= 1;
            return Err(Status::unavailable("the line broke"));
        }
        let submitted = pb::Submitted {
            job_id: "j-42".into(),
            replayed,
            state: pb::JobState::Pending.into(),
            warnings: state.warnings.clone(),
            ..pb::Submitted::default()
        };
        Ok(Response::new(pb::SubmitJobResponse { submitted: Some(submitted) }))
    }

    async fn submit_jobs(&self, request: Request<pb::SubmitJobsRequest>) -> Answer<pb::SubmitJobsResponse> {
        use pb::submission_result::Result as Outcome;
        let request = request.into_inner();
        let outcome = |index: usize| match index {
            1 => Outcome::Error(pb::ItemError {
                status: 3,
                reason: "INVALID_FIELD".into(),
                message: "spec.nodes: too many".into(),
                field: "spec.nodes".into(),
            }),
            _ => Outcome::Submitted(pb::Submitted {
                job_id: format!("j-{}", 50 + index),
                state: pb::JobState::Pending.into(),
                ..pb::Submitted::default()
            }),
        };
        let count = request.submissions.len();
        self.state.lock().unwrap().batches.push(request);
        let results = (0..count).map(|index| pb::SubmissionResult { result: Some(outcome(index)) }).collect();
        Ok(Response::new(pb::SubmitJobsResponse { results }))
    }

    async fn get_job(&self, request: Request<pb::GetJobRequest>) -> Answer<pb::GetJobResponse> {
        Ok(Response::new(pb::GetJobResponse { job: Some(self.job(&request.into_inner().job_id)?) }))
    }

    async fn list_jobs(&self, request: Request<pb::ListJobsRequest>) -> Answer<pb::ListJobsResponse> {
        let wanted = request.into_inner().filter.unwrap_or_default().states;
        let ids: Vec<String> = self.state.lock().unwrap().jobs.keys().cloned().collect();
        let jobs = ids.iter().map(|id| self.job(id)).collect::<Result<Vec<_>, _>>()?;
        let jobs = jobs.into_iter().filter(|job| wanted.is_empty() || wanted.contains(&job.state)).collect();
        Ok(Response::new(pb::ListJobsResponse { jobs, ..pb::ListJobsResponse::default() }))
    }

    async fn watch_jobs(&self, _: Request<pb::WatchJobsRequest>) -> Answer<Self::WatchJobsStream> {
        Err(Status::unimplemented("not needed here"))
    }

    async fn cancel_job(&self, request: Request<pb::CancelJobRequest>) -> Answer<pb::CancelJobResponse> {
        Ok(Response::new(pb::CancelJobResponse { job: Some(self.job(&request.into_inner().job_id)?) }))
    }

    async fn retry_job(&self, request: Request<pb::RetryJobRequest>) -> Answer<pb::RetryJobResponse> {
        Ok(Response::new(pb::RetryJobResponse {
            job: Some(self.job(&request.into_inner().job_id)?),
            warnings: self.state.lock().unwrap().warnings.clone(),
        }))
    }

    async fn explain_job(&self, request: Request<pb::ExplainJobRequest>) -> Answer<pb::ExplainJobResponse> {
        let job = Some(self.job(&request.into_inner().job_id)?);
        Ok(Response::new(pb::ExplainJobResponse { job, ..pb::ExplainJobResponse::default() }))
    }

    async fn dry_run_job(&self, _: Request<pb::DryRunJobRequest>) -> Answer<pb::DryRunJobResponse> {
        let mut state = self.state.lock().unwrap();
        state.dry_runs += 1;
        Ok(Response::new(pb::DryRunJobResponse {
            evaluation: Some(state.evaluation.clone()),
            warnings: state.warnings.clone(),
        }))
    }

    async fn stream_logs(&self, request: Request<pb::StreamLogsRequest>) -> Answer<Self::StreamLogsStream> {
        let mut state = self.state.lock().unwrap();
        let pieces = state.logs.entry(request.into_inner().job_id).or_default();
        let mut answer = Vec::new();
        let mut offset = 0;
        for index in 0..pieces.len() {
            if pieces[index].is_empty() {
                pieces.remove(index);
                answer.push(Err(Status::unavailable("the server restarts")));
                break;
            }
            let data = pieces[index];
            answer.push(Ok(pb::StreamLogsResponse { run_id: "j-42-r1".into(), rank: 0, offset, data: data.into() }));
            offset += data.len() as u64;
        }
        Ok(Response::new(Box::pin(tokio_stream::iter(answer))))
    }

    async fn list_runs(&self, _: Request<pb::ListRunsRequest>) -> Answer<pb::ListRunsResponse> {
        Ok(Response::new(pb::ListRunsResponse::default()))
    }
}

#[tonic::async_trait]
impl UploadService for Fake {
    async fn put_upload(&self, request: Request<Streaming<pb::PutUploadRequest>>) -> Answer<pb::PutUploadResponse> {
        let mut pieces = request.into_inner();
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece?.data);
        }
        let sha256 = Sha256::digest(&bytes).to_vec();
        let upload = pb::Upload { sha256: sha256.clone().into(), size_bytes: bytes.len() as u64 };
        let mut state = self.state.lock().unwrap();
        state.uploads_received += 1;
        state.uploads.insert(sha256, bytes);
        Ok(Response::new(pb::PutUploadResponse { upload: Some(upload) }))
    }

    async fn has_upload(&self, request: Request<pb::HasUploadRequest>) -> Answer<pb::HasUploadResponse> {
        let sha256 = request.into_inner().sha256;
        let state = self.state.lock().unwrap();
        let held = state.uploads.get(&sha256[..]);
        let upload = held.map(|bytes| pb::Upload { sha256, size_bytes: bytes.len() as u64 });
        Ok(Response::new(pb::HasUploadResponse { upload }))
    }
}
