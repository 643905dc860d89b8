//! The thread that waits for the disk, so that the scheduler's need not.

use crossbeam_channel::{Receiver, Sender, bounded};
use leeway_store::{Flushed, Flushing};

/// Waits for one flush at a time.
#[derive(Debug)]
pub(crate) struct Flusher {
    begin: Sender<Flushing>,
    /// What the flush that was begun came to. Disconnected when the thread has died.
    pub done: Receiver<Flushed>,
}

impl Flusher {
    /// Starts the thread, which ends when the flusher is dropped.
    pub fn start() -> std::io::Result<Self> {
        let (begin, begun) = bounded::<Flushing>(1);
        let (tell, done) = bounded(1);
        let body = move || {
            for flushing in begun {
                // The loop that began it may have ended by failure.
                let _ = tell.send(flushing.wait());
            }
        };
        std::thread::Builder::new().name("flusher".into()).spawn(body)?;
        Ok(Self { begin, done })
    }

    /// Hands over a flush. A thread that has died shows in `done`.
    pub fn begin(&self, flushing: Flushing) {
        let _ = self.begin.send(flushing);
    }
}
