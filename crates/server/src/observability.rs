//! Logs: text for people or JSON for machines. Secrets have no `Debug` that shows them, so no field can.

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::settings::{Log, LogFormat};

/// Sends the log to standard error. A second call in one process changes nothing: the first one's choice stands.
pub fn init(log: &Log) {
    let filter: Targets = log.level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let layer = match log.format {
        LogFormat::Text => fmt::layer().with_writer(std::io::stderr).with_filter(filter).boxed(),
        LogFormat::Json => {
            fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).with_filter(filter).boxed()
        }
    };
    // Fails only when a subscriber is set already.
    let _ = tracing_subscriber::registry().with(layer).try_init();
}
