//! The instance metadata of EC2, as far as an agent asks for it. It wants a session, and lets it run out when told to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, put};

#[derive(Debug, Default)]
pub struct Told {
    pub interruption: Option<String>,
    pub rebalance: bool,
    pub broken: bool,
    /// Sessions that were given; only the newest is taken.
    pub sessions: u32,
    /// The newest session is not taken any more.
    pub session_over: bool,
}

#[derive(Clone, Debug)]
pub struct Metadata {
    pub address: SocketAddr,
    told: Arc<Mutex<Told>>,
}

impl Metadata {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metadata = Self { address: listener.local_addr().unwrap(), told: Arc::default() };
        let router = Router::new()
            .route("/latest/api/token", put(session))
            .route("/latest/meta-data/{*path}", get(read))
            .with_state(metadata.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        metadata
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap()
    }
}

async fn session(State(metadata): State<Metadata>) -> Result<String, StatusCode> {
    let mut told = metadata.told();
    if told.broken {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    told.sessions += 1;
    told.session_over = false;
    Ok(format!("session-{}", told.sessions))
}

async fn read(
    State(metadata): State<Metadata>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<String, StatusCode> {
    let told = metadata.told();
    if told.broken {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let session = headers.get("x-aws-ec2-metadata-token").and_then(|session| session.to_str().ok());
    if told.session_over || session != Some(&*format!("session-{}", told.sessions)) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let found = match path.as_str() {
        "spot/instance-action" => {
            told.interruption.as_ref().map(|time| format!(r#"{{"action":"terminate","time":"{time}"}}"#))
        }
        "events/recommendations/rebalance" if told.rebalance => Some(r#"{"noticeTime":"2026-12-01T13:24:00Z"}"#.into()),
        _ => None,
    };
    found.ok_or(StatusCode::NOT_FOUND)
}
