//! What can be typed: the commands in their groups, and the options that all of them share.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::client::DEFAULT_SERVER;
use crate::commands::{agent, budget, clusters, completions, data, jobs, offers, serve, simulate, store, webhook};
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

Planning:
  simulate     What rules would have cost in recorded markets

Operation:
  serve        Run the server
  clusters     Where machines can be had
  webhook      Who is told of events
  policies     How places are chosen
  store        Verify, export, import, rebuild or adopt a data directory

Other:
  demo         See the main job done on this machine in less than a minute
  completions  Completions for a shell
  help         Print this message or the help of a command

Options:
{options}{after-help}";

const AFTER: &str = "\
Exit codes:
  0    done; of a job that was waited for or whose logs were shown: it succeeded
  1    any other error
  2    wrong usage, or input that is refused
  4    the server cannot be reached
  100  the job failed
  101  the job has not finished
  102  there is no such job
  103  the job was cancelled
  104  a dry run found no place where a job could run

Examples:
  leeway serve --config leeway.toml
  leeway jobs launch train.yaml --dryrun
  leeway jobs launch train.yaml --follow
  leeway --json jobs queue

With --json a command prints one JSON value on standard output (what is followed: one a line), and an error as one JSON \
object on standard error.

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

/// Behind the options of the command itself.
const LAST: usize = 900;

/// What every command understands.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The server to speak to.
    #[arg(long, global = true, env = "LEEWAY_SERVER", hide_env_values = true, default_value = DEFAULT_SERVER)]
    #[arg(value_name = "URL", display_order = LAST)]
    pub server: String,
    /// Print one JSON value instead of text for people.
    #[arg(long, global = true, display_order = LAST + 1)]
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
    /// How places are chosen, and which job is looked at first
    #[command(after_help = "Examples:\n  leeway policies")]
    Policies,
    /// Verify, export, import or rebuild a data directory that no server uses
    #[command(subcommand)]
    Store(store::Command),
    /// What rules would have cost in recorded markets
    #[command(subcommand)]
    Simulate(simulate::Command),
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
    if is_answer {
        // The stream may be closed; there is nothing else to say it on.
        let _ = error.print();
    } else if wants_json {
        let text = without_names(&error.render().to_string());
        eprintln!("{}", Failure::usage(text.trim().trim_start_matches("error: ")).to_json());
    } else if error.kind() == ErrorKind::MissingSubcommand {
        // Also where a variable of the environment has kept clap from showing it by itself.
        eprint!("{}", help_of(std::env::args().skip(1)));
    } else {
        let _ = error.print();
    }
    ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { 0 })
}

/// The help of the innermost command that was typed.
fn help_of(typed: impl Iterator<Item = String>) -> clap::builder::StyledStr {
    let mut command = Cli::command();
    command.build();
    for word in typed {
        if let Some(inner) = command.find_subcommand(&word) {
            command = inner.clone();
        }
    }
    command.render_help()
}

/// Without clap's list of every subcommand, which has the hidden ones and each alias in it; help lists them better.
fn without_names(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("[subcommands:"))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
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
            for one in command.get_subcommands() {
                check(one, &format!("{path} {}", one.get_name()));
            }
            if !command.is_hide_set() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                let examples = help.split_once("Examples:\n").map_or("", |(_, examples)| examples);
                let is_own = |line: &str| {
                    let line = line.trim().replace("leeway --json", "leeway");
                    line == path || line.starts_with(&format!("{path} "))
                };
                assert!(examples.lines().any(is_own), "{path} shows no example of itself");
            }
        }
        check(&Cli::command(), "leeway");
    }

    #[test]
    fn every_example_can_be_typed() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().map(str::trim).filter(|line| line.starts_with("leeway ")) {
                let typed = line.split(" > ").next().unwrap_or_default().replace('\'', "\"");
                let mut words = Vec::new();
                // Quotes hold one word together; that is all that the examples need of a shell.
                for (index, part) in typed.split('"').enumerate() {
                    match index % 2 {
                        0 => words.extend(part.split_whitespace()),
                        _ => words.push(part),
                    }
                }
                if let Err(error) = Cli::try_parse_from(&words) {
                    panic!("{line}\n{error}");
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn paragraphs_of_help_are_wrapped_by_the_terminal_and_not_by_hand() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = help.lines().collect();
            let is_prose = |line: &str| line.len() > 40 && !line.starts_with(' ');
            for pair in lines.windows(2) {
                assert!(
                    !(is_prose(pair[0]) && is_prose(pair[1])),
                    "{}: join\n{}\n{}",
                    command.get_name(),
                    pair[0],
                    pair[1]
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn who_types_half_a_command_is_helped_with_that_half() {
        let help = |words: &[&str]| help_of(words.iter().map(|word| (*word).to_owned())).to_string();
        assert!(help(&["--server", "x"]).contains("Work:") && !help(&[]).contains("agent"));
        let jobs = help(&["--json", "jobs"]);
        assert!(jobs.contains("Usage: leeway jobs") && jobs.contains("launch"), "{jobs}");
    }

    #[test]
    fn what_is_missing_is_said_without_hidden_commands() {
        for typed in [&["leeway", "--json"][..], &["leeway", "--json", "jobs"]] {
            let error = Cli::try_parse_from(typed).unwrap_err();
            let text = without_names(&error.render().to_string());
            assert!(!text.contains("agent") && !text.contains("[subcommands") && text.contains("Usage"), "{text}");
        }
    }

    #[test]
    fn every_command_that_a_text_of_this_program_names_exists() {
        fn texts(folder: &std::path::Path, found: &mut Vec<(std::path::PathBuf, String)>) {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                let name = entry.file_name();
                if path.is_dir() && name != "target" {
                    texts(&path, found);
                } else if path.extension().is_some_and(|end| end == "rs" || end == "md" || end == "yaml") {
                    found.push((path.clone(), std::fs::read_to_string(&path).unwrap()));
                }
            }
        }
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        texts(&crates, &mut found);
        let top = Cli::command();
        let mut named = 0;
        for (path, text) in &found {
            // As people are told to type it: 'leeway jobs example', `leeway jobs queue`.
            let quoted = text.split(['\'', '`']).filter_map(|piece| piece.strip_prefix("leeway "));
            for typed in quoted.filter(|typed| !typed.contains('\n')) {
                let mut words = typed.split([' ', '/']).filter(|word| !word.starts_with('-'));
                let Some(first) = words.next().filter(|word| word.chars().all(|c| c.is_ascii_lowercase())) else {
                    continue;
                };
                let command = top.find_subcommand(first);
                let command = command.unwrap_or_else(|| panic!("{}: there is no 'leeway {first}'", path.display()));
                named += 1;
                if let Some(second) = words.next().filter(|_| command.has_subcommands()) {
                    let is_known =
                        command.find_subcommand(second).is_some() || !second.chars().all(|c| c.is_ascii_lowercase());
                    assert!(is_known, "{}: there is no 'leeway {first} {second}'", path.display());
                }
            }
        }
        assert!(named > 20, "only {named} were found");
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
