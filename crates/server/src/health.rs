//! The HTTP port: `/metrics`, and three answers to "how are you", which are for different askers.
//!
//! * `/livez` is for whoever would restart the process: 503 only when a restart is the cure, which is when the scheduler
//!   has ended or its store has failed. A full disk is none: a new process would find it as full.
//! * `/readyz` is for whoever sends work: 503 while new work would not be taken, for whatever reason.
//! * `/healthz` is for people and monitors: 503 with the reason while anything at all is wrong.
//!
//! The gRPC health service says the same as `/readyz` for everything but agents, whose words are taken on a full disk, too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use leeway_core::Event;
use tokio::sync::watch;

use crate::driver_loop::{Failure, Handle};
use crate::metrics::{Metrics, StoreBytes};

/// A scheduler that does not answer for so long is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// Why new work is not taken. `Ok` when it is: asked with an event that is work like any other and changes nothing, so
/// that the store itself decides.
pub(crate) async fn takes_work(handle: &Handle) -> Result<(), Failure> {
    handle.ask(Event::PricesObserved { prices: Vec::new() }).await.map(|_| ())
}

#[derive(Clone, Debug)]
struct Page {
    handle: Handle,
    metrics: Arc<Metrics>,
    failure: watch::Receiver<Option<String>>,
    store: PathBuf,
}

/// `/metrics`, `/livez`, `/readyz`, `/healthz`, and nothing else.
pub(crate) fn router(
    handle: Handle,
    metrics: Arc<Metrics>,
    failure: watch::Receiver<Option<String>>,
    store: PathBuf,
) -> Router {
    Router::new()
        .route("/metrics", get(show))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/healthz", get(healthy))
        .with_state(Page { handle, metrics, failure, store })
}

async fn show(State(page): State<Page>) -> impl IntoResponse {
    let folder = page.store.clone();
    if let Ok(bytes) = tokio::task::spawn_blocking(move || weigh(&folder)).await {
        page.metrics.set_store(bytes);
    }
    // A scheduler that is busy or gone leaves the gauges as they were; the counters are still worth showing.
    let _ = tokio::time::timeout(READY_WITHIN, page.metrics.look(&page.handle)).await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page.metrics.text())
}

/// Bytes of a store by its parts. What cannot be read counts nothing: files come and go while a store is in use.
fn weigh(store: &Path) -> StoreBytes {
    fn all(folder: &Path) -> u64 {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let weights = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => all(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        });
        weights.sum()
    }
    let (journal, index) = (all(&store.join("journal")), all(&store.join("index")));
    StoreBytes { journal, index, other: all(store).saturating_sub(journal + index) }
}

type Answer = (StatusCode, String);

fn unavailable(why: impl std::fmt::Display) -> Answer {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

impl Page {
    /// What only a restart can mend.
    fn dead(&self) -> Option<Answer> {
        self.failure.borrow().as_deref().map(unavailable)
    }

    async fn unready(&self) -> Option<Answer> {
        match tokio::time::timeout(READY_WITHIN, takes_work(&self.handle)).await {
            Ok(Ok(())) => None,
            Ok(Err(Failure::DiskFull)) => Some(unavailable(format_args!("DISK_FULL: {}", Failure::DiskFull))),
            Ok(Err(failure)) => Some(unavailable(failure)),
            Err(_) => Some(unavailable("the scheduler does not answer; is the disk slow?")),
        }
    }
}

async fn live(State(page): State<Page>) -> Answer {
    page.dead().unwrap_or((StatusCode::OK, "ok\n".to_owned()))
}

async fn ready(State(page): State<Page>) -> Answer {
    page.unready().await.unwrap_or((StatusCode::OK, "ready\n".to_owned()))
}

async fn healthy(State(page): State<Page>) -> Answer {
    match page.dead() {
        Some(dead) => dead,
        None => page.unready().await.unwrap_or((StatusCode::OK, "ok\n".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_weighed_by_its_parts() {
        let store = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = store.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, vec![0; bytes]).unwrap();
        };
        write("journal/1", 100);
        write("journal/2", 20);
        write("index/db/a", 7);
        write("blobs/x", 3);
        write("IDENTITY", 1);
        let bytes = weigh(store.path());
        assert_eq!((bytes.journal, bytes.index, bytes.other), (120, 7, 4));
        let none = weigh(&store.path().join("absent"));
        assert_eq!((none.journal, none.index, none.other), (0, 0, 0));
    }
}
