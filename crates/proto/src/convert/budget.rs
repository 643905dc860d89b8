//! Budgets and the ledger.

use leeway_model::budget::{Budget, BudgetSpec, EntryKind, LedgerEntry, Period};
use leeway_model::{Currency, Micros, Name};

use super::one_of;
use crate::invalid::Within;
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
        let actor = check::actor("actor", &self.actor)?;
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

#[cfg(test)]
mod tests {
    use leeway_model::budget::{Overrun, ThresholdKind};
    use leeway_model::{HoldId, JobId, RunId, Term, Timestamp};
    use pb::ledger_entry::Kind;

    use super::*;
    use crate::testing::minimal_budget_spec;

    #[test]
    fn a_budget_shows_what_is_left() {
        let budget = Budget {
            spec: minimal_budget_spec(),
            held: Micros::from_units(30),
            posted: Micros::from_units(80),
            overrun: Micros::from_units(10),
            credit: Micros::ZERO,
            frozen: true,
            fired: vec![(ThresholdKind::Actual, 80)],
            denied_told: None,
        };
        let wire = pb::Budget::from_model(&budget, Currency::USD);
        assert_eq!((wire.available_micros, wire.currency.as_str()), (-10_000_000, "USD"));
        assert_eq!(wire.fired, [pb::FiredThreshold { kind: pb::ThresholdKind::Actual.into(), percent: 80 }]);
    }

    #[test]
    fn each_kind_of_ledger_line_keeps_its_amount_and_its_run() {
        let run = RunId { job: JobId(4), epoch: 2 };
        let (hold, amount, term) = (HoldId(run), Micros::new(7), Term::Compute);
        let name = minimal_budget_spec().name;
        let (from, to) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
        let kinds = [
            EntryKind::HoldOpen { hold, path: vec![name.clone()], amount },
            EntryKind::HoldExtend { hold, amount },
            EntryKind::Post { hold, amount, term, from, to },
            EntryKind::HoldClose { hold, released: amount },
            EntryKind::ForcePost { run, path: vec![name.clone()], amount, term, from, to, cause: Overrun::SlowStop },
            EntryKind::Adjust { budget: name.clone(), reference: "r".into(), amount, source: "bill".into() },
            EntryKind::Credit { budget: name.clone(), reference: "r".into(), amount },
            EntryKind::CapSet { budget: name.clone(), cap: amount, by: name },
        ];
        for kind in kinds {
            let (amount, run, word) = match Kind::from(&kind) {
                Kind::HoldOpen(k) => (k.amount_micros, k.run_id, "hold-open"),
                Kind::HoldExtend(k) => (k.amount_micros, k.run_id, "hold-extend"),
                Kind::Post(k) => (k.amount_micros, k.run_id, "post"),
                Kind::HoldClose(k) => (k.released_micros, k.run_id, "hold-close"),
                Kind::ForcePost(k) => (k.amount_micros, k.run_id, "force-post"),
                Kind::Adjust(k) => (k.amount_micros, String::new(), "adjust"),
                Kind::Credit(k) => (k.amount_micros, String::new(), "credit"),
                Kind::CapSet(k) => (k.cap_micros, String::new(), "cap-set"),
            };
            assert_eq!((amount, word), (7, kind.as_str()));
            assert_eq!(run, if kind.job().is_some() { "j-4-r2" } else { "" });
        }
    }
}
