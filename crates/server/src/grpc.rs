//! The services over the wire: each call is converted once, asked of the scheduler, and converted back. Nothing here
//! decides anything.

use std::sync::Arc;

use leeway_core::{Config, Refused, RefusedKind};
use leeway_data::Stores;
use leeway_drivers::ClusterDriver;
use leeway_model::{Currency, InstallationId, Name};
use leeway_proto::status::{reason, with_reason};
use leeway_webhook::Deliverer;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

pub use paces::Paces;

use crate::clock::Clock;
use crate::driver_loop::{Failure, Handle};
use crate::executor::polls::Said;
use crate::logs::Logs;
use crate::metrics::Metrics;
use crate::secrets::Keys;
use crate::signals::Signals;
use crate::uploads::Uploads;

pub mod agents;
pub mod budgets;
mod calls;
pub mod clusters;
mod connections;
pub mod datasets;
mod directives;
mod health;
pub mod jobs;
mod log_stream;
pub mod market;
pub mod offers;
mod paces;
mod pages;
pub mod serve;
pub mod uploads;
mod watch_stream;
pub mod webhooks;

/// What all services share.
#[derive(Clone)]
pub struct Shared(Arc<Parts>);

/// See [`Shared`].
pub struct Parts {
    pub handle: Handle,
    pub clock: Clock,
    pub keys: Arc<Keys>,
    pub config: Config,
    pub logs: Logs,
    pub uploads: Uploads,
    pub paces: Paces,
    pub signals: Arc<Signals>,
    pub metrics: Arc<Metrics>,
    pub deliverer: Deliverer,
    /// By the name that clusters use.
    pub drivers: std::collections::BTreeMap<Name, Arc<dyn ClusterDriver>>,
    /// Fires when streams must end.
    pub stopping: CancellationToken,
    /// How checkpoint stores are reached, by the server and by agents.
    pub stores: Stores,
    /// Where agents reach the server.
    pub agents_url: String,
    /// What providers say of runs, for people.
    pub said: Said,
    /// The store was restored and nobody confirmed it: what it does not know is reported and not removed (S-14).
    pub report_only: bool,
}

impl Shared {
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for Shared {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shared").field(&self.0).finish()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("agents_url", &self.agents_url).finish_non_exhaustive()
    }
}

impl Parts {
    pub fn ledger(&self) -> Currency {
        self.config.currency
    }

    pub fn installation(&self) -> &InstallationId {
        &self.config.installation
    }
}

/// A refusal of the core as a status with its stable reason.
pub(crate) fn refused(refused: &Refused) -> Status {
    with_reason(code(refused.kind), refused.code, refused.message.clone(), [])
}

pub(crate) const fn code(kind: RefusedKind) -> Code {
    match kind {
        RefusedKind::Invalid => Code::InvalidArgument,
        RefusedKind::NotFound => Code::NotFound,
        RefusedKind::Precondition => Code::FailedPrecondition,
        RefusedKind::AlreadyExists => Code::AlreadyExists,
        RefusedKind::Denied => Code::PermissionDenied,
        RefusedKind::Exhausted => Code::ResourceExhausted,
    }
}

pub(crate) fn not_found(what: &str, id: impl std::fmt::Display) -> Status {
    refused(&Refused::not_found(what, id))
}

/// No answer came.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Overloaded => with_reason(Code::ResourceExhausted, reason::OVERLOADED, failure.to_string(), []),
            Failure::DiskFull => with_reason(Code::ResourceExhausted, "DISK_FULL", failure.to_string(), []),
            Failure::Down => Self::unavailable(failure.to_string()),
            Failure::Mistake => Self::internal(failure.to_string()),
        }
    }
}

/// An answer that this event cannot have: only our own mistake.
pub(crate) fn unexpected(reply: &leeway_core::Reply) -> Status {
    tracing::error!(?reply, "the scheduler gave another kind of answer than its event has");
    Status::internal("the server made a mistake; its log says which")
}

/// Trouble with our own files.
pub(crate) fn disk(error: &std::io::Error) -> Status {
    tracing::error!(%error, "a file of the server cannot be used");
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            with_reason(Code::ResourceExhausted, "DISK_FULL", "the server's disk is full; try again later", [])
        }
        _ => Status::unavailable("the server cannot use its disk; its log says why"),
    }
}

/// Blocking work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "work on a file was cut short");
        Status::internal("the server made a mistake; its log says which")
    })
}
