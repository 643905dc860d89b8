//! Uploaded archives, named by the SHA-256 of their bytes: `<data>/uploads/<sha256>`. A file has its name only when it
//! is whole, verified and durable, so what is there is right, and sending it again is no error.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leeway_model::Bytes;
use leeway_model::job::Upload;
use sha2::{Digest, Sha256};

use crate::files;

/// Bytes that are read at once.
pub const PIECE: usize = 256 << 10;

#[derive(Clone, Debug)]
pub struct Uploads {
    root: Arc<PathBuf>,
    bytes_max: u64,
    next: Arc<AtomicU64>,
}

#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("the archive is larger than {0} bytes; leave out what the job does not need, or raise limits.upload_size")]
    TooLarge(u64),
    #[error("the archive is empty")]
    Empty,
    #[error("the archive cannot be kept: {0}")]
    Io(#[from] io::Error),
}

impl Uploads {
    /// Opens the folder and removes what earlier uploads left unfinished.
    pub fn open(root: PathBuf, bytes_max: u64) -> io::Result<Self> {
        files::create_private_dir(&root)?;
        for entry in fs::read_dir(&root)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(Self { root: Arc::new(root), bytes_max, next: Arc::new(AtomicU64::new(0)) })
    }

    fn path(&self, sha256: &[u8; 32]) -> PathBuf {
        self.root.join(hex(sha256))
    }

    /// The archive of this name, when it is held.
    pub fn find(&self, sha256: &[u8; 32]) -> io::Result<Option<Upload>> {
        match fs::metadata(self.path(sha256)) {
            Ok(found) => Ok(Some(Upload { sha256: *sha256, size: Bytes::new(found.len()) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes archives that are not in `named` and were last sent longer ago than `age`.
    pub fn remove_unused(&self, named: &BTreeSet<[u8; 32]>, age: Duration) -> io::Result<()> {
        let named: BTreeSet<String> = named.iter().map(|sha256| hex(sha256)).collect();
        for entry in fs::read_dir(&*self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            let ours =
                name.to_str().is_some_and(|name| name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit()));
            let used = name.to_str().is_some_and(|name| named.contains(name));
            let old = entry.metadata()?.modified()?.elapsed().is_ok_and(|since| since >= age);
            if ours && !used && old {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Begins to receive an archive.
    pub fn begin(&self) -> io::Result<Receiving> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(format!("{}-{number}.part", std::process::id()));
        let file = files::private().write(true).create_new(true).open(&path)?;
        let part = Part { path: Some(path) };
        Ok(Receiving { uploads: self.clone(), part, file, hash: Sha256::new(), size: 0 })
    }

    /// At most [`PIECE`] bytes of an archive from an offset.
    pub fn read(&self, sha256: &[u8; 32], offset: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(sha256))?;
        file.seek(SeekFrom::Start(offset))?;
        let mut piece = Vec::new();
        file.take(PIECE as u64).read_to_end(&mut piece)?;
        Ok(piece)
    }
}

/// An unfinished file that goes when it is dropped.
#[derive(Debug)]
struct Part {
    path: Option<PathBuf>,
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What is left is removed at the next start.
            let _ = fs::remove_file(path);
        }
    }
}

/// An archive that is being received.
#[derive(Debug)]
pub struct Receiving {
    uploads: Uploads,
    part: Part,
    file: File,
    hash: Sha256,
    size: u64,
}

impl Receiving {
    pub fn add(&mut self, data: &[u8]) -> Result<(), UploadError> {
        self.size = self.size.saturating_add(data.len() as u64);
        if self.size > self.uploads.bytes_max {
            return Err(UploadError::TooLarge(self.uploads.bytes_max));
        }
        self.hash.update(data);
        self.file.write_all(data)?;
        Ok(())
    }

    /// Makes it durable under its name.
    pub fn finish(mut self) -> Result<Upload, UploadError> {
        if self.size == 0 {
            return Err(UploadError::Empty);
        }
        let sha256: [u8; 32] = self.hash.finalize().into();
        self.file.sync_all()?;
        if let Some(path) = self.part.path.take() {
            fs::rename(path, self.uploads.path(&sha256))?;
        }
        sync_folder(&self.uploads.root)?;
        Ok(Upload { sha256, size: Bytes::new(self.size) })
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_found_by_its_digest_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(folder.path().to_path_buf(), 100).unwrap();
        let mut receiving = uploads.begin().unwrap();
        receiving.add(b"hello ").unwrap();
        receiving.add(b"world").unwrap();
        let digest: [u8; 32] = Sha256::digest(b"hello world").into();
        assert_eq!(uploads.find(&digest).unwrap(), None);
        let upload = receiving.finish().unwrap();
        assert_eq!((upload.sha256, upload.size.get()), (digest, 11));
        assert_eq!(uploads.find(&digest).unwrap(), Some(upload));
        assert_eq!(uploads.read(&digest, 6).unwrap(), b"world");
        let kept = || uploads.find(&digest).unwrap().is_some();
        uploads.remove_unused(&BTreeSet::new(), Duration::from_secs(3_600)).unwrap();
        assert!(kept(), "it is too young");
        uploads.remove_unused(&BTreeSet::from([digest]), Duration::ZERO).unwrap();
        assert!(kept(), "a job names it");
        uploads.remove_unused(&BTreeSet::new(), Duration::ZERO).unwrap();
        assert!(!kept());
    }

    #[test]
    fn too_much_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(folder.path().to_path_buf(), 10).unwrap();
        let mut receiving = uploads.begin().unwrap();
        assert!(matches!(receiving.add(&[0; 11]), Err(UploadError::TooLarge(10))));
        drop(receiving);
        assert!(matches!(uploads.begin().unwrap().finish(), Err(UploadError::Empty)));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
