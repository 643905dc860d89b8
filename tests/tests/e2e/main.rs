//! The real binary, real files and real sockets, from end to end.

// Helpers of tests may fail a test as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod budgets;
mod commands;
mod copies;
mod demo;
mod floods;
mod gangs;
mod kills;
mod recovery;
mod secrets;
mod stores;
mod webhooks;
mod wire;
