//! The READY protocol between a program and its agent, on local disk.
//!
//! ```text
//! program  writes <dir>/<name>.tmp/…, fsync, rename to <dir>/<name>, then creates <dir>/<name>/READY
//! agent    takes <dir>/<name> only when READY is there
//! ```
//!
//! [`commit`] is the program's half, [`complete`] and [`Watch`] are the agent's. A directory without READY does not
//! exist for the agent, whatever its age or contents. Order among complete ones is by step, never by file times.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::durable;

/// The marker that says a directory is complete.
pub const READY: &str = "READY";
/// The ending of a directory that is still being written.
pub const TEMPORARY: &str = ".tmp";

/// A complete checkpoint directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    pub name: String,
    pub dir: PathBuf,
    /// What `step=<n>` in READY says, else the digits at the end of the name.
    pub step: Option<u64>,
    mark: Mark,
}

/// Tells a directory from a later one under the same name. For identity only: its time never orders anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    dir: u64,
    marker: u64,
    written: (i64, i64),
}

/// All complete directories in `dir`, ordered by step, then name; those without a step come first. Entries that vanish
/// meanwhile are left out. A `dir` that does not exist yet holds none.
pub fn complete(dir: &Path) -> io::Result<Vec<Complete>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(TEMPORARY) || !entry.file_type()?.is_dir() {
            continue;
        }
        match look(entry.path(), name) {
            Ok(complete) => found.extend(complete),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_by(|a, b| (a.step, &a.name).cmp(&(b.step, &b.name)));
    Ok(found)
}

fn look(dir: PathBuf, name: String) -> io::Result<Option<Complete>> {
    let marker = dir.join(READY);
    let there = std::fs::symlink_metadata(&marker)?;
    if !there.is_file() {
        return Ok(None);
    }
    let mark = Mark {
        dir: std::fs::symlink_metadata(&dir)?.ino(),
        marker: there.ino(),
        written: (there.mtime(), there.mtime_nsec()),
    };
    let mut text = Vec::new();
    File::open(&marker)?.take(4096).read_to_end(&mut text)?;
    let step = stated_step(&String::from_utf8_lossy(&text)).or_else(|| step_of_name(&name));
    Ok(Some(Complete { name, dir, step, mark }))
}

fn stated_step(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix("step=")?.trim().parse().ok())
}

fn step_of_name(name: &str) -> Option<u64> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[stem.len()..].parse().ok()
}

/// Remembers which complete directories were already handed out.
#[derive(Debug)]
pub struct Watch {
    dir: PathBuf,
    seen: BTreeMap<String, Mark>,
}

impl Watch {
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir, seen: BTreeMap::new() }
    }

    /// Complete directories that no earlier call returned. One that was replaced under the same name is new.
    pub fn poll(&mut self) -> io::Result<Vec<Complete>> {
        let found = complete(&self.dir)?;
        let seen = found.iter().map(|complete| (complete.name.clone(), complete.mark)).collect();
        let before = std::mem::replace(&mut self.seen, seen);
        Ok(found.into_iter().filter(|complete| before.get(&complete.name) != Some(&complete.mark)).collect())
    }

    /// Hands this directory out again at the next call, because it could not be published.
    pub fn forget(&mut self, name: &str) {
        self.seen.remove(name);
    }
}

/// Why a directory could not be made a complete checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("'{path}' does not end in '.tmp'; write there first, so that nobody takes it too early")]
    NotTemporary { path: PathBuf },
    #[error("'{path}' already exists; a checkpoint is never replaced, use a new name")]
    Exists { path: PathBuf },
    #[error("cannot complete the checkpoint '{path}'")]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Makes `<name>.tmp` the complete checkpoint `<name>`, durable at every stage, and returns its path. `step` is the
/// program's count of its progress; without it the digits at the end of the name count.
pub fn commit(temporary: &Path, step: Option<u64>) -> Result<PathBuf, CommitError> {
    let name = temporary.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(TEMPORARY));
    let name = name.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| CommitError::NotTemporary { path: temporary.to_path_buf() })?;
    let target = temporary.with_file_name(name);
    match std::fs::symlink_metadata(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(CommitError::Io { path: target, source }),
        Ok(_) => return Err(CommitError::Exists { path: target }),
    }
    let done = durable::sync_tree(temporary, true)
        .and_then(|()| std::fs::rename(temporary, &target))
        .and_then(|()| durable::sync_dir(durable::parent(&target)))
        .and_then(|()| mark_ready(&target, step));
    match done {
        Ok(()) => Ok(target),
        Err(source) => Err(CommitError::Io { path: target, source }),
    }
}

/// The marker appears with its whole text, since the agent may read it at once.
fn mark_ready(dir: &Path, step: Option<u64>) -> io::Result<()> {
    let draft = dir.join(".READY.tmp");
    let mut file = File::create(&draft)?;
    if let Some(step) = step {
        writeln!(file, "step={step}")?;
    }
    file.sync_all()?;
    std::fs::rename(&draft, dir.join(READY))?;
    durable::sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(found: &[Complete]) -> Vec<(&str, Option<u64>)> {
        found.iter().map(|complete| (&*complete.name, complete.step)).collect()
    }

    fn save(dir: &Path, name: &str, step: Option<u64>) -> PathBuf {
        let temporary = dir.join(format!("{name}.tmp"));
        std::fs::create_dir_all(temporary.join("deep")).unwrap();
        std::fs::write(temporary.join("deep/model"), name).unwrap();
        commit(&temporary, step).unwrap()
    }

    #[test]
    fn k_14_a_directory_without_the_marker_is_not_there() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path();
        assert_eq!(complete(&dir.join("absent")).unwrap(), []);
        std::fs::create_dir_all(dir.join("step-1")).unwrap();
        std::fs::write(dir.join("step-1/model"), "x").unwrap();
        // The marker alone does not make a directory complete whose name says otherwise, nor one that is not there.
        std::fs::create_dir_all(dir.join("step-2.tmp")).unwrap();
        std::fs::write(dir.join("step-2.tmp/READY"), "").unwrap();
        std::fs::create_dir_all(dir.join("step-3/READY")).unwrap();
        std::fs::write(dir.join("READY"), "").unwrap();
        std::os::unix::fs::symlink(dir.join("step-2.tmp"), dir.join("step-4")).unwrap();
        std::fs::create_dir_all(dir.join("step-5")).unwrap();
        std::os::unix::fs::symlink(dir.join("READY"), dir.join("step-5/READY")).unwrap();
        assert_eq!(complete(dir).unwrap(), []);
        std::fs::write(dir.join("step-1/READY"), "").unwrap();
        assert_eq!(steps(&complete(dir).unwrap()), [("step-1", Some(1))]);
    }

    #[test]
    fn the_marker_states_the_step_or_the_name_does() {
        let top = tempfile::tempdir().unwrap();
        for (name, text, step) in [
            ("latest", "step=42\n", Some(42)),
            ("ckpt-000182000", "", Some(182_000)),
            ("ckpt-7", "time=9\n step= 8 \n", Some(8)),
            ("ckpt-9", "step=many", Some(9)),
            ("final", "", None),
            ("n99999999999999999999", "", None),
        ] {
            let dir = top.path().join(name);
            std::fs::create_dir(&dir).unwrap();
            std::fs::write(dir.join(READY), text).unwrap();
            assert_eq!(look(dir, name.into()).unwrap().unwrap().step, step, "{name}");
        }
    }

    #[test]
    fn k_19_order_is_by_step_whatever_the_file_times_say() {
        let top = tempfile::tempdir().unwrap();
        for name in ["step-10", "step-9", "step-100"] {
            save(top.path(), name, None);
        }
        let newest = File::open(top.path().join("step-100/READY")).unwrap();
        newest.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        let found = complete(top.path()).unwrap();
        assert_eq!(steps(&found), [("step-9", Some(9)), ("step-10", Some(10)), ("step-100", Some(100))]);
    }

    #[test]
    fn each_directory_is_handed_out_once() {
        let top = tempfile::tempdir().unwrap();
        let mut watch = Watch::new(top.path().to_path_buf());
        assert_eq!(watch.poll().unwrap(), []);
        save(top.path(), "a-1", None);
        assert_eq!(steps(&watch.poll().unwrap()), [("a-1", Some(1))]);
        assert_eq!(watch.poll().unwrap(), []);
        save(top.path(), "a-2", Some(7));
        assert_eq!(steps(&watch.poll().unwrap()), [("a-2", Some(7))]);
        watch.forget("a-2");
        assert_eq!(steps(&watch.poll().unwrap()), [("a-2", Some(7))]);
        std::fs::remove_dir_all(top.path().join("a-1")).unwrap();
        assert_eq!(watch.poll().unwrap(), []);
        save(top.path(), "a-1", Some(8));
        assert_eq!(steps(&watch.poll().unwrap()), [("a-1", Some(8))]);
    }

    #[test]
    fn a_commit_never_replaces_and_needs_a_temporary_name() {
        let top = tempfile::tempdir().unwrap();
        let saved = save(top.path(), "a-1", Some(5));
        assert_eq!(std::fs::read_to_string(saved.join(READY)).unwrap(), "step=5\n");
        let again = top.path().join("a-1.tmp");
        std::fs::create_dir(&again).unwrap();
        assert!(matches!(commit(&again, None), Err(CommitError::Exists { .. })));
        assert!(again.is_dir() && saved.join("deep/model").is_file());
        for bad in ["a-2", ".tmp", ".."] {
            assert!(matches!(commit(&top.path().join(bad), None), Err(CommitError::NotTemporary { .. })), "{bad}");
        }
        assert!(matches!(commit(&top.path().join("absent.tmp"), None), Err(CommitError::Io { .. })));
    }
}
