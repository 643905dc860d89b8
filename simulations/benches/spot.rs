//! The optimum of one zone and of nine, and a rule over one window, on markets made here.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use leeway_policies::deadline::{Task, UniformProgress, Zone};
use leeway_simulations::random::stream;
use leeway_simulations::spot::model::{self, Path, Sight};
use leeway_simulations::spot::optimum::optimum;

struct Markets {
    zones: Vec<Zone>,
    available: Vec<Vec<bool>>,
    spot_price: Vec<Vec<f64>>,
}

/// Zones in three regions whose spot comes for hours and goes for hours.
fn markets(zones: usize, ticks: usize) -> Markets {
    let mut luck = stream(1, "bench");
    let mut markets = Markets { zones: Vec::new(), available: Vec::new(), spot_price: Vec::new() };
    for zone in 0..zones {
        let mut up = true;
        let mut path = || {
            up ^= luck.below(30) == 0;
            up
        };
        markets.available.push((0..ticks).map(|_| path()).collect());
        markets.spot_price.push((0..ticks).map(|_| luck.between(80, 120) as f64 / 100.0).collect());
        let egress = (0..zones).map(|to| if to % 3 == zone % 3 { 0.0 } else { 1.0 }).collect();
        markets.zones.push(Zone { on_demand: 3.06, egress });
    }
    markets
}

fn task(deadline_hours: f64, changeover_hours: f64, tick: f64) -> Task {
    Task { work: 48.0 * 3600.0, deadline: deadline_hours * 3600.0, changeover: changeover_hours * 3600.0, tick }
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("spot");
    for (name, zones, task) in [
        ("optimum of one zone, 600 s ticks, 48 h of 60", 1, task(60.0, 0.2, 600.0)),
        ("optimum of one zone, 600 s ticks, 48 h of 92", 1, task(92.0, 0.05, 600.0)),
        ("optimum of nine zones, 195 s ticks, 48 h of 60", 9, task(60.0, 0.2, 195.0)),
        ("optimum of nine zones, 195 s ticks, 48 h of 92", 9, task(92.0, 0.2, 195.0)),
    ] {
        let Markets { zones, available, spot_price } = markets(zones, task.ticks());
        let pairs = available.iter().zip(&spot_price);
        let paths: Vec<Path<'_>> = pairs.map(|(available, spot_price)| Path { available, spot_price }).collect();
        group.sample_size(10);
        group.bench_function(name, |bencher| bencher.iter(|| optimum(black_box(&task), &zones, &paths)));
        let name = name.replace("optimum", "uniform progress");
        let run = || model::run(&UniformProgress, black_box(&task), &zones, &paths, Sight::Free);
        group.bench_function(name, |bencher| bencher.iter(run));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
