//! Keeping the disk bounded: a base stands for the history before it, then sealed segments can go.
//!
//! The base is written by the index thread while appends and flushes go on; only removing files is done here.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::DiskStore;
use super::open::collect_blobs;
use crate::export::{Base, base_files};
use crate::{Error, Index, Store};

/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(60);

/// What a compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CompactReport {
    /// Entry that the base is as of.
    pub base_index: Index,
    pub base_bytes: u64,
    pub segments_removed: u64,
    pub segment_bytes_removed: u64,
    pub blobs_removed: u64,
    pub blob_bytes_removed: u64,
    /// First entry that is still in the history.
    pub first_entry: Index,
}

impl DiskStore {
    /// Writes a base as of the head and drops sealed history that it covers, except the newest `keep_history_bytes`.
    /// Waits until it is done. What is staged is not touched.
    pub fn compact(&mut self, keep_history_bytes: u64) -> Result<CompactReport, Error> {
        if self.journal.is_failed() {
            return Err(Error::Failed);
        }
        // Sealing lets even the youngest entries go when nothing is to be kept.
        if keep_history_bytes == 0 && self.journal.staged() == self.journal.head() {
            self.journal.roll()?;
        }
        // Without an index the base is written from the old base and the journal.
        let _ = self.worker.caught_up(self.options.index_patience);
        if !self.compacting {
            self.worker.want_base();
        }
        self.compacting = false;
        let base = self.worker.wait_for_base()?;
        self.adopt(base, keep_history_bytes)
    }

    /// Called after each flush: starts a compaction when history has outgrown its limit, and finishes one whose base
    /// is there. Failing is not the flush's failure, for its entries are durable.
    pub(super) fn tend_history(&mut self) {
        let Some(keep) = self.options.history_bytes else { return };
        if self.compacting {
            let Some(done) = self.worker.take_base() else { return };
            self.compacting = false;
            if let Err(error) = done.and_then(|base| self.adopt(base, keep)) {
                tracing::warn!(%error, "old history could not be dropped; it is tried again later");
                self.compact_after = Some(Instant::now() + RETRY);
            }
            return;
        }
        if self.compact_after.is_some_and(|after| Instant::now() < after) {
            return;
        }
        let since_base = self.journal.sealed_since(self.base.as_ref().map_or(0, |base| base.head.index));
        // A base costs as much as the rows weigh, so it must be worth it.
        if since_base > keep.max(self.options.segment_bytes).max(self.live_bytes() / 2) {
            self.compact_after = None;
            self.compacting = true;
            self.worker.want_base();
        }
    }

    fn adopt(&mut self, base: Base, keep_history_bytes: u64) -> Result<CompactReport, Error> {
        let files = &self.options.files;
        for path in base_files(&self.dir)? {
            if path != base.path {
                files.remove(&path).map_err(|error| Error::at(&path, error))?;
            }
        }
        let mut report =
            CompactReport { base_index: base.head.index, base_bytes: base.bytes, ..CompactReport::default() };
        (report.segments_removed, report.segment_bytes_removed) =
            self.journal.prune(base.head.index, keep_history_bytes)?;
        self.base = Some(base);
        (report.blobs_removed, report.blob_bytes_removed) =
            collect_blobs(&self.blobs, self.base.as_ref(), &self.journal)?;
        report.first_entry = self.first_entry();
        tracing::info!(
            base = report.base_index,
            segments = report.segments_removed,
            blobs = report.blobs_removed,
            "history was compacted"
        );
        Ok(report)
    }
}
