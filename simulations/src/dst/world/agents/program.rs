//! The program beside an agent: restored, gathered with its gang, running, saving, and ending by itself or by a signal.

use leeway_core::event::{Event, Phase, Shard};
use leeway_core::reply::Assignment;
use leeway_model::checkpoint::CheckpointId;
use leeway_model::{JobId, Millis};

use super::{Agent, KILLED, Mode, Tick};
use crate::dst::run::Simulation;
use crate::dst::world::programs::Stored;

impl Simulation {
    pub(super) fn assigned(&mut self, instance: u64, assignment: Assignment) {
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

    pub(super) fn on_turn(&mut self, instance: u64) {
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

    pub(super) fn restore(&mut self, instance: u64) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.mode = Mode::Restoring;
        let wait = if agent.restore.is_some() { agent.nature.restore_time } else { Millis::new(10) };
        self.next_turn(instance, wait);
    }

    /// The newest checkpoint is here: verified, or found damaged.
    pub(super) fn restored(&mut self, instance: u64) {
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
    pub(super) fn gather(&mut self, instance: u64, restored: Option<CheckpointId>, step: u64) {
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

    pub(super) fn begin(&mut self, instance: u64, restored: Option<CheckpointId>, step: u64) {
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

    pub(super) fn plan_program(&mut self, instance: u64) {
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

    pub(super) fn program_turn(&mut self, instance: u64) {
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

    pub(super) fn save(&mut self, instance: u64, step: u64, last: bool) {
        let Some(agent) = self.agents.get_mut(&instance) else { return };
        agent.base = step;
        agent.mode = Mode::Saving { step, last };
        let (run, wait) = (agent.run, agent.nature.save_time);
        self.reach(run, step);
        self.next_turn(instance, wait);
    }

    pub(super) fn saved(&mut self, instance: u64, step: u64, last: bool) {
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

    pub(super) fn uploaded(&mut self, instance: u64, seq: u64, step: u64, last: bool) {
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

    pub(super) fn exit(&mut self, instance: u64, code: i32) {
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
    pub(super) fn kill(&mut self, instance: u64, tell: bool, grace: Millis) {
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

    pub(super) fn lease_over(&mut self, instance: u64) {
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
