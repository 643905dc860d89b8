//! Setting budgets, and telling people when their thresholds are crossed.

use leeway_model::budget::{Budget, BudgetSpec, Refusal, ThresholdKind};
use leeway_model::notify::{Alert, Severity};
use leeway_model::{JobId, Micros, Millis, Name};

use crate::ledger;
use crate::reply::{Refused, RefusedKind, Reply};
use crate::scheduler::Scheduler;

/// Percent of the cap at which people are told, and how loudly.
const THRESHOLDS: [(ThresholdKind, u32, Severity); 5] = [
    (ThresholdKind::Actual, 50, Severity::Info),
    (ThresholdKind::Actual, 80, Severity::Warning),
    (ThresholdKind::Actual, 100, Severity::Critical),
    (ThresholdKind::Committed, 80, Severity::Warning),
    (ThresholdKind::Committed, 100, Severity::Warning),
];
/// A threshold fires again only after falling this many points below itself.
const REARM: u32 = 5;
/// A budget that keeps refusing is told of at most this often.
const DENIED_EVERY: Millis = Millis::from_hours(1);

/// A budget as it begins.
pub fn fresh(spec: BudgetSpec) -> Budget {
    Budget {
        spec,
        held: Micros::ZERO,
        posted: Micros::ZERO,
        overrun: Micros::ZERO,
        credit: Micros::ZERO,
        frozen: false,
        fired: Vec::new(),
        denied_told: None,
    }
}

impl Scheduler {
    pub(crate) fn on_budget_set(&mut self, spec: BudgetSpec, by: &Name) -> Reply {
        if let Err(refused) = self.check_budget(&spec) {
            return Reply::Refused(refused);
        }
        let name = spec.name.clone();
        if self.tables.budgets.get(&name).is_some_and(|budget| budget.spec == spec && !budget.frozen) {
            return Reply::Done;
        }
        match self.tables.budgets.get(&name).map(|budget| budget.spec.cap) {
            None => {
                let cap = spec.cap;
                self.tables.budgets.insert(name.clone(), fresh(spec));
                ledger::set_cap(&mut self.tables, self.now, &name, cap, by);
            }
            Some(from) => {
                let to = spec.cap;
                if let Some(row) = self.tables.budgets.change(&name) {
                    row.spec = spec;
                }
                ledger::set_cap(&mut self.tables, self.now, &name, to, by);
                if from != to {
                    self.notify(Severity::Info, Alert::CapChanged { budget: name.clone(), from, to });
                }
                self.watch_thresholds(&name);
            }
        }
        // Room in a node is room for every budget below it; the round finds out which jobs that helps.
        self.roomier.extend(self.tables.budgets.values().map(|budget| budget.spec.name.clone()));
        Reply::Done
    }

    fn check_budget(&self, spec: &BudgetSpec) -> Result<(), Refused> {
        let invalid = |code, message: String| Err(Refused::new(RefusedKind::Invalid, code, message));
        if spec.cap.is_negative() {
            return invalid("NEGATIVE_CAP", format!("cap {} is negative", spec.cap));
        }
        if let Some(soft) = spec.soft_limit.filter(|soft| *soft > spec.cap) {
            let message = format!("soft_limit {soft} is above the cap {}, so that it would never be reached", spec.cap);
            return invalid("SOFT_LIMIT_ABOVE_CAP", message);
        }
        let known = self.tables.budgets.get(&spec.name);
        if let Some(known) = known
            && known.spec.parent != spec.parent
            && (known.held > Micros::ZERO || known.posted > Micros::ZERO)
        {
            let message = format!("budget '{}' has holds or usage; its parent cannot change any more", spec.name);
            return Err(Refused::new(RefusedKind::Precondition, "BUDGET_IN_USE", message));
        }
        let mut depth = 1;
        let mut next = spec.parent.clone();
        while let Some(parent) = next {
            if parent == spec.name {
                return invalid("BUDGET_CYCLE", format!("budget '{}' would be its own ancestor", spec.name));
            }
            let Some(row) = self.tables.budgets.get(&parent) else {
                return invalid("UNKNOWN_BUDGET", format!("parent budget '{parent}' does not exist; create it first"));
            };
            next = row.spec.parent.clone();
            depth += 1;
        }
        let below = self.height(&spec.name);
        if depth + below > ledger::MAX_DEPTH {
            return invalid("BUDGET_TOO_DEEP", format!("the budget tree may be at most {} deep", ledger::MAX_DEPTH));
        }
        Ok(())
    }

    /// Levels below a budget.
    fn height(&self, name: &Name) -> usize {
        let children = self.tables.budgets.values().filter(|budget| budget.spec.parent.as_ref() == Some(name));
        children.map(|child| 1 + self.height(&child.spec.name)).max().unwrap_or(0)
    }

    /// Fires the thresholds that a budget now stands at or above, and re-arms those it fell well below.
    pub(crate) fn watch_thresholds(&mut self, name: &Name) {
        let Some(budget) = self.tables.budgets.get(name) else { return };
        let (cap, posted, held) = (budget.spec.cap, budget.posted, budget.held);
        if cap <= Micros::ZERO {
            return;
        }
        let reached = |kind: ThresholdKind, percent: u32| {
            let amount = match kind {
                ThresholdKind::Actual => posted,
                ThresholdKind::Committed => posted.saturating_add(held),
            };
            i128::from(amount.get()) * 100 >= i128::from(cap.get()) * i128::from(percent)
        };
        let mut fired = budget.fired.clone();
        fired.retain(|(kind, percent)| reached(*kind, percent.saturating_sub(REARM)));
        let mut news = Vec::new();
        for (kind, percent, severity) in THRESHOLDS {
            if reached(kind, percent) && !fired.contains(&(kind, percent)) {
                fired.push((kind, percent));
                news.push((kind, percent, severity));
            }
        }
        if fired != budget.fired
            && let Some(row) = self.tables.budgets.change(name)
        {
            row.fired = fired;
        }
        for (kind, percent, severity) in news {
            let alert = Alert::ThresholdCrossed { budget: name.clone(), kind, percent, cap, posted, held };
            self.notify(severity, alert);
        }
    }

    /// Tells that a budget refused to pay for more.
    pub(crate) fn tell_denied(&mut self, job: JobId, refusal: &Refusal) {
        let budget = refusal.budget().cloned();
        if let Some(name) = &budget {
            let now = self.now;
            let Some(row) = self.tables.budgets.get(name) else { return };
            if row.denied_told.is_some_and(|told| now.since(told) < DENIED_EVERY) {
                return;
            }
            if let Some(row) = self.tables.budgets.change(name) {
                row.denied_told = Some(now);
            }
        }
        let message = refusal.to_string().into();
        let alert = Alert::AdmissionDenied { budget, job, code: refusal.code().into(), message };
        self.notify(Severity::Warning, alert);
    }

    /// Tells that a running job is drained because its budget is used up.
    pub(crate) fn tell_cap_reached(&mut self, refusal: &Refusal) {
        let Some(budget) = refusal.budget().and_then(|name| self.tables.budgets.get(name)) else { return };
        let alert = Alert::CapReached {
            budget: budget.spec.name.clone(),
            cap: budget.spec.cap,
            posted: budget.posted,
            held: budget.held,
        };
        self.notify(Severity::Critical, alert);
    }
}
