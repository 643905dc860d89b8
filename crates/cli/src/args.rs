//! What can be typed: the commands in their groups, and the options that all of them share.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::client::DEFAULT_SERVER;
use crate::commands::{agent, budget, clusters, completions, data, jobs, offers, serve, store, webhook};
use crate::demo;
use crate::failure::{Exit, Failure};
use crate::train;

/// Every command that people type, in groups; a test compares it with the commands that exist.
const TEMPLATE: &str = "\
{about-with-newline}
{usage-heading} {usage}

Work:
  jobs         Launch, follow, explain, cancel and retry jobs
  offers       What machines cost now
  data         Datasets and the places that hold them

Money:
  budget       Budgets, what they paid for, and the ledger

Operation:
  serve        Run the server
  clusters     Where machines can be had
  webhook      Who is told of events
  policies     How places are chosen
  store        Verify, export, import or rebuild a data directory

Other:
  demo         See the main job done on this machine in less than a minute
  completions  Completions for a shell
  help         Print this message or the help of a command

Options:
{options}{after-help}";

const AFTER: &str = "
Exit codes:
  0    done; of a job that was waited for or whose logs were shown: it succeeded
  1    any other error
  2    wrong usage, or input that is refused
  4    the server cannot be reached
  100  the job failed
  101  the job has not finished
  102  there is no such job
  103  the job was cancelled

Examples:
  leeway serve --config leeway.toml
  leeway jobs launch train.yaml --dryrun
  leeway jobs launch train.yaml --follow
  leeway --json jobs queue

With --json a command prints one JSON value on standard output, and an error as one JSON object on standard error.
NO_COLOR=1 switches colours off.";

/// Runs jobs where finishing them costs least
#[derive(Debug, Parser)]
#[command(name = "leeway", version, about, help_template = TEMPLATE, after_help = AFTER, propagate_version = false)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command understands.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The server to speak to.
    #[arg(long, global = true, env = "LEEWAY_SERVER", hide_env_values = true, default_value = DEFAULT_SERVER, value_name = "URL")]
    pub server: String,
    /// Print one JSON value instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The groups of commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Launch, follow, explain, cancel and retry jobs
    #[command(subcommand, visible_alias = "job")]
    Jobs(jobs::Command),
    /// What machines cost now
    Offers(offers::Args),
    /// Datasets and the places that hold them
    #[command(subcommand)]
    Data(data::Command),
    /// Budgets, what they paid for, and the ledger
    #[command(subcommand, visible_alias = "budgets")]
    Budget(budget::Command),
    /// Run the server
    Serve(serve::Args),
    /// Where machines can be had
    #[command(subcommand, visible_alias = "cluster")]
    Clusters(clusters::Command),
    /// Who is told of events
    #[command(subcommand, visible_alias = "webhooks")]
    Webhook(webhook::Command),
    /// How places are chosen
    #[command(after_help = "Examples:\n  leeway policies")]
    Policies,
    /// Verify, export, import or rebuild a data directory that no server uses
    #[command(subcommand)]
    Store(store::Command),
    /// See the main job done on this machine in less than a minute
    Demo(demo::Args),
    /// Completions for a shell
    Completions(completions::Args),
    /// The program beside a job; drivers start it
    #[command(hide = true)]
    Agent(agent::Args),
    /// The training program of the demonstration
    #[command(hide = true)]
    Train(train::Args),
}

/// Prints what clap has to say: help, the version, or what was typed wrongly.
pub fn refused(error: &clap::Error) -> ExitCode {
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if wants_json && !is_answer {
        let text = error.render().to_string();
        let message = text.trim().trim_start_matches("error: ");
        eprintln!("{}", Failure::usage(message).to_json());
    } else {
        // The stream may be closed; there is nothing else to say it on.
        let _ = error.print();
    }
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { 0 })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_grouped_help_lists_exactly_the_commands_that_are_not_hidden() {
        let command = Cli::command();
        let mut exist: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(clap::Command::get_name).collect();
        exist.push("help");
        exist.sort_unstable();
        let lines = TEMPLATE.lines().filter(|line| line.starts_with("  "));
        let mut listed: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
        listed.sort_unstable();
        assert_eq!(listed, exist, "add the new command to a group of TEMPLATE");
    }

    #[test]
    fn every_command_explains_itself_with_an_example() {
        fn check(command: &clap::Command, path: &str) {
            assert!(command.get_about().is_some(), "{path} says nothing of itself");
            for argument in command.get_arguments().filter(|one| !matches!(one.get_id().as_str(), "help" | "version")) {
                assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
            }
            if command.has_subcommands() {
                for one in command.get_subcommands() {
                    check(one, &format!("{path} {}", one.get_name()));
                }
            } else if !command.is_hide_set() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(
                    help.contains(&format!("{path} ")) || help.contains(&format!("{path}\n")) || help.ends_with(path),
                    "{path} shows no example of itself"
                );
            }
        }
        check(&Cli::command(), "leeway");
    }

    #[test]
    fn a_misspelt_command_is_answered_with_the_nearest_one() {
        for (typed, meant) in [("jbos", "jobs"), ("ofers", "offers"), ("complettions", "completions")] {
            let error = Cli::try_parse_from(["leeway", typed]).unwrap_err();
            assert!(error.to_string().contains(&format!("'{meant}'")), "{error}");
        }
        let error = Cli::try_parse_from(["leeway", "jobs", "lanch"]).unwrap_err();
        assert!(error.to_string().contains("'launch'"), "{error}");
    }

    #[test]
    fn the_top_level_help_stays_as_it_is() {
        insta::assert_snapshot!("top_level_help", Cli::command().term_width(100).render_help());
    }
}
