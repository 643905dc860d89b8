//! One job with a deadline on recorded spot markets: what a rule would have paid, and what the best possible schedule.
//!
//! `set` reads folders of traces, `windows` cuts them, `model` runs one rule over one window, `optimum` is the yardstick,
//! and `bench` compares rules over many windows. README.md defines the model.

pub mod bench;
pub mod export;
pub mod model;
pub mod optimum;
pub mod set;
pub mod summary;
pub mod windows;
