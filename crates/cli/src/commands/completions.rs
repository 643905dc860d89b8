//! `leeway completions`: what a shell needs to complete commands and options.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

const AFTER: &str = "Examples:
  leeway completions bash > ~/.local/share/bash-completion/completions/leeway
  leeway completions zsh > ~/.zfunc/_leeway";

/// Completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// The shell.
    pub shell: Shell,
}

pub fn run(args: &Args, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "leeway", &mut script);
    if terminal.json {
        let script = String::from_utf8_lossy(&script);
        terminal.value(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        terminal.raw(&script)?;
    }
    Ok(Exit::Success)
}
