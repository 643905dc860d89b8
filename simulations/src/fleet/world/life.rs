//! The life of a run: clouds, agents and programs as the scheduler meets them. Each run has one pending instant, that of
//! whatever it does next.

use leeway_core::event::{Event, Phase, Shard};
use leeway_core::{Directive, LaunchOrder};
use leeway_model::job::Progress;
use leeway_model::resources::CapacityType;
use leeway_model::run::LaunchErrorClass;
use leeway_model::{Bytes, Millis, RunId, Timestamp};
use leeway_store::Store;

use super::super::run::{Error, Fleet, Happening};
use super::program::Program;
use super::runs::{Doing, Standing};

/// What a killed program leaves behind.
const KILLED: i32 = 143;
/// An agent has ended its program this long before its machine goes.
const BEFORE_THE_END: Millis = Millis::from_secs(5);
/// Purposes of the luck of a run.
const PROVISION: u64 = 1;
const BOOT: u64 = 2;

impl<S: Store> Fleet<'_, S> {
    /// Machines are ordered.
    pub(in super::super) fn launch(&mut self, order: &LaunchOrder) {
        let key = (order.offer.cluster.clone(), order.offer.shape.clone());
        let Some(&place) = self.by_shape.get(&key) else { return };
        if self.runs.slot(order.run).is_some() {
            return;
        }
        let slot = self.runs.add(Standing {
            id: order.run,
            place,
            is_spot: order.offer.capacity == CapacityType::Spot,
            nodes: order.nodes,
            since: None,
            turn: 0,
            serial: 0,
            doing: Doing::Ordered,
            restore: None,
            transfers: 0,
        });
        let span = self.terms.provision;
        self.plan(slot, self.kernel.now().after(self.luck(order.run, PROVISION).millis(span.low, span.high)));
    }

    /// Sets the instant at which a run goes on; an earlier plan is void.
    fn plan(&mut self, slot: u32, at: Timestamp) {
        let Some(turn) = self.runs.next_turn(slot) else { return };
        self.kernel.at(at, Happening::Run { slot, turn });
    }

    pub(in super::super) fn on_run(&mut self, slot: u32, turn: u32) -> Result<(), Error> {
        let Some(run) = self.runs.get(slot).filter(|run| run.turn == turn) else { return Ok(()) };
        match run.doing {
            Doing::Ordered => self.provide(slot),
            Doing::Booting => self.stage(slot),
            Doing::Staging => Ok(()),
            Doing::Restoring => self.begin(slot),
            Doing::Program(program) if program.at(self.kernel.now()).work < program.last() => self.saved(slot, program),
            Doing::Program(program) => self.end_by_itself(slot, program),
            Doing::Doomed(program) => self.end_program(slot, program, KILLED),
            Doing::LastSave { program, work } => {
                let id = run.id;
                self.publish(slot, work, program.at(self.kernel.now()).saves + 1)?;
                self.lose(id, program.at(self.kernel.now()).work.saturating_sub(work));
                self.exit(slot, work, program.total, KILLED)
            }
            Doing::Leaving => self.gone(slot),
        }
    }

    /// The provider answers a launch.
    fn provide(&mut self, slot: u32) -> Result<(), Error> {
        let now = self.kernel.now();
        let Some(run) = self.runs.change(slot) else { return Ok(()) };
        let (id, nodes, is_spot) = (run.id, run.nodes, run.is_spot);
        let place = &mut self.places[run.place];
        if is_spot && !place.has_room(nodes) {
            self.runs.take(slot);
            self.totals.launches_refused += 1;
            let message = "no capacity".into();
            return self.step(Event::LaunchRefused { run: id, class: LaunchErrorClass::Capacity, message });
        }
        run.since = Some(now);
        run.doing = Doing::Booting;
        place.use_of.take(now, is_spot, nodes);
        if is_spot {
            place.hold(now, id, nodes);
        }
        let span = self.terms.boot;
        self.plan(slot, now.after(self.luck(id, BOOT).millis(span.low, span.high)));
        self.step(Event::RunLaunched { run: id, instances: Vec::new() })
    }

    /// Brings what the program needs to its region.
    fn stage(&mut self, slot: u32) -> Result<(), Error> {
        let now = self.kernel.now();
        let Some(run) = self.runs.change(slot) else { return Ok(()) };
        run.doing = Doing::Staging;
        run.restore = self.engine.scheduler().run(run.id).and_then(|row| row.restored_from.clone());
        let to = self.places[run.place].region.clone();
        let inputs = self.jobs.get(run.id.job).map_or(&[][..], |known| &known.inputs);
        let mut transfers: Vec<_> = inputs.iter().filter(|(from, _)| *from != to).cloned().collect();
        transfers.extend(run.restore.as_ref().map(|checkpoint| (checkpoint.region.clone(), checkpoint.size)));
        run.transfers = transfers.len() as u32;
        if transfers.is_empty() {
            return self.staged(slot);
        }
        let tag = u64::from(slot) << 32 | u64::from(run.serial);
        for (from, bytes) in transfers {
            let plan = self.network.send(now, &from, &to, bytes, tag);
            self.kernel.at(plan.at, Happening::Way { way: plan.way, turn: plan.turn });
        }
        Ok(())
    }

    pub(in super::super) fn on_way(&mut self, way: u32, turn: u32) -> Result<(), Error> {
        let mut through = Vec::new();
        if let Some(plan) = self.network.look(self.kernel.now(), way, turn, &mut through) {
            self.kernel.at(plan.at, Happening::Way { way: plan.way, turn: plan.turn });
        }
        for tag in through {
            let slot = (tag >> 32) as u32;
            let waits = |run: &&mut Standing| run.serial == tag as u32 && matches!(run.doing, Doing::Staging);
            let Some(run) = self.runs.change(slot).filter(waits) else { continue };
            run.transfers = run.transfers.saturating_sub(1);
            if run.transfers == 0 {
                self.staged(slot)?;
            }
        }
        Ok(())
    }

    fn staged(&mut self, slot: u32) -> Result<(), Error> {
        let Some(run) = self.runs.change(slot) else { return Ok(()) };
        if run.restore.is_none() {
            return self.begin(slot);
        }
        run.doing = Doing::Restoring;
        let restore = self.jobs.get(run.id.job).map_or(Millis::ZERO, |known| known.restore);
        self.plan(slot, self.kernel.now().after(restore));
        Ok(())
    }

    /// The program begins.
    fn begin(&mut self, slot: u32) -> Result<(), Error> {
        let now = self.kernel.now();
        let Some(run) = self.runs.change(slot) else { return Ok(()) };
        let id = run.id;
        let Some(known) = self.jobs.change(id.job) else { return Ok(()) };
        known.first_start.get_or_insert(now);
        let interval = self.engine.scheduler().run(id).and_then(|row| row.interval);
        let program = Program {
            since: now,
            base: run.restore.as_ref().map_or(0, |checkpoint| checkpoint.step),
            total: known.work.as_millis(),
            fails: known.failures.front().map(|failure| (failure.at.as_millis(), failure.exit_code)),
            speed: self.places[run.place].speed,
            every: interval.filter(|_| known.saves),
            save: known.save,
        };
        run.doing = Doing::Program(program);
        let restored = run.restore.as_ref().map(|checkpoint| checkpoint.id);
        self.plan_program(slot, program);
        self.step(Event::PhaseReported { run: id, rank: 0, phase: Phase::Running { restored } })
    }

    /// Plans what a program does next: its end, or its next save where the scheduler decides by it before the end.
    fn plan_program(&mut self, slot: u32, program: Program) {
        let is_timed =
            self.runs.get(slot).and_then(|run| self.jobs.get(run.id.job)).is_some_and(|known| known.is_timed);
        let save = program.next_save(self.kernel.now()).filter(|save| is_timed && *save < program.end());
        self.plan(slot, save.unwrap_or(program.end()));
    }

    /// A checkpoint is written while the program goes on.
    fn saved(&mut self, slot: u32, program: Program) -> Result<(), Error> {
        let reached = program.at(self.kernel.now());
        self.plan_program(slot, program);
        match reached.saved {
            Some(saved) => self.publish(slot, saved, reached.saves),
            None => Ok(()),
        }
    }

    fn end_by_itself(&mut self, slot: u32, program: Program) -> Result<(), Error> {
        if program.fails.is_some()
            && let Some(known) = self.runs.get(slot).map(|run| run.id.job).and_then(|job| self.jobs.change(job))
        {
            known.failures.pop_front();
        }
        self.end_program(slot, program, program.exit_code())
    }

    /// The program ends by itself or is killed; its newest checkpoint is known by then.
    fn end_program(&mut self, slot: u32, program: Program, code: i32) -> Result<(), Error> {
        let reached = program.at(self.kernel.now());
        if code != 0 {
            self.leave_behind(slot, program)?;
        }
        self.exit(slot, reached.work, program.total, code)
    }

    /// Tells of the newest checkpoint of a program that goes no further, and counts what is lost with it.
    fn leave_behind(&mut self, slot: u32, program: Program) -> Result<(), Error> {
        let Some(id) = self.runs.get(slot).map(|run| run.id) else { return Ok(()) };
        let reached = program.at(self.kernel.now());
        if let Some(saved) = reached.saved {
            self.publish(slot, saved, reached.saves)?;
        }
        self.lose(id, reached.work - reached.saved.unwrap_or(program.base));
        self.tell_progress(id, reached.work, program.total)
    }

    fn lose(&mut self, run: RunId, work: u64) {
        if let Some(known) = self.jobs.change(run.job) {
            known.lost = known.lost.saturating_add(Millis::new(work));
        }
    }

    /// Work is told in milliseconds as steps.
    fn tell_progress(&mut self, run: RunId, step: u64, total: u64) -> Result<(), Error> {
        self.step(Event::LeaseRenewed { run, rank: 0, progress: Progress { step, total: Some(total) } })
    }

    fn exit(&mut self, slot: u32, work: u64, total: u64, exit_code: i32) -> Result<(), Error> {
        let Some(run) = self.runs.change(slot) else { return Ok(()) };
        run.doing = Doing::Leaving;
        let (id, nodes) = (run.id, run.nodes);
        self.plan(slot, self.kernel.now().after(self.terms.release));
        self.tell_progress(id, work, total)?;
        for rank in 0..nodes {
            self.step(Event::ExitReported { run: id, rank, exit_code })?;
        }
        Ok(())
    }

    fn publish(&mut self, slot: u32, step: u64, seq: u64) -> Result<(), Error> {
        let Some(run) = self.runs.get(slot) else { return Ok(()) };
        let (id, nodes) = (run.id, run.nodes);
        let Some(known) = self.jobs.get(id.job) else { return Ok(()) };
        let (size, save_time) = (Bytes::new(known.checkpoint_size.get() / u64::from(nodes.max(1))), known.save);
        for rank in 0..nodes {
            let shard = Shard { seq, step, manifest: [0; 32], size, save_time };
            self.step(Event::CheckpointPublished { run: id, rank, shard })?;
        }
        Ok(())
    }

    /// The scheduler orders a run's machines away.
    pub(in super::super) fn stop(&mut self, run: RunId) -> Result<(), Error> {
        let Some(slot) = self.runs.slot(run) else { return Ok(()) };
        match self.runs.get(slot).map(|run| run.doing) {
            None | Some(Doing::Leaving) => Ok(()),
            Some(Doing::Program(program) | Doing::Doomed(program) | Doing::LastSave { program, .. }) => {
                self.end_program(slot, program, KILLED)
            }
            Some(Doing::Ordered | Doing::Booting | Doing::Staging | Doing::Restoring) => {
                if let Some(run) = self.runs.change(slot) {
                    run.doing = Doing::Leaving;
                }
                self.plan(slot, self.kernel.now().after(self.terms.release));
                Ok(())
            }
        }
    }

    /// A run's agents look at their directives again.
    pub(in super::super) fn signal(&mut self, run: RunId) {
        let now = self.kernel.now();
        let Some(slot) = self.runs.slot(run) else { return };
        let Some(Doing::Program(program)) = self.runs.get(slot).map(|run| run.doing) else { return };
        let scheduler = self.engine.scheduler();
        let Some(Directive::Drain { deadline, save, .. }) = scheduler.run(run).map(|row| scheduler.directive(row))
        else {
            return;
        };
        let end = deadline.before(BEFORE_THE_END).max(now);
        if program.end() <= end {
            return;
        }
        let known = self.jobs.get(run.job);
        let saved = known.filter(|known| save && known.saves).map(|known| {
            let upload = known.checkpoint_size.get() as f64 / self.terms.within_region.get().max(1) as f64;
            now.after(known.save.saturating_add(Millis::from_secs_f64(upload)))
        });
        match saved.filter(|saved| *saved <= end) {
            Some(saved) => {
                if let Some(run) = self.runs.change(slot) {
                    run.doing = Doing::LastSave { program, work: program.at(now).work };
                }
                self.plan(slot, saved);
            }
            None => {
                if let Some(run) = self.runs.change(slot) {
                    run.doing = Doing::Doomed(program);
                }
                self.plan(slot, end);
            }
        }
    }

    /// A run's machines are taken, with everything on them.
    pub(in super::super) fn take_away(&mut self, run: RunId) -> Result<(), Error> {
        let Some(slot) = self.runs.slot(run) else { return Ok(()) };
        let doing = self.runs.get(slot).map(|run| run.doing);
        if let Some(Doing::Program(program) | Doing::Doomed(program) | Doing::LastSave { program, .. }) = doing {
            self.leave_behind(slot, program)?;
        }
        self.gone(slot)
    }

    /// The machines are gone, and the scheduler has proof.
    fn gone(&mut self, slot: u32) -> Result<(), Error> {
        let now = self.kernel.now();
        let Some(run) = self.runs.take(slot) else { return Ok(()) };
        if let Some(since) = run.since {
            let place = &mut self.places[run.place];
            place.use_of.give_back(now, run.is_spot, run.nodes);
            if run.is_spot {
                place.let_go(since, run.id, run.nodes);
            }
        }
        self.step(Event::InstancesGone { run: run.id })?;
        self.settle(run.id.job);
        Ok(())
    }
}
