//! The wire: generated types and services, and total conversions between them and the model.
//!
//! The only crate that knows how a message looks. [`v1`] is generated from `proto/leeway/v1`.

/// Types and services generated from `proto/leeway/v1`.
pub mod v1 {
    #![allow(missing_debug_implementations, clippy::all)]

    tonic::include_proto!("leeway.v1");

    /// The compiled contract, for the reflection service.
    pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("leeway.v1.descriptors");

    impl std::fmt::Debug for SecretValue {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("<secret>")
        }
    }

    impl std::fmt::Debug for AgentCaller {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{}/{}#{}", self.run_id.escape_debug(), self.rank, self.sequence)
        }
    }
}

pub use v1 as pb;
