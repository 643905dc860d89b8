//! Talking to the server: one try, or until it answers. Nothing is sent once the lease is over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use leeway_drivers::Token;
use leeway_drivers::run_dir::{Assignment, RankDir};
use leeway_proto::pb;
use leeway_proto::pb::agent_service_client::AgentServiceClient;
use leeway_proto::status::{reason, reason_of};
use rand::RngExt as _;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

use crate::lease::{Lease, Over};

pub type Client = AgentServiceClient<Channel>;

/// How long a call may take unless it says otherwise.
pub const CALL: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Over(#[from] Over),
    /// The same call may succeed later.
    #[error("the server cannot be reached: {0}")]
    Unavailable(Status),
    /// The same call will not succeed.
    #[error("the server refuses: {0}")]
    Refused(Status),
}

impl CallError {
    fn of(status: Status) -> Self {
        match status.code() {
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::AlreadyExists
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused(status),
            _ => Self::Unavailable(status),
        }
    }
}

/// The connection of one agent.
pub struct Link {
    dir: RankDir,
    run_id: String,
    rank: u32,
    token: Token,
    sequence: AtomicU64,
    lease: Arc<Lease>,
    channel: Mutex<(String, Channel)>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("run", &self.run_id).field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl Link {
    pub fn new(dir: RankDir, assigned: &Assignment, token: Token, lease: Arc<Lease>) -> anyhow::Result<Self> {
        let channel = Mutex::new((assigned.server.clone(), channel(&assigned.server)?));
        let (run_id, rank) = (assigned.run.to_string(), assigned.rank);
        Ok(Self { dir, run_id, rank, token, sequence: AtomicU64::new(0), lease, channel })
    }

    /// Names the caller of a new message. A repeated message keeps the caller that it had.
    pub fn caller(&self) -> Option<pb::AgentCaller> {
        Some(pb::AgentCaller {
            run_id: self.run_id.clone(),
            rank: self.rank,
            token: bytes::Bytes::copy_from_slice(self.token.as_bytes()),
            sequence: self.sequence.fetch_add(1, Ordering::Relaxed) + 1,
        })
    }

    /// One try.
    pub async fn once<T, F>(&self, within: Duration, call: impl FnOnce(Client) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.lease.check()?;
        let client = AgentServiceClient::new(self.current());
        let answer = tokio::select! {
            over = self.lease.over() => return Err(over.into()),
            answer = tokio::time::timeout(within, call(client)) => {
                answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time")))
            }
        };
        match answer {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.judge(status)),
        }
    }

    /// Tries until the server answers, or the lease is over. `unreached` is told of each try that failed.
    pub async fn insist<T, F>(
        &self,
        call: impl Fn(Client) -> F,
        mut unreached: impl FnMut(&Status),
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut backoff = self.backoff();
        loop {
            match self.once(CALL, &call).await {
                Err(CallError::Unavailable(status)) => {
                    tracing::debug!(%status, "no answer; trying again");
                    unreached(&status);
                    self.look_for_another_address();
                    self.sleep(backoff.next()).await?;
                }
                outcome => return outcome,
            }
        }
    }

    /// Sleeps unless the lease ends first.
    pub async fn sleep(&self, length: Duration) -> Result<(), Over> {
        tokio::select! {
            over = self.lease.over() => Err(over),
            () = tokio::time::sleep(length) => Ok(()),
        }
    }

    /// What a status means; one that ends the run ends the lease with it.
    pub fn judge(&self, status: Status) -> CallError {
        let stale = reason_of(&status).as_deref() == Some(reason::STALE_EPOCH);
        if stale || matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated) {
            tracing::warn!(%status, "the server refuses this agent");
            self.lease.refuse();
            return Over::Refused.into();
        }
        CallError::of(status)
    }

    pub fn backoff(&self) -> Backoff {
        Backoff::default()
    }

    fn current(&self) -> Channel {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// The driver rewrites the assignment when the server has moved.
    pub fn look_for_another_address(&self) {
        let Ok(Some(assigned)) = self.dir.assignment() else { return };
        let mut current = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != assigned.server {
            match channel(&assigned.server) {
                Ok(channel) => *current = (assigned.server, channel),
                Err(error) => tracing::warn!(%error, "the new address of the server cannot be used"),
            }
        }
    }
}

fn channel(server: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(server.to_owned()).with_context(|| format!("'{server}' is not a URL"))?;
    Ok(endpoint
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect_lazy())
}

/// Waits that double up to a few seconds, each drawn anew between half and whole, so that the agents of a server that
/// starts again do not come all at once.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: Duration::from_millis(100) }
    }
}

impl Backoff {
    const LONGEST: Duration = Duration::from_secs(5);

    pub fn next(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(Self::LONGEST);
        jittered(whole)
    }
}

/// Between half of a length and the whole.
pub fn jittered(whole: Duration) -> Duration {
    whole.mul_f64(rand::rng().random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_10_waits_grow_with_jitter_and_stay_bounded() {
        let mut backoff = Backoff::default();
        let waits: Vec<Duration> = (0..40).map(|_| backoff.next()).collect();
        assert!(waits[0] >= Duration::from_millis(50) && waits[0] <= Duration::from_millis(100));
        assert!(waits.iter().all(|wait| *wait <= Backoff::LONGEST));
        let late = &waits[10..];
        assert!(late.iter().all(|wait| *wait >= Backoff::LONGEST / 2));
        assert!(late.iter().any(|wait| wait != &late[0]), "without jitter all agents come at once");
    }

    #[test]
    fn an_answer_that_will_not_change_is_told_from_no_answer() {
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::ResourceExhausted, Code::Internal, Code::Aborted]
        {
            assert!(matches!(CallError::of(Status::new(code, "")), CallError::Unavailable(_)), "{code:?}");
        }
        for code in [Code::InvalidArgument, Code::FailedPrecondition, Code::NotFound, Code::Unimplemented] {
            assert!(matches!(CallError::of(Status::new(code, "")), CallError::Refused(_)), "{code:?}");
        }
    }
}
