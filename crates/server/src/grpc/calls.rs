//! How many calls are under way on a connection, so that one without any can be told from one that is in use (D-06).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::{Request, Response};

/// The calls of one connection.
#[derive(Clone, Debug)]
pub(super) struct Calls(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    open: usize,
    /// When the last call ended, or the connection began.
    quiet_since: Instant,
}

impl Default for Calls {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State { open: 0, quiet_since: Instant::now() })))
    }
}

impl Calls {
    /// Since when no call has been under way; `None` while one is.
    pub fn quiet_since(&self) -> Option<Instant> {
        self.with(|state| (state.open == 0).then_some(state.quiet_since))
    }

    fn begin(&self) -> Call {
        self.with(|state| state.open += 1);
        Call(self.clone())
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call under way, until it is dropped.
#[derive(Debug)]
struct Call(Calls);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.open -= 1;
            state.quiet_since = Instant::now();
        });
    }
}

/// Counts the calls of each connection, from their headers to the end of their answers.
#[derive(Clone, Debug)]
pub(super) struct Counted<S>(pub S);

impl<S, R> Service<Request<R>> for Counted<S>
where
    S: Service<Request<R>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let call = request.extensions().get::<Calls>().map(Calls::begin);
        let answer = self.0.call(request);
        async move {
            let counted = move |frame| {
                let _under_way = &call;
                frame
            };
            Ok(answer.await?.map(|body| Body::new(body.map_frame(counted))))
        }
        .boxed()
    }
}
