//! One file a subject; each holds the `on_*` functions of its events.

mod admission;
mod agents;
pub mod budgets;
mod checkpoints;
mod clusters;
mod drain;
mod interruptions;
mod jobs;
mod launches;
mod market;
mod metering;
mod notifications;
mod restored;
mod saving;
mod sweep;
