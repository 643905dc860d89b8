//! The port: every service with its limits, health and reflection.

use std::time::Duration;

use leeway_proto::pb;
use tokio::net::TcpListener;
use tonic::transport::server::Router;

use super::Shared;
use super::agents::Agents;
use super::budgets::Budgets;
use super::clusters::Clusters;
use super::connections::{self, CONNECTIONS_MAX, FIRST_WORD};
use super::datasets::Datasets;
use super::jobs::Jobs;
use super::market::Market;
use super::offers::Offers;
use super::uploads::Uploads;
use super::webhooks::Webhooks;

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
pub async fn serve(shared: Shared, listener: TcpListener) -> anyhow::Result<()> {
    let stopping = shared.stopping.clone();
    let incoming = connections::accept(listener, CONNECTIONS_MAX, FIRST_WORD);
    router(shared).await?.serve_with_incoming_shutdown(incoming, stopping.cancelled_owned()).await?;
    Ok(())
}

async fn router(shared: Shared) -> anyhow::Result<Router> {
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
    health.set_serving::<JobServiceServer<Jobs>>().await;
    health.set_serving::<AgentServiceServer<Agents>>().await;
    let stopping = shared.stopping.clone();
    tokio::spawn(async move {
        stopping.cancelled().await;
        health.set_not_serving::<JobServiceServer<Jobs>>().await;
        health.set_not_serving::<AgentServiceServer<Agents>>().await;
        health.set_service_status("", tonic_health::ServingStatus::NotServing).await;
    });
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(leeway_proto::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let server = tonic::transport::Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADERS_MAX)
        .http2_max_pending_accept_reset_streams(Some(RESETS_MAX))
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_WITHIN))
        .add_service(health_service)
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
    Ok(server)
}
