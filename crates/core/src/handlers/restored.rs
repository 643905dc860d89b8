//! A store that was restored from a backup knows less than the world: runs may have been started after the backup was
//! taken, and their agents may still speak.

use crate::reply::Reply;
use crate::scheduler::Scheduler;

/// How many runs a job may have had after the backup without a new run taking the number of one of them.
const LEAP: u64 = 1_000_000;

impl Scheduler {
    /// In another life of the store than the last one, epochs go on far above all that were given out: what an unknown
    /// run still does is refused as stale, and no new run is mistaken for it by a driver or in a checkpoint store.
    pub(crate) fn on_opened(&mut self, incarnation: u128) -> Reply {
        let meta = &mut self.tables.meta;
        if meta.incarnation != 0 && meta.incarnation != incarnation {
            let newest = self.tables.jobs.values().map(|job| job.epoch).max().unwrap_or(0);
            meta.epoch_floor = meta.epoch_floor.max(newest).saturating_add(LEAP);
        }
        meta.incarnation = incarnation;
        Reply::Done
    }
}
