//! Making changes of local files survive a power cut, and running blocking file work off the async threads.

use std::fs::File;
use std::io;
use std::path::Path;

/// Runs blocking work on tokio's blocking threads; a panic in it goes on in the caller.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        Err(_) => Err(io::Error::new(io::ErrorKind::Interrupted, "the runtime is shutting down")),
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// The directory that holds `path`; the current one for a bare name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates a directory and those above it, each durable before this returns.
pub(crate) fn create_dir_all(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    create_dir_all(parent(dir))?;
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(error),
        Ok(()) => sync_dir(parent(dir)),
    }
}

/// Makes every directory below `root`, and itself, durable; with `files` also the bytes of every regular file.
pub(crate) fn sync_tree(root: &Path, files: bool) -> io::Result<()> {
    for entry in walkdir::WalkDir::new(root).follow_links(false).contents_first(true) {
        let entry = entry?;
        if entry.file_type().is_dir() || (files && entry.file_type().is_file()) {
            File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}
