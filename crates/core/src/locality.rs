//! What it costs to bring bytes from one region to another: the cheapest path over the graph of regions.

use std::collections::BTreeMap;

use leeway_model::cluster::Region;
use leeway_model::{Bytes, Micros};
use petgraph::algo::dijkstra;
use petgraph::graph::{DiGraph, NodeIndex};

/// Regions and the price of a byte between them. A pair that is not listed may still be reached over others.
#[derive(Clone, Debug, Default)]
pub struct EgressGraph {
    graph: DiGraph<Region, NanosPerGb>,
    nodes: BTreeMap<Region, NodeIndex>,
}

/// Price of 10^9 bytes in nano-units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NanosPerGb(pub u64);

impl EgressGraph {
    /// Sets the price of a direct path.
    pub fn set(&mut self, from: Region, to: Region, price: NanosPerGb) {
        let (from, to) = (self.node(from), self.node(to));
        self.graph.update_edge(from, to, price);
    }

    fn node(&mut self, region: Region) -> NodeIndex {
        *self.nodes.entry(region.clone()).or_insert_with(|| self.graph.add_node(region))
    }

    /// Cost of the cheapest path, rounded up; zero within a region; `None` when no path is known.
    pub fn cost(&self, from: &Region, to: &Region, bytes: Bytes) -> Option<Micros> {
        if from == to || bytes.is_zero() {
            return Some(Micros::ZERO);
        }
        let (from, to) = (*self.nodes.get(from)?, *self.nodes.get(to)?);
        let found = dijkstra(&self.graph, from, Some(to), |edge| edge.weight().0);
        let nanos = u128::from(*found.get(&to)?) * u128::from(bytes.get());
        // nano-units x bytes / 10^9 bytes / 1,000 nanos a micro, rounded up.
        Some(Micros::new(i64::try_from(nanos.div_ceil(1_000_000_000_000)).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(text: &str) -> Region {
        text.parse().unwrap()
    }

    #[test]
    fn a_relay_is_used_when_it_is_cheaper_than_the_direct_path() {
        let mut graph = EgressGraph::default();
        let (a, b, c) = (region("aws/a"), region("aws/b"), region("gcp/c"));
        graph.set(a.clone(), c.clone(), NanosPerGb(90_000_000));
        graph.set(a.clone(), b.clone(), NanosPerGb(20_000_000));
        graph.set(b.clone(), c.clone(), NanosPerGb(50_000_000));
        assert_eq!(graph.cost(&a, &c, Bytes::from_gb(10)), Some(Micros::new(700_000)));
        assert_eq!(graph.cost(&c, &a, Bytes::from_gb(10)), None, "the way back is not the way there");
        assert_eq!(graph.cost(&a, &a, Bytes::from_gb(10)), Some(Micros::ZERO));
    }
}
