//! YAML to a small tree that remembers where everything stands and how numbers were written.
//!
//! The tree keeps a number as its text, because `3.06` must not pass through a float, `010` must not become 10 or 8,
//! and an environment variable must get exactly what was written. Only `true` and `false` are yes and no, so `NO`
//! stays text. Repeated keys are kept and reported by the reader of the mapping, which can name both lines.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Location, Spanned};

use crate::error::{Code, Position, Report};

/// Largest job file, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;
/// Most jobs in one file.
pub const MAX_DOCUMENTS: usize = 100;
/// Deepest nesting of lists and mappings.
pub const MAX_DEPTH: usize = 32;
/// Most values that aliases (`*name`) may repeat in one file.
pub const MAX_ALIASED: usize = 2_000;

#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    pub value: Value<'a>,
    pub at: Position,
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    /// `true` or `false`, and how it was written.
    Bool(bool, &'a str),
    /// As it was written.
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub key: Cow<'a, str>,
    pub key_at: Position,
    pub node: Node<'a>,
}

impl Node<'_> {
    pub const fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(..) => "true or false",
            Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// The documents of a text that hold anything. Mistakes go to the report.
pub(crate) fn documents<'a>(text: &'a str, report: &mut Report) -> Vec<Node<'a>> {
    if text.len() > MAX_FILE_BYTES {
        // Whoever reads files stops soon after that many, so the length of this text is not the file's.
        let problem = format!("the file has more than {MAX_FILE_BYTES} bytes, the most that a job file may have");
        report.file(Code::FileTooLarge, None, problem, "move scripts and data into files of their own");
        return Vec::new();
    }
    match serde_saphyr::from_multiple_with_options::<Spanned<Raw<'a>>>(text, options()) {
        Ok(documents) => documents.into_iter().map(|raw| node(raw, text)).collect(),
        Err(error) => {
            refuse(&error, report);
            Vec::new()
        }
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: MAX_DOCUMENTS,
            max_depth: MAX_DEPTH,
            max_nodes: 100_000,
            max_aliases: MAX_ALIASED,
            max_anchors: MAX_ALIASED,
            // Bounds what repeated aliases of long text can cost: replays x retained bytes.
            max_recorded_anchor_bytes: 64 << 10,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIASED,
            max_replay_stack_depth: 16,
        },
        // Long runs of commented-out lines are usual in job files and hold nothing to keep.
        emit_comments: false,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        null_as_string: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        reject_unsupported_tags: true,
        // Not to accept them: the reader refuses `.nan` with the name of the field.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

fn refuse(error: &serde_saphyr::Error, report: &mut Report) {
    use serde_saphyr::Error as E;
    let position = error.location().filter(|at| *at != Location::UNKNOWN).map(position);
    let mut original = error;
    while let E::AliasError { error, .. } | E::WithSnippet { error, .. } = original {
        original = error;
    }
    let limit = matches!(
        original,
        E::Budget { .. }
            | E::AliasReplayLimitExceeded { .. }
            | E::AliasReplayStackDepthExceeded { .. }
            | E::AliasExpansionLimitExceeded { .. }
            | E::RecursiveReferencesRequireWeakTypes { .. }
    );
    let message = original.to_string().to_lowercase();
    // The place is told in its own fields.
    let message = message.split(" at line ").next().unwrap_or_default().trim_end_matches([':', ' ']);
    let escaped = |c: char| if matches!(c, '\'' | '"') { c.to_string() } else { c.escape_debug().to_string() };
    let message: String = message.chars().map(escaped).collect();
    if limit {
        let fix = format!(
            "a job file may hold {MAX_DOCUMENTS} documents, nest {MAX_DEPTH} levels deep and repeat {MAX_ALIASED} values \
             by alias; write the values out or split the file"
        );
        report.file(Code::YamlLimit, position, format!("the YAML goes beyond a limit: {message}"), fix);
    } else {
        let fix = "check indentation, quotes, brackets and tags at this place";
        report.file(Code::YamlSyntax, position, format!("this is not valid YAML: {message}"), fix);
    }
}

fn position(location: Location) -> Position {
    let clamp = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Position { line: clamp(location.line()), column: clamp(location.column()) }
}

/// What serde sees before numbers get their text back.
enum Raw<'a> {
    Null,
    Bool(bool),
    Number,
    Text(Cow<'a, str>),
    List(Vec<Spanned<Raw<'a>>>),
    Map(Vec<(Spanned<Key<'a>>, Spanned<Raw<'a>>)>),
}

struct Key<'a>(Cow<'a, str>);

fn node<'a>(raw: Spanned<Raw<'a>>, source: &'a str) -> Node<'a> {
    let at = position(raw.referenced);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(yes) => Value::Bool(yes, written(&raw.defined, source)),
        Raw::Number => Value::Number(written(&raw.defined, source)),
        Raw::Text(text) => Value::Text(text),
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, source)).collect()),
        Raw::Map(pairs) => Value::Map(
            pairs
                .into_iter()
                .map(|(key, value)| Entry {
                    key_at: position(key.referenced),
                    key: key.value.0,
                    node: node(value, source),
                })
                .collect(),
        ),
    };
    Node { value, at }
}

/// The text of a scalar; empty when its place is unknown, which every reader of numbers refuses.
fn written<'a>(at: &Location, source: &'a str) -> &'a str {
    let span = at.span();
    let range = || {
        let start = usize::try_from(span.byte_offset()?).ok()?;
        let end = start.checked_add(usize::try_from(span.byte_len()?).ok()?)?;
        source.get(start..end)
    };
    range().unwrap_or_default().trim()
}

impl<'de> Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Raw<'de>, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw<'de>, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Raw<'de>, E> {
        Ok(Raw::Bool(yes))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw<'de>, E> {
        Ok(Raw::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw<'de>, E> {
        Ok(Raw::Number)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw<'de>, E> {
        Ok(Raw::Number)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw<'de>, E> {
        Ok(Raw::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw<'de>, E> {
        Ok(Raw::Number)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(Cow::Owned(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw<'de>, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key()? {
            map.push((key, entries.next_value()?));
        }
        Ok(Raw::Map(map))
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KeyVisitor).map(Key)
    }
}

struct KeyVisitor;

impl<'de> Visitor<'de> for KeyVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
