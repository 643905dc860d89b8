//! Slurm through its commands, which are there wherever Slurm is.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use leeway_model::Millis;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::calls::{CallError, Calls, Job, Node, Partition};
use super::json;

/// What a command, and with it every job, gets of the server's environment: nothing that could hold a secret.
const INHERITED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH"];
/// No command may take longer.
const WITHIN: Duration = Duration::from_secs(25);

/// See the module.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Folder of the commands; `PATH` when not given.
    pub folder: Option<PathBuf>,
    /// Slurm's configuration file; its default when not given.
    pub conf: Option<PathBuf>,
}

impl Commands {
    fn command(&self, program: &str) -> Command {
        let path = self.folder.as_ref().map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        let mut command = Command::new(path);
        command
            .env_clear()
            .envs(INHERITED.iter().filter_map(|name| std::env::var_os(name).map(|value| (*name, value))));
        if let Some(conf) = &self.conf {
            command.env("SLURM_CONF", conf);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    async fn run(&self, program: &str, arguments: &[&str], input: Option<&str>) -> Result<Vec<u8>, CallError> {
        let mut command = self.command(program);
        command.args(arguments);
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let work = async {
            let mut child = command.spawn().map_err(|error| refused(program, &format!("cannot run: {error}")))?;
            if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
                // A command that ended early says why on its error output.
                let _ = stdin.write_all(text.as_bytes()).await;
            }
            child.wait_with_output().await.map_err(|error| CallError::Lost(format!("{program}: {error}")))
        };
        let answered = tokio::time::timeout(WITHIN, work).await;
        let Output { status, stdout, stderr } =
            answered.map_err(|_| CallError::Lost(format!("{program}: no answer in {WITHIN:?}")))??;
        if status.success() {
            return Ok(stdout);
        }
        let said = String::from_utf8_lossy(&stderr);
        let said = said.trim();
        if said.contains("timed out") || said.contains("Zero Bytes") || said.contains("Unexpected message") {
            // The controller may have done what it could not answer.
            return Err(CallError::Lost(format!("{program}: {said}")));
        }
        Err(refused(program, if said.is_empty() { "ended without a word" } else { said }))
    }
}

fn refused(program: &str, said: &str) -> CallError {
    CallError::Refused(format!("{program}: {}", leeway_model::name::escape(said)))
}

#[async_trait]
impl Calls for Commands {
    async fn submit(&self, script: &str) -> Result<u32, CallError> {
        let printed = self.run("sbatch", &["--parsable"], Some(script)).await?;
        // `id` or `id;cluster`.
        let text = String::from_utf8_lossy(&printed);
        let id = text.trim().split(';').next().and_then(|id| id.parse().ok());
        id.ok_or_else(|| CallError::Lost(format!("sbatch printed '{}' instead of a job's id", text.trim())))
    }

    async fn jobs(&self) -> Result<Vec<Job>, CallError> {
        json::jobs(&self.run("squeue", &["--json", "--states=all"], None).await?)
    }

    async fn accounted(&self, ids: &[u32]) -> Result<Option<Vec<(u32, String)>>, CallError> {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        match self.run("sacct", &["--json", "--jobs", &ids.join(",")], None).await {
            Ok(printed) => json::accounted(&printed).map(Some),
            Err(CallError::Refused(said)) => {
                tracing::debug!(said, "no accounting to ask");
                Ok(None)
            }
            Err(lost) => Err(lost),
        }
    }

    async fn nodes(&self) -> Result<Vec<Node>, CallError> {
        json::nodes(&self.run("sinfo", &["--json"], None).await?)
    }

    async fn partition(&self, name: &str) -> Result<Partition, CallError> {
        let printed = self.run("scontrol", &["--oneliner", "show", "partition", name], None).await?;
        let text = String::from_utf8_lossy(&printed);
        let grace = text.split_whitespace().find_map(|word| word.strip_prefix("GraceTime="));
        let grace = grace.and_then(|seconds| seconds.parse().ok()).map(Millis::from_secs);
        Ok(Partition { grace: grace.filter(|grace| !grace.is_zero()) })
    }

    async fn cancel(&self, id: u32, name: &str) -> Result<(), CallError> {
        self.signal(&[], id, name).await
    }

    async fn terminate(&self, id: u32, name: &str) -> Result<(), CallError> {
        self.signal(&["--signal=TERM"], id, name).await
    }
}

impl Commands {
    /// Both the number and the name must be right: a number may be another's by now.
    async fn signal(&self, options: &[&str], id: u32, name: &str) -> Result<(), CallError> {
        let (name, user) = (format!("--name={name}"), format!("--user={}", rustix::process::getuid().as_raw()));
        let id = id.to_string();
        let mut arguments = options.to_vec();
        arguments.extend([name.as_str(), user.as_str(), id.as_str()]);
        self.run("scancel", &arguments, None).await.map(drop)
    }
}
