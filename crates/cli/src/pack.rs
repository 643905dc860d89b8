//! Folders and files as tar archives that depend on their contents alone: sorted, without times and owners.
//!
//! Equal contents give equal bytes on every machine, so an archive that the server holds need not be sent again.
//! `.git` is left out. What `.skyignore` at the top names is left out too, or, where there is no such file, what
//! `.gitignore` files name. A link is kept as a link and must stay inside; a device or socket is refused by name.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

/// Most files, folders and links of one archive.
pub const MAX_ENTRIES: usize = 100_000;
/// Largest archive that is made; the server may take less (`limits.upload_size`, 1 GiB unless configured).
pub const MAX_BYTES: u64 = 16 << 30;

/// An archive in an unnamed temporary file.
#[derive(Debug)]
pub struct Archive {
    pub file: File,
    pub sha256: [u8; 32],
    /// Length in bytes.
    pub size: u64,
}

/// Why nothing can be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("'{path}' cannot be read: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("'{path}' is not a folder; name one as workdir")]
    NotAFolder { path: PathBuf },
    #[error("'{path}' is {what}, which cannot be uploaded; name it in .skyignore")]
    Kind { path: PathBuf, what: &'static str },
    #[error("'{path}' links to '{target}' outside the folder; copy the file, or name the link in .skyignore")]
    LinksOut { path: PathBuf, target: PathBuf },
    #[error("'{path}' changed while it was packed; try again")]
    Changed { path: PathBuf },
    #[error("'{path}' holds more than {MAX_ENTRIES} entries; name in .skyignore what the job does not need")]
    TooMany { path: PathBuf },
    #[error("'{path}' has more than {MAX_BYTES} bytes; name in .skyignore what the job does not need")]
    TooLarge { path: PathBuf },
    #[error("the archive cannot be written: {0}")]
    Write(io::Error),
}

/// Packs a folder; names in the archive begin below it.
pub fn folder(root: &Path) -> Result<Archive, PackError> {
    if !metadata(root)?.is_dir() {
        return Err(PackError::NotAFolder { path: root.to_path_buf() });
    }
    let mut packer = Packer::new(root)?;
    let ignore_file = if root.join(".skyignore").is_file() { ".skyignore" } else { ".gitignore" };
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .add_custom_ignore_filename(ignore_file)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_name(Ord::cmp)
        .build();
    for entry in walk {
        let entry = entry.map_err(|error| PackError::Read {
            path: root.to_path_buf(),
            source: error.into_io_error().unwrap_or_else(|| io::Error::other("the folder cannot be walked")),
        })?;
        let Ok(name) = entry.path().strip_prefix(root) else { continue };
        if !name.as_os_str().is_empty() {
            packer.add(entry.path(), name)?;
        }
    }
    packer.finish()
}

/// Packs what a job finds at `target`: a folder's contents, or one file under the last name of `target`.
pub fn mount(source: &Path, target: &str) -> Result<Archive, PackError> {
    if metadata(source)?.is_dir() {
        return folder(source);
    }
    let name = Path::new(target).file_name().or_else(|| source.file_name()).unwrap_or_default();
    let mut packer = Packer::new(source)?;
    // The file itself, also where the path is a link to it.
    let real = source.canonicalize().map_err(|error| read_error(source, error))?;
    packer.add(&real, Path::new(name))?;
    packer.finish()
}

struct Packer {
    root: PathBuf,
    tar: Builder<Counted>,
    entries: usize,
}

impl Packer {
    fn new(root: &Path) -> Result<Self, PackError> {
        let file = tempfile::tempfile().map_err(PackError::Write)?;
        let counted = Counted { file: io::BufWriter::new(file), hasher: Sha256::new(), size: 0 };
        Ok(Self { root: root.to_path_buf(), tar: Builder::new(counted), entries: 0 })
    }

    fn add(&mut self, path: &Path, name: &Path) -> Result<(), PackError> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(PackError::TooMany { path: self.root.clone() });
        }
        let metadata = std::fs::symlink_metadata(path).map_err(|error| read_error(path, error))?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            let mut header = header(EntryType::Directory, 0, 0o755);
            self.tar.append_data(&mut header, name, io::empty()).map_err(PackError::Write)
        } else if kind.is_symlink() {
            self.link(path, name)
        } else if kind.is_file() {
            self.file(path, name, &metadata)
        } else {
            Err(PackError::Kind { path: path.to_path_buf(), what: "a device, pipe or socket" })
        }
    }

    fn file(&mut self, path: &Path, name: &Path, metadata: &Metadata) -> Result<(), PackError> {
        if self.tar.get_ref().size.saturating_add(metadata.len()) > MAX_BYTES {
            return Err(PackError::TooLarge { path: self.root.clone() });
        }
        let is_program = metadata.permissions().mode() & 0o100 != 0;
        let mut header = header(EntryType::Regular, metadata.len(), if is_program { 0o755 } else { 0o644 });
        let mut file = File::open(path).map_err(|error| read_error(path, error))?;
        // The header has promised a length already: a file that grew is cut, one that shrank would spoil the archive.
        let mut limited = Measured { inner: (&mut file).take(metadata.len()), read: 0 };
        self.tar.append_data(&mut header, name, &mut limited).map_err(PackError::Write)?;
        let whole = limited.read == metadata.len() && matches!(file.read(&mut [0]), Ok(0));
        if whole { Ok(()) } else { Err(PackError::Changed { path: path.to_path_buf() }) }
    }

    fn link(&mut self, path: &Path, name: &Path) -> Result<(), PackError> {
        let target = std::fs::read_link(path).map_err(|error| read_error(path, error))?;
        let depth = name.components().count() as i64 - 1;
        if !stays_inside(depth, &target) {
            return Err(PackError::LinksOut { path: path.to_path_buf(), target });
        }
        let mut header = header(EntryType::Symlink, 0, 0o777);
        self.tar.append_link(&mut header, name, &target).map_err(PackError::Write)
    }

    fn finish(self) -> Result<Archive, PackError> {
        let counted = self.tar.into_inner().map_err(PackError::Write)?;
        let file = counted.file.into_inner().map_err(|error| PackError::Write(error.into_error()))?;
        Ok(Archive { file, sha256: counted.hasher.finalize().into(), size: counted.size })
    }
}

fn header(kind: EntryType, size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Whether a link that stands `depth` folders deep never climbs above the top.
fn stays_inside(mut depth: i64, target: &Path) -> bool {
    target.components().all(|part| {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => return false,
        }
        depth >= 0
    })
}

fn metadata(path: &Path) -> Result<Metadata, PackError> {
    std::fs::metadata(path).map_err(|error| read_error(path, error))
}

fn read_error(path: &Path, source: io::Error) -> PackError {
    PackError::Read { path: path.to_path_buf(), source }
}

/// Hashes and counts on the way to the file.
struct Counted {
    file: io::BufWriter<File>,
    hasher: Sha256,
    size: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Counts what was read.
struct Measured<R> {
    inner: R,
    read: u64,
}

impl<R: io::Read> io::Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom};
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn names(mut archive: Archive) -> Vec<String> {
        archive.file.seek(SeekFrom::Start(0)).unwrap();
        let mut tar = tar::Archive::new(archive.file);
        tar.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn equal_contents_give_equal_bytes_whenever_and_in_whatever_order_they_were_written() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (dir, order) in [(&one, [0, 1, 2]), (&two, [2, 0, 1])] {
            for index in order {
                let name = ["b/run.sh", "a.txt", "b/a/deep"][index];
                write(dir.path(), name, name);
                let stamp = std::time::UNIX_EPOCH + std::time::Duration::from_secs(index as u64 * 1_000);
                File::options().write(true).open(dir.path().join(name)).unwrap().set_modified(stamp).unwrap();
            }
        }
        let (first, second) = (folder(one.path()).unwrap(), folder(two.path()).unwrap());
        assert_eq!((first.sha256, first.size), (second.sha256, second.size));
        assert_eq!(Sha256::digest(std::io::read_to_string(rewound(first.file)).unwrap().as_bytes())[..], first.sha256);
        assert_eq!(names(second), ["a.txt", "b", "b/a", "b/a/deep", "b/run.sh"]);
        write(two.path(), "a.txt", "changed");
        assert_ne!(folder(two.path()).unwrap().sha256, first.sha256);
    }

    fn rewound(mut file: File) -> File {
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    #[test]
    fn what_is_ignored_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for name in [".git/HEAD", ".gitignore", "kept", "data/large.bin", "logs/x", "sub/.git"] {
            write(dir.path(), name, "x");
        }
        write(dir.path(), ".gitignore", "logs/\n*.bin\n");
        assert_eq!(names(folder(dir.path()).unwrap()), [".gitignore", "data", "kept", "sub"]);
        write(dir.path(), ".skyignore", "kept\n");
        let found = names(folder(dir.path()).unwrap());
        let expected = [".gitignore", ".skyignore", "data", "data/large.bin", "logs", "logs/x", "sub"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_mounted_file_has_the_name_that_the_job_looks_for() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "local.json", "{}");
        let file = dir.path().join("local.json");
        assert_eq!(names(mount(&file, "etc/config.json").unwrap()), ["config.json"]);
        symlink("local.json", dir.path().join("link")).unwrap();
        assert_eq!(names(mount(&dir.path().join("link"), "x").unwrap()), ["x"]);
        assert_eq!(names(mount(dir.path(), "etc").unwrap()), ["link", "local.json"]);
    }

    #[test]
    fn what_cannot_be_uploaded_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |expected: &str| {
            let text = folder(dir.path()).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        };
        symlink("../outside", dir.path().join("link")).unwrap();
        refused("links to '../outside'");
        std::fs::remove_file(dir.path().join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        refused("socket' is a device, pipe or socket");
        let absent = dir.path().join("absent");
        assert!(matches!(folder(&absent), Err(PackError::Read { .. })));
        write(dir.path(), "file", "x");
        assert!(matches!(folder(&dir.path().join("file")), Err(PackError::NotAFolder { .. })));
    }

    #[test]
    fn long_names_survive() {
        let dir = tempfile::tempdir().unwrap();
        let long = format!("{}/{}", "d".repeat(120), "f".repeat(200));
        write(dir.path(), &long, "x");
        assert_eq!(names(folder(dir.path()).unwrap())[1], long);
    }
}
