//! JSON in which nothing invisible hides. Plain JSON escapes quotes and newlines; here the marks that turn the
//! direction of writing, and the other invisible ones, are escaped too, because bodies end up in logs and terminals.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1_024);
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, Visible))
        .expect("a body has text keys and is written to memory");
    bytes
}

struct Visible;

impl Formatter for Visible {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut rest = fragment;
        while let Some((at, mark)) = rest.char_indices().find(|&(_, c)| is_invisible(c)) {
            CompactFormatter.write_string_fragment(writer, &rest[..at])?;
            write!(writer, "\\u{:04x}", u32::from(mark))?;
            rest = &rest[at + mark.len_utf8()..];
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

/// Delete, the C1 controls, and marks that change how neighbours are shown without showing themselves. All of them are
/// written with four hexadecimal digits.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
    )
}
