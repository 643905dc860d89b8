//! The training program as its agent sees it: a process with an environment, signals and an exit code.

#![allow(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than any of this takes, so that only a real fault runs into it.
const PATIENCE: Duration = Duration::from_secs(60);

fn train(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leeway"));
    command.arg("train").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["CKPT_DIR", "RESTORE_DIR", "PROGRESS_FILE", "NOTICE_FILE", "CONTROL_FILE", "CKPT_INTERVAL"] {
        command.env_remove(format!("LEEWAY_{name}"));
    }
    command
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn ready(dir: &Path) -> Vec<PathBuf> {
    let found = leeway_data::ready::complete(dir).unwrap();
    found.into_iter().map(|one| one.dir).collect()
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn stopped_with_a_signal_and_killed_without_one_it_ends_with_the_same_weights() {
    let top = tempfile::tempdir().unwrap();
    let model = top.path().join("model.bin");
    let alone = train(&["--steps", "400", "--digest-only"]).output().unwrap();
    let digest = String::from_utf8(alone.stdout).unwrap().trim().to_owned();
    assert_eq!((alone.status.code(), digest.len()), (Some(0), 64));

    // The first run gets SIGTERM in its 1st half, the second is killed with a checkpoint behind it.
    let steps = ["--steps", "400", "--checkpoint-every", "20", "--out", model.to_str().unwrap()];
    let first = top.path().join("first");
    let run = train(&steps).args(["--pace-ms", "5"]).env("LEEWAY_CKPT_DIR", &first).spawn().unwrap();
    wait_for("the first checkpoint", || !ready(&first).is_empty());
    signal(&run, "TERM");
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(75), "{}", String::from_utf8_lossy(&ended.stdout));
    let saved = ready(&first).pop().unwrap();
    let step = String::from_utf8(ended.stdout).unwrap();
    let step = step.rsplit("saved step ").next().unwrap().trim().to_owned();
    assert_eq!(std::fs::read_to_string(saved.join("READY")).unwrap(), format!("step={step}\n"));

    let second = top.path().join("second");
    let mut run = train(&steps);
    run.args(["--pace-ms", "5"]).env("LEEWAY_CKPT_DIR", &second).env("LEEWAY_RESTORE_DIR", &saved);
    let mut run = run.spawn().unwrap();
    wait_for("a checkpoint of the second run", || !ready(&second).is_empty());
    run.kill().unwrap();
    run.wait().unwrap();

    let third = top.path().join("third");
    let progress = top.path().join("progress");
    let mut run = train(&steps);
    run.env("LEEWAY_CKPT_DIR", &third).env("LEEWAY_RESTORE_DIR", ready(&second).pop().unwrap());
    let ended = run.env("LEEWAY_PROGRESS_FILE", &progress).output().unwrap();
    let out = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{out}");
    assert!(out.contains(&format!("digest {digest}")), "{out} against {digest}");
    assert_eq!(std::fs::read_to_string(progress).unwrap(), "{\"step\":400,\"total\":400}\n");
    assert!(std::fs::metadata(model).unwrap().len() > 1_000);
}

#[test]
fn a_notice_or_sigusr1_saves_and_goes_on() {
    let top = tempfile::tempdir().unwrap();
    let (dir, notice) = (top.path().join("checkpoints"), top.path().join("notice"));
    let mut run = train(&["--steps", "100000", "--pace-ms", "5"]);
    let mut run = run.env("LEEWAY_CKPT_DIR", &dir).env("LEEWAY_NOTICE_FILE", &notice).spawn().unwrap();
    std::fs::write(&notice, "{\"kind\":\"interruption\"}").unwrap();
    wait_for("a checkpoint after the notice", || ready(&dir).len() == 1);
    signal(&run, "USR1");
    wait_for("a checkpoint after the signal", || ready(&dir).len() == 2);
    assert_eq!(run.try_wait().unwrap(), None, "it goes on");
    run.kill().unwrap();
    run.wait().unwrap();
}

#[test]
fn a_checkpoint_of_another_training_is_a_permanent_error() {
    let top = tempfile::tempdir().unwrap();
    let steps = ["--steps", "40", "--checkpoint-every", "40", "--out", top.path().join("m").to_str().unwrap()]
        .map(str::to_owned);
    let arguments: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert!(train(&arguments).env("LEEWAY_CKPT_DIR", top.path().join("c")).status().unwrap().success());
    let saved = ready(&top.path().join("c")).pop().unwrap();
    let ended = train(&arguments).args(["--seed", "8"]).env("LEEWAY_RESTORE_DIR", &saved).output().unwrap();
    assert_eq!(ended.status.code(), Some(78), "{}", String::from_utf8_lossy(&ended.stderr));
    std::fs::write(saved.join("state.bin"), "torn").unwrap();
    let ended = train(&arguments).env("LEEWAY_RESTORE_DIR", &saved).output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stderr));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("damaged"));
}
