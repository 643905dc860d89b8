//! The few file operations that durability hangs on, behind a trait so that tests can make each of them fail.
//!
//! Everything that writes truth (journal, blobs, exports, identity, reserve) writes through [`Files`]. Reading goes
//! to the file system directly, and so does sled, whose files are never the proof of anything.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;

pub mod faulty;

/// An open file that is written at known places.
pub trait LogFile: Send + Sync + Debug {
    /// Writes all of `bytes` at `offset`; nothing is promised before `sync`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Keeps room for so many bytes from `offset` on, beyond the end of the file if need be, so that writing them later
    /// cannot find the disk full. Where the file system cannot promise that, the answer is `false`.
    fn promise(&self, offset: u64, len: u64) -> io::Result<bool>;
    /// Cuts or extends the file; room that was promised beyond is given back.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes the file's bytes and its length survive a power cut (fdatasync).
    fn sync(&self) -> io::Result<()>;
}

/// Free and total space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
}

/// A file system.
pub trait Files: Send + Sync + Debug {
    /// Creates an empty file; refuses when it exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Opens an existing file for writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes creations, removals and renames in a directory survive a power cut.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    fn space(&self, dir: &Path) -> io::Result<Space>;
}

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl LogFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn promise(&self, offset: u64, len: u64) -> io::Result<bool> {
        use rustix::io::Errno;
        match rustix::fs::fallocate(self, rustix::fs::FallocateFlags::KEEP_SIZE, offset, len) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Files for RealFiles {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(OpenOptions::new().write(true).open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(dir)?;
        Ok(Space { free: stat.f_bavail * stat.f_frsize, total: stat.f_blocks * stat.f_frsize })
    }
}

/// Writes a whole small file so that after a crash it is there entirely or not at all: temporary name, sync, rename.
pub(crate) fn write_whole(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_made(files, path, |_| Ok(bytes))
}

/// As [`write_whole`], with bytes that say something of the file itself: `make` is given its temporary name.
pub(crate) fn write_made<B: AsRef<[u8]>>(
    files: &dyn Files,
    path: &Path,
    make: impl FnOnce(&Path) -> io::Result<B>,
) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    remove_if_there(files, &temporary)?;
    let written = files.create(&temporary).and_then(|file| {
        file.write_at(make(&temporary)?.as_ref(), 0)?;
        file.sync()
    });
    if let Err(error) = written {
        // Best effort: what matters is the first error, and leftovers are removed at the next open.
        let _ = files.remove(&temporary);
        return Err(error);
    }
    files.rename(&temporary, path)?;
    files.sync_dir(parent(path))
}

pub(crate) fn remove_if_there(files: &dyn Files, path: &Path) -> io::Result<()> {
    match files.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory that only its owner can enter, and those above it that are missing. One that exists stays as it is.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// The directory that holds `path`.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Bytes of all files under `dir`, as the file system counts what they occupy; 0 when it is absent.
pub(crate) fn occupied(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => occupied(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// Names in `dir`, sorted; an absent directory has none.
pub(crate) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
