//! A reader that stops at a line which no catalog holds: one that never ends, or one whose quotes are not closed.
//!
//! Without it a single stray quote makes the CSV reader take the rest of the file for one value, and a file without
//! line ends fills the memory.

use std::io::{self, Read};

/// Longest line in bytes. Real catalogs stay below 1 kB.
const LONGEST_LINE: usize = 64 * 1024;

/// What is wrong with a line, wrapped into the `io::Error` that the CSV reader passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineFault {
    #[error("longer than 65536 bytes")]
    TooLong,
    #[error("a quote is not closed on this line")]
    OpenQuote,
}

#[derive(Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
pub(super) struct BadLine {
    pub line: u64,
    pub fault: LineFault,
}

/// Also turns CRLF into LF (the CR becomes a blank, which is trimmed) and ends the last line, so that the CSV reader's
/// line count is exact: it always stands on the line after the record it has read.
pub(super) struct Guard<R> {
    inner: R,
    line: u64,
    length: usize,
    quote_open: bool,
}

impl<R> Guard<R> {
    pub fn new(inner: R) -> Self {
        Self { inner, line: 1, length: 0, quote_open: false }
    }

    fn check(&mut self, bytes: &mut [u8]) -> Result<(), BadLine> {
        for byte in bytes {
            match *byte {
                b'\n' if self.quote_open => return Err(self.bad(LineFault::OpenQuote)),
                b'\n' => (self.line, self.length) = (self.line + 1, 0),
                _ if self.length == LONGEST_LINE => return Err(self.bad(LineFault::TooLong)),
                other => {
                    self.length += 1;
                    self.quote_open ^= other == b'"';
                    if other == b'\r' {
                        *byte = b' ';
                    }
                }
            }
        }
        Ok(())
    }

    fn bad(&self, fault: LineFault) -> BadLine {
        BadLine { line: self.line, fault }
    }
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = self.inner.read(buffer)?;
        if read == 0 && self.length > 0 && !buffer.is_empty() {
            buffer[0] = b'\n';
            read = 1;
        }
        self.check(&mut buffer[..read]).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
        Ok(read)
    }
}
