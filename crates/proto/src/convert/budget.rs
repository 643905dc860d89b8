//! Budgets and the ledger.

use leeway_model::budget::{Budget, BudgetSpec, EntryKind, LedgerEntry, Period};
use leeway_model::{Currency, Micros, Name};

use super::one_of;
use crate::{Invalid, check, pb};

impl pb::BudgetSpec {
    pub fn from_model(spec: &BudgetSpec, ledger: Currency) -> Self {
        Self {
            name: spec.name.to_string(),
            parent: spec.parent.as_ref().map(Name::to_string),
            cap_micros: spec.cap.get(),
            period: pb::Period::from(spec.period).into(),
            soft_limit_micros: spec.soft_limit.map(Micros::get),
            currency: ledger.to_string(),
        }
    }

    pub fn into_model(self, ledger: Currency) -> Result<BudgetSpec, Invalid> {
        check::ledger_currency("currency", &self.currency, ledger)?;
        let amount = |field, micros| check::between(field, micros, 0..=i64::MAX).map(Micros::new);
        let name = check::name("name", &self.name)?;
        let parent = check::optional_name("parent", self.parent.as_deref())?;
        if parent.as_ref() == Some(&name) {
            return Err(Invalid::new(
                "parent",
                format!("'{name}' cannot be part of itself; name another budget, or none"),
            ));
        }
        Ok(BudgetSpec {
            name,
            parent,
            cap: amount("cap_micros", self.cap_micros)?,
            period: match self.period {
                0 => Period::Total,
                number => one_of::<pb::Period>("period", number)?,
            },
            soft_limit: self.soft_limit_micros.map(|micros| amount("soft_limit_micros", micros)).transpose()?,
        })
    }
}

impl pb::SetBudgetRequest {
    /// The spec, and who asks.
    pub fn into_model(self, ledger: Currency) -> Result<(BudgetSpec, Name), Invalid> {
        use crate::invalid::Within;
        let actor = if self.actor.is_empty() { "operator" } else { &self.actor };
        let actor = check::name("actor", actor)?;
        Ok((check::required("spec", self.spec)?.into_model(ledger).within("spec")?, actor))
    }
}

impl pb::Budget {
    pub fn from_model(budget: &Budget, ledger: Currency) -> Self {
        let fired = |&(kind, percent)| pb::FiredThreshold { kind: pb::ThresholdKind::from(kind).into(), percent };
        Self {
            spec: Some(pb::BudgetSpec::from_model(&budget.spec, ledger)),
            held_micros: budget.held.get(),
            posted_micros: budget.posted.get(),
            overrun_micros: budget.overrun.get(),
            credit_micros: budget.credit.get(),
            available_micros: budget.available().get(),
            frozen: budget.frozen,
            fired: budget.fired.iter().map(fired).collect(),
            currency: ledger.to_string(),
        }
    }
}

fn path(path: &[Name]) -> Vec<String> {
    path.iter().map(Name::to_string).collect()
}

impl From<&LedgerEntry> for pb::LedgerEntry {
    fn from(entry: &LedgerEntry) -> Self {
        Self { number: entry.number, at_ms: entry.at.as_millis(), kind: Some((&entry.kind).into()) }
    }
}

impl From<&EntryKind> for pb::ledger_entry::Kind {
    fn from(kind: &EntryKind) -> Self {
        match kind {
            EntryKind::HoldOpen { hold, path: budgets, amount } => Self::HoldOpen(pb::HoldOpen {
                run_id: hold.0.to_string(),
                path: path(budgets),
                amount_micros: amount.get(),
            }),
            EntryKind::HoldExtend { hold, amount } => {
                Self::HoldExtend(pb::HoldExtend { run_id: hold.0.to_string(), amount_micros: amount.get() })
            }
            EntryKind::Post { hold, amount, term, from, to } => Self::Post(pb::Post {
                run_id: hold.0.to_string(),
                amount_micros: amount.get(),
                term: pb::Term::from(*term).into(),
                from_ms: from.as_millis(),
                to_ms: to.as_millis(),
            }),
            EntryKind::HoldClose { hold, released } => {
                Self::HoldClose(pb::HoldClose { run_id: hold.0.to_string(), released_micros: released.get() })
            }
            EntryKind::ForcePost { run, path: budgets, amount, term, from, to, cause } => {
                Self::ForcePost(pb::ForcePost {
                    run_id: run.to_string(),
                    path: path(budgets),
                    amount_micros: amount.get(),
                    term: pb::Term::from(*term).into(),
                    from_ms: from.as_millis(),
                    to_ms: to.as_millis(),
                    cause: pb::Overrun::from(*cause).into(),
                })
            }
            EntryKind::Adjust { budget, reference, amount, source } => Self::Adjust(pb::Adjust {
                budget: budget.to_string(),
                reference: reference.to_string(),
                amount_micros: amount.get(),
                source: source.to_string(),
            }),
            EntryKind::Credit { budget, reference, amount } => Self::Credit(pb::Credit {
                budget: budget.to_string(),
                reference: reference.to_string(),
                amount_micros: amount.get(),
            }),
            EntryKind::CapSet { budget, cap, by } => {
                Self::CapSet(pb::CapSet { budget: budget.to_string(), cap_micros: cap.get(), by: by.to_string() })
            }
        }
    }
}
