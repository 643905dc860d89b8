//! Processes told apart for certain. A process id alone is reused sooner or later; with the time at which the process
//! started and the machine's boot id it is not. Everything is read from `/proc`.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Marks every process of a program by its environment, so that one that left its group is found as well.
pub const MARK: &str = "LEEWAY_PROCESS_MARK";

/// One process of one boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: u32,
    /// Clock ticks from boot to the process's start.
    pub start_ticks: u64,
    pub boot_id: Box<str>,
}

/// Names this boot of this machine.
pub fn boot_id() -> io::Result<Box<str>> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().into())
}

/// Time since boot, suspend included.
pub fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// 128 bits from the kernel, in hex.
pub fn random_word() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(String::with_capacity(32), |mut word, byte| {
        let _ = write!(word, "{byte:02x}");
        word
    }))
}

impl ProcessId {
    pub fn current() -> io::Result<Self> {
        let pid = std::process::id();
        Self::of(pid)?.ok_or_else(|| io::Error::other("this process is not in /proc"))
    }

    /// The living process that has this number now.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        let boot_id = boot_id()?;
        let found = stat(pid)?.filter(Stat::lives);
        Ok(found.map(|stat| Self { pid, start_ticks: stat.start_ticks, boot_id }))
    }

    /// Whether this very process still executes. One that ended and was not reaped does not.
    pub fn lives(&self) -> io::Result<bool> {
        if *boot_id()? != *self.boot_id {
            return Ok(false);
        }
        Ok(stat(self.pid)?.is_some_and(|stat| stat.lives() && stat.start_ticks == self.start_ticks))
    }

    /// Sends a signal to this very process and never to a later one of the same number. `false` when it has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // The handle holds one process fast; now it is known which.
        if !self.lives()? {
            return Ok(false);
        }
        match pidfd_send_signal(&handle, signal) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The processes of a program: those of its process group, and those that bear its mark wherever they went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// `None` while nothing was started.
    pub pgid: Option<u32>,
    /// The session of its agent: with it, a later group of the same number is not mistaken for this one.
    pub session: u32,
    pub mark: Box<str>,
    pub boot_id: Box<str>,
}

impl Tree {
    /// All living processes of it.
    pub fn members(&self) -> io::Result<Vec<ProcessId>> {
        let boot_id = boot_id()?;
        if boot_id != self.boot_id {
            return Ok(Vec::new());
        }
        let mark = format!("{MARK}={}", self.mark);
        let mut members = Vec::new();
        for pid in pids()? {
            let Some(stat) = stat(pid)?.filter(Stat::lives) else { continue };
            if self.has_grouped(&stat) || bears(pid, mark.as_bytes()) {
                members.push(ProcessId { pid, start_ticks: stat.start_ticks, boot_id: boot_id.clone() });
            }
        }
        Ok(members)
    }

    fn has_grouped(&self, stat: &Stat) -> bool {
        self.pgid == Some(stat.pgrp) && stat.session == self.session
    }

    /// Sends a signal to every process of it. Returns how many there were.
    pub fn signal(&self, signal: Signal) -> io::Result<usize> {
        let members = self.members()?;
        let grouped =
            |member: &ProcessId| stat(member.pid).is_ok_and(|stat| stat.is_some_and(|stat| self.has_grouped(&stat)));
        let (grouped, strays): (Vec<_>, Vec<_>) = members.iter().partition(|member| grouped(member));
        if !grouped.is_empty() {
            self.signal_group(signal)?;
        }
        for stray in strays {
            stray.signal(signal)?;
        }
        Ok(members.len())
    }

    /// At once, so that a process which is being forked is not missed. A member of the group was seen alive just now,
    /// hence the number still is this group's.
    fn signal_group(&self, signal: Signal) -> io::Result<()> {
        let Some(pgid) = self.pgid.and_then(|pgid| i32::try_from(pgid).ok()).and_then(Pid::from_raw) else {
            return Ok(());
        };
        match kill_process_group(pgid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to those that catch it: its default action ends a process. Returns how many did.
    pub fn signal_catchers(&self, signal: Signal) -> io::Result<usize> {
        let mut caught = 0;
        for member in self.members()? {
            if catches(member.pid, signal) && member.signal(signal)? {
                caught += 1;
            }
        }
        Ok(caught)
    }

    /// Kills until no process is left, also those that were forked meanwhile; gives up after a few rounds, in which
    /// case the last of them are still dying. Returns whether none is left.
    pub fn kill(&self) -> io::Result<bool> {
        for round in 0..20_u64 {
            if self.signal(Signal::KILL)? == 0 {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(2 + round));
        }
        Ok(self.members()?.is_empty())
    }
}

fn bears(pid: u32, mark: &[u8]) -> bool {
    // Of other users' processes the environment cannot be read; those are not ours.
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

fn catches(pid: u32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal.as_raw()).is_ok_and(|number| (1..=64).contains(&number) && caught >> (number - 1) & 1 == 1)
}

fn pids() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    pgrp: u32,
    session: u32,
    start_ticks: u64,
}

impl Stat {
    /// Neither a zombie nor dead.
    const fn lives(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// `pid (name) state ppid pgrp session … starttime`; the name may hold blanks and brackets.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            pgrp: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }
}

/// `None` when there is no such process.
fn stat(pid: u32) -> io::Result<Option<Stat>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(text) => {
            Stat::parse(&text).map(Some).ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is strange")))
        }
        // ESRCH comes when the process ends between open and read.
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(3) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The session of this process as `/proc` tells it: 0 where its leader is outside the process namespace, as in a container
/// that was entered from without. Its members say the same of themselves, so it compares like any other.
pub fn session() -> io::Result<u32> {
    let stat = stat(std::process::id())?.ok_or_else(|| io::Error::other("this process is not in /proc"))?;
    Ok(stat.session)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use super::*;

    fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(std::time::Instant::now() < end, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn start(script: &str, mark: &str) -> (Child, Tree) {
        let child = Command::new("sh").args(["-c", script]).env(MARK, mark).process_group(0).spawn().unwrap();
        let tree = Tree {
            pgid: Some(child.id()),
            session: session().unwrap(),
            mark: mark.into(),
            boot_id: boot_id().unwrap(),
        };
        (child, tree)
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 5 6 0 -1 4 1 1 0 0 0 0 0 0 20 0 1 0 4242 9 9\n";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'S', pgrp: 5, session: 6, start_ticks: 4242 }));
        for bad in ["", "7", "7 (a)", "7 (a) S 1 5", "7 (a) S x y z"] {
            assert_eq!(Stat::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn n_07_a_process_of_another_boot_or_start_time_does_not_live() {
        let here = ProcessId::current().unwrap();
        assert!(here.lives().unwrap());
        let other_boot = ProcessId { boot_id: "another".into(), ..here.clone() };
        let other_start = ProcessId { start_ticks: here.start_ticks + 1, ..here };
        for other in [other_boot, other_start] {
            assert!(!other.lives().unwrap());
            assert!(!other.signal(Signal::KILL).unwrap());
        }
    }

    #[test]
    fn a_process_that_ended_and_was_not_reaped_does_not_live() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = ProcessId::of(child.id()).unwrap().unwrap();
        assert!(process.signal(Signal::KILL).unwrap());
        wait_until("the process is a zombie", || !process.lives().unwrap());
        child.wait().unwrap();
        assert!(!process.signal(Signal::KILL).unwrap());
    }

    #[test]
    fn n_06_a_process_that_left_its_group_is_killed_with_it() {
        let mark = random_word().unwrap();
        let (mut child, tree) = start("setsid sleep 600 & sleep 600 & exit 0", &mark);
        child.wait().unwrap();
        wait_until("both children run", || tree.members().unwrap().len() == 2);
        assert!(tree.kill().unwrap());
        assert_eq!(tree.members().unwrap(), []);
    }

    #[test]
    fn only_those_that_catch_a_signal_are_sent_it() {
        let mark = random_word().unwrap();
        let (mut child, tree) = start("trap 'exit 9' USR1; while :; do sleep 0.05; done", &mark);
        wait_until("the trap is set", || catches(child.id(), Signal::USR1));
        assert_eq!(tree.signal_catchers(Signal::USR2).unwrap(), 0);
        assert_eq!(tree.signal_catchers(Signal::USR1).unwrap(), 1);
        assert_eq!(child.wait().unwrap().code(), Some(9));
        tree.kill().unwrap();
    }
}
