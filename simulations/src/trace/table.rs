//! Formats that are CSV with a header: columns are found by name, so their order does not matter and further ones are
//! ignored.

use std::io::{self, BufRead};
use std::sync::Arc;

use csv_core::ReadRecordResult;

use super::error::{Error, Fault};
use super::format::{Line, Notes, TraceReader};
use super::lines::Lines;
use super::record::JobRecord;
use super::value::Value;

/// A format whose jobs are rows.
pub trait Layout: Send {
    /// Columns that the header must have. [`Row`] knows them by their place in this list.
    const COLUMNS: &'static [&'static str];
    /// Columns that it may have, counted on behind the others; where one is missing, its values are empty.
    const OPTIONAL: &'static [&'static str] = &[];

    /// The job of a row, or `None` for a row that is left out and counted in the notes.
    ///
    /// # Errors
    /// Names the column, the value and what is wrong with it.
    fn job(&mut self, row: &Row<'_>, notes: &mut Notes) -> Result<Option<JobRecord>, Fault>;
}

/// One row. Every column of the layout is there.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    fields: &'a Fields,
    /// Name of each column of the layout, and where it stands in the file.
    columns: &'a [(&'static str, Option<usize>)],
    /// Counted from 1 with the first row behind the header.
    pub number: u64,
}

impl<'a> Row<'a> {
    /// The value in the column at this place of the layout's list, with the blanks around it.
    pub fn exact(&self, column: usize) -> Value<'a> {
        let (column, place) = self.columns[column];
        Value { column, text: place.map_or("", |place| self.fields.get(place)) }
    }

    /// The value in the column at this place of the layout's list, without blanks around it.
    pub fn at(&self, column: usize) -> Value<'a> {
        let Value { column, text } = self.exact(column);
        Value { column, text: text.trim() }
    }
}

/// Reads the rows of a layout.
pub struct Table<L, R> {
    layout: L,
    lines: Lines<R>,
    file: Arc<str>,
    fields: Fields,
    line: Vec<u8>,
    columns: Vec<(&'static str, Option<usize>)>,
    width: usize,
    rows: u64,
}

impl<L: Layout, R: BufRead> Table<L, R> {
    /// Reads the header.
    ///
    /// # Errors
    /// Names a column that is missing, with those that are there.
    pub fn open(layout: L, format: &'static str, input: R, file: Arc<str>) -> Result<Self, Error> {
        let mut lines = Lines::new(input);
        let mut fields = Fields::default();
        let mut line = Vec::new();
        loop {
            match lines.read(&mut line).map_err(|error| Error::Io { file: file.clone(), error })? {
                None => return Err(Error::Empty { file }),
                Some(read) => {
                    read.and_then(|()| fields.split(&mut line)).map_err(|fault| fault.at(&file, lines.number))?
                }
            }
            if !fields.is_blank() {
                break;
            }
        }
        let names: Vec<String> = fields.iter().map(column_name).collect();
        let place = |column: &&'static str| (*column, names.iter().position(|name| name == column));
        let columns: Vec<_> = L::COLUMNS.iter().chain(L::OPTIONAL).map(place).collect();
        if let Some((column, _)) = columns[..L::COLUMNS.len()].iter().find(|(_, place)| place.is_none()) {
            let found = leeway_model::name::escape(&names.join(", "));
            return Err(Error::Column { file, format, column, found });
        }
        Ok(Self { layout, lines, columns, width: names.len(), file, fields, line, rows: 0 })
    }

    fn row(&mut self, notes: &mut Notes) -> Result<Option<JobRecord>, Fault> {
        self.fields.split(&mut self.line)?;
        if self.fields.is_blank() {
            return Ok(None);
        }
        self.rows += 1;
        let found = self.fields.ends.len();
        if found != self.width {
            return Err(Fault::new("(line)", format!("has {found} fields; the header has {}", self.width)));
        }
        let row = Row { fields: &self.fields, columns: &self.columns, number: self.rows };
        self.layout.job(&row, notes)
    }
}

impl<L: Layout, R: BufRead + Send> TraceReader for Table<L, R> {
    fn next(&mut self, notes: &mut Notes) -> io::Result<Option<Line>> {
        while let Some(read) = self.lines.read(&mut self.line)? {
            let line = self.lines.number;
            match read.and_then(|()| self.row(notes)) {
                Ok(None) => {}
                Ok(Some(job)) => return Ok(Some(Ok((line, job)))),
                Err(fault) => return Ok(Some(Err(fault.at(&self.file, line)))),
            }
        }
        Ok(None)
    }
}

/// The name of a column as a header may spell it.
pub fn column_name(text: &str) -> String {
    text.trim().trim_start_matches('\u{feff}').to_ascii_lowercase()
}

/// The fields of one line, in memory that is used again for the next.
#[derive(Debug)]
pub struct Fields {
    /// Kept, since building its tables costs more than many lines.
    reader: csv_core::Reader,
    text: String,
    /// Where each field ends.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Default for Fields {
    fn default() -> Self {
        // The reader's own default has no tables and reads nothing.
        Self { reader: csv_core::Reader::new(), text: String::new(), ends: Vec::new(), bytes: Vec::new() }
    }
}

impl Fields {
    /// Splits a line at commas outside of quotes. The line is given a line end.
    pub fn split(&mut self, line: &mut Vec<u8>) -> Result<(), Fault> {
        line.push(b'\n');
        self.reader.reset();
        self.bytes.resize(line.len().max(self.bytes.len()), 0);
        self.ends.resize(line.len() + 1, 0);
        // Fields are never longer than their line, so neither output can be too small.
        let (told, _, written, ends) = self.reader.read_record(line, &mut self.bytes, &mut self.ends);
        self.ends.truncate(ends);
        self.text.clear();
        match told {
            ReadRecordResult::Record => {}
            // The line was blank.
            _ if line.iter().all(u8::is_ascii_whitespace) => self.ends.clear(),
            _ => return Err(Fault::new("(line)", "a quote is not closed on this line")),
        }
        let text =
            std::str::from_utf8(&self.bytes[..written]).map_err(|_| Fault::new("(line)", "is not UTF-8 text"))?;
        self.text.push_str(text);
        let is_split = self.ends.iter().all(|end| self.text.is_char_boundary(*end));
        if is_split { Ok(()) } else { Err(Fault::new("(line)", "is not UTF-8 text")) }
    }

    fn get(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len()).map(|index| self.get(index))
    }

    fn is_blank(&self) -> bool {
        self.text.trim().is_empty() && self.ends.len() <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Result<Vec<String>, Fault> {
        let mut fields = Fields::default();
        fields.split(&mut line.as_bytes().to_vec())?;
        Ok(fields.iter().map(str::to_owned).collect())
    }

    #[test]
    fn fields_may_be_quoted_and_a_quote_ends_on_its_line() {
        assert_eq!(split("a,\"b,\"\"c\",").unwrap(), ["a", "b,\"c", ""]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
        assert_eq!(split("ä,ö").unwrap(), ["ä", "ö"]);
        assert!(split("a,\"b").unwrap_err().problem.contains("quote"));
        let mut fields = Fields::default();
        assert!(fields.split(&mut vec![b'a', 0xff, b',', b'b']).unwrap_err().problem.contains("UTF-8"));
    }

    #[test]
    fn a_long_line_does_not_show_through_a_short_one_after_it() {
        let mut fields = Fields::default();
        fields.split(&mut b"abcdef,ghijkl,mnopqr".to_vec()).unwrap();
        fields.split(&mut b"x,y".to_vec()).unwrap();
        assert_eq!(fields.iter().collect::<Vec<_>>(), ["x", "y"]);
    }
}
