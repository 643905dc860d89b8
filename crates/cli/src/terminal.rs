//! Where output goes: how wide it may be, whether it may have colour, and whether programs read it.

use std::io::{self, IsTerminal as _, Write as _};

use leeway_model::Timestamp;
use serde_json::Value;

use crate::failure::Failure;

/// How results are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Columns that a line may have; `None` where nobody counts them.
    pub width: Option<u16>,
    pub colour: bool,
    /// For times such as `3m ago`.
    pub now: Timestamp,
}

/// The standard streams.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// One JSON value instead of text for people.
    pub json: bool,
    colour: bool,
    width: Option<u16>,
    /// Whether a person sees standard error, so that progress may move there.
    pub lively: bool,
    mute: bool,
}

impl Terminal {
    /// As the process finds them.
    pub fn new(json: bool) -> Self {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_person = io::stdout().is_terminal();
        let width = if is_person { comfy_table::Table::new().width() } else { None };
        Self {
            json,
            colour: is_person && !no_colour && !json,
            width,
            lively: io::stderr().is_terminal() && !json,
            mute: false,
        }
    }

    /// One that shows nothing to anybody, for tests of what is done instead of what is printed.
    #[cfg(test)]
    pub const fn silent() -> Self {
        Self { json: true, colour: false, width: None, lively: false, mute: true }
    }

    /// The view for a rendering of this moment.
    pub fn view(&self) -> View {
        View { width: self.width, colour: self.colour, now: now() }
    }

    /// Prints a result: `text` for people, `value` for programs.
    pub fn show(&self, text: impl FnOnce(&View) -> String, value: impl FnOnce() -> Value) -> Result<(), Failure> {
        if self.json { self.value(&value()) } else { self.text(&text(&self.view())) }
    }

    /// Prints one JSON value on a line of its own.
    pub fn value(&self, value: &Value) -> Result<(), Failure> {
        self.raw(format!("{value}\n").as_bytes())
    }

    /// Prints text and ends its line.
    pub fn text(&self, text: &str) -> Result<(), Failure> {
        let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
        self.raw(format!("{text}{end}").as_bytes())
    }

    /// Writes bytes to standard output as they are.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        if self.mute {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Failure::output)
    }

    /// A remark beside the result, for people; on standard error so that pipes do not see it.
    pub fn remark(&self, text: &str) {
        if !self.json {
            // A remark that nobody can see is no reason to stop.
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }
}

/// The present instant by the system's clock.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
