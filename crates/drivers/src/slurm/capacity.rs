//! How many machines of each offer could be held now, ours included, from one listing of the nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use leeway_model::cluster::ClusterSpec;
use leeway_model::market::{CapacityObservation, OfferKey};
use leeway_model::resources::{CapacityType, MachineShape};

use super::Cluster;
use super::calls::{CallError, Node};
use super::config::SlurmMachines;

/// A node in such a state takes no new job.
const CLOSED: [&str; 9] =
    ["down", "drain", "fail", "maint", "reboot", "reserved", "not_responding", "powered_down", "unknown"];

impl Cluster {
    pub(super) async fn capacity(&self, spec: &ClusterSpec) -> Result<Vec<CapacityObservation>, CallError> {
        let nodes = self.calls.nodes().await?;
        // The listing that was just looked at for what lives.
        let jobs = self.listings.recent(Duration::from_millis(self.config.poll.as_millis() / 2)).await?;
        let mut observed = Vec::new();
        for machines in &spec.machines {
            let shape = &machines.shape;
            let Some(config) = self.config.machines.get(&shape.name) else { continue };
            for (&capacity, queue) in &config.queues {
                let is_sold = match capacity {
                    CapacityType::Spot => machines.spot,
                    CapacityType::OnDemand => machines.on_demand,
                    CapacityType::Reserved => machines.reserved,
                };
                // Of spot machines a price may still come; others exist only with one.
                if is_sold.is_none() && capacity != CapacityType::Spot {
                    continue;
                }
                let in_partition: Vec<&Node> =
                    nodes.iter().filter(|node| node.partitions.iter().any(|name| *name == *queue.partition)).collect();
                let fit = |beside| in_partition.iter().map(|node| fitting(node, shape, config, beside)).sum::<u32>();
                let held = self.held(&jobs, &queue.partition, &shape.name);
                let mut available = fit(true).saturating_add(held);
                if capacity != CapacityType::Spot {
                    // Jobs of other partitions may have to give way here. Ours are not to be pushed aside by ourselves,
                    // and those of this partition stay: what they hold is known by nodes alone, so that it is an
                    // estimate, and what is really free a lower bound of it.
                    let others = jobs.iter().filter(|job| job.takes_nodes() && job.partition == *queue.partition);
                    let others: u32 = others.filter(|job| self.owner(job).is_none()).map(|job| job.nodes).sum();
                    let elsewhere = config.queues.values().map(|other| &other.partition);
                    let elsewhere =
                        elsewhere.filter(|partition| **partition != queue.partition).collect::<BTreeSet<_>>();
                    let ours: u32 = elsewhere.iter().map(|partition| self.held(&jobs, partition, &shape.name)).sum();
                    available = available.max(fit(false).saturating_sub(others).saturating_sub(ours));
                }
                let offer = OfferKey { cluster: spec.name.clone(), shape: shape.name.clone(), capacity };
                observed.push(CapacityObservation { offer, available: Some(available) });
            }
        }
        Ok(observed)
    }
}

/// Machines of a shape that a node has room for, beside what runs there or, if not, when it is empty.
fn fitting(node: &Node, shape: &MachineShape, config: &SlurmMachines, beside: bool) -> u32 {
    if CLOSED.iter().any(|state| node.state.contains(state)) {
        return 0;
    }
    // An expression of several features is left to Slurm.
    let plain = |wanted: &&str| wanted.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let feature = config.constraint.as_deref().filter(plain);
    if feature.is_some_and(|wanted| !node.features.iter().any(|feature| feature == wanted)) {
        return 0;
    }
    let (cpus_used, memory_used) = if beside { (node.cpus_used, node.memory_used) } else { (0, 0) };
    let by_cpus = node.cpus.saturating_sub(cpus_used) / (shape.cpus.0 / 1_000).max(1);
    let by_memory = node.memory.saturating_sub(memory_used) / (shape.memory.get() / (1 << 20)).max(1);
    let by_gres = config.gres.as_deref().map_or(u32::MAX, |wanted| {
        let (wanted, each) = one(wanted);
        let used = if beside { amount(&node.gres_used, &wanted) } else { 0 };
        amount(&node.gres, &wanted).saturating_sub(used) / each.max(1)
    });
    by_cpus.min(u32::try_from(by_memory).unwrap_or(u32::MAX)).min(by_gres)
}

/// How much of a generic resource such as `gpu:a100` is in a list such as `gpu:a100:8(S:0-1),shard:2`.
fn amount(list: &str, wanted: &str) -> u32 {
    let is_it = |kind: &str| kind == wanted || (!wanted.contains(':') && kind.split(':').next() == Some(wanted));
    outside_parentheses(list).split(',').map(one).filter(|(kind, _)| is_it(kind)).map(|(_, count)| count).sum()
}

/// `gpu:a100:4` is four of `gpu:a100`.
fn one(text: &str) -> (String, u32) {
    match text.rsplit_once(':').and_then(|(name, count)| Some((name, count.parse().ok()?))) {
        Some((name, count)) => (name.to_owned(), count),
        None => (text.to_owned(), 1),
    }
}

/// `gpu:a100:2(IDX:0,2)` without what stands in parentheses.
fn outside_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let mut outside = String::new();
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            other if depth == 0 => outside.push(other),
            _ => {}
        }
    }
    outside
}

#[cfg(test)]
mod tests {
    use leeway_model::Bytes;
    use leeway_model::resources::MilliCpus;

    use super::*;

    #[test]
    fn a_node_has_room_for_as_many_as_its_scarcest_resource() {
        let shape = MachineShape {
            name: "half".parse().unwrap(),
            instance_type: "half".into(),
            cpus: MilliCpus(4_000),
            memory: Bytes::new(7 << 30),
            accelerators: None,
            disk: Bytes::ZERO,
        };
        let config = SlurmMachines { gres: Some("gpu:a100:2".into()), ..SlurmMachines::default() };
        let node = Node {
            state: "mixed".into(),
            cpus: 12,
            memory: 16_000,
            gres: "gpu:a100:8(S:0-1)".into(),
            gres_used: "gpu:a100:5(IDX:0-3,5)".into(),
            ..Node::default()
        };
        let fits = |node: &Node, config: &SlurmMachines| fitting(node, &shape, config, false);
        assert_eq!(fits(&node, &config), 2);
        assert_eq!(fitting(&node, &shape, &config, true), 1);
        assert_eq!(fits(&Node { gres: "gpu:a100:3".into(), ..node.clone() }, &config), 1);
        assert_eq!(fits(&Node { gres: "gpu:h100:8".into(), ..node.clone() }, &config), 0);
        assert_eq!(fits(&Node { state: "idle drain".into(), ..node.clone() }, &config), 0);
        let picky = SlurmMachines { constraint: Some("ib".into()), ..config };
        assert_eq!(fits(&node, &picky), 0);
        assert_eq!(fits(&Node { features: vec!["ib".into()], ..node }, &picky), 2);
    }

    #[test]
    fn generic_resources_match_by_type_or_by_name_alone() {
        assert_eq!(amount("gpu:a100:4,gpu:h100:8,shard:2", "gpu:h100"), 8);
        assert_eq!(amount("gpu:a100:2(IDX:0,2),gpu:h100:1(IDX:4)", "gpu"), 3);
        assert_eq!(amount("", "gpu"), 0);
    }
}
