//! `earliest-deadline`: the job that could wait least and still meet its deadline. With equal work this is the rule of
//! Liu and Layland ("Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment", JACM 1973); with
//! unequal work the longer job has the earlier latest start.

use leeway_core::order::{Order, Waiting};

#[derive(Clone, Copy, Debug)]
pub struct EarliestDeadline;

impl Order for EarliestDeadline {
    fn name(&self) -> &'static str {
        "earliest-deadline"
    }

    fn about(&self) -> &'static str {
        "the job whose latest start comes first: its deadline less its work left and a launch; then those without a deadline"
    }

    fn because(&self) -> Option<&'static str> {
        Some("its latest start by its deadline comes first")
    }

    fn places_jobs(&self) -> bool {
        true
    }

    fn place(&self, job: &Waiting<'_>) -> i64 {
        job.latest_start().map_or(i64::MAX, |start| start.as_millis())
    }
}
