//! A whole server over real sockets, with its store on disk and machines that only pretend.

mod fake;
mod jobs;
mod limits;
mod restarts;
mod runs;
mod watch;
