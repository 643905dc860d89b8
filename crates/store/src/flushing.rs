//! A flush in three parts, so that its owner need not stand still while the disk works.

use std::fmt;
use std::io;

type Work = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A flush that has begun, from [`Store::begin_flush`](crate::Store::begin_flush). Waiting for it needs no store and may
/// happen on another thread.
#[must_use = "nothing is durable before the flush has ended"]
#[derive(Default)]
pub struct Flushing(Option<Work>);

/// What waiting came to, for [`Store::end_flush`](crate::Store::end_flush).
#[must_use = "the store must be told"]
#[derive(Debug)]
pub struct Flushed(io::Result<()>);

impl Flushed {
    /// What the disk said, for a store that ends its flush.
    ///
    /// # Errors
    /// Those of what was waited for; nothing of the flush may be taken for durable then.
    pub fn outcome(self) -> io::Result<()> {
        self.0
    }
}

impl Flushing {
    /// A flush that waits for what `work` does.
    pub fn of(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Flushing {
        Flushing(Some(Box::new(work)))
    }

    /// Whether there is nothing to wait for.
    pub fn is_done(&self) -> bool {
        self.0.is_none()
    }

    /// Waits for the disk.
    pub fn wait(self) -> Flushed {
        Flushed(self.0.map_or(Ok(()), |work| work()))
    }
}

impl fmt::Debug for Flushing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flushing").field("is_done", &self.is_done()).finish()
    }
}
