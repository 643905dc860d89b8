//! The agent as a process of its own, for the tests: `agent_main agent --run-dir DIR`.

use std::path::PathBuf;
use std::process::ExitCode;

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<ExitCode> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::DEBUG).init();
    let run_dir = std::env::args_os().nth(3).map(PathBuf::from);
    let run_dir = run_dir.ok_or_else(|| anyhow::anyhow!("usage: agent_main agent --run-dir DIR"))?;
    leeway_agent::run(leeway_agent::Options { run_dir }).await
}
