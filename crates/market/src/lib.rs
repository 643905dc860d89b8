//! Where prices, capacity and interruption signals come from.
//!
//! This crate parses and replays; it opens no file and no socket. Everything that enters is checked here: a price is a
//! positive decimal in a known currency and unit, or it is set aside with the line, the column and the reason.
//!
//! - [`catalog`]: price lists in CSV, in three layouts.
//! - [`accelerator`]: one spelling per accelerator, exact aliases, suggestions for messages.
//! - [`trace`]: recorded spot markets.
//! - [`replay`]: a trace as a time-ordered stream of events, driven by the caller's clock.
//! - [`egress`]: what moving bytes between regions costs.
//! - [`demo`]: three small synthetic markets that come with the program.

pub mod accelerator;
pub mod catalog;
pub mod decimal;
pub mod demo;
pub mod egress;
pub mod replay;
pub mod trace;
