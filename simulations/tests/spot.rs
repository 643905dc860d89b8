//! The model, the safety net and the optimum of one job with a deadline, on small markets made here; and, where a folder
//! of recorded markets is named, on those.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

#[path = "spot/agreement.rs"]
mod agreement;
#[path = "spot/files.rs"]
mod files;
#[path = "spot/markets.rs"]
mod markets;
#[path = "spot/net.rs"]
mod net;
#[path = "spot/optimum.rs"]
mod optimum;
#[path = "spot/runs.rs"]
mod runs;
mod shared;
