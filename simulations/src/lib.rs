//! The simulated shell: the real scheduler and engine in a world that is made of luck.
//!
//! A run is a pure function of its seed. `kernel` has the clock and the queue, `random` the named streams of luck,
//! `faults` what goes wrong, `shell` the process around the engine, `world` everything that answers its actions,
//! `checkers` what must hold, `scenario` the worlds, and `run` puts them together. `spot` stands apart: one job with a
//! deadline on recorded markets. README.md has the map.

pub mod checkers;
pub mod faults;
pub mod fleet;
pub mod generate;
pub mod kernel;
pub mod parallel;
pub mod random;
pub mod run;
pub mod scenario;
pub mod shell;
pub mod spot;
pub mod stats;
pub mod trace;
pub mod world;

pub use faults::FaultPlan;
pub use run::{Options, Outcome, Simulation, replay_command, run};
