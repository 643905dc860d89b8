//! Faults of the store, sorted into the few classes that callers decide by. No vendor text is ever matched by a caller.

use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind;

use object_store::path::Path;

/// What a failed call to the store means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The object is not there.
    Missing,
    /// Something is already there, and the call was create-only.
    Exists,
    /// Disk or quota used up: remove expired copies first, trying again alone will not help.
    Full,
    /// No permission or no valid credentials.
    Denied,
    /// The store cannot do this, or was asked for something senseless.
    Unsupported,
    /// Throttled, unreachable, or an answer we do not know: may work later. Never proof that data is damaged.
    Unavailable,
}

impl Class {
    /// Stable code for machines.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "OBJECT_MISSING",
            Self::Exists => "OBJECT_EXISTS",
            Self::Full => "STORE_FULL",
            Self::Denied => "STORE_DENIED",
            Self::Unsupported => "STORE_UNSUPPORTED",
            Self::Unavailable => "STORE_UNAVAILABLE",
        }
    }

    /// The same call may succeed later without anybody doing anything.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Unavailable)
    }

    pub fn of(error: &object_store::Error) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } => Self::Missing,
            E::AlreadyExists { .. } | E::Precondition { .. } => Self::Exists,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Self::Denied,
            E::InvalidPath { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::UnknownConfigurationKey { .. } => Self::Unsupported,
            other => Self::of_cause(other),
        }
    }

    /// The class of the system's own error, where one lies at the bottom.
    fn of_cause(error: &(dyn StdError + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(io) = error.downcast_ref::<std::io::Error>() {
                return Self::of_io(io);
            }
            cause = error.source();
        }
        Self::Unavailable
    }

    pub fn of_io(error: &std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::Full,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::Denied,
            ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::Unsupported
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory => Self::Unsupported,
            _ => Self::Unavailable,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// A call to the store failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} '{object}' in the checkpoint store ({class})")]
pub struct StoreError {
    pub class: Class,
    /// A verb, such as `write`.
    pub action: &'static str,
    pub object: String,
    #[source]
    pub source: object_store::Error,
}

impl StoreError {
    pub fn new(action: &'static str, object: &Path, source: object_store::Error) -> Self {
        Self { class: Class::of(&source), action, object: object.to_string(), source }
    }

    pub const fn code(&self) -> &'static str {
        self.class.code()
    }

    pub const fn retryable(&self) -> bool {
        self.class.retryable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(kind: ErrorKind) -> object_store::Error {
        object_store::Error::Generic { store: "test", source: Box::new(std::io::Error::from(kind)) }
    }

    #[test]
    fn k_09_only_unavailability_is_worth_a_retry() {
        let classes = [
            (io(ErrorKind::TimedOut), Class::Unavailable),
            (io(ErrorKind::ConnectionReset), Class::Unavailable),
            (object_store::Error::Generic { store: "test", source: "503 slow down".into() }, Class::Unavailable),
            (io(ErrorKind::StorageFull), Class::Full),
            (io(ErrorKind::QuotaExceeded), Class::Full),
            (io(ErrorKind::PermissionDenied), Class::Denied),
            (io(ErrorKind::ReadOnlyFilesystem), Class::Denied),
            (object_store::Error::NotFound { path: "a".into(), source: "404".into() }, Class::Missing),
            (object_store::Error::AlreadyExists { path: "a".into(), source: "409".into() }, Class::Exists),
        ];
        for (error, class) in classes {
            assert_eq!(Class::of(&error), class, "{error}");
            assert_eq!(class.retryable(), class == Class::Unavailable);
        }
    }

    #[tokio::test]
    async fn the_system_error_below_a_folder_store_decides_its_class() {
        use object_store::{ObjectStoreExt, local::LocalFileSystem};
        let dir = tempfile::tempdir().unwrap();
        let store = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
        let name = Path::from("x".repeat(300));
        let long = store.put(&name, "bytes".into()).await.unwrap_err();
        assert_eq!(Class::of(&long), Class::Unsupported, "{long:?}");
        let absent = store.get(&Path::from("absent")).await.unwrap_err();
        assert_eq!(Class::of(&absent), Class::Missing, "{absent:?}");
    }
}
