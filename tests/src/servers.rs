//! Real servers of other projects, started for one test and ended with it. Where one is not installed, its tests say so
//! and pass.

pub mod ec2;
pub mod slurm;

use std::path::PathBuf;

/// Where a program of this host is.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons often lie where only an administrator's PATH looks.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Kills a process and all that descend from it.
pub fn kill_tree(root: u32) {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let mut found = vec![root];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(parents.iter().filter(|(_, one)| *one == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    for pid in found.into_iter().filter_map(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// Says that a test was skipped, and why, even where the output of tests that pass is swallowed.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let said = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes());
}
