//! Signed webhooks: how an event leaves the installation, and how a receiver checks it.
//!
//! The crate is stateless. The core owns the outbox and decides when to attempt again; this crate turns a notification
//! into bytes ([`payload`]), signs them ([`sign`]), refuses targets that are not public ([`target`]), makes exactly one
//! attempt and says how it went ([`deliver`]). [`receiver`] is the other end, for the demo and for tests.

pub mod deliver;
pub mod id;
pub mod payload;
pub mod receiver;
pub mod redact;
pub mod sign;
pub mod target;
pub mod tls;

pub use deliver::{Deliverer, Settings};
pub use id::EventId;
pub use payload::{Origin, body};
pub use receiver::Receiver;
pub use sign::Secret;
pub use target::{Ports, TargetPolicy};
