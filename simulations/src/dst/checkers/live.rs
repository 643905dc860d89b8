//! Checks while the world goes on: after each commit, restart, acknowledgement and start of a program.

use leeway_core::invariants;
use leeway_core::reply::Reply;
use leeway_model::checkpoint::{CheckpointId, CheckpointState};
use leeway_model::job::JobState;
use leeway_model::{Micros, Millis, RunId};

use crate::dst::run::Simulation;
use crate::dst::world::programs::{Acknowledged, Executing, Start};

/// What detection, late messages and restarts of the scheduler may add to the work that an interruption loses.
const DETECTION: Millis = Millis::from_mins(3);

impl Simulation {
    /// Everything in memory is durable now: state, promises and the world must agree.
    pub(crate) fn check_committed(&mut self) {
        let Some(scheduler) = self.shell.scheduler() else { return };
        invariants::check(scheduler);
        for budget in scheduler.tables().budgets.values() {
            let name = &budget.spec.name;
            let excused = self.clients.cut.contains(name) || budget.overrun > Micros::ZERO;
            assert!(excused || !budget.available().is_negative(), "B1, B2: '{name}' is past its cap: {budget:?}");
        }
        for run in scheduler.tables().runs.values() {
            if run.state.is_over() {
                assert!(
                    !self.cloud.has_alive(run.id),
                    "K8: {} is released while a machine of it lives ({:?})",
                    run.id,
                    run.end
                );
            }
        }
    }

    /// After a restart: what was acknowledged is there.
    pub(crate) fn check_promises(&self) {
        let Some(scheduler) = self.shell.scheduler() else { return };
        invariants::check(scheduler);
        for (job, name) in &self.clients.promised {
            let known = scheduler.job(*job);
            assert!(
                known.is_some_and(|known| known.spec.name.as_str() == name),
                "S-01: {job} ('{name}') was acknowledged and is lost"
            );
        }
        for (job, commits) in &self.programs.acknowledged {
            for commit in commits {
                let (epoch, seq) = (commit.checkpoint.epoch, commit.checkpoint.seq);
                let known = scheduler.job(*job).is_some_and(|job| job.epoch >= epoch);
                assert!(known, "S-01: commit {epoch}-{seq} of {job} was acknowledged and is lost");
            }
        }
    }

    /// An answer to an agent leaves the scheduler: commits only ever rise, and only the newest epoch's are accepted.
    pub(crate) fn note_acknowledged(&mut self, instance: u64, reply: &Reply) {
        let Reply::Committed(verdict) = reply else { return };
        if !verdict.committed {
            return;
        }
        let Some(run) = self.cloud.instances.get(&instance).map(|instance| instance.run) else { return };
        let Some(scheduler) = self.shell.scheduler() else { return };
        let id = verdict.checkpoint;
        assert_eq!(id.epoch, run.epoch, "K2: a run commits only its own epoch's checkpoints");
        let step = scheduler.tables().checkpoints.get(&(run.job, id)).map(|row| row.reference.step);
        let commits = self.programs.acknowledged.entry(run.job).or_default();
        if commits.iter().any(|commit| commit.checkpoint == id) {
            return;
        }
        if let Some(last) = commits.last() {
            assert!(last.checkpoint < id, "K1: {id:?} of {} was committed after {:?}", run.job, last.checkpoint);
        }
        commits.push(Acknowledged { checkpoint: id, step: step.unwrap_or_default() });
    }

    /// A program starts to execute: no other epoch of its job may, unless an agent could not obey its lease.
    pub(crate) fn executes(&mut self, instance: u64) {
        let now = self.kernel.now();
        let Some(agent) = self.agents.get(&instance) else { return };
        let run = agent.run;
        for other in self.programs.executing.values() {
            let same_job = other.run.job == run.job && other.run.epoch != run.epoch;
            let broken = self.programs.lease_broken.contains(&other.run) || self.programs.lease_broken.contains(&run);
            assert!(!same_job || broken, "K10: {run} executes while {} has done so since {}", other.run, other.since);
        }
        self.programs.executing.insert(instance, Executing { run, since: now });
    }

    /// Rank 0's program begins: it must not have lost more work than the rules allow.
    pub(crate) fn note_start(&mut self, run: RunId, restored: Option<CheckpointId>, step: u64) {
        let start = Start { run, at: self.kernel.now(), restored, step };
        let doubtful = self.programs.doubtful.contains(&run.job);
        if let Some(newest) = self.programs.newest_acknowledged(run.job)
            && newest.checkpoint.epoch < run.epoch
            && !doubtful
        {
            assert!(restored.is_some(), "K7: {run} starts from zero, but {:?} is committed", newest.checkpoint);
            assert!(
                restored >= Some(newest.checkpoint),
                "K7: {run} restores {restored:?}, not {:?}",
                newest.checkpoint
            );
        }
        let before = self.programs.reached.range(..run).next_back().map(|(run, step)| (*run, *step));
        if let Some((earlier, reached)) = before.filter(|(earlier, _)| earlier.job == run.job)
            && !doubtful
            && !self.programs.lease_broken.contains(&earlier)
            && let Some(scheduler) = self.shell.scheduler()
            && let Some(job) = scheduler.job(run.job)
            && job.spec.checkpoint.is_some()
            && let Some(interval) = scheduler.run(earlier).and_then(|run| run.interval)
        {
            let nature = self.programs.nature(job.spec.name.as_str());
            let lost = nature.step_time.saturating_mul(reached.saturating_sub(step));
            let once = nature.save_time.saturating_add(nature.upload_time);
            // Every restart of the scheduler in that time gave silent agents twice their lease again.
            let began = self.programs.starts.get(&run.job).and_then(|starts| starts.last()).map(|start| start.at);
            let died = self.shell.died.iter().filter(|at| began.is_some_and(|began| **at >= began)).count() as u64;
            let again = self.config.lease.ttl.saturating_mul(2).saturating_add(self.faults_worst.down.1);
            let slack =
                DETECTION.saturating_add(self.faults_worst.delay_max).saturating_add(again.saturating_mul(died));
            let bound = interval.max(nature.step_time).saturating_add(once).saturating_add(slack);
            assert!(
                lost <= bound,
                "K6: {earlier} reached {reached}, {run} goes on at {step}: {lost} lost, {bound} allowed; interval {interval}, {} nodes, acknowledged {:?}",
                job.spec.nodes,
                self.programs.acknowledged.get(&run.job)
            );
        }
        self.programs.starts.entry(run.job).or_default().push(start);
    }

    /// What is still open, in words; `None` when the run has come to its quiet end.
    pub fn unquiet(&self) -> Option<String> {
        let Some(scheduler) = self.shell.scheduler() else { return Some("the scheduler is down".into()) };
        if let Some((number, request)) =
            self.clients.requests.iter().enumerate().find(|(_, request)| !request.answered && request.sent > 0)
        {
            return Some(format!("request {number} has no answer: {:?}", request.event));
        }
        let tables = scheduler.tables();
        if let Some(job) = tables.jobs.values().find(|job| !job.state.is_terminal() && !self.is_blocked(job)) {
            let run = job.newest_run().and_then(|run| scheduler.run(run));
            let looks = scheduler.explain(job.id).and_then(|explanation| explanation.evaluation);
            let looks = looks.map(|evaluation| {
                let rejected =
                    evaluation.counts().into_iter().map(|count| (count.rule, count.count)).collect::<Vec<_>>();
                (evaluation.candidates.len(), rejected)
            });
            return Some(format!(
                "{} is {} since {} for {:?}; places that it could have and why not others: {looks:?}; run {:?}",
                job.id,
                job.state,
                job.since,
                scheduler.reason(job).map(|reason| reason.code),
                run.map(|run| (run.id, run.state, &run.end))
            ));
        }
        if let Some(run) = tables.runs.values().find(|run| !run.state.is_over()) {
            return Some(format!("{} is {} and its job has ended", run.id, run.state));
        }
        if let Some((id, instance)) = self.cloud.alive().next() {
            return Some(format!("machine {id} of {} is an orphan", instance.run));
        }
        if let Some(hold) = tables.holds.values().find(|hold| hold.open) {
            return Some(format!("hold {} is open", hold.id));
        }
        let expired = |state: CheckpointState| state == CheckpointState::Expired;
        if let Some(row) = tables.checkpoints.values().find(|row| expired(row.state)) {
            return Some(format!("checkpoint {:?} of {} was never deleted", row.reference.id, row.job));
        }
        None
    }

    /// A job may wait for ever only for a stated reason that nobody removes: its own cost cap, a hold, or a job so blocked.
    fn is_blocked(&self, job: &leeway_model::job::Job) -> bool {
        let Some(scheduler) = self.shell.scheduler() else { return false };
        match job.state {
            // It waits for a person.
            JobState::Pending if job.is_held() => true,
            JobState::Pending if job.spec.money.max_cost.is_some() => {
                scheduler.reason(job).is_some_and(|reason| &*reason.code == "MAX_COST")
            }
            JobState::Waiting => {
                let others = job.spec.depends_on.iter().filter_map(|other| scheduler.job(*other));
                others.filter(|other| other.state != JobState::Succeeded).any(|other| self.is_blocked(other))
            }
            _ => false,
        }
    }
}
