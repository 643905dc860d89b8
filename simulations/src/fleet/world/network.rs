//! Transfers between regions: all that go the same way at the same time share its bandwidth evenly.
//!
//! Each way has one pending instant, that of its next transfer to end; it moves whenever a transfer begins or ends.

use std::collections::BTreeMap;

use leeway_model::cluster::Region;
use leeway_model::{Bytes, Millis, Timestamp};

/// Number of a way between two regions.
pub type WayId = u32;

#[derive(Debug)]
pub struct Network {
    between: Bytes,
    within: Bytes,
    ways: Vec<Way>,
    known: BTreeMap<(Region, Region), WayId>,
}

#[derive(Debug)]
struct Way {
    /// Bytes a millisecond.
    speed: f64,
    flows: Vec<Flow>,
    /// Up to when the flows are reckoned.
    at: Timestamp,
    /// Only the newest plan of a way counts.
    turn: u32,
    moved: f64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    tag: u64,
    left: f64,
}

/// When a way must be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub way: WayId,
    pub turn: u32,
    pub at: Timestamp,
}

impl Network {
    pub fn new(between: Bytes, within: Bytes) -> Self {
        Self { between, within, ways: Vec::new(), known: BTreeMap::new() }
    }

    /// Begins a transfer; `tag` comes back when it is through.
    pub fn send(&mut self, now: Timestamp, from: &Region, to: &Region, bytes: Bytes, tag: u64) -> Plan {
        let id = self.way(from, to);
        let way = &mut self.ways[id as usize];
        way.advance(now);
        way.flows.push(Flow { tag, left: bytes.get() as f64 });
        way.plan(id, now)
    }

    /// Looks at a way at the instant of a plan: what is through, and the next plan. A plan that was replaced does nothing.
    pub fn look(&mut self, now: Timestamp, id: WayId, turn: u32, through: &mut Vec<u64>) -> Option<Plan> {
        let way = self.ways.get_mut(id as usize).filter(|way| way.turn == turn)?;
        way.advance(now);
        way.flows.retain(|flow| {
            // Instants are whole milliseconds, so that a little more than the rest may have been reckoned.
            let is_left = flow.left > 0.5;
            if !is_left {
                through.push(flow.tag);
            }
            is_left
        });
        (!way.flows.is_empty()).then(|| way.plan(id, now))
    }

    /// Bytes that were carried so far on ways between two different regions.
    pub fn moved_between(&self) -> Bytes {
        let between = self.known.iter().filter(|((from, to), _)| from != to);
        Bytes::new(between.map(|(_, id)| self.ways[*id as usize].moved).sum::<f64>() as u64)
    }

    fn way(&mut self, from: &Region, to: &Region) -> WayId {
        if let Some(id) = self.known.get(&(from.clone(), to.clone())) {
            return *id;
        }
        let id = self.ways.len() as WayId;
        let speed = if from == to { self.within } else { self.between };
        let speed = speed.get().max(1) as f64 / 1_000.0;
        self.ways.push(Way { speed, flows: Vec::new(), at: Timestamp::ZERO, turn: 0, moved: 0.0 });
        self.known.insert((from.clone(), to.clone()), id);
        id
    }
}

impl Way {
    fn advance(&mut self, now: Timestamp) {
        let passed = now.since(self.at).as_millis() as f64;
        self.at = self.at.max(now);
        if self.flows.is_empty() {
            return;
        }
        let each = passed * self.speed / self.flows.len() as f64;
        for flow in &mut self.flows {
            self.moved += each.min(flow.left);
            flow.left = (flow.left - each).max(0.0);
        }
    }

    fn plan(&mut self, way: WayId, now: Timestamp) -> Plan {
        self.turn = self.turn.wrapping_add(1);
        let least = self.flows.iter().map(|flow| flow.left).fold(f64::INFINITY, f64::min);
        let millis = (least * self.flows.len() as f64 / self.speed).ceil();
        Plan { way, turn: self.turn, at: now.after(Millis::new(millis as u64)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn two_transfers_share_a_way_and_the_last_has_it_alone() {
        let (here, there): (Region, Region) = ("aws/here".parse().unwrap(), "aws/there".parse().unwrap());
        let mut network = Network::new(Bytes::new(1_000), Bytes::new(1_000_000));
        let alone = network.send(at(0), &here, &there, Bytes::new(1_000), 1);
        assert_eq!(alone.at, at(1_000));
        let shared = network.send(at(500), &here, &there, Bytes::new(1_000), 2);
        assert_eq!(shared.at, at(1_500), "500 bytes are left of the first, at half the speed");
        let mut through = Vec::new();
        assert_eq!(network.look(at(1_000), alone.way, alone.turn, &mut through), None, "that plan was replaced");
        let last = network.look(at(1_500), shared.way, shared.turn, &mut through).unwrap();
        assert_eq!((through.clone(), last.at), (vec![1], at(2_000)));
        assert_eq!(network.look(at(2_000), last.way, last.turn, &mut through), None);
        assert_eq!((through, network.moved_between()), (vec![1, 2], Bytes::new(2_000)));
    }

    #[test]
    fn nothing_to_bring_is_there_at_once() {
        let here: Region = "aws/here".parse().unwrap();
        let mut network = Network::new(Bytes::ZERO, Bytes::ZERO);
        let plan = network.send(at(7), &here, &here, Bytes::ZERO, 1);
        let mut through = Vec::new();
        assert_eq!((plan.at, network.look(at(7), plan.way, plan.turn, &mut through)), (at(7), None));
        assert_eq!(through, [1]);
        assert_eq!(network.moved_between(), Bytes::ZERO);
    }
}
