//! The wire: generated types and services, and total conversions between them and the model.
//!
//! The only crate that knows how a message looks. [`v1`] is generated from `proto/leeway/v1`. Whatever comes from outside
//! passes through a conversion of [`convert`] once, at the border: each ends with a value of the model or with an [`Invalid`]
//! that names the field, the value and the fix, and none panics.
//!
//! A message that carries amounts states their currency, while the model's amounts are always in the installation's ledger
//! currency. Such messages convert with `into_model(ledger)` and `from_model(value, ledger)`; the others with `TryFrom`
//! and `From`.

pub mod check;
pub mod codec;
pub mod convert;
pub mod invalid;
pub mod limits;
pub mod status;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use convert::{agent, query, submit};
pub use invalid::Invalid;
/// What every message is: it can be encoded and decoded.
pub use prost::Message;

/// Types and services generated from `proto/leeway/v1`.
pub mod v1 {
    #![allow(missing_debug_implementations, clippy::all, clippy::large_futures)]

    tonic::include_proto!("leeway.v1");

    /// The compiled contract, for the reflection service.
    pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("leeway.v1.descriptors");

    impl std::fmt::Debug for SecretValue {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("<secret>")
        }
    }

    impl std::fmt::Debug for AgentCaller {
        /// Without the token.
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}/{}#{}", self.run_id.escape_debug(), self.rank, self.sequence)
        }
    }
}

pub use v1 as pb;
