//! An agent's link to the scheduler: an outbox that is sent again until it is answered, over a network that loses,
//! doubles, delays and reorders; and what the answers make the agent do.

use leeway_core::Directive;
use leeway_core::event::Event;
use leeway_core::reply::Reply;
use leeway_model::job::Progress;
use leeway_model::{Millis, RunId};

use super::{BEAT, KILLED, Mode, RESEND, Tick};
use crate::dst::run::{Happening, Simulation};
use crate::dst::shell::Caller;

impl Simulation {
    /// Puts something in the outbox; it is sent again until it is answered, one after the other.
    pub(super) fn push(&mut self, instance: u64, event: Event) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.serial += 1;
        let serial = agent.serial;
        agent.outbox.push_back((serial, event));
        if agent.outbox.len() == 1 {
            self.resend(instance, serial);
        }
    }

    pub(super) fn resend(&mut self, instance: u64, serial: u64) {
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
    pub(super) fn send(&mut self, instance: u64, event: Event, serial: Option<u64>) {
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

    pub(super) fn latency(&mut self) -> Millis {
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

    pub(super) fn beat(&mut self, instance: u64) {
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

    pub(super) fn renew(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        let progress = match agent.has_program() || agent.mode == Mode::Exited {
            true => Progress { step: agent.step(now), total: Some(agent.nature.steps) },
            false => Progress::default(),
        };
        let event = Event::LeaseRenewed { run: agent.run, rank: agent.rank, progress };
        self.send(instance, event, None);
    }

    pub(super) fn on_answer(&mut self, instance: u64, message: u64, reply: Reply) {
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

    pub(super) fn obey(&mut self, instance: u64, directive: Directive) {
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
}
