//! Checks of single fields. Each takes the field's path and says in its error what was given and what would do.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use leeway_model::checkpoint::Digest;
use leeway_model::cluster::Region;
use leeway_model::name::escape;
use leeway_model::{Currency, JobId, Millis, Name, RunId, Text, Timestamp};

use crate::Invalid;
use crate::invalid::Within;
use crate::limits::{
    ENV_MAX, ENV_NAME_MAX, ENV_VALUE_MAX, INSTANT_MAX_MS, LABEL_KEY_MAX, LABEL_VALUE_MAX, LABELS_MAX, LENGTH_MAX_MS,
    PATH_MAX, SCRIPT_MAX, URL_MAX,
};

/// The value of a field that must be set.
pub fn required<T>(field: &str, value: Option<T>) -> Result<T, Invalid> {
    value.ok_or_else(|| Invalid::missing(field))
}

/// A number between two bounds.
pub fn between<T: PartialOrd + Display + Copy>(field: &str, value: T, range: RangeInclusive<T>) -> Result<T, Invalid> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(Invalid::new(field, format!("{value} is out of range; use {} to {}", range.start(), range.end())))
}

/// The length of a list or map.
pub fn count(field: &str, len: usize, range: RangeInclusive<usize>) -> Result<(), Invalid> {
    if range.contains(&len) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("has {len} items; use {} to {}", range.start(), range.end())))
}

/// Converts each item of a list whose length is in `range`.
pub fn list<W, M>(
    field: &str,
    items: Vec<W>,
    range: RangeInclusive<usize>,
    mut convert: impl FnMut(W) -> Result<M, Invalid>,
) -> Result<Vec<M>, Invalid> {
    count(field, items.len(), range)?;
    items.into_iter().enumerate().map(|(index, item)| convert(item).at(field, index)).collect()
}

/// Parses with the model's own rules. Its errors quote what was given, which must not reach a terminal unescaped.
fn parse<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|error: T::Err| {
        let quoted = error.to_string();
        let message = quoted.chars().flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] });
        Invalid::new(field, message.collect::<String>())
    })
}

pub fn name(field: &str, text: &str) -> Result<Name, Invalid> {
    parse(field, text)
}

pub fn optional_name(field: &str, text: Option<&str>) -> Result<Option<Name>, Invalid> {
    text.map(|text| name(field, text)).transpose()
}

/// Who asks, for the record; `operator` when it is not said.
pub fn actor(field: &str, text: &str) -> Result<Name, Invalid> {
    name(field, if text.is_empty() { "operator" } else { text })
}

pub fn display_name(field: &str, text: &str) -> Result<Text, Invalid> {
    parse(field, text)
}

pub fn job_id(field: &str, text: &str) -> Result<JobId, Invalid> {
    parse(field, text)
}

pub fn run_id(field: &str, text: &str) -> Result<RunId, Invalid> {
    parse(field, text)
}

pub fn region(field: &str, text: &str) -> Result<Region, Invalid> {
    parse(field, text)
}

/// A currency, whichever.
pub fn currency(field: &str, text: &str) -> Result<Currency, Invalid> {
    text.parse().map_err(|_| {
        let message = format!("'{}' is not a currency; write three capital letters such as USD", escape(text));
        Invalid::new(field, message)
    })
}

/// The ledger's currency, or nothing, which means the same. An amount in another currency must never pass for one in this.
pub fn ledger_currency(field: &str, text: &str, ledger: Currency) -> Result<(), Invalid> {
    if text.is_empty() {
        return Ok(());
    }
    let given = currency(field, text)?;
    if given == ledger {
        return Ok(());
    }
    Err(Invalid::new(
        field,
        format!("amounts are in {given}, but this installation reckons in {ledger}; state them in {ledger}"),
    ))
}

/// Text of a bounded length without control characters.
pub fn plain_text(field: &str, text: String, len: RangeInclusive<usize>) -> Result<Box<str>, Invalid> {
    text_length(field, &text, len)?;
    match text.chars().find(|c| c.is_control()) {
        Some(bad) => {
            Err(Invalid::new(field, format!("holds the control character U+{:04X}; remove it", u32::from(bad))))
        }
        None => Ok(text.into()),
    }
}

/// Text of a bounded length that may have several lines, such as a message of a program.
pub fn lines(field: &str, text: String, max: usize) -> Result<Box<str>, Invalid> {
    text_length(field, &text, 0..=max)?;
    no_nul(field, text.as_bytes())?;
    Ok(text.into())
}

/// Printable ASCII without spaces.
pub fn word(field: &str, text: String, max: usize) -> Result<Box<str>, Invalid> {
    text_length(field, &text, 1..=max)?;
    if text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(text.into());
    }
    Err(Invalid::new(field, format!("'{}' must be printable ASCII without spaces", escape(&text))))
}

fn text_length(field: &str, text: &str, len: RangeInclusive<usize>) -> Result<(), Invalid> {
    if len.contains(&text.len()) {
        return Ok(());
    }
    if text.is_empty() {
        return Err(Invalid::new(field, "is empty; it must be set"));
    }
    Err(Invalid::new(field, format!("has {} bytes; use {} to {}", text.len(), len.start(), len.end())))
}

fn no_nul(field: &str, bytes: &[u8]) -> Result<(), Invalid> {
    match bytes.iter().position(|&b| b == 0) {
        Some(place) => Err(Invalid::new(field, format!("holds a NUL byte at {place}; remove it"))),
        None => Ok(()),
    }
}

/// Shell text.
pub fn script(field: &str, text: String) -> Result<Box<str>, Invalid> {
    text_length(field, &text, 1..=SCRIPT_MAX)?;
    no_nul(field, text.as_bytes())?;
    Ok(text.into())
}

/// A URL with a scheme. Whether anything can read it is the business of whoever does.
/// `example` is one that would do there.
pub fn url(field: &str, text: String, example: &str) -> Result<Box<str>, Invalid> {
    let text = word(field, text, URL_MAX)?;
    let scheme_ok = text.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
    });
    if scheme_ok {
        return Ok(text);
    }
    Err(Invalid::new(field, format!("'{}' is not a URL; write it with its scheme, such as {example}", escape(&text))))
}

/// A path that cannot lead out of where it begins.
pub fn path(field: &str, text: String) -> Result<Box<str>, Invalid> {
    let text = plain_text(field, text, 1..=PATH_MAX)?;
    if text.split(['/', '\\']).any(|part| part == "..") {
        return Err(Invalid::new(field, format!("'{}' must not hold '..'", escape(&text))));
    }
    Ok(text)
}

/// A path below a directory that is chosen elsewhere.
pub fn relative_path(field: &str, text: String) -> Result<Box<str>, Invalid> {
    let text = path(field, text)?;
    if text.starts_with(['/', '\\', '~']) || text.as_bytes().get(1) == Some(&b':') {
        return Err(Invalid::new(field, format!("'{}' must be relative to the working directory", escape(&text))));
    }
    Ok(text)
}

/// A SHA-256.
pub fn digest(field: &str, bytes: &[u8]) -> Result<Digest, Invalid> {
    bytes.try_into().map_err(|_| Invalid::new(field, format!("has {} bytes; a SHA-256 has 32", bytes.len())))
}

/// An instant between 1970 and 9999.
pub fn instant(field: &str, millis: i64) -> Result<Timestamp, Invalid> {
    if (0..=INSTANT_MAX_MS).contains(&millis) {
        return Ok(Timestamp::from_millis(millis));
    }
    Err(Invalid::new(
        field,
        format!("{millis} is no instant; use milliseconds since 1970-01-01T00:00:00Z, up to the year 9999"),
    ))
}

pub fn optional_instant(field: &str, millis: Option<i64>) -> Result<Option<Timestamp>, Invalid> {
    millis.map(|millis| instant(field, millis)).transpose()
}

/// A length of time that a person chose: 1 s to 10 years.
pub fn length(field: &str, millis: u64) -> Result<Millis, Invalid> {
    Millis::new(millis).in_range().map_err(|_| {
        Invalid::new(field, format!("{millis} ms is out of range; use {} (1 s) to {LENGTH_MAX_MS} (10 years)", 1_000))
    })
}

pub fn optional_length(field: &str, millis: Option<u64>) -> Result<Option<Millis>, Invalid> {
    millis.map(|millis| length(field, millis)).transpose()
}

/// A length of time that was measured or is expected: up to 10 years, also none at all.
pub fn measured(field: &str, millis: u64) -> Result<Millis, Invalid> {
    between(field, millis, 0..=LENGTH_MAX_MS).map(Millis::new)
}

pub fn optional_measured(field: &str, millis: Option<u64>) -> Result<Option<Millis>, Invalid> {
    millis.map(|millis| measured(field, millis)).transpose()
}

/// Labels: at most 64.
pub fn labels(field: &str, labels: &BTreeMap<String, String>) -> Result<(), Invalid> {
    count(field, labels.len(), 0..=LABELS_MAX)?;
    for (key, value) in labels {
        plain_text(field, key.clone(), 1..=LABEL_KEY_MAX).map_err(|error| in_key(error, key))?;
        plain_text(field, value.clone(), 0..=LABEL_VALUE_MAX).map_err(|error| in_entry(error, key))?;
    }
    Ok(())
}

/// Environment variables.
pub fn env(field: &str, env: &BTreeMap<String, String>) -> Result<(), Invalid> {
    count(field, env.len(), 0..=ENV_MAX)?;
    for (key, value) in env {
        env_name(field, key)?;
        env_value(field, key, value.as_bytes(), ENV_VALUE_MAX)?;
    }
    Ok(())
}

/// The name of an environment variable: letters, digits and `_`, not beginning with a digit.
pub fn env_name(field: &str, name: &str) -> Result<(), Invalid> {
    let valid = (1..=ENV_NAME_MAX).contains(&name.len())
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if valid {
        return Ok(());
    }
    let message = format!(
        "'{}' cannot name a variable; use 1 to {ENV_NAME_MAX} letters, digits and '_', not beginning with a digit",
        escape(name)
    );
    Err(Invalid::new(field, message))
}

/// The value of an environment variable: no NUL, at most `max` bytes. The error never shows it.
pub fn env_value(field: &str, name: &str, value: &[u8], max: usize) -> Result<(), Invalid> {
    if value.len() > max {
        let message = format!("has {} bytes; use at most {max}, or a file for more", value.len());
        return Err(in_entry(Invalid::new(field, message), name));
    }
    no_nul(field, value).map_err(|error| in_entry(error, name))
}

/// A fault of a map's value, under its key.
pub(crate) fn in_entry(error: Invalid, key: &str) -> Invalid {
    Invalid { field: format!("{}[\"{}\"]", error.field, escape(key)), ..error }
}

/// A fault of a map's key.
fn in_key(error: Invalid, key: &str) -> Invalid {
    Invalid { message: format!("the key '{}' {}", escape(key), error.message), ..error }
}
