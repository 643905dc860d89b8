//! Many jobs on many clusters: the production scheduler in a world of recorded or generated markets.
//!
//! `scenario` reads worlds from TOML, `history` out of an installation's own store, `setup` is what a run is made of, `run` drives it, `world` answers, `outcome` is what came of it, `regret` how far a job was from its optimum, `store` forgets what
//! nobody will read again. README.md says what the model leaves out.

pub mod export;
pub mod history;
pub mod outcome;
pub mod regret;
pub mod report;
pub mod run;
pub mod scenario;
pub mod setup;
pub mod store;
pub mod study;
pub mod world;

pub use outcome::{Ended, Outcome};
pub use run::run;
pub use setup::Setup;
