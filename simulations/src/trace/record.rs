//! One job of a trace, the same for every format: all that the simulator knows of a workload.

use leeway_model::{Bytes, Millis};

/// Most GPUs of one node, where a source states only how many GPUs a job had in all.
pub const GPUS_PER_NODE: u32 = 8;
/// Most CPUs of one node, where a source states only how many processors a job had in all.
pub const CPUS_PER_NODE: u32 = 64;

/// A job as it was submitted, and how long it would run if nothing disturbed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The source's name for the job; unique in its trace.
    pub name: String,
    /// Since the start of the trace. Records come in this order.
    pub submitted: Millis,
    /// Useful work on the machines asked for, at least a millisecond.
    pub runtime: Millis,
    /// Machines that the job needs at once, at least 1.
    pub nodes: u32,
    /// GPUs of each node; fractions of a GPU are rounded up.
    pub gpus: u32,
    /// The model asked for, in the source's spelling; several that would do have `|` between them. `None` when any does.
    pub accelerator: Option<String>,
    /// CPUs of each node; 0 when the source does not say.
    pub cpus: u32,
    /// Memory of each node; zero when the source does not say.
    pub memory: Bytes,
    /// Who pays: the source's organisation, virtual cluster or group. Empty when the source does not say.
    pub team: String,
    /// Empty when the source does not say.
    pub user: String,
    /// How the job ended in the source.
    pub status: Status,
}

/// How a job ended in the source. The simulator decides anew how it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Done,
    Failed,
    Cancelled,
    #[default]
    Unknown,
}

impl Status {
    pub const ALL: [Self; 4] = [Self::Done, Self::Failed, Self::Cancelled, Self::Unknown];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

impl JobRecord {
    /// GPUs of all nodes together.
    pub fn gpus_total(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus)
    }

    /// GPU-hours of useful work.
    pub fn gpu_hours(&self) -> f64 {
        self.gpus_total() as f64 * self.runtime.as_hours_f64()
    }

    /// Node-hours of useful work.
    pub fn node_hours(&self) -> f64 {
        f64::from(self.nodes) * self.runtime.as_hours_f64()
    }
}

/// Nodes, and units of each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gang {
    pub nodes: u32,
    pub each: u32,
}

/// Splits so many GPUs or CPUs over the fewest nodes of at most `most` each, evenly, so that 16 GPUs are two nodes of 8
/// and 12 are two of 6. What does not divide is rounded up: 9 GPUs are two nodes of 5. None at all are one node with 0.
pub const fn split(total: u32, most: u32) -> Gang {
    let nodes = total.div_ceil(if most == 0 { 1 } else { most });
    let nodes = if nodes == 0 { 1 } else { nodes };
    Gang { nodes, each: total.div_ceil(nodes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gang_has_the_fewest_nodes_that_hold_it_and_equal_shares() {
        for (total, nodes, each) in [(0, 1, 0), (1, 1, 1), (8, 1, 8), (9, 2, 5), (12, 2, 6), (16, 2, 8), (128, 16, 8)] {
            assert_eq!(split(total, GPUS_PER_NODE), Gang { nodes, each }, "{total}");
        }
        assert_eq!(split(u32::MAX, 1).nodes, u32::MAX);
    }
}
