//! Where the binary `leeway` is.
//!
//! Cargo builds the binaries of a package for that package's own tests only. `cargo test --workspace` builds this one
//! beside ours, so it lies there already; with `cargo test -p leeway-tests` it may be missing, or older than its sources.
//! `LEEWAY_BINARY` names another one to test, as it is: a release build, or one from a package.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Variables that cargo sets for the package of a test.
const PACKAGE: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];

/// The binary, built first when that is needed.
pub fn leeway() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(given) = std::env::var_os("LEEWAY_BINARY") {
            return std::path::absolute(given).unwrap();
        }
        let beside = profile_dir().join("leeway");
        // Whether one that lies there has a feature cannot be seen.
        if is_fresh(&beside) && !cfg!(feature = "aws") { beside } else { build() }
    })
}

/// `target/debug` of `target/debug/deps/e2e-0123456789abcdef`.
fn profile_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_path_buf()
}

fn is_fresh(binary: &Path) -> bool {
    let Ok(built) = binary.metadata().and_then(|file| file.modified()) else { return false };
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = ["Cargo.toml", "crates", "proto", "scheduler-policies"];
    sources.iter().all(|part| newest(&top.join(part)) < built)
}

/// When the newest file of a tree was written, leaving out what no binary is made of.
fn newest(path: &Path) -> SystemTime {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let parts =
            entries.filter(|entry| !matches!(entry.file_name().to_str(), Some("tests" | "benches" | "README.md")));
        return parts.map(|entry| newest(&entry.path())).max().unwrap_or(SystemTime::UNIX_EPOCH);
    }
    // A file that an editor has just removed is none.
    path.metadata().and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Builds it with the profile of this test, and asks cargo where it lies.
fn build() -> PathBuf {
    let profile = match profile_dir().file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev".to_owned(),
        Some(other) => other.to_owned(),
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let mut command = Command::new(cargo);
    for (name, _) in std::env::vars_os() {
        // What cargo tells a test about its package would make build scripts think that something changed.
        if PACKAGE.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    let built = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "build",
            "--package",
            "leeway-cli",
            "--bin",
            "leeway",
            "--message-format",
            "json",
            "--profile",
            &profile,
        ])
        .args(cfg!(feature = "aws").then_some("--features=aws"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(built.status.success(), "the binary could not be built: {}", built.status);
    let messages = String::from_utf8(built.stdout).unwrap();
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut executables = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    executables.next_back().expect("cargo names the executable that it built")
}
