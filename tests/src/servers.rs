//! Real servers of other projects, started for one test and ended with it. Where one is not installed, its tests say so
//! and pass.

pub mod slurm;

use std::path::PathBuf;

/// Where a program of this host is.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons often lie where only an administrator's PATH looks.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Says that a test was skipped, and why.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}
