//! The nouns of Leeway: plain data with checked arithmetic, shared by every other crate.
//!
//! Nothing here knows a clock, a socket, a file or a policy. Values that could be confused are newtypes: money is
//! [`Micros`], a price is a [`Rate`], an instant a [`Timestamp`], a length of time a [`Millis`], a size [`Bytes`].

pub mod access;
pub mod bill;
pub mod budget;
pub mod checkpoint;
pub mod cluster;
pub mod dataset;
pub mod decision;
pub mod egress;
pub mod id;
pub mod job;
pub mod market;
pub mod money;
pub mod name;
pub mod notify;
pub mod resources;
pub mod run;
pub mod size;
pub mod time;

pub use bill::{Bill, Term};
pub use id::{Epoch, HoldId, InstallationId, JobId, OutboxId, RunId};
pub use money::{Currency, Meter, Micros, Rate};
pub use name::{Name, NameError, Text};
pub use size::Bytes;
pub use time::{Millis, Timestamp};
