//! An installation's own history under other policies: a store that the real scheduler wrote is read back and run again.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

#[path = "replay/closeness.rs"]
mod closeness;
#[path = "replay/markets.rs"]
mod markets;
#[path = "replay/people.rs"]
mod people;
#[path = "replay/recorded.rs"]
mod recorded;
#[path = "replay/refused.rs"]
mod refused;
#[allow(dead_code, reason = "each test binary uses its own part")]
#[path = "fleet/worlds.rs"]
mod worlds;
