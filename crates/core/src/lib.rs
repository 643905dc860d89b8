//! The pure state machine of Leeway: `handle(now, event) -> actions`.
//!
//! Nothing here is async, reads a clock, the environment or a random source, or iterates in hash order. Both shells,
//! the daemon and the simulator, drive this one type; neither can be told apart from in here.
//!
//! * `event` what can happen, `action` what to do about it, `reply` answers
//! * `scheduler` the dispatch; `handlers` one file a subject; `timers` when to look again
//! * `round` finding places: fleet (offers by price) - queue (jobs by shape) - filter - score - select - place
//! * `order` which job is looked at next; `usage` what owners use, where an order asks for it
//! * `ledger` money; `recovery` what becomes of a job when its run ends; `interval` how often to save
//! * `state` the rows, with what a step changed; `invariants` what must always hold

pub mod action;
pub mod config;
pub mod event;
pub mod explain;
pub mod handlers;
pub mod interval;
pub mod invariants;
pub mod ledger;
pub mod locality;
pub mod order;
pub mod policy;
mod recovery;
pub mod reply;
pub mod round;
mod schedule;
pub mod scheduler;
mod setbacks;
pub mod spells;
pub mod state;
mod timers;
pub mod usage;

pub use action::{Action, Directive, LaunchOrder};
pub use config::Config;
pub use event::Event;
pub use order::Order;
pub use policy::{Policy, PolicySet};
pub use reply::{Refused, RefusedKind, Reply};
pub use scheduler::Scheduler;
