//! Conversions between messages and the model, a file for each part of the contract.

pub mod agent;
mod budget;
mod cluster;
mod dataset;
mod decision;
mod enums;
mod job;
mod job_spec;
pub mod market;
pub mod query;
mod resources;
pub mod submit;
pub mod webhook;

pub(crate) use enums::one_of;
