//! Agents beside the programs. An agent obeys its own lease: it counts from the moment it sent the last renewal that
//! was acknowledged, and kills its program when that is over, whatever else it hears.
//!
//! ```text
//! Booting -> Registering -> Setup -> Restoring -> Running <-> Saving -> Exited
//!                    any -> Killing -> Exited (told to stop) | Silent (lease over, or its epoch is)
//! ```

use std::collections::{BTreeMap, VecDeque};

use leeway_core::Directive;
use leeway_core::event::{Event, Phase, Shard};
use leeway_core::reply::{Assignment, Reply};
use leeway_model::checkpoint::{CheckpointId, CheckpointRef};
use leeway_model::job::Progress;
use leeway_model::{JobId, Millis, RunId, Timestamp};

use crate::run::{Happening, Simulation};
use crate::shell::Caller;
use crate::world::programs::{Nature, Stored};

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

    // ----- Messages. -----

    /// Puts something in the outbox; it is sent again until it is answered, one after the other.
    fn push(&mut self, instance: u64, event: Event) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.serial += 1;
        let serial = agent.serial;
        agent.outbox.push_back((serial, event));
        if agent.outbox.len() == 1 {
            self.resend(instance, serial);
        }
    }

    fn resend(&mut self, instance: u64, serial: u64) {
        let Some(agent) = self.agents.get(&instance).filter(|agent| agent.mode != Mode::Silent) else { return };
        let Some((head, event)) = agent.outbox.front() else { return };
        if *head != serial {
            return;
        }
        let event = event.clone();
        self.send(instance, event, Some(serial));
        self.agent_tick(instance, RESEND, Tick::Resend(serial));
    }

    /// Sends one message into a network that may lose, double, delay or reorder it.
    fn send(&mut self, instance: u64, event: Event, serial: Option<u64>) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.messages += 1;
        let message = agent.messages;
        agent.sent.insert(message, (now, serial));
        while agent.sent.len() > 64 {
            agent.sent.pop_first();
        }
        if now < agent.up_blocked_until || self.net.chance(self.faults.lost) {
            return;
        }
        let copies = 1 + u32::from(self.net.chance(self.faults.duplicated));
        for _ in 0..copies {
            let wait = self.latency();
            let caller = Caller::Agent { instance, message };
            self.kernel.after(wait, Happening::Arrive { caller, event: event.clone(), incarnation: None });
        }
    }

    fn latency(&mut self) -> Millis {
        if self.net.chance(self.faults.delayed) {
            return self.net.millis(Millis::ZERO, self.faults.delay_max);
        }
        self.net.millis(Millis::new(2), Millis::new(150))
    }

    pub(crate) fn answer_agent(&mut self, instance: u64, message: u64, reply: Reply) {
        self.note_acknowledged(instance, &reply);
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        if now < agent.down_blocked_until || self.net.chance(self.faults.lost) {
            return;
        }
        let wait = self.latency();
        self.agent_tick(instance, wait, Tick::Answer { message, reply: Box::new(reply) });
    }

    /// The server woke the agents of a run: they look at their directives at once.
    pub(crate) fn signal(&mut self, run: RunId) {
        let of_run: Vec<u64> = self.cloud.of_run(run).map(|(id, _)| id).collect();
        for instance in of_run {
            let now = self.kernel.now();
            let Some(agent) = self.agents.get(&instance) else { continue };
            if agent.assignment.is_some() && now >= agent.down_blocked_until && now >= agent.frozen_until {
                self.renew(instance);
            }
        }
    }

    fn beat(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        if agent.mode == Mode::Silent {
            return;
        }
        if agent.assignment.is_some() {
            self.renew(instance);
        }
        self.agent_tick(instance, BEAT, Tick::Beat);
        if self.luck.chance(self.faults.partition) {
            let length = self.luck.millis(Millis::from_secs(5), self.faults.partition_max);
            let ways = self.luck.below(3);
            self.block(instance, length, ways != 1, ways != 0);
        }
        if self.luck.chance(self.faults.freeze) {
            let length = self.luck.millis(Millis::from_secs(5), self.faults.freeze_max);
            let machine = self.luck.below(4) > 0;
            self.freeze(instance, now.after(length), machine);
        }
    }

    /// Breaks an agent's link to the scheduler, one way or both.
    pub fn block(&mut self, instance: u64, length: Millis, up: bool, down: bool) {
        let until = self.kernel.now().after(length);
        if let Some(agent) = self.agents.get_mut(&instance) {
            agent.up_blocked_until = if up { until } else { agent.up_blocked_until };
            agent.down_blocked_until = if down { until } else { agent.down_blocked_until };
        }
    }

    /// Freezes a machine, or its agent only.
    pub fn freeze(&mut self, instance: u64, until: Timestamp, machine: bool) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        if now < agent.frozen_until {
            return;
        }
        agent.base = agent.step(now);
        agent.since = now;
        agent.frozen_until = until;
        let (run, step, running) = (agent.run, agent.base, agent.has_program());
        if machine {
            agent.machine_frozen = true;
            self.programs.executing.remove(&instance);
        } else if running {
            self.programs.lease_broken.insert(run);
        }
        if running {
            self.reach(run, step);
        }
        self.kernel.at(until, Happening::Agent { instance, tick: Tick::Thaw });
    }

    /// A machine that stood still goes on, if its agent still lets it.
    fn thaw(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        if !std::mem::take(&mut agent.machine_frozen) {
            return;
        }
        agent.since = now;
        if agent.has_program() && !matches!(agent.mode, Mode::Killing { .. }) {
            self.executes(instance);
            if self.agents.get(&instance).is_some_and(|agent| agent.mode == Mode::Running) {
                self.plan_program(instance);
            }
        }
    }

    fn renew(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        let progress = match agent.has_program() || agent.mode == Mode::Exited {
            true => Progress { step: agent.step(now), total: Some(agent.nature.steps) },
            false => Progress::default(),
        };
        let event = Event::LeaseRenewed { run: agent.run, rank: agent.rank, progress };
        self.send(instance, event, None);
    }

    fn on_answer(&mut self, instance: u64, message: u64, reply: Reply) {
        let now = self.kernel.now();
        let ttl = self.config.lease.ttl;
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        let Some((sent, serial)) = agent.sent.remove(&message) else { return };
        if agent.mode == Mode::Silent || matches!(agent.mode, Mode::Killing { tell: false }) {
            return;
        }
        if let Reply::Refused(refused) = &reply
            && matches!(refused.code, "STALE_EPOCH" | "RANK_TAKEN" | "NOT_FOUND")
        {
            return self.kill(instance, false, self.config.lease.kill_grace);
        }
        if let Reply::Renewed { directive } = reply {
            agent.lease_until = agent.lease_until.max(sent.after(ttl));
            return self.obey(instance, directive);
        }
        let is_head = serial.is_some() && agent.outbox.front().map(|(head, _)| *head) == serial;
        if !is_head {
            return;
        }
        if let Reply::Committed(verdict) = &reply
            && !verdict.committed
        {
            // Other ranks are awaited, and a restart of the scheduler forgets this one: tell it again until all are in,
            // unless something newer waits to be told.
            if agent.outbox.len() == 1 {
                return;
            }
        }
        if let Reply::Assigned(assignment) = reply {
            if sent.after(ttl) <= now {
                return;
            }
            agent.outbox.pop_front();
            agent.lease_until = sent.after(ttl);
            return self.assigned(instance, *assignment);
        }
        let answered = agent.outbox.pop_front();
        let next = agent.outbox.front().map(|(serial, _)| *serial);
        let draining = agent.drain.is_some();
        if let Some(serial) = next {
            self.resend(instance, serial);
        }
        match (answered, reply) {
            (Some((_, Event::DamageReported { .. })), Reply::TryInstead(next)) => {
                if let Some(agent) = self.agents.get_mut(&instance) {
                    agent.restore = next;
                }
                self.restore(instance);
            }
            (Some((_, Event::CheckpointPublished { .. })), _) if draining => {
                let saved = self.agents.get(&instance).is_some_and(|agent| agent.mode == Mode::Running);
                if saved {
                    self.kill(instance, true, Millis::from_secs(1));
                }
            }
            _ => {}
        }
    }

    fn obey(&mut self, instance: u64, directive: Directive) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        match directive {
            Directive::Run { .. } => {}
            Directive::Stop => {
                if matches!(agent.mode, Mode::Setup | Mode::Restoring | Mode::Asking | Mode::Gathering(..)) {
                    self.exit(instance, KILLED);
                } else if agent.has_program() {
                    self.kill(instance, true, self.config.lease.kill_grace);
                }
            }
            Directive::Drain { deadline, save, .. } => {
                if agent.drain.is_some() || !agent.has_program() {
                    return;
                }
                agent.drain = Some(save);
                let left = self.shell.real(deadline).since(now).saturating_sub(Millis::from_secs(3));
                self.agent_tick(instance, left, Tick::DrainOver);
                let Some(agent) = self.agents.get_mut(&instance) else { return };
                match &mut agent.mode {
                    Mode::Running if save && agent.next_save.is_some() => {
                        let step = agent.step(now);
                        self.save(instance, step, true);
                    }
                    Mode::Saving { last, .. } => *last = true,
                    Mode::Running => self.kill(instance, true, Millis::from_secs(1)),
                    _ => {}
                }
            }
        }
    }

    // ----- The program. -----

    fn assigned(&mut self, instance: u64, assignment: Assignment) {
        let nature = self.programs.nature(assignment.spec.name.as_str());
        let setup = nature.setup_time;
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.nature = nature;
        agent.next_seq = assignment.next_seq;
        agent.restore = assignment.restore.clone();
        agent.mode = Mode::Setup;
        let (run, rank) = (agent.run, agent.rank);
        agent.assignment = Some(assignment);
        self.push(instance, Event::PhaseReported { run, rank, phase: Phase::Setup });
        self.next_turn(instance, setup);
    }

    fn on_turn(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        let (run, rank) = (agent.run, agent.rank);
        match agent.mode.clone() {
            Mode::Setup => {
                if agent.restore.is_some() {
                    self.push(instance, Event::PhaseReported { run, rank, phase: Phase::Restoring });
                }
                self.restore(instance);
            }
            Mode::Restoring => self.restored(instance),
            Mode::Gathering(restored, step) => self.gather(instance, restored, step),
            Mode::Running => self.program_turn(instance),
            Mode::Saving { step, last } => self.saved(instance, step, last),
            Mode::Exited => self.push(instance, Event::ExitReported { run, rank, exit_code: 0 }),
            Mode::Killing { tell } => {
                let step = agent.step(now);
                self.reach(run, step);
                if tell {
                    self.exit(instance, KILLED);
                } else {
                    self.programs.executing.remove(&instance);
                    self.set_mode(instance, Mode::Silent);
                }
            }
            _ => {}
        }
    }

    fn restore(&mut self, instance: u64) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.mode = Mode::Restoring;
        let wait = if agent.restore.is_some() { agent.nature.restore_time } else { Millis::new(10) };
        self.next_turn(instance, wait);
    }

    /// The newest checkpoint is here: verified, or found damaged.
    fn restored(&mut self, instance: u64) {
        let Some(agent) = self.agents.get(&instance) else { return };
        let (run, rank) = (agent.run, agent.rank);
        let Some(reference) = agent.restore.clone() else { return self.gather(instance, None, 0) };
        let stored = self.programs.stored.get(&(run.job, reference.id, rank));
        if stored.is_none_or(|stored| stored.damaged) {
            assert!(stored.is_some(), "K11: {run} was told to restore {:?}, which retention has deleted", reference.id);
            self.programs.doubtful.insert(run.job);
            let (checkpoint, detail) = (reference.id, "digest mismatch in the simulated store".into());
            self.set_mode(instance, Mode::Asking);
            return self.push(instance, Event::DamageReported { run, rank, checkpoint, detail });
        }
        self.gather(instance, Some(reference.id), reference.step);
    }

    /// A gang's programs begin together.
    fn gather(&mut self, instance: u64, restored: Option<CheckpointId>, step: u64) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.mode = Mode::Gathering(restored, step);
        let run = agent.run;
        let nodes = agent.assignment.as_ref().map_or(1, |assignment| assignment.spec.nodes) as usize;
        let here = |agent: &&Agent| agent.has_program() || matches!(agent.mode, Mode::Gathering(..) | Mode::Exited);
        let gathered = self.cloud.of_run(run).filter_map(|(id, _)| self.agents.get(&id)).filter(here).count();
        if gathered >= nodes {
            self.begin(instance, restored, step);
        } else {
            self.next_turn(instance, Millis::from_secs(2));
        }
    }

    fn begin(&mut self, instance: u64, restored: Option<CheckpointId>, step: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        let (run, rank) = (agent.run, agent.rank);
        if rank == 0 {
            self.note_start(run, restored, step);
        }
        let starts = self.programs.starts.get(&run.job).map_or(0, Vec::len);
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.mode = Mode::Running;
        agent.base = step;
        agent.since = now;
        let assignment = agent.assignment.as_ref();
        let interval = assignment.and_then(|assignment| assignment.interval);
        let saves = assignment.is_some_and(|assignment| assignment.spec.checkpoint.is_some());
        let every = interval.map(|interval| (interval.as_millis() / agent.nature.step_time.as_millis().max(1)).max(1));
        agent.next_save = if saves { every.map(|every| step + every) } else { None };
        let code = agent.nature.fails.get(starts.saturating_sub(1)).copied().flatten().filter(|_| rank == 0);
        agent.fail = code.map(|code| (step + 2, code));
        if code.is_some() && restored.is_some() {
            self.programs.doubtful.insert(run.job);
        }
        self.executes(instance);
        self.push(instance, Event::PhaseReported { run, rank, phase: Phase::Running { restored } });
        self.plan_program(instance);
    }

    fn plan_program(&mut self, instance: u64) {
        let Some(agent) = self.agents.get(&instance) else { return };
        let mut target = agent.nature.steps;
        if let Some(save) = agent.next_save {
            target = target.min(save);
        }
        if let Some((fail, _)) = agent.fail {
            target = target.min(fail);
        }
        let wait = agent.nature.step_time.saturating_mul(target.saturating_sub(agent.base));
        self.next_turn(instance, wait);
    }

    fn program_turn(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        let step = agent.step(now);
        let (run, steps, fail, save) = (agent.run, agent.nature.steps, agent.fail, agent.next_save);
        agent.base = step;
        agent.since = now;
        self.reach(run, step);
        if let Some((_, code)) = fail.filter(|(at, _)| step >= *at) {
            return self.exit(instance, code);
        }
        if step >= steps {
            return self.exit(instance, 0);
        }
        if save.is_some_and(|save| step >= save) {
            return self.save(instance, step, false);
        }
        self.plan_program(instance);
    }

    fn save(&mut self, instance: u64, step: u64, last: bool) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.base = step;
        agent.mode = Mode::Saving { step, last };
        let (run, wait) = (agent.run, agent.nature.save_time);
        self.reach(run, step);
        self.next_turn(instance, wait);
    }

    fn saved(&mut self, instance: u64, step: u64, last: bool) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.mode = Mode::Running;
        agent.since = now;
        let seq = agent.next_seq;
        agent.next_seq += 1;
        let interval = agent.assignment.as_ref().and_then(|assignment| assignment.interval).unwrap_or_default();
        let every = (interval.as_millis() / agent.nature.step_time.as_millis().max(1)).max(1);
        agent.next_save = Some(step + every);
        let upload = agent.nature.upload_time;
        self.agent_tick(instance, upload, Tick::Uploaded { seq, step, last });
        if last {
            // It has nothing more to do than to see its checkpoint committed.
            if let Some(agent) = self.agents.get_mut(&instance) {
                agent.turn += 1;
            }
        } else {
            self.plan_program(instance);
        }
    }

    fn uploaded(&mut self, instance: u64, seq: u64, step: u64, last: bool) {
        let Some(agent) = self.agents.get(&instance) else { return };
        if matches!(agent.mode, Mode::Silent | Mode::Killing { .. } | Mode::Exited) && !last {
            return;
        }
        if !agent.has_program() || matches!(agent.mode, Mode::Killing { .. }) {
            return;
        }
        let (run, rank, nature) = (agent.run, agent.rank, agent.nature.clone());
        let mut manifest = [0; 32];
        let name = [run.job.0, run.epoch, seq, u64::from(rank) << 32 | (step & 0xffff_ffff)];
        for (slot, word) in manifest.chunks_exact_mut(8).zip(name) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        let damaged = self.luck.chance(self.faults.damage);
        let id = CheckpointId { epoch: run.epoch, seq };
        self.programs.stored.insert((run.job, id, rank), Stored { step, digest: manifest, damaged });
        let shard = Shard { seq, step, manifest, size: nature.size, save_time: nature.save_time };
        self.push(instance, Event::CheckpointPublished { run, rank, shard });
    }

    fn exit(&mut self, instance: u64, code: i32) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        let step = agent.step(now);
        agent.base = step;
        agent.mode = Mode::Exited;
        agent.turn += 1;
        let (run, rank) = (agent.run, agent.rank);
        self.reach(run, step);
        self.programs.executing.remove(&instance);
        if code == 0 {
            // The last progress goes first: an exit during a drain is a success only when all steps are known done.
            self.renew(instance);
            return self.next_turn(instance, Millis::new(400));
        }
        self.push(instance, Event::ExitReported { run, rank, exit_code: code });
    }

    /// SIGTERM now, SIGKILL after the grace; the program is over some time between.
    fn kill(&mut self, instance: u64, tell: bool, grace: Millis) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        if matches!(agent.mode, Mode::Silent) {
            return;
        }
        if !agent.has_program() {
            agent.mode = if tell { agent.mode.clone() } else { Mode::Silent };
            return;
        }
        if matches!(agent.mode, Mode::Killing { .. }) {
            return;
        }
        let now = self.kernel.now();
        agent.base = agent.step(now);
        agent.since = now;
        agent.mode = Mode::Killing { tell };
        let wait = Millis::new(self.luck.below(grace.as_millis() + 1));
        self.next_turn(instance, wait);
    }

    fn lease_over(&mut self, instance: u64) {
        self.kill(instance, false, self.config.lease.kill_grace);
    }

    pub(crate) fn delete_checkpoint(&mut self, job: JobId, id: CheckpointId) {
        let shards: Vec<_> = self.programs.stored.range((job, id, 0)..=(job, id, u32::MAX)).map(|(k, _)| *k).collect();
        for shard in shards {
            self.programs.stored.remove(&shard);
        }
        self.inside(Millis::new(500), Event::CheckpointDeleted { job, checkpoint: id });
    }
}
