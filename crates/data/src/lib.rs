//! The checkpoint repository: a directory that a program saved becomes immutable objects with a manifest in an object
//! store, and comes back byte for byte or not at all.
//!
//! One rank of a run publishes one *shard*: its files, then `MANIFEST.json`. The SHA-256 of that manifest is what the
//! scheduler commits; [`leeway_model::checkpoint::CheckpointRef`] holds the digests of all ranks and is the root of the
//! checkpoint. Nothing here decides which checkpoint counts: an object that no committed digest leads to is only data.
//!
//! Correctness never rests on rename, listing order or file times of the store, so every backend of `object_store`
//! will do; this build carries folders (`file:///…`), S3 and what speaks like it (`s3://…`), and memory (`memory:`).

mod check;
pub mod digest;
mod durable;
pub mod error;
pub mod faulty;
pub mod layout;
pub mod manifest;
pub mod path;
pub mod pending;
pub mod publish;
pub mod ready;
pub mod record;
pub mod remove;
pub mod repository;
pub mod restore;
mod retry;
mod stores;
mod walk;

pub use check::{Damage, Verified};
pub use error::{Class, StoreError};
pub use layout::{JobAt, ShardAt};
pub use manifest::{Manifest, ManifestError};
pub use pending::{Pending, Whole};
pub use publish::{PublishError, Published};
pub use remove::{Left, Removal, Uncommitted};
pub use repository::{OpenError, Repository, open_store};
pub use restore::{RestoreError, Restored};
pub use retry::Patience;
pub use stores::Stores;
