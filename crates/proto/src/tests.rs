//! Properties over the whole contract.

mod fields;
mod laws;
