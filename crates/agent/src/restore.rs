//! Bringing the newest valid checkpoint back before the program starts.

use leeway_data::RestoreError;
use leeway_model::checkpoint::CheckpointRef;
use leeway_proto::pb;

use crate::agent::Agent;
use crate::environment::Restored;
use crate::link::{Backoff, CallError, Client};
use crate::stage::{Other, StageError};

/// Restores what the assignment names. A damaged checkpoint is reported, and the one that the server names instead is
/// tried; a store that does not answer is asked again for as long as the lease lasts. `None` is a fresh start.
pub async fn restore(agent: &Agent) -> Result<Option<Restored>, StageError> {
    let mut next = agent.assignment.restore.clone();
    while let Some(wire) = next {
        let reference = CheckpointRef::try_from(wire).map_err(Other)?;
        match try_restore(agent, &reference).await? {
            Ok(restored) => return Ok(Some(restored)),
            Err(damage) => {
                let damage = anyhow::Error::from(damage);
                agent
                    .log
                    .say(&format!("checkpoint {}-{} is damaged: {damage:#}", reference.id.epoch, reference.id.seq));
                next = report(agent, &reference, format!("{damage:#}")).await?;
            }
        }
    }
    Ok(None)
}

/// `Ok(Err(_))` is proof against the checkpoint.
async fn try_restore(agent: &Agent, reference: &CheckpointRef) -> Result<Result<Restored, RestoreError>, StageError> {
    let id = reference.id;
    let dir = agent.path("restore").join(format!("{}-{}", id.epoch, id.seq));
    let mut backoff = Backoff::default();
    loop {
        let tried = match agent.stores.open(&reference.base) {
            Ok(store) => {
                let job = agent.job();
                let restoring = store.restore(&job, reference, agent.rank(), &dir);
                tokio::select! {
                    biased;
                    over = agent.lease.over() => return Err(over.into()),
                    restored = restoring => restored,
                }
            }
            Err(error) => return Err(Other(error).into()),
        };
        match tried {
            Ok(done) => return Ok(Ok(Restored { id: id.into(), dir, step: done.step })),
            Err(error) if error.condemns() => return Ok(Err(error)),
            Err(error) if error.retryable() => {
                tracing::warn!(%error, "the checkpoint store does not answer; trying again");
                agent.link.sleep(backoff.next()).await?;
            }
            Err(error) => return Err(Other(error).into()),
        }
    }
}

/// Reports damage and learns what to try instead; `None` is a fresh start.
async fn report(
    agent: &Agent,
    reference: &CheckpointRef,
    detail: String,
) -> Result<Option<pb::CheckpointRef>, StageError> {
    let detail: String = detail.chars().filter(|c| !c.is_control()).take(1_000).collect();
    let request =
        pb::ReportDamagedRequest { caller: agent.link.caller(), checkpoint: Some(reference.id.into()), detail };
    let call = |mut client: Client| {
        let request = request.clone();
        async move { client.report_damaged(request).await }
    };
    let answer = match agent.link.insist(call, |_| ()).await {
        Ok(answer) => answer,
        Err(CallError::Over(over)) => return Err(over.into()),
        Err(error) => return Err(Other(error).into()),
    };
    if answer.next.is_none() && !(answer.restart_without || agent.assignment.restart_without) {
        let error = anyhow::anyhow!("NO_VALID_CHECKPOINT: no committed checkpoint is left that could be verified");
        return Err(Other(error).into());
    }
    Ok(answer.next)
}
