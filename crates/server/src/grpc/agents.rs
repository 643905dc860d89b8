//! AgentService. Every call is checked against its token before anything else: an agent speaks for its own run and rank
//! and for nothing else (Z-03).

use leeway_core::event::{Phase as CorePhase, Shard};
use leeway_core::reply::Assignment;
use leeway_core::{Event, Refused, RefusedKind, Reply};
use leeway_model::job::{JobSpec, Upload};
use leeway_model::{Name, RunId};
use leeway_proto::agent::{self, Caller, Commit, Damage, Exit, ExitReport, NoticeReport, Phase, PhaseReport, Renewal};
use leeway_proto::pb::agent_service_server::AgentService;
use leeway_proto::status::{reason, with_reason};
use leeway_proto::{check, pb};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::{Shared, blocking, directives, disk, refused, unexpected};
use crate::driver_loop::View;
use crate::logs::AppendError;
use crate::secrets::Purpose;

/// Renewals in one lease, so that two may be lost.
const RENEWALS_PER_LEASE: u64 = 4;

#[derive(Clone, Debug)]
pub struct Agents(pub Shared);

impl Agents {
    /// Refuses whoever does not hold the token that this run and rank was launched with.
    fn authenticate(&self, caller: &Caller) -> Result<(), Status> {
        if self.0.keys.is_agent_token(caller.run, caller.rank, &caller.token) {
            return Ok(());
        }
        let message = format!("this token is not that of rank {} of {}", caller.rank, caller.run);
        Err(with_reason(Code::PermissionDenied, reason::WRONG_AGENT, message, []))
    }

    async fn ask(&self, run: RunId, event: Event) -> Result<Reply, Status> {
        match self.0.handle.ask(event).await? {
            Reply::Refused(refusal) => Err(self.refuse(run, &refusal)),
            reply => Ok(reply),
        }
    }

    /// A run that is forgotten is over like any other.
    fn refuse(&self, run: RunId, refusal: &Refused) -> Status {
        match refusal.kind {
            RefusedKind::NotFound => refused(&Refused::stale(run)),
            _ => refused(refusal),
        }
    }

    fn lease_ttl_ms(&self) -> u64 {
        self.0.clock.to_agent(self.0.config.lease.ttl)
    }

    async fn assignment(&self, assignment: Assignment) -> Result<pb::Assignment, Status> {
        let Assignment { installation, run, rank, spec, start_reason, restore, checkpoints, next_seq, interval } =
            assignment;
        let look = move |view: &mut View<'_>| {
            let job = view.scheduler.job(run.job);
            let reported = view.scheduler.runs_of(run.job).map(|run| run.progress.step).max().unwrap_or(0);
            let furthest = job.map_or(0, |job| view.scheduler.progress(job).step.max(job.progress.step)).max(reported);
            let row = view.scheduler.run(run);
            let cluster = row.and_then(|row| view.scheduler.tables().clusters.get(&row.offer.cluster));
            let place = cluster.map(|cluster| (cluster.spec.driver.clone(), cluster.spec.name.clone()));
            (furthest, row.map_or(1, |row| row.nodes), place)
        };
        let (furthest_step, nodes, place) = self.0.handle.read(look).await?;
        let mut secrets = std::collections::BTreeMap::new();
        for (name, sealed) in &spec.program.secrets {
            let plain = self.0.keys.open_sealed(Purpose::JobSecret, sealed).map_err(|error| {
                tracing::error!(%run, secret = %name, %error, "a secret cannot be opened");
                Status::internal(format!("secret '{name}' cannot be opened: {error}"))
            })?;
            secrets.insert(name.clone(), pb::SecretValue { value: plain.into() });
        }
        let logs = self.0.logs.clone();
        let log_offset = blocking(move || logs.end(run, rank)).await?.map_err(|error| disk(&error))?;
        let program = &spec.program;
        let policy = spec.checkpoint.as_ref();
        let clock = &self.0.clock;
        let ttl = self.lease_ttl_ms();
        Ok(pb::Assignment {
            job_name: spec.name.to_string(),
            setup: program.setup.as_deref().map(str::to_owned),
            run: program.run.to_string(),
            env: program.env.clone(),
            secrets,
            workdir: program.workdir.as_ref().map(Into::into),
            mounts: program
                .mounts
                .iter()
                .map(|(path, upload)| pb::Mount { path: path.clone(), upload: Some(upload.into()) })
                .collect(),
            rank,
            world_size: nodes,
            node_addresses: self.addresses(run, nodes, place).await?,
            restore: restore.as_ref().map(Into::into),
            checkpoint_base_url: policy.map(|_| checkpoints.to_string()),
            installation: installation.to_string(),
            next_seq,
            interval_ms: interval.map(|interval| clock.to_agent(interval)),
            lease_ttl_ms: ttl,
            renew_every_ms: (ttl / RENEWALS_PER_LEASE).max(1),
            kill_grace_ms: clock.to_agent(self.0.config.lease.kill_grace),
            start_reason: pb::StartReason::from(start_reason).into(),
            checkpoint_path: policy.and_then(|policy| policy.path.as_deref()).map(str::to_owned),
            log_offset,
            restart_without: policy.is_some_and(|policy| policy.restart_without),
            furthest_step,
        })
    }

    /// Where the machines of a run reach each other; the agent asks again while a new one is not listed yet.
    async fn addresses(&self, run: RunId, nodes: u32, place: Option<(Name, Name)>) -> Result<Vec<String>, Status> {
        let Some((driver, cluster)) = place else { return Ok(Vec::new()) };
        let Some(driver) = self.0.drivers.get(&driver) else { return Ok(Vec::new()) };
        match driver.addresses(&cluster, run, nodes).await {
            Ok(addresses) => Ok(addresses),
            // A machine alone has nobody to find.
            Err(_) if nodes == 1 => Ok(Vec::new()),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }

    /// The spec of a caller's job.
    async fn spec(&self, run: RunId) -> Result<std::sync::Arc<JobSpec>, Status> {
        let look = move |view: &mut View<'_>| view.scheduler.job(run.job).map(|job| job.spec.clone());
        self.0.handle.read(look).await?.ok_or_else(|| refused(&Refused::stale(run)))
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    async fn register(&self, request: Request<pb::RegisterRequest>) -> Result<Response<pb::RegisterResponse>, Status> {
        let (caller, identity) = request.into_inner().into_model()?;
        self.authenticate(&caller)?;
        // The boot belongs to it: after a reboot nothing of the old agent is left (N-07).
        let name = format!("{}@{}", identity.agent_id, identity.boot_id);
        let event = Event::AgentRegistered { run: caller.run, rank: caller.rank, identity: name.into() };
        match self.ask(caller.run, event).await? {
            Reply::Assigned(assignment) => {
                tracing::info!(run = %caller.run, rank = caller.rank, version = %identity.version, "agent registered");
                let assignment = Box::pin(self.assignment(*assignment)).await?;
                Ok(Response::new(pb::RegisterResponse { assignment: Some(assignment) }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn renew_lease(
        &self,
        request: Request<pb::RenewLeaseRequest>,
    ) -> Result<Response<pb::RenewLeaseResponse>, Status> {
        let Renewal { caller, progress, notice_unavailable, store_full, .. } = Renewal::try_from(request.into_inner())?;
        self.authenticate(&caller)?;
        self.0.metrics.renewals.inc();
        if notice_unavailable {
            self.0.metrics.unwarned_agents.inc();
        }
        let run = caller.run;
        if notice_unavailable {
            self.ask(run, Event::NoticesUnheard { run, rank: caller.rank }).await?;
        }
        if store_full {
            self.ask(run, Event::StoreFull { run, rank: caller.rank }).await?;
        }
        let event = Event::LeaseRenewed { run, rank: caller.rank, progress: progress.unwrap_or_default() };
        match self.ask(run, event).await? {
            Reply::Renewed { directive } => {
                let look = move |view: &mut View<'_>| view.scheduler.run(run).cloned();
                // Only an order that ends something needs more than the directive itself.
                let row = match &directive {
                    leeway_core::Directive::Run { .. } => None,
                    _ => self.0.handle.read(look).await?,
                };
                let (clock, lease) = (&self.0.clock, self.0.config.lease);
                let directive = directives::order(&directive, row.as_ref(), clock, lease, clock.now());
                Ok(Response::new(pb::RenewLeaseResponse { lease_ttl_ms: self.lease_ttl_ms(), directive }))
            }
            other => Err(unexpected(&other)),
        }
    }

    type StreamDirectivesStream = ReceiverStream<Result<pb::StreamDirectivesResponse, Status>>;

    async fn stream_directives(
        &self,
        request: Request<pb::StreamDirectivesRequest>,
    ) -> Result<Response<Self::StreamDirectivesStream>, Status> {
        let caller = agent::caller(request.into_inner().caller)?;
        self.authenticate(&caller)?;
        Ok(Response::new(directives::stream(self.0.clone(), caller.run).await?))
    }

    async fn commit_checkpoint(
        &self,
        request: Request<pb::CommitCheckpointRequest>,
    ) -> Result<Response<pb::CommitCheckpointResponse>, Status> {
        let commit = Commit::try_from(request.into_inner())?;
        self.authenticate(&commit.caller)?;
        let Caller { run, rank, .. } = commit.caller;
        let save_time = commit.save_time.map(|length| self.0.clock.from_agent(length)).unwrap_or_default();
        let Commit { seq, step, manifest, size, .. } = commit;
        let shard = Shard { seq, step, manifest, size, save_time };
        match self.0.handle.ask(Event::CheckpointPublished { run, rank, shard }).await? {
            Reply::Committed(verdict) => {
                tracing::info!(%run, rank, seq, step, whole = verdict.committed, "checkpoint published");
                Ok(Response::new(pb::CommitCheckpointResponse { accepted: true, refusal: None }))
            }
            Reply::Refused(refusal)
                if refusal.code != reason::STALE_EPOCH
                    && matches!(refusal.kind, RefusedKind::Precondition | RefusedKind::AlreadyExists) =>
            {
                let refusal = pb::Reason { code: refusal.code.to_owned(), message: refusal.message };
                Ok(Response::new(pb::CommitCheckpointResponse { accepted: false, refusal: Some(refusal) }))
            }
            Reply::Refused(refusal) => Err(self.refuse(run, &refusal)),
            other => Err(unexpected(&other)),
        }
    }

    async fn report_phase(
        &self,
        request: Request<pb::ReportPhaseRequest>,
    ) -> Result<Response<pb::ReportPhaseResponse>, Status> {
        let PhaseReport { caller, phase, restored } = PhaseReport::try_from(request.into_inner())?;
        self.authenticate(&caller)?;
        let phase = match phase {
            Phase::Setup => CorePhase::Setup,
            Phase::Restoring => CorePhase::Restoring,
            Phase::Running => CorePhase::Running { restored: restored.map(|(id, _)| id) },
            // The end of a program is told by its exit.
            Phase::Stopping | Phase::Finishing => return Ok(Response::new(pb::ReportPhaseResponse {})),
        };
        match self.ask(caller.run, Event::PhaseReported { run: caller.run, rank: caller.rank, phase }).await? {
            Reply::Done => Ok(Response::new(pb::ReportPhaseResponse {})),
            other => Err(unexpected(&other)),
        }
    }

    async fn report_damaged(
        &self,
        request: Request<pb::ReportDamagedRequest>,
    ) -> Result<Response<pb::ReportDamagedResponse>, Status> {
        let Damage { caller, checkpoint, detail } = Damage::try_from(request.into_inner())?;
        self.authenticate(&caller)?;
        let Caller { run, rank, .. } = caller;
        tracing::warn!(%run, rank, epoch = checkpoint.epoch, seq = checkpoint.seq, %detail, "checkpoint is damaged");
        match self.ask(run, Event::DamageReported { run, rank, checkpoint, detail }).await? {
            Reply::TryInstead(next) => {
                let spec = self.spec(run).await?;
                let restart_without = spec.checkpoint.as_ref().is_some_and(|policy| policy.restart_without);
                let next = next.as_ref().map(Into::into);
                Ok(Response::new(pb::ReportDamagedResponse { next, restart_without }))
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn report_notice(
        &self,
        request: Request<pb::ReportNoticeRequest>,
    ) -> Result<Response<pb::ReportNoticeResponse>, Status> {
        let NoticeReport { caller, left, source } = NoticeReport::try_from(request.into_inner())?;
        self.authenticate(&caller)?;
        let clock = &self.0.clock;
        let deadline = clock.now().after(clock.from_agent(left));
        tracing::warn!(run = %caller.run, rank = caller.rank, %source, %deadline, "the provider will take the machine");
        match self.ask(caller.run, Event::InterruptionNoticed { run: caller.run, deadline, source }).await? {
            Reply::Done => Ok(Response::new(pb::ReportNoticeResponse {})),
            other => Err(unexpected(&other)),
        }
    }

    async fn report_exit(
        &self,
        request: Request<pb::ReportExitRequest>,
    ) -> Result<Response<pb::ReportExitResponse>, Status> {
        let ExitReport { caller, exit, .. } = ExitReport::try_from(request.into_inner())?;
        self.authenticate(&caller)?;
        let Caller { run, rank, .. } = caller;
        if let Exit::Agent(detail) = &exit {
            tracing::warn!(%run, rank, %detail, "the program could not be started");
        }
        match self.ask(run, Event::ExitReported { run, rank, exit_code: exit.code() }).await? {
            Reply::Done => Ok(Response::new(pb::ReportExitResponse {})),
            other => Err(unexpected(&other)),
        }
    }

    async fn push_logs(
        &self,
        request: Request<Streaming<pb::PushLogsRequest>>,
    ) -> Result<Response<pb::PushLogsResponse>, Status> {
        let mut pieces = request.into_inner();
        let first = pieces.message().await?;
        let first =
            first.ok_or_else(|| Status::invalid_argument("the stream is empty; its first message names its caller"))?;
        let caller = agent::caller(first.caller.clone())?;
        self.authenticate(&caller)?;
        // A run that the scheduler never knew has no output; one that is over may still send what it had.
        let run = caller.run;
        let known = self.0.handle.read(move |view| view.scheduler.run(run).map(|run| run.nodes)).await?;
        if known.is_none_or(|nodes| caller.rank >= nodes) {
            return Err(refused(&Refused::stale(run)));
        }
        let logs = self.0.logs.clone();
        let mut writer = blocking(move || logs.writer(run, caller.rank)).await?.map_err(|error| disk(&error))?;
        let mut next = Some(first);
        while let Some(piece) = next {
            agent::chunk(&piece.data)?;
            let appended = blocking(move || writer.append(piece.offset, &piece.data).map(|()| writer)).await?;
            writer = appended.map_err(|error| match error {
                AppendError::Gap { end, .. } => {
                    with_reason(Code::OutOfRange, "LOG_GAP", error.to_string(), [("durable_offset", end.to_string())])
                }
                AppendError::Io(error) => disk(&error),
            })?;
            next = tokio::select! {
                piece = pieces.message() => piece?,
                () = self.0.stopping.cancelled() => None,
            };
        }
        let end = blocking(move || writer.sync().map(|()| writer.end())).await?.map_err(|error| disk(&error))?;
        Ok(Response::new(pb::PushLogsResponse { durable_offset: end }))
    }

    async fn get_log_offset(
        &self,
        request: Request<pb::GetLogOffsetRequest>,
    ) -> Result<Response<pb::GetLogOffsetResponse>, Status> {
        let caller = agent::caller(request.into_inner().caller)?;
        self.authenticate(&caller)?;
        let logs = self.0.logs.clone();
        let end = blocking(move || logs.end(caller.run, caller.rank)).await?.map_err(|error| disk(&error))?;
        Ok(Response::new(pb::GetLogOffsetResponse { durable_offset: end }))
    }

    type FetchUploadStream = ReceiverStream<Result<pb::FetchUploadResponse, Status>>;

    async fn fetch_upload(
        &self,
        request: Request<pb::FetchUploadRequest>,
    ) -> Result<Response<Self::FetchUploadStream>, Status> {
        let request = request.into_inner();
        let sha256 = check::digest("sha256", &request.sha256)?;
        let caller = agent::caller(request.caller)?;
        self.authenticate(&caller)?;
        let spec = self.spec(caller.run).await?;
        let mut named = spec.program.workdir.iter().chain(spec.program.mounts.values());
        if !named.any(|upload: &Upload| upload.sha256 == sha256) {
            let message = format!("job {} names no such upload", caller.run.job);
            return Err(with_reason(Code::PermissionDenied, "NOT_ASSIGNED", message, []));
        }
        let (sender, receiver) = mpsc::channel(4);
        let shared = self.0.clone();
        tokio::spawn(async move {
            let mut offset = 0_u64;
            loop {
                let uploads = shared.uploads.clone();
                let piece = match blocking(move || uploads.read(&sha256, offset)).await {
                    Ok(Ok(piece)) => Ok(piece),
                    Ok(Err(error)) => Err(disk(&error)),
                    Err(status) => Err(status),
                };
                let over = match &piece {
                    Ok(piece) if piece.is_empty() => return,
                    Ok(piece) => {
                        offset += piece.len() as u64;
                        false
                    }
                    Err(_) => true,
                };
                let message = piece.map(|data| pb::FetchUploadResponse { data: data.into() });
                if sender.send(message).await.is_err() || over {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
