//! The simulated world: everything that answers the scheduler's actions, with its own truth.

pub mod agents;
pub mod clients;
pub mod cloud;
pub mod market;
pub mod programs;
pub mod webhooks;
