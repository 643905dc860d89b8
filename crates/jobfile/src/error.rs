//! What is wrong with a job file, all of it at once: where, which field, which value, why, and what to write instead.

use std::fmt;

use leeway_model::name::escape;
use serde::Serialize;

/// Most errors that one file is shown; the rest is counted.
const MAX_ERRORS: usize = 100;

/// What kind of mistake it is, in a code that does not change between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The text is larger than a job file may be.
    FileTooLarge,
    /// There is no job in the text.
    FileEmpty,
    /// The text is not YAML.
    YamlSyntax,
    /// The text is YAML, but nests, repeats or refers back more than a job file may.
    YamlLimit,
    UnknownField,
    DuplicateField,
    MissingField,
    /// A list where text belongs, a number where a yes or no belongs, and so on.
    WrongType,
    InvalidValue,
    /// The value is well formed and lies outside what is allowed.
    OutOfRange,
    /// More entries than are allowed.
    TooMany,
    /// Two fields that exclude each other.
    Conflict,
    /// The field asks for something that Leeway cannot do, or cannot do yet.
    NotSupported,
    UnknownDependency,
    DependencyCycle,
}

impl Code {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileTooLarge => "FILE_TOO_LARGE",
            Self::FileEmpty => "FILE_EMPTY",
            Self::YamlSyntax => "YAML_SYNTAX",
            Self::YamlLimit => "YAML_LIMIT",
            Self::UnknownField => "UNKNOWN_FIELD",
            Self::DuplicateField => "DUPLICATE_FIELD",
            Self::MissingField => "MISSING_FIELD",
            Self::WrongType => "WRONG_TYPE",
            Self::InvalidValue => "INVALID_VALUE",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::TooMany => "TOO_MANY",
            Self::Conflict => "CONFLICT",
            Self::NotSupported => "NOT_SUPPORTED",
            Self::UnknownDependency => "UNKNOWN_DEPENDENCY",
            Self::DependencyCycle => "DEPENDENCY_CYCLE",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A place in the text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Error {
    pub code: Code,
    /// Unknown for what the file does not say, such as a value given with `--env`.
    pub position: Option<Position>,
    /// The field, as `resources.any_of[1].cpus`; empty when the file as a whole is meant.
    pub path: String,
    /// What stands there, clipped and with control characters escaped; absent for secrets and for whole mappings.
    pub value: Option<String>,
    /// What is wrong with it.
    pub problem: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Error {
    /// One line: `4:9: resources.cpus: '010' is not ...; write ... [INVALID_VALUE]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.position {
            write!(f, "{}:{}: ", at.line, at.column)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        if let Some(value) = &self.value {
            write!(f, "'{value}' ")?;
        }
        write!(f, "{}; {} [{}]", self.problem, self.fix, self.code)
    }
}

/// All mistakes of one file in the order of the text; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct Errors {
    errors: Vec<Error>,
    /// Mistakes found beyond those listed.
    omitted: usize,
}

impl Errors {
    pub fn as_slice(&self) -> &[Error] {
        &self.errors
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Error> {
        self.errors.iter()
    }

    /// How many mistakes were found and are not listed.
    pub const fn omitted(&self) -> usize {
        self.omitted
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a Error;
    type IntoIter = std::slice::Iter<'a, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let line_break = if index == 0 { "" } else { "\n" };
            write!(f, "{line_break}{error}")?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

/// Collects mistakes and notes while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<Error>,
    omitted: usize,
    notes: Vec<String>,
}

impl Report {
    pub fn error(&mut self, error: Error) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        } else {
            self.omitted += 1;
        }
    }

    /// A mistake about the file as a whole.
    pub fn file(&mut self, code: Code, position: Option<Position>, problem: impl Into<String>, fix: impl Into<String>) {
        let (problem, fix) = (problem.into(), fix.into());
        self.error(Error { code, position, path: String::new(), value: None, problem, fix });
    }

    /// A mistake in a place that has a path and no single value worth showing.
    pub fn at(&mut self, code: Code, at: Position, path: &str, problem: impl Into<String>, fix: impl Into<String>) {
        let (problem, fix) = (problem.into(), fix.into());
        self.error(Error { code, position: Some(at), path: path.to_owned(), value: None, problem, fix });
    }

    /// Something that was accepted and that a person should know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether further mistakes are only counted, so that finding good advice for them would be wasted.
    pub const fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// How many mistakes were found so far.
    pub const fn mistakes(&self) -> usize {
        self.errors.len() + self.omitted
    }

    /// The value, if nothing was wrong.
    pub fn finish<T>(mut self, value: T) -> Result<T, Errors> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        self.errors.sort_by_key(|error| error.position);
        Err(Errors { errors: self.errors, omitted: self.omitted })
    }
}

/// A value as it is shown in an error.
pub(crate) fn shown(text: &str) -> String {
    let mut clipped = escape(text);
    if text.chars().nth(64).is_some() {
        clipped.push('…');
    }
    clipped
}
