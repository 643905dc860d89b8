//! What a client finds at the port without knowing the contract, and how large its messages may be.

use leeway_proto::pb;
use leeway_tests::api::{Api, shell};
use leeway_tests::{Config, Server};
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

#[tokio::test]
async fn reflection_lists_the_services_and_health_is_serving() {
    let server = Server::start(&Config::default()).await;
    let api = Api::of(&server);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices("*".into())),
    };
    let mut reflection = ServerReflectionClient::new(api.channel.clone());
    let answers = reflection.server_reflection_info(tokio_stream::once(request)).await.unwrap();
    let answer = answers.into_inner().next().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
    for wanted in ["Agent", "Budget", "Cluster", "Dataset", "Job", "Market", "Offer", "Simulation", "Upload", "Webhook"]
    {
        assert!(names.contains(&format!("leeway.v1.{wanted}Service")), "{wanted} is not among {names:?}");
    }
    let mut health = HealthClient::new(api.channel.clone());
    for service in ["", "leeway.v1.JobService", "leeway.v1.AgentService"] {
        let answer = health.check(HealthCheckRequest { service: service.into() }).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
}

#[tokio::test]
async fn d_02_a_message_that_is_too_large_is_refused_and_nothing_is_made_of_it() {
    let server = Server::start(&Config::default()).await;
    let api = Api::of(&server);
    let request = pb::SubmitJobRequest {
        client_request_id: "giant".into(),
        spec: Some(shell("giant", &"x".repeat(5 << 20))),
        ..Default::default()
    };
    let refused = api.jobs().submit_job(request).await.unwrap_err();
    assert!(matches!(refused.code(), Code::OutOfRange | Code::ResourceExhausted), "{refused:?}");
    assert!(api.all_jobs().await.is_empty());
    let job = api.submit("small", shell("small", "true")).await;
    assert_eq!(api.until_settled(&job).await.0.state(), pb::JobState::Succeeded);
}
