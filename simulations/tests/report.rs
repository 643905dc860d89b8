//! The page of results: its bytes, what it may never hold, and a way to look at it.

#[path = "report/page.rs"]
mod page;
#[path = "report/preview.rs"]
mod preview;
#[path = "report/results.rs"]
mod results;
