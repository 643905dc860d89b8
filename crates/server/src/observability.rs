//! Logs: text for people or JSON for machines. Secrets have no `Debug` that shows them, so no field can.
//!
//! What a client wrote may stand in a field, so a line is one line and nothing in it moves a terminal's cursor (X-03):
//! JSON escapes by itself, and text passes through [`Escaping`].

use std::io::{self, Write};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::clock::wall;
use crate::settings::{Log, LogFormat};

/// Sends the log to standard error. A second call in one process changes nothing: the first one's choice stands.
pub fn init(log: &Log) {
    // Fails only when a subscriber is set already.
    let _ = tracing_subscriber::registry().with(layer(log, io::stderr)).try_init();
}

fn layer<S, W>(log: &Log, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter: Targets = log.level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    match log.format {
        // Colours would be escaped like everything else that a terminal obeys.
        LogFormat::Text => {
            fmt::layer().with_ansi(false).with_timer(Utc).with_writer(Escaping(writer)).with_filter(filter).boxed()
        }
        LogFormat::Json => {
            fmt::layer().json().flatten_event(true).with_timer(Utc).with_writer(writer).with_filter(filter).boxed()
        }
    }
}

/// Instants in UTC as RFC 3339 with milliseconds, of one width, so that lines of several hosts sort together.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        let now = jiff::Timestamp::from_millisecond(wall().as_millis()).map_err(|_| std::fmt::Error)?;
        write!(writer, "{now:.3}")
    }
}

/// Writes control characters of a record as escapes. The layer hands over one record at a time, with its line end.
struct Escaping<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Escaping<W> {
    type Writer = Escaping<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Escaping(self.0.make_writer())
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(record);
        let (line, end) = text.strip_suffix('\n').map_or((&*text, ""), |line| (line, "\n"));
        if line.contains(is_unsafe) {
            let mut escaped = String::with_capacity(line.len() + 16);
            for character in line.chars() {
                if is_unsafe(character) {
                    escaped.extend(character.escape_default());
                } else {
                    escaped.push(character);
                }
            }
            escaped.push_str(end);
            self.0.write_all(escaped.as_bytes())?;
        } else {
            self.0.write_all(record)?;
        }
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What ends a line, moves a cursor, or turns the direction of the text around it.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What the log shows of an event with a client's text in it.
    fn logged(format: LogFormat, text: &str) -> String {
        let kept = Kept::default();
        let log = Log { level: "info".into(), format };
        let writer = kept.clone();
        let subscriber = tracing_subscriber::registry().with(layer(&log, move || writer.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(job = %text, quoted = ?text, "refused: {text}");
        });
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn x_03_newlines_and_escape_codes_of_clients_stay_within_their_line_of_the_log() {
        let text = "a\nWARN forged \u{1b}[2J\u{1b}]0;x\u{7}\r\u{9b}31m\u{202e}b é";
        let shown = logged(LogFormat::Text, text);
        assert_eq!(shown.lines().count(), 1, "{shown:?}");
        assert!(!shown.trim_end_matches('\n').contains(is_unsafe), "{shown:?}");
        assert!(shown.contains(r"a\nWARN forged") && shown.contains("b é"), "{shown:?}");
        let shown = logged(LogFormat::Json, text);
        assert_eq!(shown.lines().count(), 1, "{shown:?}");
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
        let object: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(object["job"], text);
    }

    #[test]
    fn instants_are_utc_with_milliseconds_and_of_one_width() {
        let text = logged(LogFormat::Text, "x");
        let json: serde_json::Value = serde_json::from_str(&logged(LogFormat::Json, "x")).unwrap();
        for stamp in [text.split_whitespace().next().unwrap(), json["timestamp"].as_str().unwrap()] {
            assert_eq!(stamp.len(), "2026-03-14T15:09:26.535Z".len(), "{stamp}");
            assert!(stamp.ends_with('Z') && stamp.as_bytes()[19] == b'.', "{stamp}");
            let read: leeway_model::Timestamp = stamp.parse().unwrap();
            assert!(wall().since(read) < leeway_model::Millis::from_mins(1), "{stamp}");
        }
    }
}
