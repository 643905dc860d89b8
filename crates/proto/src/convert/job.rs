//! Jobs and runs as they stand. They only go out.

use leeway_model::job::{Job, RetriesUsed};
use leeway_model::run::{EndReason, Notice, Run};
use leeway_model::{Currency, Millis, RunId, Timestamp};

use crate::pb;

impl pb::Job {
    pub fn from_model(job: &Job, ledger: Currency) -> Self {
        Self {
            job_id: job.id.to_string(),
            spec: Some(pb::JobSpec::from_model(&job.spec, ledger)),
            state: pb::JobState::from(job.state).into(),
            submitted_ms: job.submitted.as_millis(),
            since_ms: job.since.as_millis(),
            ended_ms: job.ended.map(Timestamp::as_millis),
            newest_run_id: job.newest_run().as_ref().map(RunId::to_string),
            checkpoint: job.checkpoint.as_ref().map(Into::into),
            progress: Some(job.progress.into()),
            posted: Some((&job.posted).into()),
            retries: Some(job.retries.into()),
            not_before_ms: job.not_before.as_millis(),
            reason: job.reason.as_ref().map(Into::into),
            start_reason: pb::StartReason::from(job.start_reason).into(),
            version: job.version,
            currency: ledger.to_string(),
        }
    }
}

impl From<RetriesUsed> for pb::RetriesUsed {
    fn from(value: RetriesUsed) -> Self {
        Self {
            user_failures: value.user_failures,
            infrastructure_failures: value.infrastructure_failures,
            interruptions: value.interruptions,
        }
    }
}

impl pb::Run {
    pub fn from_model(run: &Run, ledger: Currency) -> Self {
        let exit = |(rank, code): (u32, &Option<i32>)| code.map(|exit_code| pb::RankExit { rank, exit_code });
        Self {
            run_id: run.id.to_string(),
            offer: Some((&run.offer).into()),
            nodes: run.nodes,
            state: pb::RunState::from(run.state).into(),
            end: run.end.as_ref().map(Into::into),
            start_reason: pb::StartReason::from(run.start_reason).into(),
            placed_ms: run.placed.as_millis(),
            launched_ms: run.launched.map(Timestamp::as_millis),
            started_ms: run.started.map(Timestamp::as_millis),
            stopped_ms: run.stopped.map(Timestamp::as_millis),
            released_ms: run.released.map(Timestamp::as_millis),
            price: Some((&run.price).into()),
            posted: Some((&run.posted).into()),
            restored_from: run.restored_from.as_ref().map(Into::into),
            progress: Some(run.progress.into()),
            checkpoint_seq: run.checkpoint_seq,
            notice: run.notice.as_ref().map(Into::into),
            instances: run.instances.iter().map(ToString::to_string).collect(),
            steps_redone: run.steps_redone,
            interval_ms: run.interval.map(Millis::as_millis),
            exits: (0..).zip(&run.exits).filter_map(exit).collect(),
            currency: ledger.to_string(),
        }
    }
}

impl From<&EndReason> for pb::RunEnd {
    fn from(value: &EndReason) -> Self {
        let (exit_code, launch_error) = match value {
            EndReason::Failed { exit_code } => (Some(*exit_code), None),
            EndReason::LaunchFailed { class } => (None, Some(class.as_str().to_owned())),
            _ => (None, None),
        };
        Self { reason: value.as_str().to_owned(), exit_code, launch_error }
    }
}

impl From<&Notice> for pb::Notice {
    fn from(value: &Notice) -> Self {
        Self {
            received_ms: value.received.as_millis(),
            deadline_ms: value.deadline.as_millis(),
            source: value.source.to_string(),
            saved: value.saved,
        }
    }
}
