//! Files of the data directory: nobody's business but their owner's, and the small ones are there whole or not at all, also
//! after a power cut.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

pub use leeway_drivers::files::{PRIVATE, create_once, replace};
pub use leeway_drivers::run_dir::create_private_dir;

/// How to open a file that, if it is made, only its owner may read.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(PRIVATE);
    options
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_made_here_is_its_owners_alone_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let inner = folder.path().join("a/b");
        create_private_dir(&inner).unwrap();
        assert_eq!((mode(&folder.path().join("a")), mode(&inner)), (0o700, 0o700));
        let small = inner.join("small.json");
        replace(&small, b"1").unwrap();
        replace(&small, b"22").unwrap();
        assert!(!create_once(&small, b"333").unwrap());
        assert_eq!((std::fs::read(&small).unwrap().as_slice(), mode(&small)), (&b"22"[..], 0o600));
        let open = inner.join("open");
        private().append(true).create(true).open(&open).unwrap();
        assert_eq!(mode(&open), 0o600);
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 2);
    }
}
