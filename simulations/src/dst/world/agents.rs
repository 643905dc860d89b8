//! Agents beside the programs. An agent obeys its own lease: it counts from the moment it sent the last renewal that
//! was acknowledged, and kills its program when that is over, whatever else it hears.
//!
//! ```text
//! Booting -> Registering -> Setup -> Restoring -> Running <-> Saving -> Exited
//!                    any -> Killing -> Exited (told to stop) | Silent (lease over, or its epoch is)
//! ```
//!
//! This file is its life; `link` is how it speaks to the scheduler, `program` what it looks after, `breaks` what befalls it.

use std::collections::{BTreeMap, VecDeque};

use leeway_core::event::Event;
use leeway_core::reply::{Assignment, Reply};
use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::{Millis, RunId, Timestamp};

use crate::dst::run::{Happening, Simulation};
use crate::dst::world::programs::Nature;

mod breaks;
mod link;
mod program;

const BEAT: Millis = Millis::from_secs(15);
const RESEND: Millis = Millis::from_secs(5);
/// What a killed program leaves behind.
const KILLED: i32 = 143;

#[derive(Debug)]
pub enum Tick {
    Start,
    Beat,
    Resend(u64),
    /// The next turn of whatever it is doing; stale when the turn has changed.
    Turn(u64),
    Uploaded {
        seq: u64,
        step: u64,
        last: bool,
    },
    DrainOver,
    Answer {
        message: u64,
        reply: Box<Reply>,
    },
    Thaw,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    Booting,
    Registering,
    Setup,
    Restoring,
    /// Found its checkpoint damaged and asked for another.
    Asking,
    /// Waits for the other ranks of its gang, with what it restored.
    Gathering(Option<CheckpointId>, u64),
    Running,
    Saving {
        step: u64,
        last: bool,
    },
    /// The program has its last seconds; then the exit is told, or nothing.
    Killing {
        tell: bool,
    },
    Exited,
    Silent,
}

#[derive(Debug)]
pub struct Agent {
    pub run: RunId,
    pub rank: u32,
    pub mode: Mode,
    assignment: Option<Assignment>,
    nature: Nature,
    pub lease_until: Timestamp,
    outbox: VecDeque<(u64, Event)>,
    serial: u64,
    /// Messages under way: when sent, and which of the outbox they carry.
    sent: BTreeMap<u64, (Timestamp, Option<u64>)>,
    messages: u64,
    turn: u64,
    base: u64,
    since: Timestamp,
    next_save: Option<u64>,
    fail: Option<(u64, i32)>,
    restore: Option<CheckpointRef>,
    next_seq: u64,
    drain: Option<bool>,
    pub frozen_until: Timestamp,
    /// The whole machine stands still, not only the agent.
    machine_frozen: bool,
    pub up_blocked_until: Timestamp,
    pub down_blocked_until: Timestamp,
}

impl Agent {
    /// The step its program is at.
    fn step(&self, now: Timestamp) -> u64 {
        match self.mode {
            Mode::Running | Mode::Killing { .. } if !self.machine_frozen => {
                let done = now.since(self.since).as_millis() / self.nature.step_time.as_millis().max(1);
                (self.base + done).min(self.nature.steps)
            }
            _ => self.base,
        }
    }

    fn has_program(&self) -> bool {
        matches!(self.mode, Mode::Running | Mode::Saving { .. } | Mode::Killing { .. })
    }
}

impl Simulation {
    pub(crate) fn start_agent(&mut self, instance: u64, run: RunId, rank: u32) {
        let zero = Timestamp::ZERO;
        let agent = Agent {
            run,
            rank,
            mode: Mode::Booting,
            assignment: None,
            nature: Nature::default(),
            lease_until: zero,
            outbox: VecDeque::new(),
            serial: 0,
            sent: BTreeMap::new(),
            messages: 0,
            turn: 0,
            base: 0,
            since: zero,
            next_save: None,
            fail: None,
            restore: None,
            next_seq: 1,
            drain: None,
            frozen_until: zero,
            machine_frozen: false,
            up_blocked_until: zero,
            down_blocked_until: zero,
        };
        self.agents.insert(instance, agent);
        self.agent_tick(instance, Millis::ZERO, Tick::Start);
    }

    /// The machine is gone.
    pub(crate) fn agent_dies(&mut self, instance: u64) {
        let now = self.kernel.now();
        if let Some(agent) = self.agents.remove(&instance)
            && agent.has_program()
        {
            self.reach(agent.run, agent.step(now));
        }
        self.programs.executing.remove(&instance);
    }

    fn reach(&mut self, run: RunId, step: u64) {
        let reached = self.programs.reached.entry(run).or_default();
        *reached = (*reached).max(step);
    }

    fn agent_tick(&mut self, instance: u64, wait: Millis, tick: Tick) {
        self.kernel.after(wait, Happening::Agent { instance, tick });
    }

    fn next_turn(&mut self, instance: u64, wait: Millis) {
        if let Some(agent) = self.agents.get_mut(&instance) {
            agent.turn += 1;
            let turn = agent.turn;
            self.agent_tick(instance, wait, Tick::Turn(turn));
        }
    }

    pub(crate) fn on_agent(&mut self, instance: u64, tick: Tick) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        if now < agent.frozen_until {
            let at = agent.frozen_until;
            self.kernel.at(at, Happening::Agent { instance, tick });
            return;
        }
        // On a clock that counts suspend: the lease is looked at before anything else.
        if agent.assignment.is_some()
            && now >= agent.lease_until
            && !matches!(agent.mode, Mode::Silent | Mode::Killing { .. })
        {
            self.lease_over(instance);
        }
        self.thaw(instance);
        match tick {
            Tick::Start => {
                self.set_mode(instance, Mode::Registering);
                let Some(agent) = self.agents.get(&instance) else { return };
                let identity = format!("i-{instance}").into_boxed_str();
                let event = Event::AgentRegistered { run: agent.run, rank: agent.rank, identity };
                self.push(instance, event);
                self.agent_tick(instance, BEAT, Tick::Beat);
            }
            Tick::Beat => self.beat(instance),
            Tick::Resend(serial) => self.resend(instance, serial),
            Tick::Turn(turn) => {
                if self.agents.get(&instance).is_some_and(|agent| agent.turn == turn) {
                    self.on_turn(instance);
                }
            }
            Tick::Uploaded { seq, step, last } => self.uploaded(instance, seq, step, last),
            Tick::DrainOver => {
                let draining = self.agents.get(&instance).is_some_and(|a| a.drain.is_some() && a.has_program());
                if draining {
                    self.kill(instance, true, Millis::from_secs(3));
                }
            }
            Tick::Answer { message, reply } => self.on_answer(instance, message, *reply),
            Tick::Thaw => {}
        }
    }

    fn set_mode(&mut self, instance: u64, mode: Mode) {
        if let Some(agent) = self.agents.get_mut(&instance) {
            agent.mode = mode;
        }
    }
}
