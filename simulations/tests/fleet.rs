//! The fleet simulator from the text of a scenario to what came of it: the same seed gives the same, the money adds up,
//! what befalls clusters reaches the jobs, and a text that is wrong is answered rather than run.

#![allow(clippy::unwrap_used, reason = "a failed set-up fails its test")]

#[path = "fleet/horizon.rs"]
mod horizon;
#[path = "fleet/money.rs"]
mod money;
#[path = "fleet/mutations.rs"]
mod mutations;
#[path = "fleet/orders.rs"]
mod orders;
#[path = "fleet/ready.rs"]
mod ready;
#[path = "fleet/refused.rs"]
mod refused;
#[path = "fleet/regret.rs"]
mod regret;
#[path = "fleet/same.rs"]
mod same;
#[path = "fleet/shocks.rs"]
mod shocks;
#[path = "fleet/transfers.rs"]
mod transfers;
#[path = "fleet/waiting.rs"]
mod waiting;
#[path = "fleet/worlds.rs"]
mod worlds;
