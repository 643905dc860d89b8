//! An agent service that records what it hears and answers as it is told. It can be cut off and started again at the
//! same address, with what it durably knows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::{Bytes, RunId};
use leeway_proto::pb;
use leeway_proto::pb::agent_service_server::{AgentService, AgentServiceServer};
use leeway_proto::status::{reason, with_reason};
use tokio::runtime::Runtime;
use tokio::sync::broadcast;
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Request, Response, Status, Streaming};

use super::{TOKEN, eventually};

#[derive(Debug, Default)]
pub struct State {
    pub assignment: pb::Assignment,
    /// The agent that registered first.
    pub agent: Option<String>,
    /// In the order in which they came.
    pub heard: Vec<Heard>,
    pub progress: Option<pb::Progress>,
    pub renewals: u64,
    /// What the last renewal said of the provider's notices.
    pub notice_unavailable: bool,
    pub log: Vec<u8>,
    pub uploads: BTreeMap<Vec<u8>, Vec<u8>>,
    pub highest_sequence: u64,
    /// Answers to damage, in order.
    pub instead: Vec<pb::CheckpointRef>,
    pub no_checkpoint_left: bool,

    // How to behave.
    pub stale: bool,
    pub silent: bool,
    pub lose_commit_replies: u32,
    pub unreachable_commits: bool,
    pub standing_order: Option<pb::Directive>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Phase(pb::AgentPhase, Option<u64>),
    Commit(pb::CommitCheckpointRequest),
    Damage(CheckpointId),
    Notice(pb::ReportNoticeRequest),
    Exit(pb::ReportExitRequest),
}

impl State {
    pub fn exit(&self) -> Option<pb::ReportExitRequest> {
        self.heard.iter().find_map(|heard| match heard {
            Heard::Exit(exit) => Some(exit.clone()),
            _ => None,
        })
    }

    pub fn commits(&self) -> Vec<pb::CommitCheckpointRequest> {
        let commit = |heard: &Heard| match heard {
            Heard::Commit(commit) => Some(commit.clone()),
            _ => None,
        };
        self.heard.iter().filter_map(commit).collect()
    }

    pub fn notices(&self) -> Vec<pb::ReportNoticeRequest> {
        let notice = |heard: &Heard| match heard {
            Heard::Notice(notice) => Some(notice.clone()),
            _ => None,
        };
        self.heard.iter().filter_map(notice).collect()
    }

    pub fn phases(&self) -> Vec<pb::AgentPhase> {
        let phase = |heard: &Heard| match heard {
            Heard::Phase(phase, _) => Some(*phase),
            _ => None,
        };
        self.heard.iter().filter_map(phase).collect()
    }

    /// The newest committed checkpoint, as the next assignment would name it.
    pub fn newest(&self, run: RunId, base: &str) -> Option<CheckpointRef> {
        let commit = self.commits().pop()?;
        Some(CheckpointRef {
            id: CheckpointId { epoch: run.epoch, seq: commit.seq },
            step: commit.step,
            size: Bytes::new(commit.size_bytes),
            manifests: vec![commit.manifest_sha256.to_vec().try_into().unwrap()],
            base: base.into(),
            region: "onprem/berlin".parse().unwrap(),
        })
    }

    fn admit(&mut self, caller: Option<pb::AgentCaller>) -> Result<(), Status> {
        let caller = caller.ok_or_else(|| Status::invalid_argument("caller"))?;
        if self.stale {
            return Err(with_reason(Code::FailedPrecondition, reason::STALE_EPOCH, "over", []));
        }
        if caller.token != TOKEN[..] {
            return Err(Status::permission_denied("token"));
        }
        assert!(caller.sequence > 0);
        self.highest_sequence = self.highest_sequence.max(caller.sequence);
        if self.silent { Err(Status::unavailable("silent")) } else { Ok(()) }
    }
}

#[derive(Clone, Debug)]
struct Service {
    state: Arc<Mutex<State>>,
    directives: broadcast::Sender<pb::Directive>,
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl AgentService for Service {
    async fn register(&self, request: Request<pb::RegisterRequest>) -> Result<Response<pb::RegisterResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller)?;
        let agent = request.identity.unwrap().agent_id;
        if *state.agent.get_or_insert_with(|| agent.clone()) != agent {
            return Err(Status::permission_denied("another agent has this rank"));
        }
        let assignment = pb::Assignment { log_offset: state.log.len() as u64, ..state.assignment.clone() };
        Ok(Response::new(pb::RegisterResponse { assignment: Some(assignment) }))
    }

    async fn renew_lease(
        &self,
        request: Request<pb::RenewLeaseRequest>,
    ) -> Result<Response<pb::RenewLeaseResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller)?;
        state.renewals += 1;
        state.notice_unavailable = request.notice_unavailable;
        state.progress = request.progress.or(state.progress);
        let lease_ttl_ms = state.assignment.lease_ttl_ms;
        Ok(Response::new(pb::RenewLeaseResponse { lease_ttl_ms, directive: state.standing_order.clone() }))
    }

    type StreamDirectivesStream = Answers<pb::StreamDirectivesResponse>;

    async fn stream_directives(
        &self,
        request: Request<pb::StreamDirectivesRequest>,
    ) -> Result<Response<Self::StreamDirectivesStream>, Status> {
        self.state().admit(request.into_inner().caller)?;
        let directives = tokio_stream::wrappers::BroadcastStream::new(self.directives.subscribe());
        let answers = directives.filter_map(Result::ok);
        let answers = answers.map(|directive| Ok(pb::StreamDirectivesResponse { directive: Some(directive) }));
        Ok(Response::new(Box::pin(answers)))
    }

    async fn commit_checkpoint(
        &self,
        request: Request<pb::CommitCheckpointRequest>,
    ) -> Result<Response<pb::CommitCheckpointResponse>, Status> {
        let mut request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller.take())?;
        if state.unreachable_commits {
            return Err(Status::unavailable("cut off"));
        }
        let known = state.commits().into_iter().find(|commit| commit.seq == request.seq);
        let newest = state.commits().last().map_or(0, |commit| commit.seq);
        match known {
            Some(known) if known.manifest_sha256 == request.manifest_sha256 => {}
            None if request.seq > newest => state.heard.push(Heard::Commit(request)),
            _ => {
                let (code, message) = ("CHECKPOINT_CONFLICT".into(), "taken".into());
                let refusal = Some(pb::Reason { code, message });
                return Ok(Response::new(pb::CommitCheckpointResponse { accepted: false, refusal }));
            }
        }
        if state.lose_commit_replies > 0 {
            state.lose_commit_replies -= 1;
            return Err(Status::unavailable("the reply is lost"));
        }
        Ok(Response::new(pb::CommitCheckpointResponse { accepted: true, refusal: None }))
    }

    async fn report_phase(
        &self,
        request: Request<pb::ReportPhaseRequest>,
    ) -> Result<Response<pb::ReportPhaseResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller.clone())?;
        state.heard.push(Heard::Phase(request.phase(), request.restored_step));
        Ok(Response::new(pb::ReportPhaseResponse {}))
    }

    async fn report_damaged(
        &self,
        request: Request<pb::ReportDamagedRequest>,
    ) -> Result<Response<pb::ReportDamagedResponse>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller)?;
        state.heard.push(Heard::Damage(request.checkpoint.unwrap().try_into().unwrap()));
        if state.no_checkpoint_left {
            return Err(with_reason(Code::FailedPrecondition, "NO_VALID_CHECKPOINT", "none left", []));
        }
        let next = if state.instead.is_empty() { None } else { Some(state.instead.remove(0)) };
        Ok(Response::new(pb::ReportDamagedResponse { next, restart_without: true }))
    }

    async fn report_notice(
        &self,
        request: Request<pb::ReportNoticeRequest>,
    ) -> Result<Response<pb::ReportNoticeResponse>, Status> {
        let mut request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller.take())?;
        state.heard.push(Heard::Notice(request));
        Ok(Response::new(pb::ReportNoticeResponse {}))
    }

    async fn report_exit(
        &self,
        request: Request<pb::ReportExitRequest>,
    ) -> Result<Response<pb::ReportExitResponse>, Status> {
        let mut request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller.take())?;
        state.heard.push(Heard::Exit(request));
        Ok(Response::new(pb::ReportExitResponse {}))
    }

    async fn push_logs(
        &self,
        request: Request<Streaming<pb::PushLogsRequest>>,
    ) -> Result<Response<pb::PushLogsResponse>, Status> {
        let mut pieces = request.into_inner();
        let mut first = true;
        while let Some(piece) = pieces.message().await? {
            let mut state = self.state();
            if std::mem::take(&mut first) {
                state.admit(piece.caller)?;
            }
            let end = state.log.len() as u64;
            if piece.offset > end {
                return Err(Status::out_of_range("a gap"));
            }
            let skip = usize::try_from(end - piece.offset).unwrap().min(piece.data.len());
            state.log.extend_from_slice(&piece.data[skip..]);
        }
        Ok(Response::new(pb::PushLogsResponse { durable_offset: self.state().log.len() as u64 }))
    }

    async fn get_log_offset(
        &self,
        request: Request<pb::GetLogOffsetRequest>,
    ) -> Result<Response<pb::GetLogOffsetResponse>, Status> {
        let mut state = self.state();
        state.admit(request.into_inner().caller)?;
        Ok(Response::new(pb::GetLogOffsetResponse { durable_offset: state.log.len() as u64 }))
    }

    type FetchUploadStream = Answers<pb::FetchUploadResponse>;

    async fn fetch_upload(
        &self,
        request: Request<pb::FetchUploadRequest>,
    ) -> Result<Response<Self::FetchUploadStream>, Status> {
        let request = request.into_inner();
        let mut state = self.state();
        state.admit(request.caller)?;
        let data = state.uploads.get(&request.sha256[..]).cloned().ok_or_else(|| Status::not_found("upload"))?;
        let pieces: Vec<_> =
            data.chunks(700).map(|data| Ok(pb::FetchUploadResponse { data: data.to_vec().into() })).collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(pieces))))
    }
}

/// See the module. Its runtime is its own, so that cutting it off takes every connection with it.
#[derive(Debug)]
pub struct Server {
    service: Service,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Server {
    pub fn start(assignment: pb::Assignment) -> Self {
        let state = Arc::new(Mutex::new(State { assignment, ..State::default() }));
        let service = Service { state, directives: broadcast::channel(16).0 };
        let mut server = Self { service, address: "127.0.0.1:0".parse().unwrap(), runtime: None };
        server.restart();
        server
    }

    /// Listens again at the address it had.
    pub fn restart(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // The runtime of before closes its socket in the background.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let listener = loop {
            match std::net::TcpListener::bind(self.address) {
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    assert!(std::time::Instant::now() < end, "{error}");
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                listener => break listener.unwrap(),
            }
        };
        listener.set_nonblocking(true).unwrap();
        self.address = listener.local_addr().unwrap();
        let service = AgentServiceServer::new(self.service.clone());
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
            tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming).await.unwrap();
        });
        self.runtime = Some(runtime);
    }

    /// Every connection breaks and nobody listens any more.
    pub fn cut_off(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.service.state()
    }

    /// To every agent that listens now.
    pub fn order(&self, directive: pb::directive::Directive) {
        let directive = pb::Directive { directive: Some(directive) };
        let listening = self.service.directives.send(directive);
        assert!(listening.is_ok(), "nobody listens");
    }

    pub fn notice(&self, time_left_ms: u64, save: bool) {
        let kind = pb::NoticeKind::Interruption.into();
        self.order(pb::directive::Directive::Notice(pb::NoticeDirective { kind, time_left_ms, save }));
    }

    pub async fn listened_to(&self) {
        eventually("an agent listens", || self.service.directives.receiver_count() > 0).await;
    }

    pub async fn exit(&self) -> pb::ReportExitRequest {
        eventually("the exit is reported", || self.state().exit().is_some()).await;
        self.state().exit().unwrap()
    }

    pub async fn commit(&self, count: usize) -> Vec<pb::CommitCheckpointRequest> {
        eventually("a checkpoint is committed", || self.state().commits().len() >= count).await;
        self.state().commits()
    }

    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.state().log).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.cut_off();
    }
}
