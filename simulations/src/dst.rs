//! Deterministic simulation testing: the real scheduler and engine in a world that is made of luck, where everything
//! breaks that can.
//!
//! A run is a pure function of its seed. `faults` says what goes wrong, `shell` is the process around the engine, `world`
//! everything that answers its actions, `checkers` what must hold, `scenario` the worlds, and `run` puts them together.

pub mod checkers;
pub mod faults;
pub mod run;
pub mod scenario;
pub mod shell;
pub mod world;

pub use faults::FaultPlan;
pub use run::{Options, Outcome, Simulation, replay_command, run};
