//! What Leeway and the program say to each other: directories and files named by the environment, and signals.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use leeway_data::ready;

/// Least time between two progress reports, so that quick steps do not wear out a disk.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// How often the advised interval and the notice are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What the program should do before its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    GoOn,
    Save,
    Stop,
}

/// The program's side of the protocol. Outside Leeway every part of it is absent and nothing is ever saved.
#[derive(Debug)]
pub(super) struct Protocol {
    checkpoints: Option<PathBuf>,
    restore: Option<PathBuf>,
    progress: Option<PathBuf>,
    notice: Option<PathBuf>,
    control: Option<PathBuf>,
    interval: Option<Duration>,
    signals: Receiver<Wish>,
    saved_at: Instant,
    saved_step: Option<u64>,
    reported: Option<Instant>,
    looked: Option<Instant>,
    noticed: bool,
}

impl Protocol {
    /// As the environment describes it; begins to listen to SIGTERM, SIGINT and SIGUSR1.
    pub fn from_environment() -> anyhow::Result<Self> {
        let path = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let interval = match std::env::var("LEEWAY_CKPT_INTERVAL") {
            Ok(text) if !text.is_empty() => Some(seconds(&text).with_context(|| {
                format!("LEEWAY_CKPT_INTERVAL is '{}', which is no number of seconds", text.escape_debug())
            })?),
            _ => None,
        };
        Ok(Self {
            checkpoints: path("LEEWAY_CKPT_DIR"),
            restore: path("LEEWAY_RESTORE_DIR"),
            progress: path("LEEWAY_PROGRESS_FILE"),
            notice: path("LEEWAY_NOTICE_FILE"),
            control: path("LEEWAY_CONTROL_FILE"),
            interval,
            ..Self::silent(listen().context("cannot listen to signals")?)
        })
    }

    fn silent(signals: Receiver<Wish>) -> Self {
        Self {
            checkpoints: None,
            restore: None,
            progress: None,
            notice: None,
            control: None,
            interval: None,
            signals,
            saved_at: Instant::now(),
            saved_step: None,
            reported: None,
            looked: None,
            noticed: false,
        }
    }

    /// The verified checkpoint to go on from.
    pub fn restore_dir(&self) -> Option<&Path> {
        self.restore.as_deref()
    }

    /// Whether there is a place for checkpoints.
    pub const fn can_save(&self) -> bool {
        self.checkpoints.is_some()
    }

    /// What is wished now. Waits `pace_ms` first, but not longer than until something is wished.
    pub fn wish(&mut self, pace_ms: u64) -> Wish {
        let heard = match self.signals.recv_timeout(Duration::from_millis(pace_ms)) {
            Ok(wish) => wish,
            Err(RecvTimeoutError::Timeout) => Wish::GoOn,
            Err(RecvTimeoutError::Disconnected) => {
                // Nobody signals any more; the pace holds all the same.
                std::thread::sleep(Duration::from_millis(pace_ms));
                Wish::GoOn
            }
        };
        if heard != Wish::GoOn {
            return self.strongest(heard);
        }
        self.look();
        let due = self.interval.is_some_and(|interval| self.saved_at.elapsed() >= interval);
        let warned = !self.noticed && self.notice.as_deref().is_some_and(Path::exists);
        self.noticed |= warned;
        if due || warned { Wish::Save } else { Wish::GoOn }
    }

    /// A stop that came together with a save wins.
    fn strongest(&self, heard: Wish) -> Wish {
        let mut strongest = heard;
        loop {
            match self.signals.try_recv() {
                Ok(Wish::Stop) => strongest = Wish::Stop,
                Ok(_) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return strongest,
            }
        }
    }

    /// Reads a changed interval, now and then.
    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let text = self.control.as_deref().and_then(|path| std::fs::read_to_string(path).ok());
        // The file holds the number alone, as the variable does.
        if let Some(interval) = text.as_deref().and_then(seconds) {
            self.interval = Some(interval);
        }
    }

    /// Tells how far the program is; at most ten times a second, and always at the end.
    pub fn report(&mut self, step: u64, total: u64) -> io::Result<()> {
        let Some(path) = &self.progress else { return Ok(()) };
        if step < total && self.reported.is_some_and(|reported| reported.elapsed() < REPORT_EVERY) {
            return Ok(());
        }
        self.reported = Some(Instant::now());
        let temporary = path.with_extension("tmp");
        std::fs::write(&temporary, format!("{{\"step\":{step},\"total\":{total}}}\n"))?;
        std::fs::rename(&temporary, path)
    }

    /// Makes a checkpoint of `step` with what `write` puts into its directory. Saving one step twice saves it once.
    pub fn save(&mut self, step: u64, write: impl FnOnce(&Path) -> io::Result<()>) -> anyhow::Result<()> {
        let Some(dir) = &self.checkpoints else { return Ok(()) };
        self.saved_at = Instant::now();
        if self.saved_step == Some(step) {
            return Ok(());
        }
        let name = format!("step-{step:010}");
        let temporary = dir.join(format!("{name}{}", ready::TEMPORARY));
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make '{}'", dir.display()))?;
        // A half-written directory of an earlier try; an unfinished one without READY as well.
        for leftover in [temporary.as_path(), &dir.join(&name)] {
            let is_whole = leftover.join(ready::READY).is_file() && leftover != temporary;
            if is_whole {
                self.saved_step = Some(step);
                return Ok(());
            }
            match std::fs::remove_dir_all(leftover) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("cannot clear '{}'", leftover.display()));
                }
                _ => {}
            }
        }
        std::fs::create_dir(&temporary).with_context(|| format!("cannot make '{}'", temporary.display()))?;
        write(&temporary).with_context(|| format!("cannot write a checkpoint into '{}'", temporary.display()))?;
        ready::commit(&temporary, Some(step))?;
        self.saved_step = Some(step);
        Ok(())
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

/// A thread that turns signals into wishes. It lives as long as the program.
fn listen() -> io::Result<Receiver<Wish>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        runtime.block_on(async move {
            let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::user_defined1()].map(signal);
            let [Ok(mut terminate), Ok(mut interrupt), Ok(mut save)] = kinds else {
                return drop(ready.send(Err(io::Error::other("the system refused a signal handler"))));
            };
            let _ = ready.send(Ok(()));
            loop {
                let wish = tokio::select! {
                    _ = terminate.recv() => Wish::Stop,
                    _ = interrupt.recv() => Wish::Stop,
                    _ = save.recv() => Wish::Save,
                };
                if sender.send(wish).is_err() {
                    return;
                }
            }
        });
    })?;
    is_ready.recv().map_err(|_| io::Error::other("the signal thread ended"))??;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(dir: &Path) -> (mpsc::Sender<Wish>, Protocol) {
        let (sender, receiver) = mpsc::channel();
        let protocol = Protocol {
            checkpoints: Some(dir.join("checkpoints")),
            progress: Some(dir.join("progress.json")),
            notice: Some(dir.join("notice.json")),
            control: Some(dir.join("control")),
            ..Protocol::silent(receiver)
        };
        (sender, protocol)
    }

    #[test]
    fn a_checkpoint_is_ready_only_when_whole_and_states_its_step() {
        let dir = tempfile::tempdir().unwrap();
        let (_sender, mut protocol) = protocol(dir.path());
        let checkpoints = dir.path().join("checkpoints");
        // A writer that fails leaves nothing that looks complete, and the next try is not disturbed by it.
        let failing = |dir: &Path| std::fs::write(dir.join("half"), "x").and(Err(io::Error::other("full")));
        assert!(protocol.save(12, failing).is_err());
        assert_eq!(ready::complete(&checkpoints).unwrap(), []);
        protocol.save(12, |dir| std::fs::write(dir.join("model"), "x")).unwrap();
        protocol.save(12, |_| panic!("the step is saved already")).unwrap();
        let found = ready::complete(&checkpoints).unwrap();
        assert_eq!(found.iter().map(|one| (&*one.name, one.step)).collect::<Vec<_>>(), [("step-0000000012", Some(12))]);
        assert!(!found[0].dir.join("half").exists());
    }

    #[test]
    fn a_notice_asks_for_one_save_and_a_stop_goes_before_a_save() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, mut protocol) = protocol(dir.path());
        assert_eq!(protocol.wish(0), Wish::GoOn);
        std::fs::write(dir.path().join("notice.json"), "{}").unwrap();
        assert_eq!([protocol.wish(0), protocol.wish(0)], [Wish::Save, Wish::GoOn]);
        for wish in [Wish::Save, Wish::Stop, Wish::Save] {
            sender.send(wish).unwrap();
        }
        assert_eq!(protocol.wish(60_000), Wish::Stop);
        drop(sender);
        assert_eq!(protocol.wish(0), Wish::GoOn);
    }

    #[test]
    fn the_interval_asks_for_a_save_when_it_has_passed_since_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let (_sender, mut protocol) = protocol(dir.path());
        protocol.interval = Some(Duration::from_nanos(1));
        assert_eq!(protocol.wish(1), Wish::Save);
        std::fs::write(dir.path().join("control"), "3600").unwrap();
        protocol.looked = None;
        protocol.save(1, |_| Ok(())).unwrap();
        assert_eq!(protocol.wish(0), Wish::GoOn);
        assert_eq!(protocol.interval, Some(Duration::from_secs(3_600)));
    }

    #[test]
    fn an_interval_is_a_positive_number_of_seconds() {
        for (text, length) in [("90", 90_000), (" 90\n", 90_000), ("0.25", 250)] {
            assert_eq!(seconds(text), Some(Duration::from_millis(length)), "{text}");
        }
        for text in ["", "0", "-1", "NaN", "inf", "1e300", "soon", "90s"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn progress_is_one_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let (_sender, mut protocol) = protocol(dir.path());
        protocol.report(3, 9).unwrap();
        protocol.report(4, 9).unwrap();
        protocol.report(9, 9).unwrap();
        let text = std::fs::read_to_string(dir.path().join("progress.json")).unwrap();
        assert_eq!(text, "{\"step\":9,\"total\":9}\n");
    }

    #[test]
    fn outside_leeway_nothing_is_saved_or_reported() {
        let (_sender, receiver) = mpsc::channel();
        let mut protocol = Protocol::silent(receiver);
        protocol.save(1, |_| panic!("there is nowhere to save")).unwrap();
        protocol.report(1, 2).unwrap();
        assert_eq!(protocol.wish(0), Wish::GoOn);
    }
}
