//! Space kept aside for the day the disk is full, so that cancelling, terminating and opening still work.
//!
//! `stop writing` is decided by free space before the disk is really full; the reserve covers the case that somebody
//! else fills it. It is given up by removing its file, and taken again when there is room for it and as much besides.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Error;
use crate::files::{Files, parent};

const CHUNK: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
    held: bool,
    files: Arc<dyn Files>,
}

impl Reserve {
    /// The reserve of `dir` as it is now; nothing is written.
    pub fn of(dir: &Path, bytes: u64, files: Arc<dyn Files>) -> Reserve {
        let path = dir.join("RESERVE");
        let held = bytes > 0 && std::fs::metadata(&path).is_ok_and(|meta| meta.len() >= bytes);
        Reserve { path, bytes, held, files }
    }

    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Fills the reserve when `free` bytes leave room for it and as much besides. A disk without room is no error.
    pub fn fill(&mut self, free: u64, keep_free: u64) -> Result<(), Error> {
        if self.held || self.bytes == 0 || free < self.bytes.saturating_mul(2).saturating_add(keep_free) {
            return Ok(());
        }
        match self.write() {
            Ok(()) => self.held = true,
            Err(error) => {
                tracing::warn!(%error, bytes = self.bytes, "the disk has no room for the reserve");
                crate::files::remove_if_there(&*self.files, &self.path)
                    .map_err(|error| Error::at(&self.path, error))?;
            }
        }
        Ok(())
    }

    /// Gives the space back to the file system; `true` when there was some.
    pub fn release(&mut self) -> bool {
        let there = self.path.exists();
        self.held = false;
        if !there {
            return false;
        }
        match self.files.remove(&self.path) {
            Ok(()) => {
                tracing::warn!(bytes = self.bytes, "the disk is full: the reserve was given up");
                // The space must be free before it is used; the name's removal itself need not be durable.
                self.files.sync_dir(parent(&self.path)).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Real bytes, not a hole: only written blocks are sure to be there.
    fn write(&self) -> io::Result<()> {
        crate::files::remove_if_there(&*self.files, &self.path)?;
        let file = self.files.create(&self.path)?;
        let chunk = vec![0x5a; CHUNK.min(self.bytes as usize)];
        let mut at = 0;
        while at < self.bytes {
            let len = chunk.len().min((self.bytes - at) as usize);
            file.write_at(&chunk[..len], at)?;
            at += len as u64;
        }
        file.sync()
    }
}
