//! The page of results: its bytes, what it may never hold, and a way to look at it.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

#[path = "report/page.rs"]
mod page;
#[path = "report/preview.rs"]
mod preview;
#[path = "report/results.rs"]
mod results;
