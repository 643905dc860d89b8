//! What can be wrong with a trace, with the place where it is.

use std::io;
use std::sync::Arc;

/// A line that is not a job, or that cannot be one beside the lines before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {column}: {problem}")]
pub struct BadLine {
    pub file: Arc<str>,
    /// Counted from 1, the header included.
    pub line: u64,
    /// The name of the column or field, or `(line)` where all of the line is wrong.
    pub column: String,
    /// The value and what is wrong with it.
    pub problem: String,
}

/// What is wrong with a value, before anybody has said where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub column: String,
    pub problem: String,
}

impl Fault {
    pub fn new(column: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { column: column.into(), problem: problem.into() }
    }

    pub fn at(self, file: &Arc<str>, line: u64) -> BadLine {
        BadLine { file: file.clone(), line, column: self.column, problem: self.problem }
    }
}

/// Why a trace cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("'{file}': {error}")]
    Io { file: Arc<str>, error: io::Error },
    #[error("'{file}' is empty: there is no header and no job in it")]
    Empty { file: Arc<str> },
    #[error("'{file}': not a job trace that is known here: {found}; known formats are {known}")]
    Unknown { file: Arc<str>, found: String, known: String },
    #[error("'{file}': {problem}")]
    Unusable { file: Arc<str>, problem: String },
    #[error("'{file}' has no column '{column}', which the format {format} needs; its columns are {found}")]
    Column { file: Arc<str>, format: &'static str, column: &'static str, found: String },
    #[error(transparent)]
    Bad(#[from] BadLine),
    /// Skipping cannot mend this one: most of the file may stand in the wrong place.
    #[error(
        "{bad}; jobs are sorted over at most {reach} of them, and this one belongs further up: sort the file by its time \
         of submission"
    )]
    Unsorted { bad: BadLine, reach: usize },
}
