//! Lines of bounded length, so that a file without line ends or with a stray quote does not fill the memory.

use std::io::{self, BufRead, Read};

use super::error::Fault;

/// Longest line in bytes. Lines of real traces stay below 1 kB.
pub const LINE_MAX: usize = 64 << 10;

/// Reads lines and counts them.
pub struct Lines<R> {
    inner: R,
    /// The line that was read last, counted from 1.
    pub number: u64,
}

impl<R: BufRead> Lines<R> {
    pub const fn new(inner: R) -> Self {
        Self { inner, number: 0 }
    }

    /// Replaces `line` by the next one, without its end. `None` at the end of the file; the error inside is a line that
    /// is too long, of which nothing is kept.
    pub fn read(&mut self, line: &mut Vec<u8>) -> io::Result<Option<Result<(), Fault>>> {
        line.clear();
        let most = LINE_MAX as u64 + 2;
        if self.inner.by_ref().take(most).read_until(b'\n', line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = line.last() == Some(&b'\n');
        while matches!(line.last(), Some(b'\n' | b'\r')) {
            line.pop();
        }
        if line.len() <= LINE_MAX {
            return Ok(Some(Ok(())));
        }
        line.clear();
        if !is_whole {
            self.skip_rest()?;
        }
        Ok(Some(Err(Fault::new("(line)", format!("is longer than {LINE_MAX} bytes")))))
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.inner.fill_buf()?;
            let (used, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.inner.consume(used);
            if is_end {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_never_ends_is_one_fault_and_the_next_line_is_read() {
        let text = format!("first\r\n{}\nthird\n\nfifth", "x".repeat(3 * LINE_MAX));
        let mut lines = Lines::new(text.as_bytes());
        let mut line = Vec::new();
        let mut seen = Vec::new();
        while let Some(read) = lines.read(&mut line).unwrap() {
            seen.push((lines.number, read.is_ok(), String::from_utf8(line.clone()).unwrap()));
        }
        let expected = [(1, true, "first"), (2, false, ""), (3, true, "third"), (4, true, ""), (5, true, "fifth")];
        assert_eq!(seen, expected.map(|(number, good, text)| (number, good, text.to_owned())));
    }

    #[test]
    fn a_line_of_the_greatest_length_is_whole() {
        let text = format!("{}\n{}\nend", "x".repeat(LINE_MAX), "y".repeat(LINE_MAX + 1));
        let mut lines = Lines::new(text.as_bytes());
        let mut line = Vec::new();
        assert_eq!((lines.read(&mut line).unwrap(), line.len()), (Some(Ok(())), LINE_MAX));
        assert!(matches!(lines.read(&mut line).unwrap(), Some(Err(_))));
        assert_eq!((lines.read(&mut line).unwrap(), line.as_slice()), (Some(Ok(())), b"end".as_slice()));
    }
}
