//! How the agent itself ends, for whoever started it.

/// The program's exit was reported and acknowledged.
pub const REPORTED: u8 = 0;
/// Another agent holds the rank, or the driver closed it.
pub const RANK_TAKEN: u8 = 2;
/// The lease was over or the server refused this agent; nothing was reported.
pub const OVER: u8 = 3;
/// Told to stop before there was anything to run.
pub const STOPPED_EARLY: u8 = 4;
