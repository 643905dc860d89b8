//! JobService.

use leeway_core::event::{RequestKey, Submission as CoreSubmission};
use leeway_core::explain::Explanation;
use leeway_core::round::select::Evaluation;
use leeway_core::{Event, Refused, Reply};
use leeway_model::budget::Refusal;
use leeway_model::job::{Job, JobSpec, Reason, Upload};
use leeway_model::{Currency, JobId, Micros, Name, Timestamp};
use leeway_proto::Message;
use leeway_proto::invalid::Within;
use leeway_proto::pb::job_service_server::JobService;
use leeway_proto::submit::Submission;
use leeway_proto::{Invalid, check, pb, query};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::pages::Question;
use super::{Shared, blocking, code, log_stream, not_found, refused, unexpected, watch_stream};
use crate::secrets::Purpose;

/// Rows that one look at the scheduler examines at most, so that a narrow filter does not hold it up.
const EXAMINE: usize = 20_000;
/// Rejections shown of one evaluation.
const REJECTIONS_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Jobs(pub Shared);

impl Jobs {
    /// Seals the secrets, and refuses uploads that are not held.
    async fn admit(&self, submission: Submission) -> Result<CoreSubmission, Invalid> {
        let Submission { mut spec, secrets, after } = submission;
        for (name, value) in secrets {
            let sealed = self.0.keys.seal(Purpose::JobSecret, &value.value);
            let sealed = sealed.map_err(|error| Invalid::new("secrets", error.to_string()))?;
            spec.program.secrets.insert(name, sealed);
        }
        self.check_uploads(&spec).await?;
        Ok(CoreSubmission { spec, after })
    }

    async fn check_uploads(&self, spec: &JobSpec) -> Result<(), Invalid> {
        let workdir = spec.program.workdir.iter().map(|upload| ("spec.program.workdir".to_owned(), upload.clone()));
        let mounts = spec.program.mounts.iter();
        let mounts = mounts.map(|(path, upload)| (format!("spec.program.mounts[{path:?}]"), upload.clone()));
        let wanted: Vec<(String, Upload)> = workdir.chain(mounts).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let uploads = self.0.uploads.clone();
        let find = move || {
            for (field, upload) in wanted {
                match uploads.find(&upload.sha256) {
                    Ok(Some(held)) if held == upload => {}
                    Ok(Some(held)) => {
                        let message =
                            format!("says {} bytes, but that upload has {}", upload.size.get(), held.size.get());
                        return Err(Invalid::new(field, message));
                    }
                    Ok(None) => return Err(Invalid::new(field, "is not held here; send it with PutUpload first")),
                    Err(error) => return Err(Invalid::new(field, format!("cannot be looked up now: {error}"))),
                }
            }
            Ok(())
        };
        blocking(find).await.map_err(|status| Invalid::new("spec.program", status.message()))?
    }

    async fn ask_job(&self, event: Event) -> Result<pb::Job, Status> {
        match self.0.handle.ask(event).await? {
            Reply::Job(job) => {
                let id = job.id;
                // As it is shown everywhere, with its newest progress.
                let shown = self.0.handle.read(move |view| view.job(id)).await?;
                Ok(pb::Job::from_model(&shown.unwrap_or(*job), self.0.ledger()))
            }
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }
}

/// Deadlines that count from a submission begin now.
fn settle<'a>(specs: impl IntoIterator<Item = &'a mut Option<pb::JobSpec>>, now: Timestamp) {
    specs.into_iter().flatten().for_each(|spec| spec.settle_deadline(now));
}

/// A client's request id within its owner: two owners may choose the same one.
fn key(owner: &Name, id: &str, body: [u8; 32]) -> RequestKey {
    RequestKey { id: format!("{owner}/{id}").into(), body }
}

fn submitted(submitted: &leeway_core::reply::Submitted) -> pb::Submitted {
    pb::Submitted {
        job_id: submitted.job.to_string(),
        replayed: submitted.replayed,
        state: pb::JobState::from(submitted.state).into(),
        reason: submitted.reason.as_ref().map(Into::into),
        warnings: submitted.warnings.iter().map(Into::into).collect(),
    }
}

fn item_error(refusal: &Refused) -> pb::ItemError {
    pb::ItemError {
        status: code(refusal.kind) as u32,
        reason: refusal.code.to_owned(),
        message: refusal.message.clone(),
        field: String::new(),
    }
}

fn result(result: Result<pb::Submitted, pb::ItemError>) -> pb::SubmissionResult {
    use pb::submission_result::Result as Wire;
    pb::SubmissionResult { result: Some(result.map_or_else(Wire::Error, Wire::Submitted)) }
}

/// What an evaluation looks like to people.
fn evaluation(
    evaluation: &Evaluation,
    at: Timestamp,
    policy: &Name,
    reason: Option<&Reason>,
    ledger: Currency,
) -> pb::Evaluation {
    pb::Evaluation {
        at_ms: at.as_millis(),
        policy: policy.to_string(),
        candidates: evaluation.candidates.iter().map(|place| pb::Candidate::from_model(place, ledger)).collect(),
        rejections: evaluation.rejections.iter().take(REJECTIONS_MAX).map(Into::into).collect(),
        rejected: evaluation.counts().iter().map(Into::into).collect(),
        reason: reason.or(evaluation.reason.as_ref()).map(Into::into),
        holds: evaluation.holds.iter().map(hold_check).collect(),
        why: evaluation.why.as_deref().map(str::to_owned),
    }
}

fn hold_check(hold: &Result<Micros, Refusal>) -> pb::HoldCheck {
    match hold {
        Ok(amount) => pb::HoldCheck { amount_micros: Some(amount.get()), refused: None },
        Err(refusal) => {
            let reason = Reason::new(refusal.code(), refusal.to_string());
            pb::HoldCheck { amount_micros: None, refused: Some((&reason).into()) }
        }
    }
}

#[tonic::async_trait]
impl JobService for Jobs {
    async fn submit_job(
        &self,
        request: Request<pb::SubmitJobRequest>,
    ) -> Result<Response<pb::SubmitJobResponse>, Status> {
        let mut request = request.into_inner();
        let body = self.0.keys.digest(&request.encode_to_vec());
        settle([&mut request.spec], self.0.clock.now());
        let submit = request.into_model(self.0.ledger())?;
        self.0.paces.admit([&submit.submission.spec.owner])?;
        let submission = self.admit(submit.submission).await?;
        let request = Some(key(&submission.spec.owner, &submit.client_request_id, body));
        match self.0.handle.ask(Event::JobsSubmitted { request, jobs: vec![submission] }).await? {
            Reply::Submitted(results) => match results.into_iter().next() {
                Some(Ok(job)) => Ok(Response::new(pb::SubmitJobResponse { submitted: Some(submitted(&job)) })),
                Some(Err(refusal)) => Err(refused(&refusal)),
                None => Err(Status::internal("the request id names a submission without jobs")),
            },
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }

    async fn submit_jobs(
        &self,
        request: Request<pb::SubmitJobsRequest>,
    ) -> Result<Response<pb::SubmitJobsResponse>, Status> {
        let mut request = request.into_inner();
        let body = self.0.keys.digest(&request.encode_to_vec());
        settle(request.submissions.iter_mut().map(|one| &mut one.spec), self.0.clock.now());
        let batch = request.into_model(self.0.ledger())?;
        let id = batch.client_request_id.clone();
        let mut results: Vec<Option<pb::SubmissionResult>> =
            batch.items.iter().map(|item| item.as_ref().err().map(|error| result(Err(error.into())))).collect();
        let (places, sound) = batch.sound();
        self.0.paces.admit(sound.iter().map(|submission| &submission.spec.owner))?;
        let mut jobs = Vec::with_capacity(sound.len());
        for (place, submission) in places.iter().zip(sound) {
            // A lone upload that is missing refuses the whole request, as nothing was created yet.
            jobs.push(self.admit(submission).await.at("submissions", *place)?);
        }
        let Some(owner) = jobs.first().map(|job| job.spec.owner.clone()) else {
            let results = results.into_iter().flatten().collect();
            return Ok(Response::new(pb::SubmitJobsResponse { results }));
        };
        let made = match self.0.handle.ask(Event::JobsSubmitted { request: Some(key(&owner, &id, body)), jobs }).await?
        {
            Reply::Submitted(made) => made,
            Reply::Refused(refusal) => return Err(refused(&refusal)),
            other => return Err(unexpected(&other)),
        };
        for (place, made) in places.into_iter().zip(made) {
            results[place] = Some(result(made.as_ref().map(submitted).map_err(item_error)));
        }
        Ok(Response::new(pb::SubmitJobsResponse { results: results.into_iter().flatten().collect() }))
    }

    async fn get_job(&self, request: Request<pb::GetJobRequest>) -> Result<Response<pb::GetJobResponse>, Status> {
        let id = check::job_id("job_id", &request.into_inner().job_id)?;
        let job = self.0.handle.read(move |view| view.job(id)).await?.ok_or_else(|| not_found("job", id))?;
        Ok(Response::new(pb::GetJobResponse { job: Some(pb::Job::from_model(&job, self.0.ledger())) }))
    }

    async fn list_jobs(&self, request: Request<pb::ListJobsRequest>) -> Result<Response<pb::ListJobsResponse>, Status> {
        let request = request.into_inner();
        let question = Question::new("jobs", &request.filter.clone().unwrap_or_default());
        let (page, filter) = request.into_model()?;
        let mut before = question.last_number(&self.0.keys, &page.token)?.unwrap_or(u64::MAX);
        let mut jobs: Vec<Job> = Vec::new();
        let mut version = None;
        loop {
            let (filter, wanted, from) = (filter.clone(), page.size - jobs.len(), before);
            let look = move |view: &mut crate::driver_loop::View<'_>| {
                let rows = view.scheduler.tables().jobs.range(..JobId(from)).rev().take(EXAMINE);
                let mut found = Vec::new();
                let mut last = None;
                for (id, job) in rows {
                    last = Some(id.0);
                    if filter.accepts(job) {
                        found.push(view.shown(job));
                        if found.len() == wanted {
                            break;
                        }
                    }
                }
                let more =
                    last.is_some_and(|last| view.scheduler.tables().jobs.range(..JobId(last)).next_back().is_some());
                (found, last.filter(|_| more), view.scheduler.tables().meta.job_changes)
            };
            let (found, rest, at) = self.0.handle.read(look).await?;
            version.get_or_insert(at);
            jobs.extend(found);
            match rest {
                None => {
                    before = 0;
                    break;
                }
                Some(last) => before = last,
            }
            if jobs.len() >= page.size {
                break;
            }
        }
        let next_page_token =
            if before == 0 { String::new() } else { question.token(&self.0.keys, &before.to_be_bytes()) };
        let ledger = self.0.ledger();
        Ok(Response::new(pb::ListJobsResponse {
            jobs: jobs.iter().map(|job| pb::Job::from_model(job, ledger)).collect(),
            next_page_token,
            version: version.unwrap_or_default(),
        }))
    }

    type WatchJobsStream = ReceiverStream<Result<pb::WatchJobsResponse, Status>>;

    async fn watch_jobs(
        &self,
        request: Request<pb::WatchJobsRequest>,
    ) -> Result<Response<Self::WatchJobsStream>, Status> {
        let (resume, filter) = request.into_inner().into_model()?;
        Ok(Response::new(watch_stream::watch(self.0.clone(), resume, filter).await?))
    }

    async fn cancel_job(
        &self,
        request: Request<pb::CancelJobRequest>,
    ) -> Result<Response<pb::CancelJobResponse>, Status> {
        let request = request.into_inner();
        let job = check::job_id("job_id", &request.job_id)?;
        let by = check::actor("actor", &request.actor)?;
        let job = self.ask_job(Event::JobCancelled { job, by }).await?;
        Ok(Response::new(pb::CancelJobResponse { job: Some(job) }))
    }

    async fn retry_job(&self, request: Request<pb::RetryJobRequest>) -> Result<Response<pb::RetryJobResponse>, Status> {
        let job = check::job_id("job_id", &request.into_inner().job_id)?;
        let retried = self.ask_job(Event::JobRetried { job }).await?;
        let warnings = self.0.handle.read(move |view| view.scheduler.warnings(job)).await?;
        let warnings = warnings.iter().map(Into::into).collect();
        Ok(Response::new(pb::RetryJobResponse { job: Some(retried), warnings }))
    }

    async fn explain_job(
        &self,
        request: Request<pb::ExplainJobRequest>,
    ) -> Result<Response<pb::ExplainJobResponse>, Status> {
        let id = check::job_id("job_id", &request.into_inner().job_id)?;
        let look = move |view: &mut crate::driver_loop::View<'_>| {
            view.scheduler.explain(id).map(|explanation| {
                let job = view.shown(&explanation.job);
                (Explanation { job, ..explanation }, view.now)
            })
        };
        let (explanation, now) = self.0.handle.read(look).await?.ok_or_else(|| not_found("job", id))?;
        let ledger = self.0.ledger();
        let decisions = explanation.runs.iter().filter_map(|(_, decision)| decision.as_ref());
        let reason = explanation.reason.as_ref();
        let newest = explanation.runs.last().filter(|(run, _)| !run.state.is_over());
        let cluster_says = newest.and_then(|(run, _)| self.0.said.of(&run.offer.cluster, run.id)).map(String::from);
        Ok(Response::new(pb::ExplainJobResponse {
            cluster_says,
            job: Some(pb::Job::from_model(&explanation.job, ledger)),
            decisions: decisions.map(|decision| pb::Decision::from_model(decision, ledger)).collect(),
            evaluation: explanation
                .evaluation
                .as_ref()
                .map(|found| evaluation(found, now, &explanation.policy, reason, ledger)),
            warnings: explanation.warnings.iter().map(Into::into).collect(),
        }))
    }

    async fn dry_run_job(
        &self,
        request: Request<pb::DryRunJobRequest>,
    ) -> Result<Response<pb::DryRunJobResponse>, Status> {
        let ledger = self.0.ledger();
        let mut request = request.into_inner();
        settle([&mut request.spec], self.0.clock.now());
        let spec = check::required("spec", request.spec)?.into_model(ledger).within("spec")?;
        let look = move |view: &mut crate::driver_loop::View<'_>| {
            let warnings = view.scheduler.warnings_for(&spec);
            (view.scheduler.policy_for(&spec), view.scheduler.dry_run(spec), warnings, view.now)
        };
        let (policy, found, warnings, now) = self.0.handle.read(look).await?;
        let found = found.map_err(|refusal| refused(&refusal))?;
        let nothing = Reason::new("NO_PLACE", "no offer can take this job now; the rejections say why");
        let reason = found.candidates.is_empty().then_some(&nothing);
        Ok(Response::new(pb::DryRunJobResponse {
            evaluation: Some(evaluation(&found, now, &policy, reason, ledger)),
            warnings: warnings.iter().map(Into::into).collect(),
        }))
    }

    type StreamLogsStream = ReceiverStream<Result<pb::StreamLogsResponse, Status>>;

    async fn stream_logs(
        &self,
        request: Request<pb::StreamLogsRequest>,
    ) -> Result<Response<Self::StreamLogsStream>, Status> {
        let query = query::LogQuery::try_from(request.into_inner())?;
        Ok(Response::new(log_stream::stream(self.0.clone(), query).await?))
    }

    async fn list_runs(&self, request: Request<pb::ListRunsRequest>) -> Result<Response<pb::ListRunsResponse>, Status> {
        let id = check::job_id("job_id", &request.into_inner().job_id)?;
        let look = move |view: &mut crate::driver_loop::View<'_>| {
            let job = view.scheduler.job(id)?;
            let mut runs: Vec<_> = view.scheduler.runs_of(id).cloned().collect();
            if let Some(newest) = runs.last_mut().filter(|run| run.stopped.is_none()) {
                newest.progress = view.scheduler.progress(job);
            }
            Some(runs)
        };
        let runs = self.0.handle.read(look).await?.ok_or_else(|| not_found("job", id))?;
        let ledger = self.0.ledger();
        Ok(Response::new(pb::ListRunsResponse {
            runs: runs.iter().map(|run| pb::Run::from_model(run, ledger)).collect(),
        }))
    }
}
