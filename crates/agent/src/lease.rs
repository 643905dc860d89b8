//! The lease: permission to execute, from the moment the last acknowledged renewal was *sent*, on a clock that counts
//! suspend. Once over it stays over, whatever arrives later.
//!
//! ```text
//! (none) --registered--> running --renewed--> running --time passes--> expired
//!                            |\----refused----> refused
//!                            \-----settled----> telling --a long time passes--> expired
//! ```
//! A program that ended while the lease lasted is *settled*: nothing is executed any more, and what is left is to tell
//! how it ended. That needs no lease, since the server refuses what an epoch tells that is over; so a server that was
//! away for longer than the lease still hears of the end, unless it gave the run up before.
//!
//! A thread of its own watches it, so that a program is killed in time whatever the rest of the agent is waiting for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::program::Program;

/// How often the watchdog looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long to look for a server that is to hear how the program ended: a machine costs money while it waits, a run that is
/// done again costs more.
const TELL_WITHIN: Duration = Duration::from_secs(60 * 60);
/// How long the agent may take to end by itself after its program was killed.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Why nothing may be done any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Over {
    #[error("the lease ended without a renewal")]
    Expired,
    #[error("the server refuses this agent: its run is over or another agent has its place")]
    Refused,
}

#[derive(Debug)]
pub struct Lease {
    clock: fn() -> Duration,
    state: Mutex<State>,
    over: watch::Sender<Option<Over>>,
    kill_grace_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Time since boot; `None` before the registration.
    ends: Option<Duration>,
    /// Since the program ended: until when its end may be told.
    tells: Option<Duration>,
    over: Option<Over>,
}

impl Lease {
    /// `clock` gives the time since boot, suspend included.
    pub fn new(clock: fn() -> Duration) -> Self {
        Self { clock, state: Mutex::default(), over: watch::Sender::new(None), kill_grace_ms: AtomicU64::new(10_000) }
    }

    pub fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Must be asked before anything that has an effect.
    pub fn check(&self) -> Result<(), Over> {
        self.judge(&mut self.state())
    }

    /// A renewal that was sent at `sent` was acknowledged. It does not revive a lease that ended meanwhile.
    pub fn renewed(&self, sent: Duration, ttl: Duration) -> Result<(), Over> {
        let mut state = self.state();
        self.judge(&mut state)?;
        let ends = sent.saturating_add(ttl);
        state.ends = Some(state.ends.map_or(ends, |known| known.max(ends)));
        self.judge(&mut state)
    }

    /// The program ended, and none of its processes is left. From now on the passing of time ends only the telling of it.
    pub fn settle(&self) -> Result<(), Over> {
        let mut state = self.state();
        self.judge(&mut state)?;
        state.tells.get_or_insert(self.now().saturating_add(TELL_WITHIN));
        Ok(())
    }

    /// Returns when the lease itself ended, settled or not: nothing is published after that.
    pub async fn lapsed(&self) {
        while self.state().over.is_none() && self.ends().is_none_or(|ends| self.now() < ends) {
            // Not one long sleep: the clock of the lease counts suspend, that of a sleep does not.
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The server says that somebody else runs now.
    pub fn refuse(&self) {
        let mut state = self.state();
        self.end(&mut state, Over::Refused);
    }

    /// When it ends unless renewed.
    pub fn ends(&self) -> Option<Duration> {
        self.state().ends
    }

    /// Returns when it is over.
    pub async fn over(&self) -> Over {
        let mut changes = self.over.subscribe();
        loop {
            if let Some(over) = *changes.borrow_and_update() {
                return over;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    pub fn set_kill_grace(&self, grace: Duration) {
        self.kill_grace_ms.store(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub fn kill_grace(&self) -> Duration {
        Duration::from_millis(self.kill_grace_ms.load(Ordering::Relaxed))
    }

    fn judge(&self, state: &mut State) -> Result<(), Over> {
        if state.over.is_none() && state.ends.max(state.tells).is_some_and(|ends| self.now() >= ends) {
            self.end(state, Over::Expired);
        }
        state.over.map_or(Ok(()), Err)
    }

    fn end(&self, state: &mut State, over: Over) {
        if state.over.is_none() {
            state.over = Some(over);
            self.over.send_replace(Some(over));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the program when the lease does, and then this process, should it still be there.
pub fn watch(lease: Arc<Lease>, program: Arc<Program>) -> std::io::Result<()> {
    let watching = move || {
        let over = loop {
            match lease.check() {
                Ok(()) => std::thread::sleep(LOOK_EVERY),
                Err(over) => break over,
            }
        };
        tracing::warn!(reason = %over, "the program is ended");
        end(&lease, &program, over);
        std::thread::sleep(END_WITHIN);
        std::process::exit(crate::exit::OVER.into());
    };
    std::thread::Builder::new().name("lease".into()).spawn(watching).map(drop)
}

/// Ends the program because the lease is over: at once when somebody else may run already, else with the grace that
/// counts from the lease's end. Returns when none of its processes is left. May run twice at a time.
pub fn end(lease: &Lease, program: &Program, over: Over) {
    program.close();
    if over == Over::Expired {
        // A machine that was frozen for long wakes up with its grace used up as well.
        let kill_at = lease.ends().unwrap_or_default().saturating_add(lease.kill_grace());
        program.terminate();
        while lease.now() < kill_at && program.lives() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
    program.kill();
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    fn at(ms: u64) {
        NOW.set(ms);
    }

    fn lease() -> Lease {
        at(0);
        Lease::new(|| Duration::from_millis(NOW.get()))
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_lease_counts_from_the_moment_its_renewal_was_sent() {
        let lease = lease();
        at(900);
        assert_eq!(lease.check(), Ok(()));
        assert_eq!(lease.renewed(ms(100), ms(1_000)), Ok(()));
        at(1_099);
        assert_eq!(lease.check(), Ok(()));
        at(1_100);
        assert_eq!(lease.check(), Err(Over::Expired));
    }

    #[test]
    fn t_04_a_late_acknowledgement_does_not_revive_it() {
        let lease = lease();
        lease.renewed(ms(0), ms(1_000)).unwrap();
        at(1_000);
        assert_eq!(lease.renewed(ms(990), ms(1_000)), Err(Over::Expired));
        assert_eq!(lease.check(), Err(Over::Expired));
        lease.refuse();
        assert_eq!(lease.check(), Err(Over::Expired), "the first reason stands");
    }

    #[test]
    fn acknowledgements_out_of_order_never_shorten_it() {
        let lease = lease();
        lease.renewed(ms(500), ms(1_000)).unwrap();
        lease.renewed(ms(100), ms(1_000)).unwrap();
        at(1_400);
        assert_eq!(lease.check(), Ok(()));
    }

    #[test]
    fn n_02_an_end_within_the_lease_may_be_told_after_it_but_not_for_ever() {
        let lease = lease();
        lease.renewed(ms(0), ms(1_000)).unwrap();
        at(999);
        assert_eq!(lease.settle(), Ok(()));
        at(1_000);
        assert_eq!(lease.check(), Ok(()));
        at(999 + 60 * 60 * 1_000 - 1);
        assert_eq!(lease.settle(), Ok(()), "said again, it does not last longer");
        at(999 + 60 * 60 * 1_000);
        assert_eq!(lease.check(), Err(Over::Expired));
    }

    #[tokio::test]
    async fn n_02_an_end_after_the_lease_is_not_told() {
        let lease = lease();
        lease.renewed(ms(0), ms(1_000)).unwrap();
        at(1_000);
        assert_eq!(lease.settle(), Err(Over::Expired));
        lease.lapsed().await;
    }

    #[tokio::test]
    async fn a_refusal_ends_it_at_once() {
        let lease = lease();
        lease.renewed(ms(0), ms(1_000)).unwrap();
        lease.refuse();
        assert_eq!(lease.check(), Err(Over::Refused));
        assert_eq!(lease.over().await, Over::Refused);
    }
}
