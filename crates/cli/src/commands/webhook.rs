//! `leeway webhook`: who is told of events, and how that goes.

use leeway_proto::pb;
use serde_json::json;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::json;
use crate::render;
use crate::terminal::Terminal;

const WEBHOOKS: &str = "Examples:
  leeway webhook add ops --url https://hooks.example.com/leeway
  leeway webhook test ops
  leeway webhook deliveries --failed";
const ADD: &str = "The signing secret is shown once. Requests are signed after the Standard Webhooks specification.

Examples:
  leeway webhook add ops --url https://hooks.example.com/leeway
  leeway webhook add money --url https://hooks.example.com/money --events 'leeway.budget.*'";
const LIST: &str = "Examples:
  leeway webhook list";
const REMOVE: &str = "What it has not yet got is removed with it.

Examples:
  leeway webhook remove ops";
const TEST: &str = "Examples:
  leeway webhook test ops
  leeway webhook deliveries --endpoint ops";
const ENABLE: &str = "Examples:
  leeway webhook enable ops";
const DELIVERIES: &str = "Examples:
  leeway webhook deliveries
  leeway webhook deliveries --endpoint ops --failed";

/// Who is told of events
#[derive(Debug, clap::Subcommand)]
#[command(after_help = WEBHOOKS)]
pub enum Command {
    /// Add an endpoint and show its signing secret
    #[command(after_help = ADD)]
    Add {
        /// Name of the endpoint.
        name: String,
        /// Where events are posted.
        #[arg(long, value_name = "URL")]
        url: String,
        /// Event types to send, separated by commas; all when not given.
        #[arg(long, value_name = "TYPES", value_delimiter = ',')]
        events: Vec<String>,
    },
    /// Show all endpoints
    #[command(after_help = LIST, visible_alias = "ls")]
    List,
    /// Remove an endpoint
    #[command(after_help = REMOVE, visible_alias = "rm")]
    Remove {
        /// The endpoint.
        name: String,
    },
    /// Send a test event to an endpoint
    #[command(after_help = TEST)]
    Test {
        /// The endpoint.
        name: String,
    },
    /// Enable an endpoint that was disabled after many failures
    #[command(after_help = ENABLE)]
    Enable {
        /// The endpoint.
        name: String,
    },
    /// Show what was not yet delivered or was given up
    #[command(after_help = DELIVERIES)]
    Deliveries {
        /// Only to this endpoint.
        #[arg(long, value_name = "NAME")]
        endpoint: Option<String>,
        /// Only what was given up.
        #[arg(long)]
        failed: bool,
        /// Show so many of the oldest.
        #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
}

pub async fn run(command: Command, client: Client, terminal: &Terminal) -> Result<Exit, Failure> {
    let service = || client.webhooks();
    match command {
        Command::Add { name, url, events } => {
            let request = pb::AddEndpointRequest { name: name.clone(), url, types: events, secret: None };
            let answer = client.ask_once(service().add_endpoint(request)).await?;
            let secret = answer.secret.map(|secret| String::from_utf8_lossy(&secret.value).into_owned());
            let secret = secret.unwrap_or_default();
            let endpoint = answer.endpoint.unwrap_or_default();
            terminal.show(
                |_| format!("added {name}\nsigning secret, shown this once: {secret}"),
                || json!({ "endpoint": json::of("Endpoint", &endpoint), "secret": secret }),
            )?;
        }
        Command::List => {
            let ask = || async { service().list_endpoints(pb::ListEndpointsRequest {}).await };
            let endpoints = client.ask(ask).await?.endpoints;
            terminal
                .show(|view| render::webhooks::endpoints(&endpoints, view), || json::list("Endpoint", &endpoints))?;
        }
        Command::Remove { name } => {
            client.ask_once(service().remove_endpoint(pb::RemoveEndpointRequest { name: name.clone() })).await?;
            terminal.show(|_| format!("removed {name}"), || json!({ "removed": name }))?;
        }
        Command::Test { name } => {
            let request = pb::TestEndpointRequest { name: name.clone() };
            let id = client.ask_once(service().test_endpoint(request)).await?.delivery_id;
            terminal.show(
                |_| format!("queued {id}; see 'leeway webhook deliveries --endpoint {name}'"),
                || json!({ "delivery_id": id }),
            )?;
        }
        Command::Enable { name } => {
            let ask = || async { service().enable_endpoint(pb::EnableEndpointRequest { name: name.clone() }).await };
            let endpoint = client.ask(ask).await?.endpoint.unwrap_or_default();
            terminal.show(|_| format!("enabled {name}"), || json::of("Endpoint", &endpoint))?;
        }
        Command::Deliveries { endpoint, failed, limit } => {
            let state = if failed { pb::DeliveryState::Failed } else { pb::DeliveryState::Unspecified };
            let request = pb::ListDeliveriesRequest {
                page_size: limit,
                page_token: String::new(),
                endpoint,
                state: state.into(),
            };
            let page = client.ask(|| async { service().list_deliveries(request.clone()).await }).await?;
            let found = page.deliveries;
            terminal.show(|view| render::webhooks::deliveries(&found, view), || json::list("Delivery", &found))?;
            if !page.next_page_token.is_empty() {
                terminal.remark("there are more; a higher --limit shows them");
            }
        }
    }
    Ok(Exit::Success)
}
