//! The simulated shell around the engine: group commit, crashes, restarts, and a clock that never runs back.
//!
//! It stands where the daemon's driver loop stands: it stamps `now`, steps the engine, commits, and only then answers
//! callers and hands actions to the world. A crash loses what was not committed and everything in memory.

use leeway_core::reply::Reply;
use leeway_core::{Action, Event, Scheduler};
use leeway_engine::Engine;
use leeway_model::{Millis, Timestamp};
use leeway_store::{FaultyStore, Index, MemoryStore, SeededPlan};

use crate::dst::run::{Happening, Simulation};

/// Who brought an event and wants the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Client(usize),
    Agent {
        instance: u64,
        message: u64,
    },
    /// The driver, the feed, the deliverer: parts of the same process, lost with it in a crash.
    Inside,
}

/// Where a planned crash strikes: counted in steps of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashAt {
    pub step: u64,
    /// Before the step is durable; else after, with its actions not yet handed out.
    pub before_commit: bool,
}

type Machine = Engine<FaultyStore<MemoryStore, SeededPlan>, Caller>;

#[derive(Debug)]
pub struct Shell {
    engine: Option<Machine>,
    /// The disk while the process is down.
    disk: Option<MemoryStore>,
    pub incarnation: u64,
    /// The clock read at the last start, and the true time of that moment. In between only durations count.
    base: (Timestamp, Timestamp),
    commit_planned: bool,
    wake_planned: Option<Timestamp>,
    /// Steps so far, over all incarnations.
    pub steps: u64,
    pub crashes: u64,
    /// When the process died.
    pub died: Vec<Timestamp>,
    pub crash_at: Option<CrashAt>,
    /// True time of each durable entry, by index from 1.
    pub true_times: Vec<Timestamp>,
}

impl Shell {
    pub fn new(start: Timestamp) -> Self {
        Self {
            engine: None,
            disk: Some(MemoryStore::new()),
            incarnation: 0,
            base: (start, start),
            commit_planned: false,
            wake_planned: None,
            steps: 0,
            crashes: 0,
            died: Vec::new(),
            crash_at: None,
            true_times: Vec::new(),
        }
    }

    pub fn is_up(&self) -> bool {
        self.engine.is_some()
    }

    /// The scheduler, while the process is up.
    pub fn scheduler(&self) -> Option<&Scheduler> {
        self.engine.as_ref().map(Engine::scheduler)
    }

    pub fn engine(&self) -> Option<&Machine> {
        self.engine.as_ref()
    }

    /// The clock of the shell at a true instant.
    pub fn time_at(&self, real: Timestamp) -> Timestamp {
        self.base.0.after(real.since(self.base.1))
    }

    /// The wall clock is set while the process runs: forward, or back by a negative length.
    pub fn jump(&mut self, millis: i64) {
        self.base.0 = Timestamp::from_millis(self.base.0.as_millis() + millis);
    }

    /// The true instant at which the clock of the shell will show `at`.
    pub fn real(&self, at: Timestamp) -> Timestamp {
        self.base.1.after(at.since(self.base.0))
    }
}

impl Simulation {
    /// Opens the engine from what the disk holds and issues again what had no outcome.
    pub(crate) fn start_scheduler(&mut self) {
        let Some(disk) = self.shell.disk.take() else { return };
        let now = self.kernel.now();
        let jump = self.faults.clock_jump.as_millis();
        let offset = self.luck.below(2 * jump + 1) as i64 - jump as i64;
        let wall = Timestamp::from_millis(now.as_millis() + if jump == 0 { 0 } else { offset });
        let plan = SeededPlan::new(self.luck.next_u64(), self.faults.flush_fails, 0, 0);
        let store = FaultyStore::new(disk, plan);
        let opened = Engine::open(store, self.config.clone(), leeway_policies::all(), wall);
        let (engine, actions) = opened.expect("a store that only crashed opens again");
        self.shell.base = (engine.now(), now);
        self.shell.incarnation += 1;
        self.shell.commit_planned = false;
        self.shell.wake_planned = None;
        self.cloud.driver_starts(now);
        self.shell.engine = Some(engine);
        self.check_promises();
        for action in actions {
            self.act(action);
        }
        self.plan_wake();
    }

    /// The process dies: memory is gone, and so is what was not flushed.
    pub fn crash(&mut self, down: Millis) {
        let Some(engine) = self.shell.engine.take() else { return };
        self.shell.crashes += 1;
        self.shell.died.push(self.kernel.now());
        self.trace(|| format!("the scheduler dies for {down}"));
        let disk = engine.into_store().crash().crash();
        // A flush that failed may have made some entries durable all the same.
        let (durable, now) = (leeway_store::Store::head(&disk).index as usize, self.kernel.now());
        self.shell.true_times.resize(durable, now);
        self.shell.disk = Some(disk);
        self.kernel.after(down, Happening::Restart);
    }

    /// An event reaches the process, if there is one.
    pub(crate) fn arrive(&mut self, caller: Caller, event: Event, incarnation: Option<u64>) {
        if incarnation.is_some_and(|incarnation| incarnation != self.shell.incarnation) {
            return;
        }
        let now = self.shell.time_at(self.kernel.now());
        self.trace(|| format!("-> {caller:?} {event:?}"));
        let Some(engine) = self.shell.engine.as_mut() else { return };
        let staged = engine.step(now, event, caller).is_ok();
        self.shell.steps += 1;
        if !staged {
            self.crash_for_a_while();
            return;
        }
        if self.settings.check_every > 0 && self.shell.steps.is_multiple_of(self.settings.check_every) {
            leeway_core::invariants::check(engine.scheduler());
        }
        let planned = self.shell.crash_at.filter(|at| at.step == self.shell.steps);
        let by_chance = self.luck.chance(self.faults.crash);
        if planned.is_some() || by_chance {
            let before = planned.map_or_else(|| self.luck.below(2) == 0, |at| at.before_commit);
            if !before {
                let now = self.kernel.now();
                if let Some(engine) = self.shell.engine.as_mut()
                    && let Ok(released) = engine.commit()
                {
                    released
                        .iter()
                        .filter_map(|released| released.index)
                        .for_each(|index| self.shell.stamp(index, now));
                }
            }
            self.crash_for_a_while();
            return;
        }
        if !self.shell.commit_planned {
            self.shell.commit_planned = true;
            let incarnation = self.shell.incarnation;
            let wait = Millis::new(self.luck.below(4));
            self.kernel.after(wait, Happening::Commit { incarnation });
        }
    }

    fn crash_for_a_while(&mut self) {
        let (low, high) = self.faults.down;
        let down = self.luck.millis(low.max(Millis::from_secs(1)), high.max(Millis::from_secs(1)));
        self.crash(down);
    }

    /// Makes the staged steps durable, then answers and acts.
    pub(crate) fn commit(&mut self, incarnation: u64) {
        if incarnation != self.shell.incarnation {
            return;
        }
        self.shell.commit_planned = false;
        let Some(engine) = self.shell.engine.as_mut() else { return };
        let Ok(released) = engine.commit() else {
            self.crash_for_a_while();
            return;
        };
        let now = self.kernel.now();
        for released in released {
            if let Some(index) = released.index {
                self.shell.stamp(index, now);
            }
            let caller = released.tag;
            for action in released.actions {
                match action {
                    Action::Reply(reply) => self.answer(caller, reply),
                    action => self.act(action),
                }
            }
        }
        self.check_committed();
        self.plan_wake();
    }

    /// Sees to it that the scheduler is woken in time.
    fn plan_wake(&mut self) {
        let Some(at) = self.shell.engine.as_ref().and_then(Engine::next_wakeup) else { return };
        let real = self.shell.real(at).max(self.kernel.now());
        if self.shell.wake_planned.is_none_or(|planned| real < planned) {
            self.shell.wake_planned = Some(real);
            let incarnation = self.shell.incarnation;
            self.kernel.at(real, Happening::Wake { incarnation });
        }
    }

    pub(crate) fn wake(&mut self, incarnation: u64) {
        if incarnation != self.shell.incarnation || self.shell.wake_planned != Some(self.kernel.now()) {
            return;
        }
        self.shell.wake_planned = None;
        let due = self.shell.engine.as_ref().and_then(Engine::next_wakeup);
        if due.is_some_and(|due| due <= self.shell.time_at(self.kernel.now())) {
            self.arrive(Caller::Inside, Event::Woke, Some(incarnation));
        } else {
            self.plan_wake();
        }
    }

    /// A line of what happens, for a person who replays a seed.
    pub(crate) fn trace(&self, line: impl FnOnce() -> String) {
        if self.settings.trace {
            println!("{} {}", self.kernel.now(), line());
        }
    }

    fn answer(&mut self, caller: Caller, reply: Reply) {
        self.trace(|| format!("<- {caller:?} {reply:?}"));
        match caller {
            Caller::Inside => {
                if let Reply::Refused(refused) = &reply {
                    self.refused_inside.push(refused.code);
                }
            }
            Caller::Client(number) => {
                if !self.luck.chance(self.faults.lost) {
                    self.kernel.after(Millis::new(5), Happening::Answer { number, reply });
                }
            }
            Caller::Agent { instance, message } => self.answer_agent(instance, message, reply),
        }
    }

    /// Hands one action to the world.
    fn act(&mut self, action: Action) {
        self.trace(|| format!("<- {action:?}"));
        match action {
            Action::Reply(_) => {}
            Action::Launch(order) => self.order_launch(order),
            Action::Stop { run, .. } => self.order_stop(run),
            Action::Signal { run } => self.signal(run),
            Action::Deliver { delivery, notification, .. } => {
                let fails = self.luck.chance(self.faults.receiver_fails);
                let outcome = self.receiver.receive(delivery, notification, fails);
                let wait = Millis::new(self.luck.between(10, 3_000));
                self.inside(wait, Event::DeliveryFinished { delivery, outcome });
            }
            Action::DeleteCheckpoint { job, checkpoint } => self.delete_checkpoint(job, checkpoint.id),
        }
    }

    /// Plans an event from a part of the process itself.
    pub fn inside(&mut self, wait: Millis, event: Event) {
        let incarnation = Some(self.shell.incarnation);
        self.kernel.after(wait, Happening::Arrive { caller: Caller::Inside, event, incarnation });
    }
}

impl Shell {
    fn stamp(&mut self, index: Index, now: Timestamp) {
        debug_assert_eq!(self.true_times.len() as u64 + 1, index, "entries become durable in order");
        self.true_times.push(now);
    }
}
