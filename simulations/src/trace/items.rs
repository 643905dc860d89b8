//! The elements of a JSON array one at a time, so that an archive of gigabytes is never in memory as a whole.

use std::io::{self, BufRead};

use super::error::Fault;

/// Longest element in bytes.
pub const ITEM_MAX: usize = 16 << 20;

/// Cuts an array into its elements. What an element is made of is for a JSON parser to judge.
pub struct Items<R> {
    input: R,
    /// Line of the byte that comes next.
    line: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Before,
    Within,
    Over,
}

impl<R: BufRead> Items<R> {
    pub const fn new(input: R) -> Self {
        Self { input, line: 1, state: State::Before }
    }

    /// Replaces `item` by the next element and gives the line on which it begins; `None` behind the last one.
    ///
    /// A fault in an element that is too long is passed over; one in the array itself ends it.
    pub fn read(&mut self, item: &mut Vec<u8>) -> io::Result<Option<Result<u64, (u64, Fault)>>> {
        item.clear();
        if self.state == State::Before {
            match self.next_solid()? {
                Some(b'[') => self.state = State::Within,
                _ => return Ok(Some(self.end("the file must be a JSON array of jobs"))),
            }
        }
        if self.state == State::Over {
            return Ok(None);
        }
        let first = loop {
            match self.next_solid()? {
                Some(b',') => {}
                Some(b']') => {
                    self.state = State::Over;
                    return Ok(None);
                }
                Some(byte) => break byte,
                None => return Ok(Some(self.end("the file ends within the array"))),
            }
        };
        let began = self.line;
        if first != b'{' {
            return Ok(Some(self.end("each element of the array must be an object")));
        }
        self.object(item, began)
    }

    /// The rest of an object whose brace has been read.
    fn object(&mut self, item: &mut Vec<u8>, began: u64) -> io::Result<Option<Result<u64, (u64, Fault)>>> {
        item.push(b'{');
        let (mut depth, mut in_text, mut is_escaped, mut is_long) = (1_u32, false, false, false);
        while depth > 0 {
            let Some(byte) = self.next()? else { return Ok(Some(self.end("the file ends within a job"))) };
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if in_text => is_escaped = true,
                b'"' => in_text = !in_text,
                b'{' | b'[' if !in_text => depth += 1,
                b'}' | b']' if !in_text => depth -= 1,
                _ => {}
            }
            if item.len() < ITEM_MAX { item.push(byte) } else { is_long = true }
        }
        if is_long {
            item.clear();
            return Ok(Some(Err((began, Fault::new("(job)", format!("is longer than {ITEM_MAX} bytes"))))));
        }
        Ok(Some(Ok(began)))
    }

    fn end(&mut self, problem: &str) -> Result<u64, (u64, Fault)> {
        self.state = State::Over;
        Err((self.line, Fault::new("(file)", problem)))
    }

    fn next(&mut self) -> io::Result<Option<u8>> {
        let Some(&byte) = self.input.fill_buf()?.first() else { return Ok(None) };
        self.input.consume(1);
        self.line += u64::from(byte == b'\n');
        Ok(Some(byte))
    }

    /// The next byte that is not blank.
    fn next_solid(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.next()? {
                Some(byte) if byte.is_ascii_whitespace() => {}
                other => return Ok(other),
            }
        }
    }
}
