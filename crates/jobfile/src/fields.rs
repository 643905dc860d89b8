//! Reading a mapping field by field: what is known, what is refused by name, what was meant when it is neither.

use std::borrow::Cow;

use crate::error::{Code, Error, Position, Report, shown};
use crate::yaml::{Entry, Node, Value};

/// The fields of one level of the file.
#[derive(Debug)]
pub(crate) struct Level {
    /// What the level is called in a message: `resources`, `checkpoint`.
    pub name: &'static str,
    pub known: &'static [&'static str],
    /// Fields that exist elsewhere and that Leeway does not take, with what is wrong and what to do instead.
    pub refused: &'static [Refused],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub name: &'static str,
    pub problem: &'static str,
    pub fix: &'static str,
}

/// A mapping whose fields are taken one by one.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: String,
    at: Position,
    entries: Vec<Entry<'a>>,
}

/// One value with the name that errors give it.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub path: String,
    pub key_at: Position,
    pub node: Node<'a>,
}

pub(crate) fn join(path: &str, key: &str) -> String {
    let key = shown(key);
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

impl<'a> Fields<'a> {
    /// Opens a mapping. Unknown, refused and repeated fields go to the report and are left out.
    pub fn open(field: Field<'a>, level: &Level, report: &mut Report) -> Option<Self> {
        let at = field.node.at;
        let path = field.path.clone();
        let mut entries = field.entries(report)?;
        entries.retain(|entry| {
            if level.known.contains(&&*entry.key) {
                return true;
            }
            let here = join(&path, &entry.key);
            match level.refused.iter().find(|refused| refused.name == entry.key) {
                // A field that asks for nothing is no request.
                Some(_) if matches!(entry.node.value, Value::Null) => {}
                Some(refused) => report.at(Code::NotSupported, entry.key_at, &here, refused.problem, refused.fix),
                None => report.at(
                    Code::UnknownField,
                    entry.key_at,
                    &here,
                    format!("is not a field of {}", level.name),
                    if report.is_full() { String::new() } else { hint(&entry.key, level) },
                ),
            }
            false
        });
        Some(Self { path, at, entries })
    }

    /// The field, if it is there and not empty.
    pub fn take(&mut self, name: &str) -> Option<Field<'a>> {
        self.take_even_empty(name).filter(|field| !field.is_null())
    }

    /// The field, if it is there; an empty one is a mistake. For fields that protect money or time, where an empty
    /// line read as "no limit" would be a surprise.
    pub fn take_stated(&mut self, name: &str, report: &mut Report) -> Option<Field<'a>> {
        let field = self.take_even_empty(name)?;
        if field.is_null() {
            report.at(Code::MissingField, field.key_at, &field.path, "has no value", "give it one or remove the line");
            return None;
        }
        Some(field)
    }

    pub fn take_even_empty(&mut self, name: &str) -> Option<Field<'a>> {
        let index = self.entries.iter().position(|entry| entry.key == name)?;
        let entry = self.entries.remove(index);
        Some(Field { path: join(&self.path, name), key_at: entry.key_at, node: entry.node })
    }

    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name && !matches!(entry.node.value, Value::Null))
    }

    /// Reports two fields of this mapping that exclude each other.
    pub fn exclusive(&self, first: &str, second: &str, fix: &str, report: &mut Report) {
        if self.has(first) && self.has(second) {
            let at = self.entries.iter().find(|entry| entry.key == second).map_or(self.at, |entry| entry.key_at);
            let problem =
                format!("'{}' and '{}' exclude each other", join(&self.path, first), join(&self.path, second));
            report.at(Code::Conflict, at, &join(&self.path, second), problem, fix);
        }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    pub const fn at(&self) -> Position {
        self.at
    }
}

/// The nearest known name, or where the field belongs, or all there are.
fn hint(name: &str, level: &Level) -> String {
    if let Some(owner) =
        crate::LEVELS.iter().find(|other| other.name != level.name && other.known.contains(&name) && name.len() > 3)
    {
        return format!("it is a field of {}: write it there", owner.name);
    }
    match nearest(name, level.known.iter().chain(level.refused.iter().map(|refused| &refused.name)).copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("known fields are {}", level.known.join(", ")),
    }
}

/// The candidate that a misspelling most likely meant.
pub(crate) fn nearest<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > 64 {
        return None;
    }
    let folded = name.to_ascii_lowercase().replace('-', "_");
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

impl<'a> Field<'a> {
    pub const fn is_null(&self) -> bool {
        matches!(self.node.value, Value::Null)
    }

    /// Reports a mistake in this value.
    pub fn fail(&self, code: Code, problem: impl Into<String>, fix: impl Into<String>, report: &mut Report) {
        let value = match &self.node.value {
            Value::Bool(_, text) | Value::Number(text) => Some(shown(text)),
            Value::Text(text) => Some(shown(text)),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        };
        let (position, path) = (Some(self.node.at), self.path.clone());
        report.error(Error { code, position, path, value, problem: problem.into(), fix: fix.into() });
    }

    pub fn wrong_type(&self, wanted: &str, fix: impl Into<String>, report: &mut Report) {
        let problem = format!("is {} where {wanted} belongs", self.node.kind());
        self.fail(Code::WrongType, problem, fix, report);
    }

    /// A scalar that may have been written as a number: a size, a price, a count with a plus.
    pub fn literal(&self) -> Option<&str> {
        match &self.node.value {
            Value::Number(text) => Some(text),
            Value::Text(text) => Some(text.trim()),
            _ => None,
        }
    }

    /// The entries of a mapping, each name once.
    pub fn entries(self, report: &mut Report) -> Option<Vec<Entry<'a>>> {
        let Value::Map(entries) = self.node.value else {
            self.wrong_type("a mapping", "write fields as 'name: value' lines, indented below it", report);
            return None;
        };
        let mut first_seen = std::collections::BTreeMap::new();
        let mut unique = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(line) = first_seen.get(&entry.key) {
                let here = join(&self.path, &entry.key);
                let problem = format!("is given twice; the first is in line {line}");
                report.at(Code::DuplicateField, entry.key_at, &here, problem, "keep one of them");
            } else {
                first_seen.insert(entry.key.clone(), entry.key_at.line);
                unique.push(entry);
            }
        }
        Some(unique)
    }

    /// The items of a list, named by their index.
    pub fn items(self, fix: &str, report: &mut Report) -> Option<Vec<Field<'a>>> {
        let Value::List(items) = self.node.value else {
            self.wrong_type("a list", fix, report);
            return None;
        };
        let item =
            |(index, node): (usize, Node<'a>)| Field { path: format!("{}[{index}]", self.path), key_at: node.at, node };
        Some(items.into_iter().enumerate().map(item).collect())
    }

    /// Text of at least one visible character and without NUL.
    pub fn text(self, report: &mut Report) -> Option<Cow<'a, str>> {
        match &self.node.value {
            Value::Text(text) if text.contains('\0') => {
                self.fail(Code::InvalidValue, "holds a NUL character", "remove it", report);
                None
            }
            Value::Text(text) if text.trim().is_empty() => {
                self.fail(Code::InvalidValue, "is empty", "give it a value or remove the line", report);
                None
            }
            Value::Text(_) => {
                let Value::Text(text) = self.node.value else { return None };
                Some(text)
            }
            Value::Bool(..) | Value::Number(_) => {
                self.wrong_type("text", "put it in quotes if the text is meant", report);
                None
            }
            _ => {
                self.wrong_type("text", "write one piece of text", report);
                None
            }
        }
    }

    pub fn boolean(&self, report: &mut Report) -> Option<bool> {
        if let Value::Bool(yes, _) = self.node.value {
            return Some(yes);
        }
        let fix = "write true or false; yes, no, on and off are text";
        self.fail(Code::WrongType, "is not true or false", fix, report);
        None
    }

    /// One of a few words, written exactly.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)], report: &mut Report) -> Option<T> {
        let names = || choices.iter().map(|(name, _)| *name);
        if let Value::Text(text) = &self.node.value {
            if let Some((_, value)) = choices.iter().find(|(name, _)| name == text) {
                return Some(*value);
            }
            let all = names().collect::<Vec<_>>().join(", ");
            let fix = match nearest(text, names()) {
                Some(near) => format!("did you mean '{near}'? it is one of {all}"),
                None => format!("write one of {all}"),
            };
            self.fail(Code::InvalidValue, "is not a value of this field", fix, report);
            return None;
        }
        let fix = format!("write one of {}", names().collect::<Vec<_>>().join(", "));
        self.wrong_type("a word", fix, report);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_finds_its_nearest_name_and_nonsense_finds_none() {
        let known = ["accelerators", "cpus", "memory", "max_hourly_cost"];
        let near = |name| nearest(name, known.into_iter());
        assert_eq!(near("acelerators"), Some("accelerators"));
        assert_eq!(near("Memory"), Some("memory"));
        assert_eq!(near("max-hourly-cost"), Some("max_hourly_cost"));
        assert_eq!(near("cpu"), Some("cpus"));
        assert_eq!(near("walrus"), None);
        assert_eq!(near(&"c".repeat(100_000)), None);
    }
}
