//! Environment variables and secrets: their names, their limits, and values given on the command line.

use std::collections::BTreeMap;

use crate::error::{Code, Error, Position, Report, shown};
use crate::fields::{Field, join};
use crate::yaml::Value;

/// Longest value of one variable in bytes; the kernel takes no longer string.
pub const MAX_VALUE_BYTES: usize = 128 << 10;
/// All names and values together, in bytes.
pub const MAX_ENVIRONMENT_BYTES: usize = 512 << 10;
const MAX_NAME_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub env: BTreeMap<String, String>,
    pub secrets: BTreeMap<String, String>,
}

/// Reads `envs` and `secrets`. A value given on the command line goes before the file's, and to the secret when the
/// name is one, so that it is never shown.
pub(crate) fn read(
    envs: Option<Field<'_>>,
    secrets: Option<Field<'_>>,
    overrides: &BTreeMap<String, String>,
    report: &mut Report,
) -> Environment {
    let at = envs.as_ref().or(secrets.as_ref()).map(|field| field.key_at);
    let env = variables(envs, Kind::Plain, overrides, report);
    let secrets = variables(secrets, Kind::Secret, overrides, report);
    let mut environment = Environment::default();
    for (name, (place, value)) in secrets {
        if env.contains_key(&name) {
            let problem = format!("'envs.{name}' and 'secrets.{name}' are the same variable");
            report.at(Code::Conflict, place, &join("secrets", &name), problem, "keep one of them");
        }
        environment.secrets.insert(name, value);
    }
    environment.env = env.into_iter().map(|(name, (_, value))| (name, value)).collect();
    for (name, value) in overrides.iter().filter(|(name, _)| !environment.secrets.contains_key(*name)) {
        environment.env.insert(name.clone(), value.clone());
    }
    let total: usize =
        environment.env.iter().chain(&environment.secrets).map(|(name, value)| name.len() + value.len()).sum();
    if total > MAX_ENVIRONMENT_BYTES {
        let problem = format!("the environment has {total} bytes; at most {MAX_ENVIRONMENT_BYTES} are allowed");
        let fix = "pass large values as files with file_mounts";
        let (path, problem) = ("envs".to_owned(), problem);
        report.error(Error { code: Code::OutOfRange, position: at, path, value: None, problem, fix: fix.to_owned() });
    }
    environment
}

/// Checks what was given on the command line, once for the whole file.
pub(crate) fn check_overrides(overrides: &BTreeMap<String, String>, report: &mut Report) {
    for (name, value) in overrides {
        check(None, &format!("--env {}", shown(name)), name, value, report);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Secret,
}

fn variables(
    field: Option<Field<'_>>,
    kind: Kind,
    overrides: &BTreeMap<String, String>,
    report: &mut Report,
) -> BTreeMap<String, (Position, String)> {
    let mut variables = BTreeMap::new();
    let Some(field) = field else { return variables };
    let path = field.path.clone();
    if !matches!(field.node.value, Value::Map(_)) {
        // Not through `wrong_type`: it would show a secret that was written in the wrong place.
        let problem = format!("is {} where a mapping belongs", field.node.kind());
        let fix = "write 'NAME: value' lines; give a secret's value at the launch with --secret";
        report.at(Code::WrongType, field.node.at, &path, problem, fix);
        return variables;
    }
    for entry in field.entries(report).unwrap_or_default() {
        let here = join(&path, &entry.key);
        let at = entry.node.at;
        let is_absent = matches!(entry.node.value, Value::Null) && !overrides.contains_key(&*entry.key);
        let value = match (overrides.get(&*entry.key), entry.node.value) {
            (Some(given), _) => given.clone(),
            // As written: YAML's idea of a number or of truth is not the program's.
            (None, Value::Text(text)) => text.into_owned(),
            (None, Value::Number(text) | Value::Bool(_, text)) => text.to_owned(),
            (None, Value::Null) => String::new(),
            (None, Value::List(_) | Value::Map(_)) => {
                report.at(Code::WrongType, at, &here, "is not a single value", "write one piece of text");
                continue;
            }
        };
        if let Some(fix) = missing(kind, &entry.key, &value, is_absent) {
            report.at(Code::MissingField, entry.key_at, &here, "has no value", fix);
            continue;
        }
        if check(Some(entry.key_at), &here, &entry.key, &value, report) {
            variables.insert(entry.key.into_owned(), (entry.key_at, value));
        }
    }
    variables
}

/// What to do about a variable without a value. An empty text is a value of a plain variable and never of a secret: a
/// program that gets an empty password fails later and says less.
fn missing(kind: Kind, name: &str, value: &str, is_absent: bool) -> Option<String> {
    let name = shown(name);
    match kind {
        Kind::Plain => {
            is_absent.then(|| format!("give it with --env {name}=VALUE, or write \"\" for an empty value"))
        }
        Kind::Secret => value.is_empty().then(|| {
            format!("give it at the launch: --secret {name} takes it from your environment, --secret {name}=@FILE from a file")
        }),
    }
}

/// Reports a variable that no process could be given; never shows its value.
fn check(position: Option<Position>, path: &str, name: &str, value: &str, report: &mut Report) -> bool {
    let mut fail = |code, problem: String, fix: &str| {
        let (path, fix) = (path.to_owned(), fix.to_owned());
        report.error(Error { code, position, path, value: None, problem, fix });
        false
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(plain)
    {
        let problem = "is not the name of an environment variable".to_owned();
        return fail(
            Code::InvalidValue,
            problem,
            "write 1 to 256 of A-Z, a-z, 0-9 and '_', not beginning with a digit",
        );
    }
    if name.starts_with("LEEWAY_") {
        let problem = "belongs to Leeway, which sets the variables that begin with LEEWAY_".to_owned();
        return fail(Code::InvalidValue, problem, "choose another name");
    }
    if value.contains('\0') {
        return fail(Code::InvalidValue, "holds a NUL character".to_owned(), "remove it, or pass the value as a file");
    }
    if value.len() > MAX_VALUE_BYTES {
        let problem = format!("has {} bytes; at most {MAX_VALUE_BYTES} are allowed", value.len());
        return fail(Code::OutOfRange, problem, "pass it as a file with file_mounts");
    }
    true
}

/// Puts the values of plain variables in place of `$NAME` and `${NAME}`, as SkyPilot does in paths and URLs.
pub(crate) fn substitute(
    field: &Field<'_>,
    text: &str,
    environment: &Environment,
    report: &mut Report,
) -> Option<String> {
    const MAX_EXPANDED: usize = 16 << 10;
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        let (name, remaining) = match after.strip_prefix('{') {
            Some(braced) => match braced.split_once('}') {
                Some((name, remaining)) => (name, remaining),
                None => {
                    field.fail(Code::InvalidValue, "holds '${' without '}'", "close the brace", report);
                    return None;
                }
            },
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        let Some(value) = environment.env.get(name) else {
            let problem = if environment.secrets.contains_key(name) {
                format!("uses the secret '{}', which would be readable", shown(name))
            } else {
                format!("uses the variable '{}', which envs does not define", shown(name))
            };
            field.fail(Code::InvalidValue, problem, "define it under envs, or write the value itself", report);
            return None;
        };
        expanded.push_str(value);
        rest = remaining;
        if expanded.len() > MAX_EXPANDED {
            field.fail(Code::OutOfRange, "grows too long with its variables", "write a shorter value", report);
            return None;
        }
    }
    expanded.push_str(rest);
    Some(expanded)
}
