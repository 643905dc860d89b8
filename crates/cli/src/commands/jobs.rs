//! `leeway jobs`: launch, follow, explain, cancel and retry.

mod change;
mod explain;
mod follow;
mod given;
mod launch;
mod queue;
mod status;
mod upload;

use std::path::PathBuf;
use std::time::Duration;

use leeway_model::Name;
use leeway_proto::limits::REQUEST_ID_MAX;

use self::given::Given;
use super::{Online, name};
use crate::failure::{Exit, Failure};

const JOBS: &str = "Examples:
  leeway jobs example > train.yaml
  leeway jobs launch train.yaml --dryrun
  leeway jobs launch train.yaml --follow
  leeway jobs queue
  leeway jobs explain j-42";
const LAUNCH: &str = "\
FILE is Leeway's own YAML or a SkyPilot task file; '-' reads it from standard input. A complete example with a comment \
on each field: leeway jobs example.

'workdir' and 'file_mounts' are packed and uploaded once; .git and what .skyignore (or .gitignore) names stay behind. \
At most 100,000 entries and what the server takes at once (limits.upload_size, 1 GiB unless configured).

A launch that is sent again with the same --request-id gives the same job again. Without one, a new id is made and used \
for every try of this command.

With --dryrun the exit code is 0 when every job of the file has a place, and 104 when one has none.

With --wait or --follow the exit code is that of 'leeway jobs status --wait'. With --json, --follow prints one JSON \
object a line: kind 'submitted' first, 'output' as it comes, and 'ended' last for each job.

Examples:
  leeway jobs launch train.yaml
  leeway jobs launch train.yaml --dryrun
  leeway jobs launch train.yaml --env EPOCHS=10 --secret WANDB_API_KEY --follow
  leeway jobs launch train.yaml --secret WANDB_API_KEY=@key.txt --wait
  leeway jobs launch train.yaml --budget vision --policy cheapest --request-id nightly-2026-03-14";
const QUEUE: &str = "\
Newest first; finished jobs appear with --all or --state.

Examples:
  leeway jobs queue
  leeway jobs queue --state pending,running --owner team-vision
  leeway --json jobs queue --all --limit 1000";
const STATUS: &str = "\
Exit codes with --wait: 0 succeeded, 100 failed, 101 not finished (--timeout passed), 102 not found, 103 cancelled. \
Without --wait: 0, or 102 when there is no such job.

Examples:
  leeway jobs status j-42
  leeway jobs status j-42 --wait --timeout 2h";
const LOGS: &str = "\
Exit codes: 0 succeeded, 100 failed, 101 not finished, 102 not found, 103 cancelled.

With --json: one object with all pieces, or with -f one object a line, kind 'output' and at the end 'ended'.

Examples:
  leeway jobs logs j-42
  leeway jobs logs -f j-42
  leeway jobs logs j-42 --run j-42-r2 --rank 0 --tail 100";
const EXPLAIN: &str = "\
Shows the decision behind each run with every term of the bill of the places compared, and for a job that waits what \
stands in the way.

Examples:
  leeway jobs explain j-42";
const CANCEL: &str = "\
Cancelling a job that has ended changes nothing.

Examples:
  leeway jobs cancel j-42
  leeway jobs cancel j-42 j-43 j-44";
const RETRY: &str = "\
For a job that failed, was cancelled or is held. It keeps its id, what it asks for, its newest checkpoint, from which it goes on, what it has cost and what max_cost leaves of that, and the numbers of its runs. Its counts of failures and interruptions begin anew, and so does its wait for a place; without a checkpoint so does its work. Jobs that it depends on must have succeeded, or be retried first.

Examples:
  leeway jobs retry j-42";
const EXAMPLE: &str = "\
Examples:
  leeway jobs example > train.yaml";

/// Launch, follow, explain, cancel and retry jobs
#[derive(Debug, clap::Subcommand)]
#[command(after_help = JOBS)]
pub enum Command {
    /// Submit the jobs of a file
    #[command(after_help = LAUNCH, visible_alias = "submit")]
    Launch(LaunchArgs),
    /// Show jobs
    #[command(after_help = QUEUE, visible_aliases = ["list", "ls"])]
    Queue(QueueArgs),
    /// Show one job with its runs
    #[command(after_help = STATUS)]
    Status {
        /// The job, for example j-42.
        job: String,
        /// Wait until it has ended.
        #[arg(long)]
        wait: bool,
        /// With --wait: give up waiting after so long, for example 90s or 2h.
        #[arg(long, value_name = "LENGTH", requires = "wait", value_parser = length)]
        timeout: Option<Duration>,
    },
    /// Show what a job's programs print
    #[command(after_help = LOGS)]
    Logs(LogsArgs),
    /// Show why a job is where it is
    #[command(after_help = EXPLAIN, visible_alias = "why")]
    Explain {
        /// The job, for example j-42.
        job: String,
    },
    /// Cancel jobs
    #[command(after_help = CANCEL)]
    Cancel {
        /// The jobs, for example j-42.
        #[arg(required = true)]
        jobs: Vec<String>,
    },
    /// Start a failed or cancelled job again
    #[command(after_help = RETRY)]
    Retry {
        /// The job, for example j-42.
        job: String,
    },
    /// Print a complete job file with a comment on each field
    #[command(after_help = EXAMPLE)]
    Example,
}

/// What can be said about a launch.
#[derive(Clone, Debug, clap::Args)]
pub struct LaunchArgs {
    /// The job file, or '-'.
    pub file: PathBuf,
    /// Set a variable of the program, before the file's; NAME alone takes its value from your environment.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = Given::parse)]
    pub env: Vec<Given>,
    /// Set a secret of the program: NAME=@FILE reads a file, NAME alone your environment. It is never shown.
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = Given::parse)]
    pub secret: Vec<Given>,
    /// Name the job, for people.
    #[arg(long)]
    pub name: Option<String>,
    /// Which budget pays.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub budget: Option<Name>,
    /// How a place is chosen; see 'leeway policies'.
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub policy: Option<Name>,
    /// Show where it would run and what each place would cost, and submit nothing.
    #[arg(long, conflicts_with_all = ["wait", "follow", "request_id"])]
    pub dryrun: bool,
    /// Wait until the jobs have ended.
    #[arg(long)]
    pub wait: bool,
    /// Show what the job prints until it has ended.
    #[arg(long, short, conflicts_with = "wait")]
    pub follow: bool,
    /// Identity of this submission; the same one again gives the same jobs.
    #[arg(long, value_name = "ID", value_parser = request_id)]
    pub request_id: Option<String>,
}

/// Reads a request id: what the server takes for one.
fn request_id(text: &str) -> Result<String, String> {
    let is_sound = (1..=REQUEST_ID_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_sound
        .then(|| text.to_owned())
        .ok_or_else(|| format!("write 1 to {REQUEST_ID_MAX} printable ASCII characters without spaces"))
}

/// Which jobs to show.
#[derive(Clone, Debug, clap::Args)]
pub struct QueueArgs {
    /// Only jobs in these states, separated by commas.
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = queue::state)]
    pub state: Vec<i32>,
    /// Only jobs of this owner.
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Show so many.
    #[arg(long, default_value_t = 50, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Finished jobs, too.
    #[arg(long, short, conflicts_with = "state")]
    pub all: bool,
}

/// Which output to show.
#[derive(Clone, Debug, clap::Args)]
pub struct LogsArgs {
    /// The job, for example j-42.
    pub job: String,
    /// Stay until the job has ended.
    #[arg(long, short)]
    pub follow: bool,
    /// Only this run, for example j-42-r2; without it the newest one.
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Only this machine of a gang, from 0.
    #[arg(long, value_name = "NUMBER")]
    pub rank: Option<u32>,
    /// Begin so many lines before the present end.
    #[arg(long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub tail: Option<u32>,
}

pub fn run(command: Command, context: &Online<'_>) -> Result<Exit, Failure> {
    let terminal = context.terminal;
    match command {
        Command::Launch(args) => launch::run(args, context),
        Command::Queue(args) => context.with(|client| queue::run(args, client, terminal)),
        Command::Status { job, wait, timeout } => {
            context.with(|client| status::run(job, wait.then_some(status::Patience { timeout }), client, terminal))
        }
        Command::Logs(args) => context.with(|client| follow::run(args, client, terminal)),
        Command::Explain { job } => context.with(|client| explain::run(job, client, terminal)),
        Command::Cancel { jobs } => context.with(|client| change::cancel(jobs, client, terminal)),
        Command::Retry { job } => context.with(|client| change::retry(job, client, terminal)),
        Command::Example => {
            let text = leeway_jobfile::example();
            terminal.show(|_| text.to_owned(), || serde_json::json!({ "example": text }))?;
            Ok(Exit::Success)
        }
    }
}

fn length(text: &str) -> Result<Duration, String> {
    let length: leeway_model::Millis = text.parse().map_err(|error| format!("{error}"))?;
    Ok(Duration::from_millis(length.as_millis()))
}
