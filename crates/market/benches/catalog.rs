//! Reading a price list of 1,000,000 rows.
//!
//! ```text
//! cargo bench -p leeway-market --bench catalog
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot begin has nothing to say")]

use std::fmt::Write as _;

use criterion::{Criterion, criterion_group, criterion_main};
use leeway_market::catalog::{self, Options};
use leeway_model::Timestamp;

const ROWS: usize = 1_000_000;

/// SkyPilot's columns: a row a machine and zone, each with an on-demand and a spot price.
fn list() -> String {
    let mut text = String::from(
        "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n",
    );
    for row in 0..ROWS {
        let (region, zone) = (row / 6 % 200, row % 6);
        let kind = row / 1_200;
        let (price, spot) = (100 + kind % 900, 30 + (kind + zone) % 300);
        let _ = writeln!(
            text,
            "m{kind}.{}xlarge,A100,{},{}.0,{}.0,,{price}.{:02},{spot}.{:02},r-{region},r-{region}-{zone}",
            1 + kind % 24,
            1 + kind % 8,
            8 * (1 + kind % 12),
            32 * (1 + kind % 24),
            row % 100,
            row % 97,
        );
    }
    text
}

fn read(criterion: &mut Criterion) {
    let text = list();
    let options = Options::of_provider("aws", Timestamp::from_millis(1_000));
    let read = catalog::read(text.as_bytes(), &options).unwrap();
    println!(
        "{} MB, {} offers, {} set aside",
        text.len() / 1_000_000,
        read.rows.len(),
        read.counts.values().sum::<u64>()
    );
    assert_eq!(read.records, ROWS as u64);
    let mut group = criterion.benchmark_group("catalog");
    group.sample_size(10);
    group
        .bench_function("1,000,000 rows", |bencher| bencher.iter(|| catalog::read(text.as_bytes(), &options).unwrap()));
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
