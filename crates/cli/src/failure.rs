//! What went wrong, for people and for programs, and with which exit code the process ends.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use leeway_proto::pb;
use leeway_proto::status::reason_of;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::terminal::Terminal;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; of a job: it succeeded.
    Success,
    /// Something else went wrong.
    Error,
    /// What was typed or written in a file is wrong.
    Usage,
    /// The server cannot be reached.
    Unreachable,
    /// The job failed.
    JobFailed,
    /// The job has not finished.
    JobUnfinished,
    /// There is no such job.
    JobNotFound,
    /// The job was cancelled.
    JobCancelled,
    /// A dry run found no place for a job.
    NothingFits,
    /// As another program said.
    Other(u8),
}

impl Exit {
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Unreachable => 4,
            Self::JobFailed => 100,
            Self::JobUnfinished => 101,
            Self::JobNotFound => 102,
            Self::JobCancelled => 103,
            Self::NothingFits => 104,
            Self::Other(code) => code,
        }
    }

    /// The exit code that a program of ours asks for.
    pub fn of_program(code: i32) -> Self {
        u8::try_from(code).map_or(Self::Error, Self::Other)
    }

    /// What a job's state means to a script.
    pub const fn of_job(state: pb::JobState) -> Self {
        match state {
            pb::JobState::Succeeded => Self::Success,
            pb::JobState::Failed => Self::JobFailed,
            pb::JobState::Cancelled => Self::JobCancelled,
            _ => Self::JobUnfinished,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A command that did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// Stable, for programs.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// What to do about it, when the message does not say.
    pub advice: Option<String>,
    /// More for programs.
    pub details: Value,
}

impl Failure {
    pub fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { exit, code: code.into(), message: message.into(), advice: None, details: Value::Null }
    }

    /// Something that was typed wrongly.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message)
    }

    /// A file that cannot be read or written.
    pub fn file(path: &Path, error: &io::Error) -> Self {
        Self::new(Exit::Usage, "FILE", format!("'{}': {error}", path.display()))
    }

    /// Standard output that takes nothing more. A reader that has gone away, as `head` does, is no failure.
    pub fn output(error: io::Error) -> Self {
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::Success } else { Exit::Error };
        Self::new(exit, "OUTPUT", format!("cannot write the result: {error}"))
    }

    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// The same, where a thing that is not found is a job.
    #[must_use]
    pub fn about_job(mut self) -> Self {
        if self.code == "NOT_FOUND" {
            self.exit = Exit::JobNotFound;
        }
        self
    }

    /// Whether trying again may help, since nobody answered.
    pub fn is_unreachable(&self) -> bool {
        self.exit == Exit::Unreachable
    }

    /// As one JSON object.
    pub fn to_json(&self) -> Value {
        json!({ "error": {
            "code": self.code,
            "message": self.message,
            "advice": self.advice,
            "details": self.details,
            "exit_code": self.exit.code(),
        }})
    }

    /// Tells on standard error, and returns how to end.
    pub fn show(self, terminal: &Terminal) -> Exit {
        if self.exit != Exit::Success {
            let text = if terminal.json {
                self.to_json().to_string()
            } else {
                let advice = self.advice.as_ref().map(|advice| format!("\n  {advice}")).unwrap_or_default();
                format!("error: {}{advice}", self.message)
            };
            // There is no third stream to complain on.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
        self.exit
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let exit = match status.code() {
            Code::InvalidArgument => Exit::Usage,
            Code::Unavailable => Exit::Unreachable,
            _ => Exit::Error,
        };
        let code = reason_of(&status).unwrap_or_else(|| code_word(status.code()).to_owned());
        let message = match status.message() {
            "" => status.code().description().to_lowercase(),
            text => text.to_owned(),
        };
        let code = if status.code() == Code::NotFound { "NOT_FOUND".to_owned() } else { code };
        let failure = Self::new(exit, code, message);
        match status.code() {
            Code::Unimplemented => failure.advise("the server does not know this request; is it an older version?"),
            _ => failure,
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Error, "ERROR", format!("{error:#}"))
    }
}

impl From<leeway_store::Error> for Failure {
    fn from(error: leeway_store::Error) -> Self {
        Self::new(Exit::Error, error.code(), error.to_string())
    }
}

const fn code_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_a_refusal_decides_the_exit_code() {
        let of = |code| Failure::from(Status::new(code, "x")).exit.code();
        assert_eq!(of(Code::InvalidArgument), 2);
        assert_eq!(of(Code::Unavailable), 4);
        assert_eq!(of(Code::Internal), 1);
        assert_eq!(of(Code::NotFound), 1);
        assert_eq!(Failure::from(Status::not_found("no job j-9")).about_job().exit.code(), 102);
        assert_eq!(Failure::from(Status::internal("x")).about_job().exit.code(), 1);
    }

    #[test]
    fn a_reason_is_the_code_and_an_empty_message_is_filled() {
        let status = leeway_proto::status::with_reason(Code::FailedPrecondition, "IN_USE", "runs exist", []);
        let failure = Failure::from(status);
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("IN_USE", "runs exist"));
        assert!(!Failure::from(Status::new(Code::Aborted, "")).message.is_empty());
        assert_eq!(Failure::from(Status::new(Code::Aborted, "")).code, "ABORTED");
    }

    #[test]
    fn every_state_of_a_job_has_its_code() {
        use pb::JobState::{Cancelled, Cancelling, Failed, Pending, Running, Succeeded, Waiting};
        let codes = [Succeeded, Failed, Running, Pending, Waiting, Cancelling, Cancelled];
        assert_eq!(codes.map(|state| Exit::of_job(state).code()), [0, 100, 101, 101, 101, 101, 103]);
    }
}
