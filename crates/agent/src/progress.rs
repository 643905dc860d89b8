//! What the program says about how far it is. It writes a file, not always at once, and the agent reads it at any time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

/// Steps done of steps planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Said {
    pub step: u64,
    pub total: Option<u64>,
}

/// Reads a progress file again and again.
#[derive(Debug, Default)]
pub struct Reader {
    before: String,
}

impl Reader {
    /// What the file says now: its last whole line that makes sense, as `{"step":7,"total":9}`, `7 9`, `7/9` or `7`.
    pub fn read(&mut self, path: &Path) -> Option<Said> {
        let text = last_part(path).unwrap_or_default();
        let said = last(&text, text == self.before);
        self.before = text;
        said
    }
}

/// `settled` says that the text did not change since it was last read, so that a last line without an end is whole too.
fn last(text: &str, settled: bool) -> Option<Said> {
    text.split_inclusive('\n').rev().find_map(|line| {
        let whole = line.ends_with('\n') || settled;
        let line = line.trim();
        match serde_json::from_str::<Said>(line) {
            // A bracket that closes proves the line whole.
            Ok(said) if line.starts_with('{') => Some(said),
            _ if whole => plain(line),
            _ => None,
        }
    })
}

fn plain(line: &str) -> Option<Said> {
    let mut numbers = line.split(|c: char| c.is_ascii_whitespace() || c == '/').filter(|part| !part.is_empty());
    let step = numbers.next()?.parse().ok()?;
    let total = numbers.next().map(str::parse).transpose().ok()?;
    numbers.next().is_none().then_some(Said { step, total })
}

/// The end of a file: a program may append for ever.
fn last_part(path: &Path) -> std::io::Result<String> {
    const PART: u64 = 4 << 10;
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(PART)))?;
    let mut bytes = Vec::new();
    file.take(PART).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_saying_it_is_understood_and_half_a_line_is_not() {
        for (text, step, total) in [
            ("{\"step\":7,\"total\":9}", 7, Some(9)),
            ("{\"step\":7}\n", 7, None),
            ("7 9\n", 7, Some(9)),
            ("7/9\n", 7, Some(9)),
            ("7\n", 7, None),
            ("7 9\n8 9\n", 8, Some(9)),
            ("7 9\n8", 7, Some(9)),
            ("{\"step\":7}\n{\"step\":", 7, None),
            ("7\nnonsense\n", 7, None),
        ] {
            assert_eq!(last(text, false), Some(Said { step, total }), "{text:?}");
        }
        for text in ["", "7", "seven\n", "{\"step\":", "-3\n", "1 2 3\n", "7.5\n"] {
            assert_eq!(last(text, false), None, "{text:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_counts_once_it_no_longer_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("progress");
        let mut reader = Reader::default();
        assert_eq!(reader.read(&path), None);
        std::fs::write(&path, "12").unwrap();
        assert_eq!(reader.read(&path), None);
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(reader.read(&path), None);
        assert_eq!(reader.read(&path), Some(Said { step: 1234, total: None }));
        std::fs::write(&path, "x\n".repeat(10_000) + "5 6\n").unwrap();
        assert_eq!(reader.read(&path), Some(Said { step: 5, total: Some(6) }));
    }
}
