//! The real binary for commands that need no server.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

pub fn leeway(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.args(words).env_remove("LEEWAY_SERVER").output().unwrap()
}

/// What a command that ends with 0 answers.
pub fn json(words: &[&str]) -> Value {
    json_with(words, 0)
}

/// What a command that ends with this code answers.
pub fn json_with(words: &[&str], code: i32) -> Value {
    let output = leeway(words);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command says that ends with this code and gives nothing.
pub fn error(words: &[&str], code: i32) -> String {
    let output = leeway(words);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
