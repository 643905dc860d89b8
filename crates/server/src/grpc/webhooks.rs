//! WebhookService.

use std::sync::Arc;

use leeway_core::state::Delivery;
use leeway_core::{Event, Reply};
use leeway_model::notify::Endpoint;
use leeway_model::{Name, OutboxId};
use leeway_proto::pb::webhook_service_server::WebhookService;
use leeway_proto::status::{reason, with_reason};
use leeway_proto::{Invalid, check, pb, query};
use leeway_webhook::Secret;
use tokio::sync::Mutex;
use tonic::{Code, Request, Response, Status};

use super::pages::Question;
use super::{Shared, not_found, refused, unexpected};
use crate::driver_loop::View;
use crate::secrets::Purpose;

/// Deliveries that one look examines at most.
const EXAMINE: usize = 20_000;

#[derive(Clone, Debug)]
pub struct Webhooks {
    shared: Shared,
    /// One change of an endpoint at a time: each looks at it first and then sets it.
    turn: Arc<Mutex<()>>,
}

impl Webhooks {
    pub fn new(shared: Shared) -> Self {
        Self { shared, turn: Arc::default() }
    }

    async fn find(&self, name: &Name) -> Result<Option<Endpoint>, Status> {
        let wanted = name.clone();
        Ok(self.shared.handle.read(move |view| view.scheduler.tables().endpoints.get(&wanted).cloned()).await?)
    }

    async fn ask(&self, event: Event) -> Result<(), Status> {
        match self.shared.handle.ask(event).await? {
            Reply::Done => Ok(()),
            Reply::Refused(refusal) => Err(refused(&refusal)),
            other => Err(unexpected(&other)),
        }
    }
}

fn show(id: OutboxId, delivery: &Delivery) -> pb::Delivery {
    let state = if delivery.failed { pb::DeliveryState::Failed } else { pb::DeliveryState::Pending };
    pb::Delivery {
        delivery_id: id.to_string(),
        endpoint: delivery.endpoint.to_string(),
        r#type: delivery.notification.alert.type_name().to_owned(),
        subject: delivery.notification.alert.subject(),
        state: state.into(),
        at_ms: delivery.notification.at.as_millis(),
        attempts: delivery.attempts,
        next_attempt_ms: (!delivery.failed).then(|| delivery.next_attempt.as_millis()),
        detail: delivery.last_error.as_deref().map(str::to_owned),
    }
}

#[tonic::async_trait]
impl WebhookService for Webhooks {
    async fn add_endpoint(
        &self,
        request: Request<pb::AddEndpointRequest>,
    ) -> Result<Response<pb::AddEndpointResponse>, Status> {
        use base64::Engine;
        let new = leeway_proto::convert::webhook::NewEndpoint::try_from(request.into_inner())?;
        self.shared.deliverer.check(&new.url).map_err(|error| Invalid::new("url", error.to_string()))?;
        let _turn = self.turn.lock().await;
        if self.find(&new.name).await?.is_some() {
            let message = format!("endpoint '{}' exists; remove it first, or choose another name", new.name);
            return Err(with_reason(Code::AlreadyExists, reason::ALREADY_EXISTS, message, []));
        }
        let revealed = match &new.secret {
            Some(secret) => {
                format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(&secret.value))
            }
            None => Secret::generate(self.shared.keys.random().map_err(|_| no_random())?).reveal(),
        };
        let sealed = self.shared.keys.seal(Purpose::WebhookSecret, revealed.as_bytes()).map_err(|_| no_random())?;
        let endpoint = Endpoint {
            name: new.name,
            url: new.url,
            secret: sealed,
            types: new.types,
            disabled: None,
            last_success: None,
            failing_since: None,
            failures: 0,
        };
        let shown = pb::Endpoint::from(&endpoint);
        self.ask(Event::EndpointSet { endpoint }).await?;
        let secret = pb::SecretValue { value: revealed.into_bytes().into() };
        Ok(Response::new(pb::AddEndpointResponse { endpoint: Some(shown), secret: Some(secret) }))
    }

    async fn list_endpoints(
        &self,
        _request: Request<pb::ListEndpointsRequest>,
    ) -> Result<Response<pb::ListEndpointsResponse>, Status> {
        let look = |view: &mut View<'_>| {
            view.scheduler.tables().endpoints.values().map(Into::into).collect::<Vec<pb::Endpoint>>()
        };
        let endpoints = self.shared.handle.read(look).await?;
        Ok(Response::new(pb::ListEndpointsResponse { endpoints }))
    }

    async fn remove_endpoint(
        &self,
        request: Request<pb::RemoveEndpointRequest>,
    ) -> Result<Response<pb::RemoveEndpointResponse>, Status> {
        let endpoint = check::name("name", &request.into_inner().name)?;
        let _turn = self.turn.lock().await;
        self.ask(Event::EndpointRemoved { endpoint }).await?;
        Ok(Response::new(pb::RemoveEndpointResponse {}))
    }

    async fn test_endpoint(
        &self,
        request: Request<pb::TestEndpointRequest>,
    ) -> Result<Response<pb::TestEndpointResponse>, Status> {
        let name = check::name("name", &request.into_inner().name)?;
        let _turn = self.turn.lock().await;
        let newest = |view: &mut View<'_>| view.scheduler.tables().meta.deliveries;
        let before = self.shared.handle.read(newest).await?;
        self.ask(Event::EndpointTested { endpoint: name.clone() }).await?;
        // A delivery that is over already has no row; its number is then the next one after those before.
        let look = move |view: &mut View<'_>| {
            use leeway_model::notify::Alert;
            let later = view.scheduler.tables().deliveries.range(OutboxId(before + 1)..);
            let mut tests = later.filter(|(_, delivery)| {
                matches!(&delivery.notification.alert, Alert::EndpointTest { endpoint } if *endpoint == name)
            });
            tests.next().map_or(OutboxId(before + 1), |(id, _)| *id)
        };
        let delivery = self.shared.handle.read(look).await?;
        Ok(Response::new(pb::TestEndpointResponse { delivery_id: delivery.to_string() }))
    }

    async fn enable_endpoint(
        &self,
        request: Request<pb::EnableEndpointRequest>,
    ) -> Result<Response<pb::EnableEndpointResponse>, Status> {
        let name = check::name("name", &request.into_inner().name)?;
        let _turn = self.turn.lock().await;
        let found = self.find(&name).await?.ok_or_else(|| not_found("endpoint", name))?;
        let endpoint = Endpoint { disabled: None, failing_since: None, failures: 0, ..found };
        let shown = pb::Endpoint::from(&endpoint);
        self.ask(Event::EndpointSet { endpoint }).await?;
        Ok(Response::new(pb::EnableEndpointResponse { endpoint: Some(shown) }))
    }

    async fn list_deliveries(
        &self,
        request: Request<pb::ListDeliveriesRequest>,
    ) -> Result<Response<pb::ListDeliveriesResponse>, Status> {
        let request = request.into_inner();
        let scope = pb::ListDeliveriesRequest { page_size: 0, page_token: String::new(), ..request.clone() };
        let question = Question::new("deliveries", &scope);
        let page = query::page(request.page_size, request.page_token)?;
        let endpoint = check::optional_name("endpoint", request.endpoint.as_deref())?;
        let failed = match pb::DeliveryState::try_from(request.state) {
            Ok(pb::DeliveryState::Unspecified) => None,
            Ok(state) => Some(state == pb::DeliveryState::Failed),
            Err(_) => {
                let message =
                    format!("{} is unknown; use DELIVERY_STATE_PENDING or DELIVERY_STATE_FAILED", request.state);
                return Err(Invalid::new("state", message).into());
            }
        };
        let after = question.last_number(&self.shared.keys, &page.token)?.unwrap_or(0);
        let look = move |view: &mut View<'_>| {
            let mut found = Vec::new();
            let mut last = None;
            let rows = &view.scheduler.tables().deliveries;
            for (id, delivery) in rows.range(OutboxId(after + 1)..).take(EXAMINE) {
                last = Some(id.0);
                let wanted = endpoint.as_ref().is_none_or(|endpoint| *endpoint == delivery.endpoint)
                    && failed.is_none_or(|failed| failed == delivery.failed);
                if wanted {
                    found.push(show(*id, delivery));
                    if found.len() == page.size {
                        break;
                    }
                }
            }
            let more = last.filter(|last| rows.range(OutboxId(last + 1)..).next().is_some());
            (found, more)
        };
        let (deliveries, more) = self.shared.handle.read(look).await?;
        let next_page_token =
            more.map(|last| question.token(&self.shared.keys, &last.to_be_bytes())).unwrap_or_default();
        Ok(Response::new(pb::ListDeliveriesResponse { deliveries, next_page_token }))
    }
}

fn no_random() -> Status {
    Status::internal("the system gives no random bytes")
}
