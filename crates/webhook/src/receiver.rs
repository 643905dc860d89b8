//! The other end: a small receiver that checks signatures and remembers what it was told. The demo shows with it that
//! events arrive; tests make it answer whatever the fault tables ask for.
//!
//! It follows the advice we give to receivers: check the signature on the raw bytes, refuse old requests, remember ids.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request as HttpRequest, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::stream;
use leeway_model::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::sign::{self, Headers, ID_HEADER, SIGNATURE_HEADER, Secret, TIMESTAMP_HEADER};

/// Requests larger than this are refused; ours never exceed 16 KiB.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Requests, events and ids that are remembered; the oldest go first. The counts go on.
const REMEMBERED_MAX: usize = 10_000;
const CHUNK: [u8; 16 * 1024] = [b'x'; 16 * 1024];

/// Where and how to listen.
#[derive(Clone)]
pub struct Options {
    /// Loopback and a free port by default.
    pub address: SocketAddr,
    /// A request is believed when one of these signed it.
    pub secrets: Vec<Secret>,
    /// The system's clock by default.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Options {
    pub fn new(secrets: Vec<Secret>) -> Self {
        Self { address: (Ipv4Addr::LOCALHOST, 0).into(), secrets, clock: Arc::new(system_now) }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("address", &self.address).finish_non_exhaustive()
    }
}

fn system_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// How to answer one request.
#[derive(Clone, Debug)]
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    delay: Duration,
    reply: Reply,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Reply {
    Text(String),
    /// So many bytes, as fast as they are taken.
    Huge(u64),
    /// A byte after each such pause, for ever.
    Trickle(Duration),
}

impl Answer {
    /// An empty answer. Numbers that are no status become 500.
    pub fn status(code: u16) -> Self {
        Self {
            status: StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            delay: Duration::ZERO,
            reply: Reply::Text(String::new()),
        }
    }

    pub fn redirect(code: u16, location: &str) -> Self {
        Self::status(code).header(header::LOCATION, location)
    }

    /// With a header; a value that no header can have is left out.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    #[must_use]
    pub fn retry_after(self, value: &str) -> Self {
        self.header(header::RETRY_AFTER, value)
    }

    /// Waits before answering.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.reply = reply;
        self
    }
}

/// One request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub content_type: String,
    /// Names of all headers, to show what did not leak into them.
    pub header_names: Vec<String>,
    pub verified: bool,
    /// Status of the answer.
    pub answered: u16,
    pub body: Vec<u8>,
}

/// One event: believed, accepted, and not seen before.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: String,
    pub kind: String,
    pub subject: String,
    pub sequence: u64,
    pub json: serde_json::Value,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub requests: usize,
    /// Distinct events that were believed and accepted.
    pub events: usize,
    /// Believed and accepted, but already known.
    pub duplicates: usize,
    /// Not believed, or not an event.
    pub rejected: usize,
    /// Bytes of answers handed to the connection, where they were huge or slow.
    pub reply_bytes: u64,
}

/// A running receiver; stops when dropped.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    options: Options,
    memory: Mutex<Memory>,
    counts: watch::Sender<Counts>,
}

#[derive(Debug)]
struct Memory {
    script: VecDeque<Answer>,
    usual: Answer,
    secrets: Vec<Secret>,
    requests: VecDeque<Request>,
    events: VecDeque<Event>,
    ids: BTreeSet<String>,
}

impl Receiver {
    /// Starts listening.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let memory = Memory {
            script: VecDeque::new(),
            usual: Answer::status(204),
            secrets: options.secrets.clone(),
            requests: VecDeque::new(),
            events: VecDeque::new(),
            ids: BTreeSet::new(),
        };
        let counts = watch::Sender::new(Counts::default());
        let shared = Arc::new(Shared { options, memory: Mutex::new(memory), counts });
        let app = Router::new().fallback(handle).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, app).await {
                tracing::warn!(%error, "webhook receiver stopped");
            }
        });
        Ok(Self { address, shared, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL to register as an endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Answers the next requests like this, one each, believed or not. Afterwards the usual answer again.
    pub fn script(&self, answers: impl IntoIterator<Item = Answer>) {
        self.shared.memory().script.extend(answers);
    }

    /// Answers like this when nothing is scripted; 204 at first. Requests that are not believed get 401 instead, and
    /// those that are not an event 400.
    pub fn usually(&self, answer: Answer) {
        self.shared.memory().usual = answer;
    }

    /// Believes these secrets from now on.
    pub fn trust(&self, secrets: Vec<Secret>) {
        self.shared.memory().secrets = secrets;
    }

    /// The remembered requests, oldest first.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.memory().requests.iter().cloned().collect()
    }

    /// The remembered events in the order of their arrival.
    pub fn events(&self) -> Vec<Event> {
        self.shared.memory().events.iter().cloned().collect()
    }

    pub fn counts(&self) -> Counts {
        *self.shared.counts.borrow()
    }

    /// Returns once `events` distinct events have been accepted.
    pub async fn wait_for(&self, events: usize) {
        self.wait_until(|counts| counts.events >= events).await;
    }

    /// Returns once the counts are as asked.
    pub async fn wait_until(&self, condition: impl FnMut(&Counts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        counts.wait_for(condition).await.expect("the sender lives as long as the receiver");
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("counts", &*self.counts.borrow()).finish_non_exhaustive()
    }
}

impl Shared {
    /// The memory stays whole even if a thread dies holding it: every change is one push or one insert.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the request and says how to answer it.
    fn receive(&self, headers: &HeaderMap, body: &[u8]) -> Answer {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let (id, timestamp, signature) = (text(ID_HEADER), text(TIMESTAMP_HEADER), text(SIGNATURE_HEADER));
        let now = (self.options.clock)();
        let mut memory = self.memory();
        let signed = Headers { id: &id, timestamp: &timestamp, signature: &signature };
        let verified = sign::verify(signed, body, &memory.secrets, now, sign::TOLERANCE).is_ok();
        let event = if verified { Event::read(&id, body) } else { None };
        let answer = match memory.script.pop_front() {
            Some(answer) => answer,
            None if event.is_some() => memory.usual.clone(),
            None => Answer::status(if verified { 400 } else { 401 }),
        };
        let rejected = event.is_none();
        let accepted = event.filter(|_| answer.status.is_success());
        let is_accepted = accepted.is_some();
        let is_new = accepted.is_some_and(|event| memory.remember_event(event));
        memory.remember_request(Request {
            id,
            timestamp,
            signature,
            content_type: text(header::CONTENT_TYPE.as_str()),
            header_names: headers.keys().map(|name| name.to_string()).collect(),
            verified,
            answered: answer.status.as_u16(),
            body: body.to_vec(),
        });
        drop(memory);
        self.counts.send_modify(|counts| {
            counts.requests += 1;
            counts.rejected += usize::from(rejected);
            counts.events += usize::from(is_new);
            counts.duplicates += usize::from(is_accepted && !is_new);
        });
        answer
    }
}

impl Memory {
    fn remember_request(&mut self, request: Request) {
        if self.requests.len() == REMEMBERED_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
    }

    /// Whether the event is new.
    fn remember_event(&mut self, event: Event) -> bool {
        if !self.ids.insert(event.id.clone()) {
            return false;
        }
        if self.events.len() == REMEMBERED_MAX
            && let Some(oldest) = self.events.pop_front()
        {
            self.ids.remove(&oldest.id);
        }
        self.events.push_back(event);
        true
    }
}

impl Event {
    /// `None` when the body is not an event.
    fn read(id: &str, body: &[u8]) -> Option<Self> {
        let json: serde_json::Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        Some(Self {
            id: id.to_owned(),
            kind: text("type")?,
            subject: text("subject")?,
            sequence: text("sequence")?.parse().ok()?,
            json,
        })
    }
}

async fn handle(State(shared): State<Arc<Shared>>, request: HttpRequest) -> Response {
    let (head, body) = request.into_parts();
    let answer = match to_bytes(body, REQUEST_BYTES_MAX).await {
        Ok(body) => shared.receive(&head.headers, &body),
        Err(_) => Answer::status(413),
    };
    tokio::time::sleep(answer.delay).await;
    let mut response = Response::new(answer.reply.into_body(shared));
    *response.status_mut() = answer.status;
    response.headers_mut().extend(answer.headers);
    response
}

impl Reply {
    fn into_body(self, shared: Arc<Shared>) -> Body {
        let count = move |bytes: usize| {
            shared.counts.send_modify(|counts| counts.reply_bytes += bytes as u64);
        };
        match self {
            Self::Text(text) => Body::from(text),
            Self::Huge(bytes) => Body::from_stream(stream::unfold((bytes, count), async |(left, count)| {
                let size = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK.len());
                count(size);
                (size > 0).then(|| (Ok::<_, Infallible>(&CHUNK[..size]), (left - size as u64, count)))
            })),
            Self::Trickle(pause) => Body::from_stream(stream::unfold((pause, count), async |(pause, count)| {
                tokio::time::sleep(pause).await;
                count(1);
                Some((Ok::<_, Infallible>(&CHUNK[..1]), (pause, count)))
            })),
        }
    }
}
