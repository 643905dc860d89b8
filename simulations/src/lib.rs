//! The simulated shell: the real scheduler and engine, driven by worlds made of luck or of recordings.
//!
//! Three simulators stand on a few shared parts. `dst` asks whether the scheduler keeps its promises when everything
//! breaks, `fleet` what a policy would have cost over many jobs and clusters, `spot` how far a rule is from the best
//! possible for one job with a deadline. `kernel` has the clock and the queue, `random` the named streams of luck, `stats`
//! and `parallel` what every evaluation needs; `trace` reads recorded jobs and `generate` makes some up. README.md has the
//! map.

pub mod dst;
pub mod fleet;
pub mod generate;
pub mod kernel;
pub mod parallel;
pub mod random;
pub mod spot;
pub mod stats;
pub mod trace;
