//! One command of the binary, and how it ended.

use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

use crate::binary;

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The one value that `--json` promises.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The stable code of an error.
    pub fn error_code(&self) -> String {
        let error = serde_json::from_str::<Value>(&self.err).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        error["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Fails the test unless the command succeeded.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// The binary with an environment that no variable of the developer's reaches.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary::leeway());
    command.args(arguments).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEEWAY_") {
            command.env_remove(name);
        }
    }
    command.env("LEEWAY_OWNER", "tester");
    command
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    Ran {
        code: status.code().unwrap_or(-1),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

/// Runs a command that needs no server.
pub async fn leeway(arguments: &[&str]) -> Ran {
    run(command(arguments)).await
}
