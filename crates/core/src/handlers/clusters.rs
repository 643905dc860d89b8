//! Clusters and datasets coming and going.

use leeway_model::cluster::{ClusterSpec, ClusterState};
use leeway_model::dataset::Dataset;
use leeway_model::job::Job;
use leeway_model::{JobId, Name};

use super::admission::check_cluster;
use crate::order::Waiting;
use crate::reply::{Refused, RefusedKind, Reply};
use crate::round::moves::dataset_of;
use crate::scheduler::Scheduler;
use crate::state::Cluster;

impl Scheduler {
    /// Adds a cluster, or brings its declaration up to date.
    pub(crate) fn on_cluster_registered(&mut self, spec: ClusterSpec) -> Reply {
        if let Err(refused) = check_cluster(&spec) {
            return Reply::Refused(refused);
        }
        let known = self.tables.clusters.get(&spec.name);
        if known.is_some_and(|known| known.spec == spec) {
            return Reply::Done;
        }
        let gone = self.standing.iter().find(|(offer, _)| {
            offer.cluster == spec.name && !spec.machines.iter().any(|machines| machines.shape.name == offer.shape)
        });
        if let Some((offer, runs)) = gone {
            let users: Vec<String> = runs.iter().take(8).map(|run| run.to_string()).collect();
            let message = format!("machine shape '{}' is in use by {}", offer.shape, users.join(", "));
            return Reply::Refused(Refused::new(RefusedKind::Precondition, "CLUSTER_IN_USE", message));
        }
        let (state, drained) = known.map_or((ClusterState::Ready, false), |known| (known.state, known.drained));
        let (name, cluster) = (spec.name.clone(), spec.name.clone());
        self.fleet.retain_shapes(&spec);
        self.fleet.declare(&spec, state == ClusterState::Ready, self.config.currency);
        self.tables.clusters.insert(name, Cluster { spec, state, drained });
        self.forget_spells(&cluster);
        self.meter_clusters();
        self.queue.wake_all(&self.fleet);
        Reply::Done
    }

    pub(crate) fn on_cluster_drained(&mut self, name: &Name, drained: bool) -> Reply {
        let Some(row) = self.tables.clusters.change(name) else {
            return Reply::Refused(Refused::not_found("cluster", name));
        };
        row.drained = drained;
        let state = match (drained, row.state) {
            (_, ClusterState::Unreachable) => ClusterState::Unreachable,
            (true, _) => ClusterState::Draining,
            (false, _) => ClusterState::Ready,
        };
        self.set_cluster_state(name, state);
        Reply::Done
    }

    pub(crate) fn on_cluster_reached(&mut self, name: &Name, reached: bool) -> Reply {
        let Some(row) = self.tables.clusters.get(name) else {
            return Reply::Refused(Refused::not_found("cluster", name));
        };
        let state = match (reached, row.drained) {
            (false, _) => ClusterState::Unreachable,
            (true, true) => ClusterState::Draining,
            (true, false) => ClusterState::Ready,
        };
        if state != row.state {
            self.set_cluster_state(name, state);
        }
        Reply::Done
    }

    fn set_cluster_state(&mut self, name: &Name, state: ClusterState) {
        if let Some(row) = self.tables.clusters.change(name) {
            row.state = state;
        }
        let offers: Vec<_> = self.fleet.of_cluster(name).collect();
        for offer in offers {
            self.fleet.set_ready(offer, state == ClusterState::Ready);
            self.touch(offer);
        }
    }

    pub(crate) fn on_cluster_removed(&mut self, name: &Name) -> Reply {
        if !self.tables.clusters.contains(name) {
            return Reply::Refused(Refused::not_found("cluster", name));
        }
        let runs = self.runs_on(name);
        if !runs.is_empty() {
            let users: Vec<String> = runs.iter().take(8).map(|run| run.to_string()).collect();
            let message = format!(
                "cluster '{name}' is in use by {} runs ({}); drain it, wait for them or cancel them",
                runs.len(),
                users.join(", ")
            );
            return Reply::Refused(Refused::new(RefusedKind::Precondition, "CLUSTER_IN_USE", message));
        }
        self.tables.clusters.remove(name);
        self.fleet.remove_cluster(name);
        self.forget_spells(name);
        self.meter_clusters();
        Reply::Done
    }

    /// Adds or replaces a dataset, and lets the jobs that could not reach their data look again.
    pub(crate) fn on_dataset_registered(&mut self, dataset: Dataset) -> Reply {
        self.tables.datasets.insert(dataset.name.clone(), dataset);
        let waiting: Vec<JobId> = self.queue.without_data().collect();
        for id in waiting {
            if let Some(job) = self.tables.jobs.get(&id) {
                self.queue.add(Waiting::new(&self.config, job), &self.fleet);
            }
        }
        Reply::Done
    }

    pub(crate) fn on_dataset_removed(&mut self, name: &Name) -> Reply {
        if !self.tables.datasets.contains(name) {
            return Reply::Refused(Refused::not_found("dataset", name));
        }
        let reads = |job: &&Job| {
            let mut inputs = job.spec.data.iter();
            !job.state.is_terminal() && inputs.any(|input| dataset_of(&input.url) == Some(Some(name.clone())))
        };
        let users: Vec<String> =
            self.tables.jobs.values().filter(reads).take(8).map(|job| job.id.to_string()).collect();
        if !users.is_empty() {
            let message = format!("dataset '{name}' is read by {}; wait for them or cancel them", users.join(", "));
            return Reply::Refused(Refused::new(RefusedKind::Precondition, "DATASET_IN_USE", message));
        }
        self.tables.datasets.remove(name);
        Reply::Done
    }
}
