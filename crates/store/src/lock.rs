//! One owner of a data directory at a time, by an advisory lock that the system drops with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::Error;

/// Held as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was forked a moment ago still has a copy of the descriptor until it
        // executes its program, and would go on holding the lock.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "the lock of the data directory could not be given back");
        }
    }
}

impl Lock {
    /// Takes the lock of `dir`, or refuses naming the process that has it.
    pub fn take(dir: &Path) -> Result<Lock, Error> {
        let path = dir.join("LOCK");
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| Error::at(&path, error))?;
        try_lock(&mut file, dir)?;
        // Only for the message of whoever comes second; the lock itself is the kernel's, so a full disk is no reason
        // to refuse.
        let note = file.set_len(0).and_then(|()| {
            file.seek(SeekFrom::Start(0))?;
            writeln!(file, "{}", std::process::id())
        });
        if let Err(error) = note {
            tracing::debug!(%error, "the lock file could not be given our process id");
        }
        Ok(Lock { file })
    }

    /// Takes the lock without writing anything; `None` when there is no lock file yet.
    pub fn peek(dir: &Path) -> Result<Option<Lock>, Error> {
        let path = dir.join("LOCK");
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::at(&path, error)),
        };
        try_lock(&mut file, dir)?;
        Ok(Some(Lock { file }))
    }
}

fn try_lock(file: &mut File, dir: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::Error(error)) => Err(Error::at(&dir.join("LOCK"), error)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let known = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if known { holder.trim().to_owned() } else { "unknown".to_owned() };
            Err(Error::Locked { dir: dir.to_path_buf(), holder })
        }
    }
}
