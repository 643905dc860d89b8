//! Durable entries a second, against the bound: the same bytes appended to a plain file with one fdatasync a group.
//!
//! `cargo bench -p leeway-store` prints both for groups of 1, 64 and 512, and their ratio.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use leeway_store::{DiskStore, Entry, Identity, Index, Options, RowChange, Store};

const GROUPS: [u64; 3] = [1, 64, 512];
/// Event and row of an entry, in bytes: about 512 with the journal's own.
const EVENT_BYTES: usize = 240;
const ROW_BYTES: usize = 150;
/// What an entry takes in the journal; the bound writes as much.
const ENTRY_BYTES: usize = 52 + 16 + 4 + EVENT_BYTES + 4 + 2 + 9 + 1 + 4 + ROW_BYTES;

fn entry(index: Index) -> Entry {
    let mut key = vec![b'j'];
    key.extend_from_slice(&(index % 100_000).to_be_bytes());
    Entry {
        index,
        time_ms: index as i64,
        event: vec![index as u8; EVENT_BYTES].into(),
        rows: vec![RowChange { key: key.into(), value: Some(vec![index as u8; ROW_BYTES].into()) }],
    }
}

/// The bound. The file only grows, as the journal does: freeing its blocks would be charged to the next sync.
struct Plain {
    file: File,
    group: Vec<u8>,
}

impl Plain {
    fn new(dir: &Path, group: u64) -> Plain {
        let open = OpenOptions::new().create(true).append(true).open(dir.join("plain"));
        Plain { file: open.expect("the file can be made"), group: vec![7; ENTRY_BYTES * group as usize] }
    }

    fn append(&mut self, groups: u64) -> Duration {
        let started = Instant::now();
        for _ in 0..groups {
            self.file.write_all(black_box(&self.group)).expect("the disk takes it");
            self.file.sync_data().expect("the disk syncs");
        }
        started.elapsed()
    }
}

fn store(store: &mut DiskStore, group: u64, groups: u64) -> Duration {
    let mut spent = Duration::ZERO;
    for _ in 0..groups {
        let next = store.head().index + 1;
        let entries: Vec<Entry> = (next..next + group).map(entry).collect();
        let started = Instant::now();
        for entry in entries {
            store.append(entry).expect("the store takes it");
        }
        black_box(store.flush().expect("the store flushes"));
        spent += started.elapsed();
    }
    spent
}

fn open(dir: &Path) -> DiskStore {
    let identity = Identity { installation: "bench".into(), incarnation: "1".into() };
    let options = Options { reserve_bytes: 0, history_bytes: Some(256 << 20), ..Options::default() };
    DiskStore::init(dir, identity, options).expect("the store can be made")
}

/// In a directory of the target folder: the temporary one is often in memory, where syncing costs nothing.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be made")
}

fn append(criterion: &mut Criterion) {
    for group in GROUPS {
        let mut benches = criterion.benchmark_group(format!("durable entries in groups of {group}"));
        benches.throughput(Throughput::Elements(group)).sample_size(10).measurement_time(Duration::from_secs(2));
        let dir = scratch();
        let mut plain = Plain::new(dir.path(), group);
        benches.bench_function(BenchmarkId::from_parameter("plain file"), |bencher| {
            bencher.iter_custom(|groups| plain.append(groups));
        });
        let mut disk = open(&dir.path().join("store"));
        benches.bench_function(BenchmarkId::from_parameter("disk store"), |bencher| {
            bencher.iter_custom(|groups| store(&mut disk, group, groups));
        });
        benches.finish();
    }
}

/// Both in turns, so that a busy moment of the machine hits both.
fn ratios() {
    for group in GROUPS {
        let dir = scratch();
        let mut plain = Plain::new(dir.path(), group);
        let mut disk = open(&dir.path().join("store"));
        let groups = (8192 / group).clamp(16, 512);
        let (mut bound, mut ours) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..6 {
            bound += plain.append(groups);
            ours += store(&mut disk, group, groups);
        }
        let rate = |spent: Duration| (6 * group * groups) as f64 / spent.as_secs_f64();
        println!(
            "groups of {group}: plain file {:.0} entries/s, disk store {:.0} entries/s, ratio {:.2}",
            rate(bound),
            rate(ours),
            rate(ours) / rate(bound)
        );
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    append(&mut criterion);
    // Not when only the building is tested (`cargo test --benches`), or a list of names is asked for.
    if std::env::args().any(|arg| arg == "--bench") && !std::env::args().any(|arg| arg == "--list") {
        ratios();
    }
    criterion.final_summary();
}
