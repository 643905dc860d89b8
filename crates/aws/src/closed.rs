//! Runs of which no instance may be launched any more, on this host's disk: EC2 has no place for what never was.
//!
//! Losing it costs little: a run that had instances cannot be launched again in any case, since EC2 answers its token with
//! the instances of then.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leeway_drivers::files;
use leeway_drivers::run_dir::create_private_dir;
use leeway_model::{Name, RunId};
use serde::{Deserialize, Serialize};

/// The folder of one cluster.
#[derive(Debug)]
pub struct Closed {
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Order {
    /// Milliseconds since 1970 at which its instances are terminated.
    kill_at: u64,
}

impl Closed {
    pub fn new(root: &Path, cluster: &Name) -> io::Result<Self> {
        let folder = root.join(cluster.as_str());
        create_private_dir(&folder)?;
        Ok(Self { folder })
    }

    pub fn is_closed(&self, run: RunId) -> bool {
        self.file(run).exists()
    }

    /// Closes a run; of several orders the earliest stands. Returns the time that is left until its instances end.
    pub fn close(&self, run: RunId, grace: Duration) -> io::Result<Duration> {
        let now = now();
        let known: Option<Order> = files::read_json(&self.file(run))?;
        let kill_at = now.saturating_add(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        let order = Order { kill_at: known.map_or(kill_at, |known| known.kill_at.min(kill_at)) };
        files::replace_json(&self.file(run), &order)?;
        Ok(Duration::from_millis(order.kill_at.saturating_sub(now)))
    }

    /// Whether the time of a closed run is up.
    pub fn is_overdue(&self, run: RunId) -> io::Result<bool> {
        let known: Option<Order> = files::read_json(&self.file(run))?;
        Ok(known.is_some_and(|order| order.kill_at <= now()))
    }

    pub fn forget(&self, run: RunId) -> io::Result<()> {
        match std::fs::remove_file(self.file(run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn file(&self, run: RunId) -> PathBuf {
        self.folder.join(format!("{run}.json"))
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_orders_the_earliest_stands_and_holds_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let name: Name = "east".parse().unwrap();
        let run: RunId = "j-1-r1".parse().unwrap();
        let closed = Closed::new(folder.path(), &name).unwrap();
        assert!(!closed.is_closed(run) && !closed.is_overdue(run).unwrap());
        assert!(closed.close(run, Duration::from_secs(60)).unwrap() > Duration::from_secs(50));
        assert!(closed.close(run, Duration::from_secs(600)).unwrap() <= Duration::from_secs(60));
        assert!(!closed.is_overdue(run).unwrap());
        closed.close(run, Duration::ZERO).unwrap();
        let again = Closed::new(folder.path(), &name).unwrap();
        assert!(again.is_closed(run) && again.is_overdue(run).unwrap());
        again.forget(run).unwrap();
        again.forget(run).unwrap();
        assert!(!again.is_closed(run));
    }
}
