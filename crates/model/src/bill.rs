//! The whole bill, term by term. The same terms are used for what is expected and for what was charged.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Micros;

/// A line of the bill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Term {
    /// Price x predicted remaining time.
    Compute,
    /// Pauses to save.
    Checkpoints,
    /// Work expected to be lost to interruptions, with restarts.
    Rework,
    /// Inputs that are not there yet.
    InputEgress,
    /// The newest checkpoint, when it lies elsewhere.
    CheckpointMove,
    /// Results going home.
    OutputEgress,
    Disk,
    /// Staging and queue time at the job's value of time.
    Waiting,
}

impl Term {
    pub const ALL: [Self; 8] = [
        Self::Compute,
        Self::Checkpoints,
        Self::Rework,
        Self::InputEgress,
        Self::CheckpointMove,
        Self::OutputEgress,
        Self::Disk,
        Self::Waiting,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Checkpoints => "checkpoints",
            Self::Rework => "rework",
            Self::InputEgress => "input-egress",
            Self::CheckpointMove => "checkpoint-move",
            Self::OutputEgress => "output-egress",
            Self::Disk => "disk",
            Self::Waiting => "waiting",
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An amount for each term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill([Micros; 8]);

impl Bill {
    pub fn get(&self, term: Term) -> Micros {
        self.0[term as usize]
    }

    pub fn set(&mut self, term: Term, amount: Micros) {
        self.0[term as usize] = amount;
    }

    /// Adds to a term; saturates.
    pub fn add(&mut self, term: Term, amount: Micros) {
        self.0[term as usize] = self.0[term as usize].saturating_add(amount);
    }

    pub fn total(&self) -> Micros {
        self.0.iter().fold(Micros::ZERO, |sum, &term| sum.saturating_add(term))
    }

    /// Terms in their fixed order.
    pub fn terms(&self) -> impl Iterator<Item = (Term, Micros)> + '_ {
        Term::ALL.into_iter().map(|term| (term, self.get(term)))
    }
}
