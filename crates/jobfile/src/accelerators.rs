//! Accelerators in the four forms that SkyPilot takes: `V100:8`, `{V100: 8}`, an ordered list, a set of several.

use leeway_model::resources::Accelerators;

use crate::error::{Code, Report};
use crate::fields::{Field, join};
use crate::resources::MAX_ALTERNATIVES;
use crate::yaml::{Node, Value};

const MAX_COUNT: i64 = 1_024;

/// The usual spellings, with others by which the same model goes. An unknown name is kept as it is, because clusters
/// declare their own models; nothing is ever guessed.
const MODELS: &[(&str, &[&str])] = &[
    ("A10", &[]),
    ("A100", &["A100-40GB"]),
    ("A100-80GB", &["A100-80G"]),
    ("A10G", &[]),
    ("B200", &[]),
    ("B300", &[]),
    ("GB200", &[]),
    ("GH200", &[]),
    ("H100", &["H100-80GB"]),
    ("H200", &["H200-141GB"]),
    ("K80", &[]),
    ("L4", &[]),
    ("L40", &[]),
    ("L40S", &[]),
    ("M4000", &[]),
    ("M60", &[]),
    ("MI300X", &[]),
    ("P100", &[]),
    ("P4", &[]),
    ("RTX4090", &["RTX-4090", "RTX_4090"]),
    ("RTX5090", &["RTX-5090", "RTX_5090"]),
    ("RTX6000", &["RTX-6000", "RTX_6000"]),
    ("RTXA6000", &["RTX-A6000", "RTX_A6000"]),
    ("T4", &[]),
    ("T4g", &[]),
    ("V100", &["V100-16GB"]),
    ("V100-32GB", &["V100-32G"]),
    ("Trainium", &[]),
    ("Trainium2", &[]),
    ("Inferentia", &[]),
    ("Inferentia2", &[]),
];

/// What a file accepts, and whether the order counts.
#[derive(Debug)]
pub(crate) struct Choice {
    pub any: Vec<Accelerators>,
    pub ordered: bool,
}

fn canonical(name: &str) -> Box<str> {
    let known = MODELS.iter().find(|(model, others)| {
        model.eq_ignore_ascii_case(name) || others.iter().any(|other| other.eq_ignore_ascii_case(name))
    });
    known.map_or(name, |(model, _)| model).into()
}

pub(crate) fn read(field: Field<'_>, report: &mut Report) -> Option<Choice> {
    const FIX: &str = "write for example 'A100:8', {A100: 8}, or a list such as [A100:8, V100:8]";
    let ordered = matches!(field.node.value, Value::List(_));
    let mistakes = report.mistakes();
    let any: Vec<Accelerators> = match &field.node.value {
        Value::Text(_) => written(&field, report).into_iter().collect(),
        Value::List(_) => {
            let items = field.clone().items(FIX, report)?;
            items.iter().filter_map(|item| written(item, report)).collect()
        }
        Value::Map(_) => {
            let path = field.path.clone();
            let entries = field.clone().entries(report)?;
            let one = |(key, node): (&str, Node<'_>), report: &mut Report| {
                let here = Field { path: join(&path, key), key_at: node.at, node };
                counted(key, &here, report)
            };
            entries.into_iter().filter_map(|entry| one((&entry.key, entry.node), report)).collect()
        }
        _ => {
            field.wrong_type("an accelerator", FIX, report);
            return None;
        }
    };
    if any.is_empty() {
        if report.mistakes() == mistakes {
            field.fail(Code::InvalidValue, "names no accelerator", FIX, report);
        }
        return None;
    }
    if any.len() > MAX_ALTERNATIVES {
        let problem = format!("lists {} accelerators", any.len());
        field.fail(Code::TooMany, problem, format!("list at most {MAX_ALTERNATIVES}"), report);
        return None;
    }
    Some(Choice { any, ordered })
}

/// `V100:8`; without a count, one.
fn written(field: &Field<'_>, report: &mut Report) -> Option<Accelerators> {
    let Value::Text(text) = &field.node.value else {
        field.wrong_type("an accelerator", "write for example A100:8", report);
        return None;
    };
    let (name, count) = match text.split_once(':') {
        Some((name, count)) => (name.trim(), whole_count(count.trim(), field, report)?),
        None => (text.trim(), 1),
    };
    Some(Accelerators { model: model(name, field, report)?, count })
}

/// An entry of a mapping: `V100: 8`, or of a set: `V100:8` with nothing behind it.
fn counted(key: &str, field: &Field<'_>, report: &mut Report) -> Option<Accelerators> {
    match &field.node.value {
        Value::Null => {
            let key =
                Field { node: Node { value: Value::Text(key.to_owned().into()), at: field.node.at }, ..field.clone() };
            written(&key, report)
        }
        Value::Number(count) => {
            let count = whole_count(count, field, report)?;
            Some(Accelerators { model: model(key, field, report)?, count })
        }
        _ => {
            field.wrong_type("a count", format!("write a whole number from 1 to {MAX_COUNT}"), report);
            None
        }
    }
}

fn whole_count(text: &str, field: &Field<'_>, report: &mut Report) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    let count = plain.then(|| text.parse::<u32>().ok()).flatten().filter(|count| i64::from(*count) <= MAX_COUNT);
    if count.is_none() {
        let problem = if text.contains('.') {
            "asks for a part of an accelerator; Leeway gives whole ones"
        } else {
            "has no count in the allowed range"
        };
        field.fail(Code::OutOfRange, problem, format!("write a whole number from 1 to {MAX_COUNT}"), report);
    }
    count
}

fn model(name: &str, field: &Field<'_>, report: &mut Report) -> Option<Box<str>> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if (1..=64).contains(&name.len()) && name.bytes().all(plain) {
        return Some(canonical(name));
    }
    let fix = "write a model of 1 to 64 letters, digits, '-', '_' or '.', such as A100-80GB";
    field.fail(Code::InvalidValue, "does not name an accelerator", fix, report);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_model_gets_its_usual_spelling_and_an_unknown_one_is_never_guessed() {
        for (written, kept) in [
            ("a100", "A100"),
            ("A100-80gb", "A100-80GB"),
            ("A100-40GB", "A100"),
            ("V100-32GB", "V100-32GB"),
            ("t4G", "T4g"),
            ("A1000", "A1000"),
            ("H10", "H10"),
            ("our-card", "our-card"),
        ] {
            assert_eq!(&*canonical(written), kept, "{written}");
        }
    }
}
