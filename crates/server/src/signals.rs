//! Wakes the streams of agents whose orders may have changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use leeway_model::RunId;
use tokio::sync::watch;

#[derive(Debug, Default)]
pub struct Signals(Mutex<BTreeMap<RunId, watch::Sender<u64>>>);

impl Signals {
    /// The agents of this run should look again.
    pub fn signal(&self, run: RunId) {
        let mut listeners = self.lock();
        if let Some(sender) = listeners.get(&run) {
            if sender.receiver_count() == 0 {
                listeners.remove(&run);
            } else {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    /// Changes whenever the run is signalled.
    pub fn listen(&self, run: RunId) -> watch::Receiver<u64> {
        let mut listeners = self.lock();
        if listeners.len() % 256 == 255 {
            listeners.retain(|_, sender| sender.receiver_count() > 0);
        }
        listeners.entry(run).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RunId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
