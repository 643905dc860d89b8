//! `first-come`: the job that was submitted first.

use leeway_core::order::Order;

#[derive(Clone, Copy, Debug)]
pub struct FirstCome;

impl Order for FirstCome {
    fn name(&self) -> &'static str {
        "first-come"
    }

    fn about(&self) -> &'static str {
        "the job that was submitted first"
    }
}
