//! Datasets.

use leeway_proto::pb;

use super::amounts::size;
use super::{Align, Grid, nothing};
use crate::terminal::View;

/// Datasets in the order in which they are given, a line for each copy.
pub fn table(datasets: &[pb::Dataset], view: &View) -> String {
    if datasets.is_empty() {
        return nothing("datasets", "declare one with 'leeway data register NAME --size 150GB --at REGION=URL'");
    }
    let columns = [("DATASET", Align::Left), ("SIZE", Align::Right), ("REGION", Align::Left), ("URL", Align::Left)];
    let mut grid = Grid::new(&columns, view);
    for dataset in datasets {
        for (index, replica) in dataset.replicas.iter().enumerate() {
            let first = index == 0;
            grid.row([
                if first { dataset.name.as_str() } else { "" }.into(),
                if first { size(dataset.size_bytes) } else { String::new() }.into(),
                replica.region.as_str().into(),
                replica.url.as_str().into(),
            ]);
        }
    }
    grid.finish()
}
