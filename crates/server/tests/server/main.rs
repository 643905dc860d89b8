//! A whole server over real sockets, with its store on disk and machines that only pretend.

// Helpers of tests may fail a test as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod fake;
mod jobs;
mod limits;
mod restarts;
mod runs;
mod watch;
