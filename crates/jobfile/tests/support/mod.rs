//! What every test of this crate needs: a context with a fixed clock, and short ways to parse.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test helper may fail its test")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use leeway_jobfile::{Code, Context, Errors, JobFile, parse};
use leeway_model::{Currency, Timestamp};

pub fn context() -> Context {
    Context {
        env_overrides: BTreeMap::new(),
        owner: "alice".parse().unwrap(),
        base_dir: PathBuf::from("/home/alice/project"),
        home: Some(PathBuf::from("/home/alice")),
        now: "2026-03-14T12:00:00Z".parse::<Timestamp>().unwrap(),
        currency: Currency::USD,
    }
}

pub fn context_with(overrides: &[(&str, &str)]) -> Context {
    let pairs = overrides.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Context { env_overrides: pairs.collect(), ..context() }
}

pub fn one(text: &str) -> JobFile {
    let mut jobs = parse(text, &context()).unwrap_or_else(|errors| panic!("{text}\n{errors}"));
    assert_eq!(jobs.len(), 1, "{text}");
    jobs.remove(0)
}

/// A job with these lines and a `run`.
pub fn job(lines: &str) -> JobFile {
    one(&format!("run: ./train\n{lines}\n"))
}

pub fn errors(text: &str) -> Errors {
    match parse(text, &context()) {
        Ok(jobs) => panic!("accepted:\n{text}\n{jobs:#?}"),
        Err(errors) => errors,
    }
}

/// The one mistake of a job with these lines and a `run`: code, path and whole text.
pub fn mistake(lines: &str) -> (Code, String, String) {
    let errors = errors(&format!("run: ./train\n{lines}\n"));
    assert_eq!(errors.as_slice().len(), 1, "{lines}\n{errors}");
    let error = &errors.as_slice()[0];
    (error.code, error.path.clone(), error.to_string())
}

/// Asserts that these lines make exactly one mistake, of this code at this path.
pub fn check(lines: &str, code: Code, path: &str) {
    let (found, at, text) = mistake(lines);
    assert_eq!((found, at.as_str()), (code, path), "{lines}\n{text}");
}
