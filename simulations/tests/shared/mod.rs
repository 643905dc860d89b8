//! The folder of recordings that is not part of the repository.

use std::path::{Path, PathBuf};

/// A part of `$LEEWAY_SHARED_DATA`, or of `shared/data` beside the repository. Where it is absent the test that asks is to
/// pass, and this says so.
pub fn folder(part: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let root = std::env::var_os("LEEWAY_SHARED_DATA").map_or_else(beside, PathBuf::from);
    let folder = root.join(part);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: {} is absent; set LEEWAY_SHARED_DATA to a folder that has {part}", folder.display());
    None
}
