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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leeway_model::job::{JobState, Progress, Sealed, StartReason};
    use leeway_model::run::LaunchErrorClass;
    use leeway_model::{Bill, JobId, Micros, Term};

    use super::*;
    use crate::testing::minimal_job_spec;

    #[test]
    fn a_job_shows_the_names_of_its_secrets_and_never_their_values() {
        let mut spec = minimal_job_spec();
        spec.program.secrets.insert("TOKEN".into(), Sealed(b"sealed-bytes".as_slice().into()));
        let mut posted = Bill::default();
        posted.set(Term::Compute, Micros::new(5));
        let job = Job {
            id: JobId(42),
            spec: Arc::new(spec),
            state: JobState::Running,
            submitted: Timestamp::from_millis(1),
            since: Timestamp::from_millis(2),
            ended: None,
            epoch: 3,
            checkpoint: None,
            progress: Progress { step: 8, total: None },
            posted,
            retries: RetriesUsed::default(),
            not_before: Timestamp::ZERO,
            reason: None,
            start_reason: StartReason::Interrupted,
            version: 9,
            saves_without_progress: 0,
            save_time: None,
        };
        let wire = pb::Job::from_model(&job, Currency::USD);
        assert_eq!((wire.job_id.as_str(), wire.newest_run_id.as_deref()), ("j-42", Some("j-42-r3")));
        assert_eq!((wire.state(), wire.start_reason()), (pb::JobState::Running, pb::StartReason::Interrupted));
        assert_eq!(wire.posted.as_ref().unwrap().total_micros, 5);
        assert_eq!(wire.progress.unwrap().total_steps, None);
        assert_eq!(wire.spec.as_ref().unwrap().program.as_ref().unwrap().secret_names, ["TOKEN"]);
        let bytes = prost::Message::encode_to_vec(&wire);
        assert!(!bytes.windows(6).any(|window| window == b"sealed"));
    }

    #[test]
    fn the_end_of_a_run_says_what_belongs_to_it() {
        let end = |reason: EndReason| {
            let wire = pb::RunEnd::from(&reason);
            (wire.reason, wire.exit_code, wire.launch_error)
        };
        assert_eq!(end(EndReason::Interrupted), ("interrupted".into(), None, None));
        assert_eq!(end(EndReason::Failed { exit_code: 3 }), ("failed".into(), Some(3), None));
        let class = LaunchErrorClass::Quota;
        assert_eq!(end(EndReason::LaunchFailed { class }), ("launch-failed".into(), None, Some("quota".into())));
    }
}
