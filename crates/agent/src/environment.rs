//! What the program sees: its variables, its directory, its shell.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use anyhow::bail;
use leeway_proto::pb;
use rustix::process::Signal;
use tokio::process::Command;

use crate::agent::Agent;

/// The variable of a job by which it names the signal for "checkpoint now", or `none`.
const SIGNAL: &str = "LEEWAY_CKPT_SIGNAL";

/// Where things lie for the program.
#[derive(Clone, Debug)]
pub struct Places {
    pub work: PathBuf,
    /// `None` when the job keeps no state.
    pub checkpoints: Option<PathBuf>,
    pub notice: PathBuf,
    pub control: PathBuf,
    pub progress: PathBuf,
    /// Set when a mount lies below `~`.
    pub home: Option<PathBuf>,
}

impl Places {
    pub fn new(agent: &Agent) -> anyhow::Result<Self> {
        let work = agent.path("work");
        let assignment = &agent.assignment;
        let own = match &assignment.checkpoint_path {
            Some(path) => below(&work, path)?,
            None => agent.path("checkpoints"),
        };
        let home = assignment.mounts.iter().any(|mount| mount.path.starts_with('~')).then(|| agent.path("home"));
        Ok(Self {
            checkpoints: assignment.checkpoint_base_url.is_some().then_some(own),
            notice: agent.path("control/notice.json"),
            control: agent.path("control/interval"),
            progress: agent.path("control/progress"),
            work,
            home,
        })
    }

    pub fn create(&self) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.work)?;
        for file in [&self.notice, &self.control, &self.progress] {
            std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
        }
        for dir in self.checkpoints.iter().chain(&self.home) {
            std::fs::create_dir_all(dir)?;
        }
        Ok(())
    }

    /// Where a mount is unpacked. One at an absolute path would be shared by all runs of this machine.
    pub fn mount(&self, path: &str) -> anyhow::Result<PathBuf> {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => below(home, rest),
            _ => below(&self.work, path),
        }
    }
}

/// A relative path that stays below a directory.
fn below(dir: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let path = Path::new(path);
    if !path.components().all(plain) || path.file_name().is_none() {
        let shown = leeway_model::name::escape(&path.to_string_lossy());
        bail!("'{shown}' is outside the run's directory; write a path relative to the working directory, or below ~/");
    }
    Ok(dir.join(path.components().collect::<PathBuf>()))
}

/// What was restored for the program.
#[derive(Clone, Debug)]
pub struct Restored {
    pub id: pb::CheckpointId,
    pub dir: PathBuf,
    pub step: u64,
}

/// The shell that will run `text`, with everything the program sees. Its input is empty.
pub fn command(agent: &Agent, places: &Places, restored: Option<&Restored>, text: &str) -> Command {
    let shell = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|shell| Path::new(shell).exists()).unwrap_or("/bin/sh");
    let mut command = Command::new(shell);
    command.arg("-c").arg(text).current_dir(&places.work).stdin(std::process::Stdio::null());
    for (name, _) in std::env::vars_os() {
        // Nothing that was meant for the agent.
        if name.to_string_lossy().starts_with("LEEWAY_") || name == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    command.envs(variables(agent, places, restored));
    command
}

fn variables(agent: &Agent, places: &Places, restored: Option<&Restored>) -> BTreeMap<String, OsString> {
    let assignment = &agent.assignment;
    let mut all: BTreeMap<String, OsString> = BTreeMap::new();
    if let Some(home) = &places.home {
        all.insert("HOME".into(), home.into());
    }
    all.extend(assignment.env.iter().map(|(name, value)| (name.clone(), value.into())));
    let secret = |secret: &pb::SecretValue| OsString::from_vec(secret.value.to_vec());
    all.extend(assignment.secrets.iter().map(|(name, value)| (name.clone(), secret(value))));
    // A name with '=' or a value with NUL cannot be passed on; the border refuses such jobs.
    all.retain(|name, value| !name.is_empty() && !name.contains(['=', '\0']) && !value.as_encoded_bytes().contains(&0));

    let mut set = |name: &str, value: OsString| all.insert(name.to_owned(), value);
    set("LEEWAY_JOB_ID", agent.run.job.to_string().into());
    set("LEEWAY_EPOCH", agent.run.epoch.to_string().into());
    set("LEEWAY_START_REASON", start_reason(assignment.start_reason()).into());
    set("LEEWAY_RANK", assignment.rank.to_string().into());
    set("LEEWAY_WORLD_SIZE", agent.world_size().to_string().into());
    set("LEEWAY_NODES", assignment.node_addresses.join("\n").into());
    // Names that task files written for SkyPilot expect.
    set("SKYPILOT_NODE_RANK", assignment.rank.to_string().into());
    set("SKYPILOT_NUM_NODES", agent.world_size().to_string().into());
    set("SKYPILOT_NODE_IPS", assignment.node_addresses.join("\n").into());
    // One id over all recoveries, for it is put into the names of outputs and experiments.
    set("SKYPILOT_TASK_ID", agent.run.job.to_string().into());
    set("LEEWAY_NOTICE_FILE", places.notice.clone().into());
    set("LEEWAY_CONTROL_FILE", places.control.clone().into());
    set("LEEWAY_PROGRESS_FILE", places.progress.clone().into());
    if let Some(dir) = &places.checkpoints {
        set("LEEWAY_CKPT_DIR", dir.clone().into());
    }
    if let Some(interval_ms) = agent.board.now().interval_ms.or(assignment.interval_ms) {
        set("LEEWAY_CKPT_INTERVAL", seconds(interval_ms).into());
    }
    if let Some(restored) = restored {
        set("LEEWAY_RESTORE_DIR", restored.dir.clone().into());
        set("LEEWAY_RESTORE_STEP", restored.step.to_string().into());
    }
    all
}

const fn start_reason(reason: pb::StartReason) -> &'static str {
    match reason {
        pb::StartReason::Unspecified | pb::StartReason::First => "first",
        pb::StartReason::Interrupted => "interrupted",
        pb::StartReason::Preempted => "preempted",
        pb::StartReason::Failed => "failed",
        pb::StartReason::Moved => "moved",
    }
}

/// Whole seconds, at least one.
pub fn seconds(millis: u64) -> String {
    millis.div_ceil(1_000).max(1).to_string()
}

/// The signal for "checkpoint now", unless the job keeps no state or wants none.
pub fn checkpoint_signal(assignment: &pb::Assignment) -> Option<Signal> {
    assignment.checkpoint_base_url.as_ref()?;
    match assignment.env.get(SIGNAL).map(|name| name.trim_start_matches("SIG")) {
        None | Some("USR1") => Some(Signal::USR1),
        Some("USR2") => Some(Signal::USR2),
        Some("HUP") => Some(Signal::HUP),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_01_a_path_of_the_job_stays_in_its_directory() {
        let dir = Path::new("/run/work");
        for (path, inside) in [("state", "/run/work/state"), ("./a/b", "/run/work/a/b")] {
            assert_eq!(below(dir, path).unwrap(), Path::new(inside));
        }
        for path in ["", ".", "..", "../a", "a/../../b", "/etc", "/"] {
            assert!(below(dir, path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn the_checkpoint_signal_can_be_changed_or_off() {
        let assignment = |url: Option<&str>, signal: Option<&str>| pb::Assignment {
            checkpoint_base_url: url.map(str::to_owned),
            env: signal.map(|signal| (SIGNAL.to_owned(), signal.to_owned())).into_iter().collect(),
            ..Default::default()
        };
        let url = Some("file:///x");
        assert_eq!(checkpoint_signal(&assignment(url, None)), Some(Signal::USR1));
        assert_eq!(checkpoint_signal(&assignment(url, Some("SIGUSR2"))), Some(Signal::USR2));
        assert_eq!(checkpoint_signal(&assignment(url, Some("none"))), None);
        assert_eq!(checkpoint_signal(&assignment(None, None)), None);
    }
}
