//! Bringing up the agents of a run: all of them or none.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use leeway_model::run::LaunchErrorClass;
use leeway_model::{Name, RunId};
use tokio::process::{Child, Command};

use super::observe::look;
use super::{Shared, instance_id};
use crate::contract::{InstanceState, Launch, LaunchError};
use crate::files;
use crate::run_dir::{RankDir, create_private_dir, order_stop};

/// What an agent, and with it the program, gets of the server's environment: nothing that could hold a secret.
const INHERITED: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "RUST_LOG"];

pub(super) fn check(launch: &Launch) -> Result<(), LaunchError> {
    let invalid = |message: String| Err(LaunchError::new(LaunchErrorClass::Invalid, message));
    if launch.nodes == 0 || launch.tokens.len() != launch.nodes as usize {
        return invalid(format!("{} nodes were given {} tokens; give one a node", launch.nodes, launch.tokens.len()));
    }
    if launch.offer.cluster != launch.cluster.name || launch.offer.shape != launch.shape.name {
        return invalid(format!("offer {} is not of cluster {}", launch.offer, launch.cluster.name));
    }
    if !launch.cluster.machines.iter().any(|machines| machines.shape.name == launch.shape.name) {
        return invalid(format!("cluster {} has no machine '{}'", launch.cluster.name, launch.shape.name));
    }
    Ok(())
}

pub(super) async fn launch(shared: &Shared, launch: &Launch) -> Result<Vec<Box<str>>, LaunchError> {
    let (cluster, run) = (&launch.cluster.name, launch.run);
    let give_up_at = tokio::time::Instant::now() + Duration::from_millis(launch.deadline.as_millis());
    match prepare(shared, launch) {
        Ok(Some(refused)) => return Err(undo(shared, cluster, run, refused)),
        Ok(None) => {}
        Err(error) => {
            let refused = refused(&error, format!("cannot prepare run {run}: {error}"));
            return Err(undo(shared, cluster, run, refused));
        }
    }
    let mut children: Vec<(u32, Child)> = Vec::new();
    for rank in 0..launch.nodes {
        let dir = shared.runs.rank_dir(cluster, run, rank);
        if matches!(dir.claimed(), Ok(Some(_))) {
            continue;
        }
        match start(&shared.program, &dir) {
            Ok(child) => children.push((rank, child)),
            Err(error) => {
                let message = format!("cannot start the agent '{}': {error}", shared.program.display());
                return Err(undo(shared, cluster, run, refused(&error, message)));
            }
        }
    }
    let up = wait_until_up(shared, launch, &mut children, give_up_at).await;
    reap(children);
    up.map_err(|refused| undo(shared, cluster, run, refused))?;
    Ok((0..launch.nodes).map(|rank| instance_id(run, rank)).collect())
}

/// Makes the directories of a run, or finds those of an earlier launch. Says when it must not go on.
fn prepare(shared: &Shared, launch: &Launch) -> io::Result<Option<LaunchError>> {
    let (cluster, run) = (&launch.cluster.name, launch.run);
    let transient = |message: String| Ok(Some(LaunchError::new(LaunchErrorClass::Transient, message)));
    let ranks = shared.runs.ranks(cluster, run)?;
    if shared.runs.is_stopped(cluster, run) {
        return transient(format!("run {run} was stopped; place the job again"));
    }
    if !ranks.is_empty() {
        let mut gone = ranks.len() != launch.nodes as usize;
        for rank in &ranks {
            gone |= look(rank)? == InstanceState::Gone;
        }
        if gone {
            return transient(format!("machines of run {run} have ended; place the job again"));
        }
    } else if let Some(refused) = no_room(shared, launch)? {
        return Ok(Some(refused));
    }
    shared.runs.prepare(launch, &[])?;
    Ok(None)
}

/// Refuses when the cluster's declared machines of this shape do not suffice.
fn no_room(shared: &Shared, launch: &Launch) -> io::Result<Option<LaunchError>> {
    let of_shape = launch.cluster.machines.iter().find(|machines| machines.shape.name == launch.shape.name);
    let Some(count) = of_shape.and_then(|machines| machines.count) else { return Ok(None) };
    let cluster = &launch.cluster.name;
    let mut taken = 0_u32;
    for run in shared.runs.list(cluster)? {
        if shared.runs.launched(cluster, run)?.is_some_and(|launched| launched.shape == launch.shape.name) {
            taken = taken.saturating_add(shared.living(cluster, run)?);
        }
    }
    let free = count.saturating_sub(taken);
    Ok((launch.nodes > free).then(|| {
        let message =
            format!("{free} of {count} machines '{}' are free, {} are wanted", launch.shape.name, launch.nodes);
        LaunchError::new(LaunchErrorClass::Capacity, message)
    }))
}

fn start(program: &Path, dir: &RankDir) -> io::Result<Child> {
    let output = |name| {
        let path = dir.path().join(name);
        OpenOptions::new().create(true).append(true).mode(files::PRIVATE).open(path)
    };
    let inherited = INHERITED.iter().filter_map(|name| std::env::var_os(name).map(|value| (*name, value)));
    // The agent leaves this session by itself, as its first act.
    Command::new(program)
        .arg("agent")
        .arg("--run-dir")
        .arg(dir.path())
        .env_clear()
        .envs(inherited)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(output("agent.out")?)
        .stderr(output("agent.err")?)
        .kill_on_drop(false)
        .spawn()
}

async fn wait_until_up(
    shared: &Shared,
    launch: &Launch,
    children: &mut [(u32, Child)],
    give_up_at: tokio::time::Instant,
) -> Result<(), LaunchError> {
    let transient = |message: String| LaunchError::new(LaunchErrorClass::Transient, message);
    loop {
        let mut waiting = 0;
        for rank in 0..launch.nodes {
            let dir = shared.runs.rank_dir(&launch.cluster.name, launch.run, rank);
            let claimed = dir.claimed().map_err(|error| refused(&error, error.to_string()))?;
            waiting += u32::from(claimed.is_none());
        }
        if waiting == 0 {
            return Ok(());
        }
        for (rank, child) in children.iter_mut() {
            let dir = shared.runs.rank_dir(&launch.cluster.name, launch.run, *rank);
            let ended = child.try_wait().map_err(|error| refused(&error, error.to_string()))?;
            // It may have ended because another agent was first.
            if let Some(status) = ended.filter(|_| matches!(dir.claimed(), Ok(None))) {
                let said = files::tail(&dir.path().join("agent.err"));
                return Err(transient(format!("the agent of rank {rank} ended at once ({status}): {said}")));
            }
        }
        if tokio::time::Instant::now() >= give_up_at {
            let up = launch.nodes - waiting;
            return Err(transient(format!("{up} of {} agents were up by the deadline", launch.nodes)));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Awaits the agents' ends in the background, so that none stays a zombie while this process lives.
fn reap(children: Vec<(u32, Child)>) {
    for (_, mut child) in children {
        tokio::spawn(async move { child.wait().await });
    }
}

/// Ends whatever a failed launch made and closes its ranks for good.
fn undo(shared: &Shared, cluster: &Name, run: RunId, refused: LaunchError) -> LaunchError {
    let dir = shared.runs.run_dir(cluster, run);
    let closed = create_private_dir(&dir).and_then(|()| order_stop(&dir, Duration::ZERO));
    if let Err(error) = closed.and_then(|_| shared.lose(cluster, run)) {
        tracing::warn!(%run, %error, "cannot undo a launch; the next observation tries again");
    }
    refused
}

fn refused(error: &io::Error, message: String) -> LaunchError {
    let class = match error.kind() {
        io::ErrorKind::NotFound => LaunchErrorClass::Invalid,
        io::ErrorKind::PermissionDenied => LaunchErrorClass::Denied,
        _ => LaunchErrorClass::Transient,
    };
    LaunchError::new(class, message)
}
