//! The formats that are known, and how one is told from another.
//!
//! A format is a file beside this one with an `ENTRY`, and a line in [`ALL`].

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};
use std::sync::Arc;

use leeway_model::{Millis, name};

use super::error::{BadLine, Error};
use super::record::JobRecord;
use super::table::{Fields, Layout, Table, column_name};
use super::{
    alibaba2025, alibaba2026, helios, leeway, openb, philly, philly_durations, philly_vc, sia, swf, swf_table,
};

/// The bytes of a trace, unpacked.
pub type Input = Box<dyn BufRead + Send>;

/// Opens the file of this name, which is only for messages, as a format.
pub type Open = fn(Input, Arc<str>) -> Result<Box<dyn TraceReader>, Error>;

/// A job with its line, or a line that is none.
pub type Line = Result<(u64, JobRecord), BadLine>;

/// Reads one file in one format, a job at a time, in the order of the file.
pub trait TraceReader: Send {
    /// The next job or bad line; `None` at the end of the file. After a bad line it goes on behind it. Lines that are
    /// right but that no job comes of are counted in `notes`.
    ///
    /// # Errors
    /// Only what the file system says, or the decoder of a packed file; there is nothing to be read after it.
    fn next(&mut self, notes: &mut Notes) -> io::Result<Option<Line>>;
}

/// All formats. The order matters to nobody but the reader of a list.
pub static ALL: [Entry; 11] = [
    leeway::ENTRY,
    philly_vc::ENTRY,
    philly_durations::ENTRY,
    philly::ENTRY,
    openb::ENTRY,
    alibaba2025::ENTRY,
    alibaba2026::ENTRY,
    sia::ENTRY,
    swf::ENTRY,
    swf_table::ENTRY,
    helios::ENTRY,
];

/// A format in the list.
#[derive(Debug)]
pub struct Entry {
    /// What a person calls it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub what: &'static str,
    pub sign: Sign,
    pub order: Order,
    pub zero: Zero,
    /// Whether the source says when jobs arrived. Where it does not, all are submitted at time zero.
    pub has_arrivals: bool,
    pub open: Open,
}

/// How a format is recognised.
#[derive(Clone, Copy, Debug)]
pub enum Sign {
    /// A header with these columns; of several formats the one with the most.
    Columns(&'static [&'static str]),
    /// The beginning of the file.
    Text(fn(&str) -> bool),
}

/// In which order jobs stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Of their submission; another one is a bad line.
    Submitted,
    /// Any. They are sorted in memory over [`SORTED_MAX`](super::SORTED_MAX) jobs.
    Any,
}

/// What the times of a file count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// A start of the trace's own, which stays.
    Start,
    /// Something far away. The first job is moved to zero.
    Elsewhere,
}

/// A format that is known.
#[derive(Clone, Copy)]
pub struct Format(pub(super) &'static Entry);

impl Format {
    /// Every format.
    pub fn all() -> impl Iterator<Item = Self> {
        ALL.iter().map(Self)
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|format| format.name() == name)
    }

    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// What it is, in a few words.
    pub const fn what(self) -> &'static str {
        self.0.what
    }

    /// Whether the source says when jobs arrived.
    pub const fn has_arrivals(self) -> bool {
        self.0.has_arrivals
    }

    /// The names of all formats, for messages.
    pub fn known() -> String {
        Self::all().map(Self::name).collect::<Vec<_>>().join(", ")
    }

    /// The format that a file which begins like this has.
    ///
    /// # Errors
    /// What was found instead.
    pub fn recognise(head: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start_matches('\u{feff}');
        if let Some(format) = Self::all().find(|format| matches!(format.0.sign, Sign::Text(is) if is(text))) {
            return Ok(format);
        }
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let mut fields = Fields::default();
        let is_row = fields.split(&mut first.as_bytes().to_vec()).is_ok();
        let names: Vec<String> = if is_row { fields.iter().map(column_name).collect() } else { Vec::new() };
        let columns = |format: &Self| match format.0.sign {
            Sign::Columns(columns) if columns.iter().all(|column| names.iter().any(|name| name == column)) => {
                columns.len()
            }
            _ => 0,
        };
        let best = Self::all().max_by_key(columns).filter(|format| columns(format) > 0);
        best.ok_or_else(|| match first.trim_start().chars().next() {
            Some('{' | '[') if text.contains("spot-trace-v1") => "it is a recorded spot market".to_owned(),
            Some('{' | '[') => "it is JSON of another kind".to_owned(),
            _ => format!("its first line is '{}'", name::escape(first)),
        })
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Format").field(&self.name()).finish()
    }
}

/// What a reader made of lines that are right, counted by what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes(BTreeMap<&'static str, u64>);

impl Notes {
    /// Counts one more.
    pub fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Counts one more if it is so.
    pub fn add_if(&mut self, is_so: bool, what: &'static str) {
        if is_so {
            self.add(what);
        }
    }

    /// A runtime that is zero in the source's unit is a millisecond, since work without length has no cost.
    pub fn some_runtime(&mut self, runtime: Millis) -> Millis {
        self.add_if(runtime.is_zero(), "jobs with a runtime of 0 run for 1 ms");
        runtime.max(Millis::new(1))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(what, count)| (*what, *count))
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        for (what, count) in other.iter() {
            *self.0.entry(what).or_default() += count;
        }
    }
}

/// Opens a layout as the reader of its format.
pub fn table<L: Layout + Default + 'static>(
    format: &'static str,
    input: Input,
    file: Arc<str>,
) -> Result<Box<dyn TraceReader>, Error> {
    Ok(Box::new(Table::open(L::default(), format, input, file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_recognised_by_its_own_columns_and_has_its_own_name() {
        for format in Format::all() {
            assert_eq!(Format::named(format.name()), Some(format));
            assert_eq!(Format::all().filter(|other| other == &format).count(), 1);
            if let Sign::Columns(columns) = format.0.sign {
                let mut columns = columns.to_vec();
                columns.reverse();
                let header = format!("\u{feff}{}, more \r\n1,2", columns.join(" ,").to_uppercase());
                assert_eq!(Format::recognise(header.as_bytes()), Ok(format), "{header}");
            }
        }
    }

    #[test]
    fn what_is_not_a_job_trace_is_told_by_what_it_is() {
        assert!(Format::recognise(b"sn,cpu_milli,memory_mib,gpu,model\n").unwrap_err().contains("cpu_milli"));
        assert!(Format::recognise(b"{\"schema\": \"spot-trace-v1\"").unwrap_err().contains("spot market"));
        assert!(Format::recognise(b"\"").is_err() && Format::recognise(b"\xff\xfe").is_err());
    }
}
