//! Budgets, holds and the ledger. The rules are in `core::ledger`; these are its nouns.

use serde::{Deserialize, Serialize};

use crate::{Epoch, HoldId, JobId, Micros, Name, RunId, Term, Timestamp};

/// What an operator declares: a node of the budget tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSpec {
    pub name: Name,
    pub parent: Option<Name>,
    /// Hard limit of one period.
    pub cap: Micros,
    pub period: Period,
    /// Passing it only alerts.
    pub soft_limit: Option<Micros>,
}

/// How long a cap lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Period {
    /// One amount, no rollover.
    #[default]
    Total,
}

/// A node's balances in its present period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub spec: BudgetSpec,
    pub held: Micros,
    pub posted: Micros,
    /// Part of `posted` that was forced past a hold.
    pub overrun: Micros,
    pub credit: Micros,
    pub frozen: bool,
    /// Thresholds (kind, percent of cap) that have fired and are not re-armed.
    pub fired: Vec<(ThresholdKind, u32)>,
    /// When a refused admission was last told.
    pub denied_told: Option<Timestamp>,
}

impl Budget {
    /// cap - posted - held: below zero after a cap cut or an overrun.
    pub fn available(&self) -> Micros {
        self.spec.cap.saturating_sub(self.posted).saturating_sub(self.held)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ThresholdKind {
    /// Posted against the cap.
    Actual,
    /// Posted and held against the cap.
    Committed,
}

impl ThresholdKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Actual => "actual",
            Self::Committed => "committed",
        }
    }
}

/// Money set aside for one run over the whole path of its budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub id: HoldId,
    /// The budget and its ancestors, from the leaf up.
    pub path: Vec<Name>,
    pub opened: Micros,
    pub posted: Micros,
    pub released: Micros,
    pub open: bool,
}

impl Hold {
    pub fn remainder(&self) -> Micros {
        self.opened.saturating_sub(self.posted).saturating_sub(self.released)
    }
}

/// An immutable line of the ledger. Its number is its place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerEntry {
    pub number: u64,
    pub at: Timestamp,
    pub kind: EntryKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    HoldOpen {
        hold: HoldId,
        path: Vec<Name>,
        amount: Micros,
    },
    HoldExtend {
        hold: HoldId,
        amount: Micros,
    },
    /// Usage from `from` to `to`, paid from the hold.
    Post {
        hold: HoldId,
        amount: Micros,
        term: Term,
        from: Timestamp,
        to: Timestamp,
    },
    HoldClose {
        hold: HoldId,
        released: Micros,
    },
    /// Usage beyond the hold; freezes the path.
    ForcePost {
        run: RunId,
        path: Vec<Name>,
        amount: Micros,
        term: Term,
        from: Timestamp,
        to: Timestamp,
        cause: Overrun,
    },
    Adjust {
        budget: Name,
        reference: Box<str>,
        amount: Micros,
        source: Box<str>,
    },
    Credit {
        budget: Name,
        reference: Box<str>,
        amount: Micros,
    },
    CapSet {
        budget: Name,
        cap: Micros,
        by: Name,
    },
}

/// Why usage went past its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overrun {
    /// Stopping took longer than the reserve.
    SlowStop,
    /// A run that was given up reported late.
    LateUsage,
}

impl EntryKind {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::HoldOpen { .. } => "hold-open",
            Self::HoldExtend { .. } => "hold-extend",
            Self::Post { .. } => "post",
            Self::HoldClose { .. } => "hold-close",
            Self::ForcePost { .. } => "force-post",
            Self::Adjust { .. } => "adjust",
            Self::Credit { .. } => "credit",
            Self::CapSet { .. } => "cap-set",
        }
    }

    /// The job it belongs to, for entries of a run.
    pub fn job(&self) -> Option<(JobId, Epoch)> {
        match self {
            Self::HoldOpen { hold, .. }
            | Self::HoldExtend { hold, .. }
            | Self::Post { hold, .. }
            | Self::HoldClose { hold, .. } => Some((hold.0.job, hold.0.epoch)),
            Self::ForcePost { run, .. } => Some((run.job, run.epoch)),
            Self::Adjust { .. } | Self::Credit { .. } | Self::CapSet { .. } => None,
        }
    }
}

/// A refused hold, with everything a person needs to mend it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error(
        "budget '{budget}' would pass its cap: cap {cap}, posted {posted}, held {held}, needed {needed}, short by {short_by}; raise the cap, or wait for running jobs to settle"
    )]
    BudgetExceeded { budget: Name, cap: Micros, posted: Micros, held: Micros, needed: Micros, short_by: Micros },
    #[error(
        "budget '{budget}' is frozen: its commitments exceed its cap, or a run overran its hold; raise its cap to thaw it"
    )]
    BudgetFrozen { budget: Name },
    #[error("budget '{budget}' does not exist; create it with 'leeway budget set {budget} --cap AMOUNT'")]
    UnknownBudget { budget: Name },
    #[error("the job names no budget and the installation has no default budget; add 'budget: NAME' to the job")]
    NoBudget,
    #[error(
        "the job's own cap of {cap} leaves no room: {posted} is spent, and {needed} must be set aside; raise max_cost"
    )]
    JobCap { cap: Micros, posted: Micros, needed: Micros },
    #[error("the amount does not fit in the ledger")]
    Overflow,
}

impl Refusal {
    pub const fn code(&self) -> &'static str {
        match self {
            Self::BudgetExceeded { .. } => "BUDGET_EXCEEDED",
            Self::BudgetFrozen { .. } => "BUDGET_FROZEN",
            Self::UnknownBudget { .. } => "UNKNOWN_BUDGET",
            Self::NoBudget => "NO_BUDGET",
            Self::JobCap { .. } => "MAX_COST",
            Self::Overflow => "OVERFLOW",
        }
    }

    /// The node that refused.
    pub const fn budget(&self) -> Option<&Name> {
        match self {
            Self::BudgetExceeded { budget, .. } | Self::BudgetFrozen { budget } | Self::UnknownBudget { budget } => {
                Some(budget)
            }
            Self::NoBudget | Self::JobCap { .. } | Self::Overflow => None,
        }
    }
}
