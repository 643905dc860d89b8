//! The port: every service with its limits, health and reflection.

use std::any::Any;
use std::time::Duration;

use leeway_proto::pb;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;
use tonic::service::Routes;
use tower_http::catch_panic::CatchPanicLayer;
use tower_layer::layer_fn;

use super::Shared;
use super::agents::Agents;
use super::budgets::Budgets;
use super::calls::Counted;
use super::clusters::Clusters;
use super::connections::{self, CONNECTIONS_MAX, FIRST_WORD, IDLE};
use super::datasets::Datasets;
use super::health;
use super::jobs::Jobs;
use super::market::Market;
use super::offers::Offers;
use super::uploads::Uploads;
use super::webhooks::Webhooks;
use crate::Services;

/// Largest message, in bytes (D-02).
pub const MESSAGE_MAX: usize = 4 << 20;
/// Streams of one connection (D-05).
const STREAMS_MAX: u32 = 100;
/// Bytes of headers of one request (D-10).
const HEADERS_MAX: u32 = 16 << 10;
/// Resets that a client may have pending before it is cut off (D-05).
const RESETS_MAX: usize = 50;
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(10);

macro_rules! limited {
    ($service:expr) => {
        $service.max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(usize::MAX)
    };
}

/// Serves until `stopping` fires and the calls under way have ended.
pub async fn serve(shared: Shared, listener: TcpListener, more: Option<Services>) -> anyhow::Result<()> {
    let stopping = shared.stopping.clone();
    let own = routes(shared).await?;
    let all = match more {
        Some(Services(add)) => add(own),
        None => own,
    };
    serve_routes(all, listener, stopping, IDLE).await
}

/// Serves some services within the limits of the port.
async fn serve_routes(
    routes: Routes,
    listener: TcpListener,
    stopping: CancellationToken,
    idle: Duration,
) -> anyhow::Result<()> {
    let incoming = connections::accept(listener, CONNECTIONS_MAX, FIRST_WORD, idle);
    tonic::transport::Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADERS_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_WITHIN))
        .layer(CatchPanicLayer::custom(mistake))
        .layer(layer_fn(Counted))
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, stopping.cancelled_owned())
        .await?;
    Ok(())
}

/// What the caller of a handler that panicked is told (O-06). The panic's own text is in the log and may name what is
/// none of the caller's business.
#[allow(clippy::needless_pass_by_value, reason = "the layer hands the panic over")]
fn mistake(_: Box<dyn Any + Send>) -> Response<Body> {
    tracing::error!("a handler panicked; its call fails, the server goes on");
    Status::internal("the server made a mistake; its log says which").into_http()
}

async fn routes(shared: Shared) -> anyhow::Result<Routes> {
    use pb::agent_service_server::AgentServiceServer;
    use pb::budget_service_server::BudgetServiceServer;
    use pb::cluster_service_server::ClusterServiceServer;
    use pb::dataset_service_server::DatasetServiceServer;
    use pb::job_service_server::JobServiceServer;
    use pb::market_service_server::MarketServiceServer;
    use pb::offer_service_server::OfferServiceServer;
    use pb::upload_service_server::UploadServiceServer;
    use pb::webhook_service_server::WebhookServiceServer;

    let (health, health_service) = tonic_health::server::health_reporter();
    tokio::spawn(health::run(shared.handle.clone(), health, shared.stopping.clone()));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(leeway_proto::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let routes = Routes::new(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?)
        .add_service(limited!(JobServiceServer::new(Jobs(shared.clone()))))
        .add_service(limited!(AgentServiceServer::new(Agents(shared.clone()))))
        .add_service(limited!(BudgetServiceServer::new(Budgets(shared.clone()))))
        .add_service(limited!(ClusterServiceServer::new(Clusters(shared.clone()))))
        .add_service(limited!(OfferServiceServer::new(Offers(shared.clone()))))
        .add_service(limited!(MarketServiceServer::new(Market(shared.clone()))))
        .add_service(limited!(DatasetServiceServer::new(Datasets(shared.clone()))))
        .add_service(limited!(UploadServiceServer::new(Uploads(shared.clone()))))
        .add_service(limited!(WebhookServiceServer::new(Webhooks::new(shared))));
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures::Stream;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tonic::{Code, Request};
    use tonic_health::pb::health_client::HealthClient;
    use tonic_health::pb::health_server::{Health, HealthServer};
    use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

    use super::*;

    /// Panics when it is asked about the service `broken`.
    struct Brittle;

    #[tonic::async_trait]
    impl Health for Brittle {
        async fn check(
            &self,
            request: Request<HealthCheckRequest>,
        ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
            assert_ne!(request.into_inner().service, "broken", "a secret of the server");
            Ok(tonic::Response::new(HealthCheckResponse::default()))
        }

        type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

        async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<tonic::Response<Self::WatchStream>, Status> {
            Ok(tonic::Response::new(Box::pin(futures::stream::pending())))
        }
    }

    struct Serving {
        address: String,
        stopping: CancellationToken,
        task: tokio::task::JoinHandle<anyhow::Result<()>>,
    }

    impl Serving {
        async fn start(idle: Duration) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let stopping = CancellationToken::new();
            let routes = Routes::new(HealthServer::new(Brittle));
            let task = tokio::spawn(serve_routes(routes, listener, stopping.clone(), idle));
            Self { address, stopping, task }
        }

        async fn client(&self) -> HealthClient<tonic::transport::Channel> {
            let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
            HealthClient::new(endpoint.connect().await.unwrap())
        }

        async fn stop(self) {
            self.stopping.cancel();
            self.task.await.unwrap().unwrap();
        }
    }

    fn ask(service: &str) -> HealthCheckRequest {
        HealthCheckRequest { service: service.into() }
    }

    #[tokio::test]
    async fn d_06_a_connection_with_a_stream_stays_and_one_without_calls_is_closed() {
        const SOON: Duration = Duration::from_millis(100);
        let serving = Serving::start(SOON).await;
        let mut watcher = serving.client().await;
        let mut open = watcher.watch(ask("")).await.unwrap().into_inner();
        let ended = tokio::time::timeout(SOON * 5, open.message()).await;
        assert!(ended.is_err(), "a stream without messages is a call under way");

        let mut raw = tokio::net::TcpStream::connect(&serving.address).await.unwrap();
        // The preface of HTTP/2 and empty settings, and then nothing.
        raw.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(10), raw.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "a connection without calls ends");

        drop((watcher, open));
        serving.stop().await;
    }

    #[tokio::test]
    async fn o_06_a_handler_that_panics_fails_its_own_call_and_no_other() {
        let serving = Serving::start(IDLE).await;
        let mut client = serving.client().await;
        let mut open = client.watch(ask("")).await.unwrap().into_inner();
        let error = client.check(ask("broken")).await.unwrap_err();
        assert_eq!(error.code(), Code::Internal, "{error}");
        assert!(!error.message().contains("secret"), "{error}");
        client.check(ask("")).await.expect("the next call on the same connection is answered");
        let still_open = tokio::time::timeout(Duration::from_millis(50), open.message()).await;
        assert!(still_open.is_err(), "a stream beside it goes on");
        drop((client, open));
        serving.stop().await;
    }
}
