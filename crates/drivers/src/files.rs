//! Small files that are there whole or not at all, also after a crash, and that only their owner may read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Only the owner may read it.
pub const PRIVATE: u32 = 0o600;

/// Replaces `path` at once.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = draft(path, bytes)?;
    std::fs::rename(&draft, path)?;
    sync_parent(path)
}

/// Creates `path` unless it exists; `false` when it did. Of several callers exactly one gets `true`.
pub fn create_once(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let draft = draft(path, bytes)?;
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Ok(()) => sync_parent(path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// As [`replace`], with a value as JSON.
pub fn replace_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(path, &serde_json::to_vec(value)?)
}

/// `None` when there is no such file.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(path, &error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| named(path, &error.into())),
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read '{}': {error}", path.display()))
}

fn draft(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(draft)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// The last lines of a file, for an error's text.
pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let from = text.len().saturating_sub(400);
    leeway_model::name::escape(String::from_utf8_lossy(&text[from..]).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_creators_exactly_one_wins_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claim");
        let create = |n: u8| (n, create_once(&path, &[n]).unwrap());
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || create(n))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners: Vec<u8> = outcomes.iter().filter(|(_, won)| *won).map(|(n, _)| *n).collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(std::fs::read(&path).unwrap(), winners);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_no_json_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.json");
        assert_eq!(read_json::<u32>(&path).unwrap(), None);
        replace_json(&path, &7_u32).unwrap();
        assert_eq!(read_json::<u32>(&path).unwrap(), Some(7));
        replace(&path, b"{").unwrap();
        assert!(read_json::<u32>(&path).unwrap_err().to_string().contains("agent.json"));
    }
}
