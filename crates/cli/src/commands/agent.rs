//! `leeway agent`: the program beside a job. Drivers start it; nobody types it.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::failure::Failure;

/// The program beside a job; drivers start it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder of the run, with what its driver wrote for the agent.
    #[arg(long, value_name = "DIR")]
    pub run_dir: PathBuf,
}

/// Runs until the run is over. The exit code is the agent's own.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    // The driver keeps standard error beside the run.
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO);
    // Fails only when a subscriber is set already.
    let _ = log.with_ansi(false).try_init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Failure::from(anyhow::Error::from(error)))?;
    let options = leeway_agent::Options { run_dir: args.run_dir };
    runtime.block_on(leeway_agent::run(options)).map_err(Failure::from)
}
