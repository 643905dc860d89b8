//! What is given with `--env` and `--secret`: `NAME=VALUE`, or `NAME` alone for its value in this process's environment,
//! as with SkyPilot. No message here holds a value, since it may be a secret.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use crate::failure::Failure;

/// A name and, unless the environment is to be asked, its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    name: String,
    value: Option<String>,
}

impl Given {
    /// Takes whatever was typed: clap would repeat a refused value in its message, so names are checked later.
    pub fn parse(text: &str) -> Result<Self, Infallible> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.to_owned())));
        Ok(Self { name: name.to_owned(), value })
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Given").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads a variable of the environment.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The values of `--env`.
pub fn variables(given: &[Given], lookup: Lookup<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let value = |one: &Given| match &one.value {
        Some(value) => Ok(value.clone()),
        None => from_environment("--env", &one.name, lookup),
    };
    collect("--env", given, value)
}

/// The values of `--secret`; those of `@FILE` without the line break at their end. None of them is empty.
pub fn secrets(given: &[Given], lookup: Lookup<'_>) -> Result<BTreeMap<String, String>, Failure> {
    let value = |one: &Given| {
        let value = match one.value.as_deref().map(|text| (text, text.strip_prefix('@'))) {
            None => from_environment("--secret", &one.name, lookup)?,
            Some((_, Some(file))) => from_file(Path::new(file))?,
            Some((text, None)) => text.to_owned(),
        };
        if value.is_empty() {
            let name = crate::render::plain(&one.name);
            let failure = Failure::usage(format!("--secret {name}: the value is empty, and a secret never is"));
            return Err(failure.advise("give it a value, or leave it out of the file if the program needs none"));
        }
        Ok(value)
    };
    collect("--secret", given, value)
}

fn collect(
    option: &str,
    given: &[Given],
    value: impl Fn(&Given) -> Result<String, Failure>,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut values = BTreeMap::new();
    for one in given {
        if one.name.is_empty() {
            return Err(Failure::usage(format!("{option}: there is no name before '='; write {option} NAME=VALUE")));
        }
        values.insert(one.name.clone(), value(one)?);
    }
    Ok(values)
}

fn from_environment(option: &str, name: &str, lookup: Lookup<'_>) -> Result<String, Failure> {
    let shown = crate::render::plain(name);
    let refused = |what: &str| Failure::usage(format!("{option} {shown}: {what}"));
    let advice = format!("write {option} {shown}=VALUE, or export {shown} first");
    let value = lookup(name).ok_or_else(|| refused("the environment has no such variable").advise(advice))?;
    value.into_string().map_err(|_| refused("its value in the environment is not UTF-8 text"))
}

fn from_file(path: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    Ok(text.strip_suffix('\n').map_or_else(|| text.clone(), |text| text.trim_end_matches('\r').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<OsString> {
        (name == "HERE").then(|| "from outside".into()).or_else(|| (name == "BLANK").then(OsString::new))
    }

    fn given(texts: &[&str]) -> Vec<Given> {
        texts.iter().map(|text| Given::parse(text).unwrap()).collect()
    }

    fn secret(text: &str) -> Result<String, String> {
        let values = secrets(&given(&[text]), &lookup).map_err(|failure| failure.message)?;
        Ok(values.into_values().next().unwrap())
    }

    #[test]
    fn a_name_alone_takes_its_value_from_the_environment() {
        let values = variables(&given(&["HERE", "A=b=c", "EMPTY="]), &lookup).unwrap();
        let expected = [("A", "b=c"), ("EMPTY", ""), ("HERE", "from outside")];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(secret("HERE"), Ok("from outside".to_owned()));
        let failure = variables(&given(&["ABSENT"]), &lookup).unwrap_err();
        assert!(failure.message.contains("--env ABSENT") && failure.advice.unwrap().contains("export ABSENT"));
    }

    #[test]
    fn a_secret_comes_from_a_file_without_its_line_break() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        for (text, value) in [("k\n", "k"), ("k\r\n", "k"), ("k", "k"), ("k\n\n", "k\n")] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(secret(&format!("KEY=@{}", file.display())), Ok(value.to_owned()));
        }
        std::fs::write(&file, "\n").unwrap();
        assert!(secret(&format!("KEY=@{}", file.display())).unwrap_err().contains("empty"));
    }

    #[test]
    fn an_empty_secret_is_refused_wherever_it_comes_from() {
        for text in ["KEY=", "BLANK"] {
            assert!(secret(text).unwrap_err().contains("the value is empty"), "{text}");
        }
    }

    #[test]
    fn no_message_repeats_a_value() {
        let failure = secrets(&given(&["=hunter2"]), &lookup).unwrap_err();
        assert!(!failure.message.contains("hunter2") && failure.message.contains("NAME=VALUE"), "{failure:?}");
        assert!(!format!("{:?}", given(&["A=hunter2"])).contains("hunter2"));
    }
}
