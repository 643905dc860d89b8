//! What is wrong with a field of a message.

/// A field that cannot be accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// Path from the message's root, for example `spec.resources[2].cpus.milli_cpus`.
    pub field: String,
    /// What was given and what would be accepted.
    pub message: String,
}

impl Invalid {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// A field that must be set and is not.
    pub fn missing(field: &str) -> Self {
        Self::new(field, "is missing; it must be set")
    }

    /// The same fault, seen from the message that has this one in its field `outer`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => outer.to_owned(),
            inner if inner.starts_with('[') => format!("{outer}{inner}"),
            inner => format!("{outer}.{inner}"),
        };
        self
    }
}

/// Puts a fault into its place in an outer message.
pub trait Within {
    /// In the field `outer`.
    #[must_use]
    fn within(self, outer: &str) -> Self;
    /// In the item `index` of the list `outer`.
    #[must_use]
    fn at(self, outer: &str, index: usize) -> Self;
}

impl<T> Within for Result<T, Invalid> {
    fn within(self, outer: &str) -> Self {
        self.map_err(|error| error.within(outer))
    }

    fn at(self, outer: &str, index: usize) -> Self {
        self.map_err(|error| error.within(&format!("{outer}[{index}]")))
    }
}
