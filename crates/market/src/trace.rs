//! Recorded spot markets: what a place had to offer at each tick, and at which price.
//!
//! A trace is one machine type in one zone. `data[i]` is the number of nodes that could be had (or were alive) during
//! tick `i`; it holds for the whole tick. On-demand machines are not part of a trace: they are always there.

use leeway_model::cluster::Region;
use leeway_model::resources::Accelerators;
use leeway_model::{Millis, Rate, Timestamp};

mod aws;
mod spot;
mod turn;

pub use aws::{Notes as AwsNotes, PriceHistory, PricePoint, Series, SeriesKey, parse as parse_aws_price_history};
pub use spot::{parse, read, write};

/// Largest trace file in bytes.
pub const FILE_MAX: usize = 64 << 20;
/// Most ticks of one trace.
pub const TICKS_MAX: usize = 1_000_000;
/// Longest tick and longest notice.
pub const SPAN_MAX: Millis = Millis::from_hours(24);
/// Most nodes in one market.
pub const NODES_MAX: u32 = 1_000_000;

/// How a trace was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At each tick machines were asked for and given back at once.
    AvailabilityProbe,
    /// Machines were kept running; the value is how many were alive.
    PreemptionRun,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AvailabilityProbe => "availability-probe",
            Self::PreemptionRun => "preemption-run",
        }
    }
}

/// A checked trace. Every value is in range and every list is sorted by tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpotTrace {
    pub family: Box<str>,
    pub region: Region,
    pub zone: Box<str>,
    pub instance_type: Box<str>,
    pub accelerators: Option<Accelerators>,
    /// Nodes asked for at each probe; no value of `data` is above it.
    pub nodes_requested: u32,
    pub kind: Kind,
    /// Length of a tick.
    pub gap: Millis,
    /// Moment of tick 0, where the source gives one.
    pub start: Option<Timestamp>,
    pub on_demand: Rate,
    /// Spot price until the first entry of `price_changes`.
    pub spot: Rate,
    pub price_changes: Vec<PriceChange>,
    /// Warnings of losses; a loss that is not listed has the caller's default.
    pub notices: Vec<Notice>,
    /// Ticks that the source did not measure and that repeat the tick before.
    pub missing_ticks: Vec<u32>,
    pub data: Vec<u32>,
}

/// From `tick` on the spot price is `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceChange {
    pub tick: u32,
    pub rate: Rate,
}

/// The loss that begins at `tick` is announced this long before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    pub tick: u32,
    pub length: Millis,
}

/// Why a trace is refused: the file, the field (with the index in a list) and what is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {field}: {problem}")]
pub struct Error {
    pub file: String,
    pub field: String,
    pub problem: String,
}

/// A trace in numbers, for reports and golden tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub ticks: u32,
    pub length: Millis,
    /// Ticks with at least one node, and with all that were asked for.
    pub ticks_any: u32,
    pub ticks_all: u32,
    /// Times the number of nodes fell.
    pub losses: u32,
    pub price_changes: u32,
    pub price_low: Rate,
    pub price_high: Rate,
}

impl SpotTrace {
    /// Length of the whole trace.
    pub fn length(&self) -> Millis {
        self.gap.saturating_mul(self.data.len() as u64)
    }

    /// Ticks at which the number of nodes falls. Tick 0 is not among them: nothing was there before it.
    pub fn loss_ticks(&self) -> impl Iterator<Item = u32> + '_ {
        (1_u32..).zip(self.data.windows(2)).filter(|(_, pair)| pair[1] < pair[0]).map(|(tick, _)| tick)
    }

    /// The notice stated for the loss at `tick`.
    pub fn notice_at(&self, tick: u32) -> Option<Millis> {
        let at = self.notices.binary_search_by_key(&tick, |notice| notice.tick).ok()?;
        Some(self.notices[at].length)
    }

    pub fn summary(&self) -> Summary {
        // Only the tick 0 price can be replaced before it holds for any time.
        let replaced = self.price_changes.first().is_some_and(|change| change.tick == 0);
        let initial = (!replaced).then_some(self.spot);
        let prices = || initial.into_iter().chain(self.price_changes.iter().map(|change| change.rate));
        let count = |holds: &dyn Fn(u32) -> bool| self.data.iter().filter(|&&nodes| holds(nodes)).count() as u32;
        Summary {
            ticks: self.data.len() as u32,
            length: self.length(),
            ticks_any: count(&|nodes| nodes > 0),
            ticks_all: count(&|nodes| nodes >= self.nodes_requested),
            losses: self.loss_ticks().count() as u32,
            price_changes: self.price_changes.len() as u32,
            price_low: prices().min().unwrap_or(self.spot),
            price_high: prices().max().unwrap_or(self.spot),
        }
    }
}
