//! Everything that answers the scheduler's actions: `place` a cluster and its market, `markets` what they do to those who
//! stand in them, `runs` who stands where, `life` what a run goes through, `program` how far its program is, `network`
//! transfers, `jobs` what is true of the jobs.

pub mod jobs;
mod life;
mod markets;
pub mod network;
pub mod place;
pub mod program;
pub mod runs;
