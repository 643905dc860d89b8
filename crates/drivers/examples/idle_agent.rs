//! An agent that does nothing but live, for the tests of the local driver. It claims its rank, starts `sleep` as its
//! program when the file `program` lies in its directory, and ends at SIGTERM unless `deaf` lies there.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use leeway_drivers::process::{MARK, Tree, boot_id};
use leeway_drivers::run_dir::{Claim, RankDir};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let dir = std::env::args().nth(3).map(PathBuf::from).ok_or_else(|| std::io::Error::other("no --run-dir"))?;
    let _ = rustix::process::setsid();
    let mut end = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let parent = dir.parent().and_then(|run| run.parent()).map(PathBuf::from).unwrap_or_default();
    let rank = RankDir::new(dir);
    let wants = |what: &str| parent.join(what).exists();
    if wants("broken") {
        return Err(std::io::Error::other("this machine is broken"));
    }
    let Some(Claim::Agent { session, mark, .. }) = rank.claim()? else { return Ok(()) };
    if wants("program") {
        let child = Command::new("sleep").arg("600").env(MARK, &*mark).process_group(0).spawn()?;
        rank.record_job(&Tree { pgid: Some(child.id()), session, mark, boot_id: boot_id()? })?;
    }
    loop {
        end.recv().await;
        if !wants("deaf") {
            return Ok(());
        }
    }
}
