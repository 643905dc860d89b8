//! Clusters.

use leeway_proto::pb;

use super::{Align, Field, Grid, Tone, nothing};
use crate::json::word;
use crate::terminal::View;

/// Clusters in the order in which they are given.
pub fn table(clusters: &[pb::Cluster], view: &View) -> String {
    if clusters.is_empty() {
        return nothing("clusters", "add one with 'leeway clusters add FILE', or in the server's configuration");
    }
    let (left, right) = (Align::Left, Align::Right);
    let columns = [
        ("CLUSTER", left),
        ("DRIVER", left),
        ("REGION", left),
        ("STATE", left),
        ("RUNS", right),
        ("MACHINES", right),
        ("SHAPES", left),
    ];
    let mut grid = Grid::new(&columns, view);
    for cluster in clusters {
        let spec = cluster.spec.clone().unwrap_or_default();
        let region = spec.zone.as_ref().map_or_else(|| spec.region.clone(), |zone| format!("{}/{zone}", spec.region));
        let counts: Option<u64> = spec.machines.iter().map(|machines| machines.count.map(u64::from)).sum();
        let machines = counts.map_or_else(|| "?".to_owned(), |count| count.to_string());
        let shapes = spec.machines.iter().map(|machines| {
            let name = machines.shape.as_ref().map_or("", |shape| shape.name.as_str());
            machines.count.map_or_else(|| name.to_owned(), |count| format!("{count}x {name}"))
        });
        grid.row([
            spec.name.as_str().into(),
            spec.driver.as_str().into(),
            region.into(),
            state(cluster.state()),
            cluster.active_runs.to_string().into(),
            format!("{}/{machines}", cluster.machines_in_use).into(),
            shapes.collect::<Vec<_>>().join(", ").into(),
        ]);
    }
    grid.finish()
}

fn state(state: pb::ClusterState) -> Field {
    let tone = match state {
        pb::ClusterState::Ready => Tone::Good,
        pb::ClusterState::Draining => Tone::Waiting,
        pb::ClusterState::Unreachable => Tone::Bad,
        pb::ClusterState::Unspecified => Tone::Faint,
    };
    Field::new(word(state.as_str_name(), "ClusterState"), tone)
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn clusters_show_state_and_use() {
        insta::assert_snapshot!("clusters", table(&samples::clusters(), &samples::view(None)));
    }
}
