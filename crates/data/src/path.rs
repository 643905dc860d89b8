//! Which file names may be published and restored.
//!
//! A manifest is input from a store that others can write to, so its paths are judged before anything touches the disk:
//! no name may lead out of the target directory, and no two names may meet on a file system that ignores case.

use std::collections::HashMap;

use unicode_normalization::is_nfc;

/// Longest encoded part: what common file systems allow.
const PART_MAX: usize = 255;
/// Longest encoded path; with our prefix it stays below the 1,024 bytes that object stores allow.
const PATH_MAX: usize = 700;

/// The path names a place where a checkpoint must not write, or a file that it cannot carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path '{path}' {why}")]
pub struct Unsafe {
    /// Escaped and cut, so that it can be shown.
    pub path: String,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("is empty or has an empty part")]
    Empty,
    #[error("is absolute; a checkpoint's paths are relative")]
    Absolute,
    #[error("has a '.' or '..' part")]
    Relative,
    #[error("holds a backslash")]
    Backslash,
    #[error("holds a control character")]
    Control,
    #[error("is not valid UTF-8")]
    NotUtf8,
    #[error("is not in Unicode normal form C; rename the file")]
    NotNormal,
    #[error("is too long; a part may have 255 and a path 700 bytes when percent-encoded")]
    TooLong,
    #[error("occurs twice")]
    Duplicate,
    #[error("differs from another path only in upper and lower case")]
    CaseOnly,
    #[error("is both a file and a directory")]
    FileAndDirectory,
    #[error("is a symbolic link; save the file it points to")]
    Symlink,
    #[error("is neither a regular file nor a directory")]
    Special,
}

impl Unsafe {
    pub const CODE: &'static str = "MANIFEST_UNSAFE_PATH";

    pub fn new(path: &str, why: Why) -> Self {
        Self { path: leeway_model::name::escape(path), why }
    }
}

/// Checks one path by itself: relative, `/`-separated, NFC, bounded, without anything that a system could read as a
/// way out.
pub fn check(path: &str) -> Result<(), Unsafe> {
    let refuse = |why| Err(Unsafe::new(path, why));
    if path.chars().any(char::is_control) {
        return refuse(Why::Control);
    }
    if path.contains('\\') {
        return refuse(Why::Backslash);
    }
    let drive = matches!(path.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if path.starts_with('/') || drive {
        return refuse(Why::Absolute);
    }
    if !is_nfc(path) {
        return refuse(Why::NotNormal);
    }
    for part in path.split('/') {
        match part {
            "" => return refuse(Why::Empty),
            "." | ".." => return refuse(Why::Relative),
            _ if encoded(part).len() > PART_MAX => return refuse(Why::TooLong),
            _ => {}
        }
    }
    if encoded(path).len() > PATH_MAX { refuse(Why::TooLong) } else { Ok(()) }
}

/// Checks each path and that no two of them meet, not even where case is ignored.
pub fn check_all<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<(), Unsafe> {
    /// Spelling of a file or directory, under its lower-case form.
    struct Seen<'a> {
        spelling: &'a str,
        is_file: bool,
    }
    let mut seen: HashMap<String, Seen<'a>> = HashMap::new();
    for path in paths {
        check(path)?;
        let directories = path.match_indices('/').map(|(end, _)| (&path[..end], false));
        for (spelling, is_file) in directories.chain([(path, true)]) {
            let Some(earlier) = seen.get(&spelling.to_lowercase()) else {
                seen.insert(spelling.to_lowercase(), Seen { spelling, is_file });
                continue;
            };
            let why = match (earlier.spelling == spelling, earlier.is_file, is_file) {
                (true, false, false) => continue,
                (true, true, true) => Why::Duplicate,
                (true, _, _) => Why::FileAndDirectory,
                (false, _, _) => Why::CaseOnly,
            };
            return Err(Unsafe::new(path, why));
        }
    }
    Ok(())
}

/// The object key of a path, below its shard's `data/`: percent-encoded part by part, as all object stores accept it.
pub fn encoded(path: &str) -> String {
    object_store::path::Path::from(path).into()
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn k_06_paths_that_could_lead_out_are_refused() {
        let check = |path: &str, why| assert_eq!(super::check(path).unwrap_err().why, why, "{path:?}");
        check("", Why::Empty);
        check("a//b", Why::Empty);
        check("a/", Why::Empty);
        check("../x", Why::Relative);
        check("a/../../x", Why::Relative);
        check("./a", Why::Relative);
        check("/etc/passwd", Why::Absolute);
        check("c:/windows", Why::Absolute);
        check("C:x", Why::Absolute);
        check("..\\x", Why::Backslash);
        check("a\0b", Why::Control);
        check("a\nb", Why::Control);
        check("e\u{301}", Why::NotNormal);
        check(&"a".repeat(256), Why::TooLong);
        check(&"ü".repeat(50), Why::TooLong);
        check(&vec!["a".repeat(200); 4].join("/"), Why::TooLong);
        for good in ["model.bin", "rank00/shard 1.bin", "été/12:30", "...", "a..b/..c", "%2E%2E/x", "a#1", "-rf", "~"]
        {
            assert_eq!(super::check(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn k_06_paths_that_meet_are_refused() {
        let check = |paths: &[&str]| check_all(paths.iter().copied()).map_err(|refused| refused.why);
        assert_eq!(check(&["a", "b/c", "b/d"]), Ok(()));
        assert_eq!(check(&["a", "b", "a"]), Err(Why::Duplicate));
        assert_eq!(check(&["a", "A"]), Err(Why::CaseOnly));
        assert_eq!(check(&["Dir/x", "dir/y"]), Err(Why::CaseOnly));
        assert_eq!(check(&["É", "é"]), Err(Why::CaseOnly));
        assert_eq!(check(&["a", "a/b"]), Err(Why::FileAndDirectory));
        assert_eq!(check(&["a/b", "a"]), Err(Why::FileAndDirectory));
    }

    proptest! {
        #[test]
        fn k_06_an_accepted_path_stays_inside(path in "[a-zA-Z./\\\\:\u{0}é%#~ -]{0,24}") {
            if check(&path).is_ok() {
                let inside = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
                prop_assert!(inside, "{path:?}");
                let key = encoded(&path);
                let key = Path::new(&key);
                prop_assert!(key.components().all(|part| matches!(part, Component::Normal(_))), "{key:?}");
            }
        }

        #[test]
        fn different_paths_have_different_keys(a in "[a-c%2E#~/é.]{1,8}", b in "[a-c%2E#~/é.]{1,8}") {
            if check(&a).is_ok() && check(&b).is_ok() && a != b {
                prop_assert_ne!(encoded(&a), encoded(&b));
            }
        }
    }
}
