//! Posting usage while runs run, and keeping their holds ahead of it.

use leeway_model::job::Reason;
use leeway_model::notify::{Alert, Severity};
use leeway_model::run::{EndReason, Run, RunState};
use leeway_model::{HoldId, Micros, Millis, RunId, Term, Timestamp};

use crate::ledger::{self, Usage};
use crate::round::score::remaining;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Posts and, where the hold runs low, extends it or drains the run.
    pub(crate) fn meter(&mut self, id: RunId) {
        self.post_usage(id);
        if self.run(id).is_some_and(|run| run.end.is_none() && run.state != RunState::Draining) {
            self.keep_hold_ahead(id);
        }
    }

    /// Posts what the meters show since the last posting.
    pub(crate) fn post_usage(&mut self, id: RunId) {
        let now = self.now;
        let Some(run) = self.tables.runs.get(&id) else { return };
        let from = run.posted_until;
        let due = |meter: &Option<leeway_model::Meter>, term: Term| {
            let charge = meter.as_ref().map_or(Micros::ZERO, |meter| meter.charge(now));
            charge.checked_sub(run.posted.get(term)).filter(|amount| *amount > Micros::ZERO)
        };
        let due = [(Term::Compute, due(&run.meter, Term::Compute)), (Term::Disk, due(&run.disk, Term::Disk))];
        for (term, amount) in due {
            if let Some(amount) = amount {
                self.charge(id, Usage { term, amount, from, to: now });
            }
        }
        let progress = self.volatile.progress.get(&id).copied();
        if let Some(run) = self.tables.runs.change(&id)
            && run.launched.is_some()
        {
            run.posted_until = now;
            if let Some(progress) = progress {
                run.progress = progress;
            }
        }
    }

    /// Posts one usage to the ledger, the run and the job.
    pub(crate) fn charge(&mut self, id: RunId, usage: Usage) {
        let posted = ledger::post(&mut self.tables, self.now, id, usage);
        if let Some(run) = self.tables.runs.change(&id) {
            run.posted.add(usage.term, usage.amount);
        }
        if let Some(job) = self.tables.jobs.change(&id.job) {
            job.posted.add(usage.term, usage.amount);
        }
        for budget in &posted.path {
            self.watch_thresholds(budget);
        }
        if posted.forced > Micros::ZERO
            && let Some(budget) = posted.path.first()
        {
            let alert = Alert::Overrun { budget: budget.clone(), run: id, amount: posted.forced };
            self.notify(Severity::Critical, alert);
        }
    }

    fn keep_hold_ahead(&mut self, id: RunId) {
        let Some(run) = self.tables.runs.get(&id) else { return };
        let Some(hold) = self.tables.holds.get(&HoldId(id)).filter(|hold| hold.open) else { return };
        let money = self.config.money;
        let reserve = money.stop_reserve.saturating_add(money.extend_before);
        if hold.remainder() >= self.most(run, reserve) {
            return;
        }
        // As much as the work left may need; where that does not fit, as much as keeps the run going a little longer.
        let left = self.job(id.job).map_or(money.horizon, |job| remaining(&self.config, job));
        let long = self.most(run, left.clamp(money.extend_before, money.horizon.max(money.extend_before)));
        let short = self.most(run, money.extend_before);
        match self.may_extend(id, long).or_else(|_| self.may_extend(id, short)) {
            Ok(()) => {
                if let Some(path) = self.tables.holds.get(&HoldId(id)).map(|hold| hold.path.clone()) {
                    for budget in path {
                        self.watch_thresholds(&budget);
                    }
                }
            }
            Err(refusal) => {
                let reason = Reason::new(refusal.code(), refusal.to_string());
                self.remark(id, reason);
                self.tell_cap_reached(&refusal);
                self.drain(id, EndReason::OutOfBudget, self.config.launch.drain, true);
            }
        }
    }

    /// When a run's hold will have to be extended, if it is used up as fast as it can be. Meters that are read seldom must
    /// not let a short hold run out in between.
    pub(crate) fn hold_runs_low(&self, run: &Run) -> Option<Timestamp> {
        let hold = self.tables.holds.get(&HoldId(run.id)).filter(|hold| hold.open && run.end.is_none())?;
        let money = self.config.money;
        let reserve = self.most(run, money.stop_reserve.saturating_add(money.extend_before));
        let spare = hold.remainder().saturating_sub(reserve).get();
        let hour = self.most(run, Millis::from_hours(1)).get();
        if spare < 0 || hour <= 0 {
            // It was looked at just now, and could not be extended.
            return None;
        }
        let millis = i128::from(spare) * 3_600_000 / i128::from(hour);
        let length = Millis::new(u64::try_from(millis).unwrap_or(u64::MAX)).saturating_add(Millis::from_secs(1));
        Some(run.posted_until.after(length))
    }

    fn may_extend(&mut self, id: RunId, amount: Micros) -> Result<(), leeway_model::budget::Refusal> {
        self.job(id.job).map_or(Ok(()), |job| self.check_job_cap(job, amount))?;
        ledger::extend_hold(&mut self.tables, self.now, id, amount)
    }

    /// The most that a run can come to cost in a stretch of time.
    pub(crate) fn most(&self, run: &Run, length: Millis) -> Micros {
        let gang = run.rate_max.checked_mul(u64::from(run.nodes)).unwrap_or(leeway_model::Rate::from_nanos(u64::MAX));
        let disk = run.disk.as_ref().map_or(Micros::ZERO, |meter| meter.rate().cost(length));
        gang.cost(length).saturating_add(disk)
    }

    /// Whether a job's own cap has room for `amount` beside what it spent and holds.
    pub(crate) fn check_job_cap(
        &self,
        job: &leeway_model::job::Job,
        amount: Micros,
    ) -> Result<(), leeway_model::budget::Refusal> {
        let Some((cap, room)) = self.room_under_cap(job) else { return Ok(()) };
        if amount > room {
            let posted = job.posted.total();
            return Err(leeway_model::budget::Refusal::JobCap { cap, posted, needed: amount });
        }
        Ok(())
    }

    /// A job's cap, and what it leaves beside what was posted and is held; `None` without a cap.
    pub(crate) fn room_under_cap(&self, job: &leeway_model::job::Job) -> Option<(Micros, Micros)> {
        let cap = job.spec.money.max_cost?;
        let held = self
            .runs_of(job.id)
            .filter(|run| !run.state.is_over())
            .filter_map(|run| self.tables.holds.get(&HoldId(run.id)));
        let held = held.filter(|hold| hold.open).fold(Micros::ZERO, |sum, hold| sum.saturating_add(hold.remainder()));
        let taken = job.posted.total().saturating_add(held);
        Some((cap, cap.saturating_sub(taken).max(Micros::ZERO)))
    }
}
