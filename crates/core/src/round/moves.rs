//! What must be moved for a job to run in a region, and what that costs: inputs, the newest checkpoint, outputs.
//!
//! An input is a URL in a region, or `dataset://name`: the replica that is cheapest to bring is taken, and a dataset
//! that nobody registered, or that has no replica, cannot be reached from anywhere. The transfers of one bill go up the
//! month's tiers together, one after the other.

use leeway_model::cluster::Region;
use leeway_model::dataset::{Dataset, Replica};
use leeway_model::decision::Assumption;
use leeway_model::job::{DataInput, DataOutput, Job};
use leeway_model::{Bill, Bytes, Micros, Name, Term};

use super::score::upper_bound;
use crate::config::Config;
use crate::locality::{Locality, Transfers};
use crate::state::table::Table;

/// The bytes that belong to a job, and where they lie.
#[derive(Clone, Debug)]
pub struct Moves<'a> {
    inputs: Vec<Input<'a>>,
    /// Newest checkpoint that would have to travel.
    checkpoint: Option<(&'a Region, Bytes)>,
    output: Option<&'a DataOutput>,
}

#[derive(Clone, Debug)]
struct Input<'a> {
    url: &'a str,
    source: Source<'a>,
    /// Unknown stays unknown; the installation's upper bound is used and flagged.
    size: Option<Bytes>,
}

#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Stated(Option<&'a Region>),
    Replicas(&'a [Replica]),
}

/// One transfer with its price, or the upper bound of what it can cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Quote {
    amount: Micros,
    /// No price is known.
    bounded: bool,
}

/// Name of the dataset that a URL refers to. `None` for other URLs; `Some(None)` where what follows is no name.
pub(crate) fn dataset_of(url: &str) -> Option<Option<Name>> {
    Some(url.strip_prefix("dataset://")?.trim_end_matches('/').parse().ok())
}

impl<'a> Moves<'a> {
    pub fn of(datasets: &'a Table<Name, Dataset>, job: &'a Job) -> Self {
        Self {
            inputs: job.spec.data.iter().map(|input| Input::of(datasets, input)).collect(),
            checkpoint: job.checkpoint.as_ref().map(|checkpoint| (&checkpoint.region, checkpoint.size)),
            output: job.spec.outputs.as_ref(),
        }
    }

    /// The URL of an input that no region can reach.
    pub fn unreachable(&self) -> Option<&'a str> {
        let nowhere = |input: &&Input<'a>| matches!(input.source, Source::Replicas([]));
        self.inputs.iter().find(nowhere).map(|input| input.url)
    }

    /// Adds the egress terms of running in `to`, and returns the bytes that must arrive before the program can start.
    pub fn charge(
        &self,
        config: &Config,
        locality: Locality<'_>,
        to: &Region,
        bill: &mut Bill,
        assumed: &mut Vec<Assumption>,
    ) -> Bytes {
        let mut staged = Bytes::ZERO;
        let mut transfers = locality.transfers();
        for input in &self.inputs {
            let size = input.size.unwrap_or(config.estimates.input_size);
            let from = input.nearest(config, &transfers, to, size);
            bill.add(Term::InputEgress, carry(config, &mut transfers, (from, Some(to)), size, assumed));
            if from != Some(to) {
                staged = staged.saturating_add(size);
            }
        }
        if let Some((from, size)) = self.checkpoint {
            bill.add(Term::CheckpointMove, carry(config, &mut transfers, (Some(from), Some(to)), size, assumed));
            if from != to {
                staged = staged.saturating_add(size);
            }
        }
        if let Some(output) = self.output {
            let size = output.size.unwrap_or(config.estimates.input_size);
            let path = (Some(to), output.region.as_ref());
            bill.add(Term::OutputEgress, carry(config, &mut transfers, path, size, assumed));
        }
        let unsized_output = self.output.is_some_and(|output| output.size.is_none());
        if unsized_output || self.inputs.iter().any(|input| input.size.is_none()) {
            assume(assumed, Assumption::InputSize);
        }
        staged
    }
}

impl<'a> Input<'a> {
    fn of(datasets: &'a Table<Name, Dataset>, input: &'a DataInput) -> Self {
        let Some(name) = dataset_of(&input.url) else {
            return Self { url: &input.url, source: Source::Stated(input.region.as_ref()), size: input.size };
        };
        let dataset = name.and_then(|name| datasets.get(&name));
        let replicas = dataset.map_or(&[][..], |dataset| &dataset.replicas);
        let size = input.size.or(dataset.map(|dataset| dataset.size));
        Self { url: &input.url, source: Source::Replicas(replicas), size }
    }

    /// Where to bring it from; of equally cheap replicas the first in their order.
    fn nearest(&self, config: &Config, transfers: &Transfers<'_>, to: &Region, size: Bytes) -> Option<&'a Region> {
        match self.source {
            Source::Stated(region) => region,
            Source::Replicas(replicas) => {
                let regions = replicas.iter().map(|replica| &replica.region);
                regions.min_by_key(|from| quote(config, transfers, from, to, size))
            }
        }
    }
}

fn quote(config: &Config, transfers: &Transfers<'_>, from: &Region, to: &Region, bytes: Bytes) -> Quote {
    match transfers.cost(from, to, bytes) {
        Some(amount) => Quote { amount, bounded: false },
        None => Quote { amount: upper_bound(config, bytes), bounded: true },
    }
}

/// Adds a transfer to those of the bill and returns its cost; where an end is unknown, the upper bound.
fn carry<'a>(
    config: &Config,
    transfers: &mut Transfers<'a>,
    path: (Option<&'a Region>, Option<&'a Region>),
    bytes: Bytes,
    assumed: &mut Vec<Assumption>,
) -> Micros {
    let (Some(from), Some(to)) = path else {
        assume(assumed, Assumption::InputRegion);
        return upper_bound(config, bytes);
    };
    let quote = quote(config, transfers, from, to, bytes);
    if quote.bounded {
        assume(assumed, Assumption::EgressPrice);
    } else {
        transfers.add(from, to, bytes);
    }
    quote.amount
}

fn assume(assumed: &mut Vec<Assumption>, what: Assumption) {
    if !assumed.contains(&what) {
        assumed.push(what);
    }
}
