//! `leeway store`: what an operator does with a data directory while no server uses it.

use std::path::{Path, PathBuf};

use leeway_server::STORE as STORE_FOLDER;
use leeway_store::{Adopted, Options};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::render;
use crate::terminal::{Terminal, View};

const STORES: &str = "Examples:
  leeway store verify /var/lib/leeway
  leeway store export /var/lib/leeway /backup/leeway-2026-03-14.export
  leeway store import /backup/leeway-2026-03-14.export /var/lib/leeway-restored";
const VERIFY: &str = "Changes nothing. Exits with 1 when something is wrong.

Examples:
  leeway store verify /var/lib/leeway";
const EXPORT: &str = "Examples:
  leeway store export /var/lib/leeway /backup/leeway-2026-03-14.export";
const IMPORT: &str =
    "The new store is a new incarnation of the same installation: whoever saw a later state of the old one is told so.

Examples:
  leeway store import /backup/leeway-2026-03-14.export /var/lib/leeway-restored";
const REBUILD: &str = "The old index is set aside, not deleted. Rows are copied; nothing is decided again.

Examples:
  leeway store rebuild /var/lib/leeway";
const ADOPT: &str = "\
A store that is served in two places runs its jobs twice, so a server refuses a copy of a data directory until it is said what the copy is. Before that, see to it that the other one is never served again: its jobs are this one's from now on. There is no way to make a second installation of a copy.

A directory that was renamed, or is mounted elsewhere on the same machine, is no copy.

Examples:
  cp -a /var/lib/leeway /mnt/bigger/leeway && leeway store adopt --moved /mnt/bigger/leeway
  leeway store adopt --restored /backup/yesterday/leeway";

/// Verify, export, import, rebuild or adopt a data directory that no server uses
#[derive(Debug, clap::Subcommand)]
#[command(after_help = STORES)]
pub enum Command {
    /// Read everything and say what is wrong
    #[command(after_help = VERIFY)]
    Verify {
        /// The server's data directory.
        dir: PathBuf,
    },
    /// Write all rows to one new file
    #[command(after_help = EXPORT)]
    Export {
        /// The server's data directory.
        dir: PathBuf,
        /// The file to make; must not exist.
        file: PathBuf,
    },
    /// Make a data directory from an export
    #[command(after_help = IMPORT)]
    Import {
        /// What `store export` wrote.
        file: PathBuf,
        /// The data directory to make; absent or empty.
        dir: PathBuf,
    },
    /// Build the index again from the journal
    #[command(after_help = REBUILD)]
    Rebuild {
        /// The server's data directory.
        dir: PathBuf,
    },
    /// Say that a copy of a data directory is the one to serve from now on
    #[command(after_help = ADOPT, group = clap::ArgGroup::new("what").required(true))]
    Adopt {
        /// Nothing was served since it was copied: it stays what it was, and running jobs go on.
        #[arg(long, group = "what")]
        moved: bool,
        /// It is older than what was served last, or its end may be lost: it becomes a new incarnation, and its server
        /// only reports what it does not know until that is confirmed.
        #[arg(long, group = "what")]
        restored: bool,
        /// The server's data directory.
        dir: PathBuf,
    },
}

pub fn run(command: &Command, terminal: &Terminal) -> Result<Exit, Failure> {
    match command {
        Command::Verify { dir } => {
            let dir = store_dir(dir);
            let report = leeway_store::verify(&dir, Options::default())?;
            if let Some(holder) = &report.in_use_by {
                let message = format!("'{}' is in use by process {holder}: stop that server first", dir.display());
                return Err(Failure::new(Exit::Error, "STORE_LOCKED", message));
            }
            let sound = report.problems.is_empty();
            show(terminal, |_| render::store::verified(&report), &report)?;
            Ok(if sound { Exit::Success } else { Exit::Error })
        }
        Command::Export { dir, file } => {
            let report = leeway_store::export(&store_dir(dir), file, Options::default())?;
            show(terminal, |_| render::store::exported(&report), &report)
        }
        Command::Import { file, dir: data } => {
            let dir = new_store_dir(data)?;
            let incarnation = super::random_id()?;
            let report = leeway_store::import(file, &dir, &incarnation, Options::default())?;
            show(terminal, |_| render::store::imported(&report, file, data), &report)
        }
        Command::Rebuild { dir } => {
            let report = leeway_store::rebuild(&store_dir(dir), Options::default())?;
            show(terminal, |_| render::store::rebuilt(&report), &report)
        }
        Command::Adopt { moved, restored: _, dir } => {
            let store = store_dir(dir);
            let known = leeway_store::identify(&store)?;
            let _unserved = leeway_server::claim(&known)?;
            let incarnation = super::random_id()?;
            let as_what = if *moved { Adopted::Moved } else { Adopted::Restored { incarnation: &incarnation } };
            let report = leeway_store::adopt(&store, as_what, Options::default())?;
            show(terminal, |_| render::store::adopted(&report), &report)
        }
    }
}

fn show(terminal: &Terminal, text: impl FnOnce(&View) -> String, report: &impl Serialize) -> Result<Exit, Failure> {
    let value = serde_json::to_value(report).map_err(|error| Failure::from(anyhow::Error::from(error)))?;
    terminal.show(text, || value)?;
    Ok(Exit::Success)
}

/// The store's own folder: the one inside a data directory, or what was named when that is a store itself.
pub fn store_dir(dir: &Path) -> PathBuf {
    let inner = dir.join(STORE_FOLDER);
    if inner.is_dir() { inner } else { dir.to_path_buf() }
}

/// Where a new data directory keeps its store.
fn new_store_dir(dir: &Path) -> Result<PathBuf, Failure> {
    let is_occupied = dir.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if is_occupied {
        return Err(leeway_store::Error::NotEmpty { path: dir.to_path_buf() }.into());
    }
    Ok(dir.join(STORE_FOLDER))
}

#[cfg(test)]
mod tests {
    use leeway_store::{Entry, RowChange, Store as _};

    use super::*;

    const QUIET: Terminal = Terminal::silent();

    fn store_with_one_row(dir: &Path) {
        let options = Options { reserve_bytes: 0, min_free_bytes: 0, ..Options::default() };
        let identity = leeway_store::Identity { installation: "local".into(), incarnation: "i-1".into() };
        let mut store = leeway_store::DiskStore::init(dir, identity, options).unwrap();
        let rows = vec![RowChange { key: (*b"k").into(), value: Some((*b"v").into()) }];
        store.append(Entry { index: 1, time_ms: 1, event: (*b"e").into(), rows }).unwrap();
        store.flush().unwrap();
    }

    fn failed(command: &Command) -> Failure {
        run(command, &QUIET).unwrap_err()
    }

    #[test]
    fn a_data_directory_is_verified_exported_imported_and_rebuilt() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("data");
        std::fs::create_dir(&dir).unwrap();
        store_with_one_row(&dir.join(STORE_FOLDER));
        let (file, copy) = (top.path().join("x.export"), top.path().join("copy"));
        for command in [
            Command::Verify { dir: dir.clone() },
            Command::Export { dir: dir.clone(), file: file.clone() },
            Command::Import { file: file.clone(), dir: copy.clone() },
            Command::Verify { dir: copy.clone() },
            Command::Rebuild { dir: copy.clone() },
        ] {
            assert_eq!(run(&command, &QUIET).unwrap(), Exit::Success, "{command:?}");
        }
        assert_eq!(failed(&Command::Export { dir, file: file.clone() }).code, "STORE_NOT_EMPTY");
        assert_eq!(failed(&Command::Import { file, dir: copy }).code, "STORE_NOT_EMPTY");
    }

    #[test]
    fn s_12_a_store_in_use_is_refused_with_the_process_that_has_it() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(STORE_FOLDER);
        store_with_one_row(&dir);
        let options = Options { reserve_bytes: 0, min_free_bytes: 0, ..Options::default() };
        let held = leeway_store::DiskStore::open(&dir, options).unwrap();
        let data = || top.path().to_path_buf();
        for command in [
            Command::Verify { dir: data() },
            Command::Export { dir: data(), file: top.path().join("x.export") },
            Command::Rebuild { dir: data() },
        ] {
            let failure = failed(&command);
            assert_eq!(failure.code, "STORE_LOCKED", "{command:?}");
            assert!(failure.message.contains(&std::process::id().to_string()), "{}", failure.message);
        }
        drop(held);
    }

    #[test]
    fn what_holds_no_store_is_refused_and_stays_as_it_is() {
        let top = tempfile::tempdir().unwrap();
        for dir in [top.path().to_path_buf(), top.path().join("absent")] {
            assert_eq!(run(&Command::Verify { dir: dir.clone() }, &QUIET).unwrap_err().exit, Exit::Error);
            assert_eq!(run(&Command::Rebuild { dir }, &QUIET).unwrap_err().exit, Exit::Error);
        }
        assert!(!top.path().join("absent").exists());
    }
}
