//! How long a server needs to come back: opening the store and restoring the scheduler from 100,000 jobs.
//!
//! `cargo bench -p leeway-engine --bench open` prints criterion's figures and, at the end, a table with the time in which
//! the same files are merely read, measured in the same run.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use leeway_core::event::{RequestKey, Submission};
use leeway_core::{Config, Event};
use leeway_engine::Engine;
use leeway_model::budget::BudgetSpec;
use leeway_model::checkpoint::{CheckpointPolicy, Interval};
use leeway_model::cluster::{ClusterSpec, Machines};
use leeway_model::job::{DataInput, JobSpec, MoneyTerms, Program, RetryPolicy, TimeTerms};
use leeway_model::resources::{Accelerators, MachineShape, MilliCpus, ResourceRequest};
use leeway_model::{Bytes, InstallationId, Micros, Millis, Name, Rate, Timestamp};
use leeway_store::{DiskStore, Identity, Options};

const JOBS: usize = 100_000;
const ROUNDS: usize = 5;
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn name(text: &str) -> Name {
    text.parse().expect("it is a name")
}

fn config() -> Config {
    Config::new(InstallationId(name("bench")), name("whole-bill"))
}

/// A training job as people write it, for a model of accelerator.
fn job(number: usize, model: &str) -> JobSpec {
    JobSpec {
        name: format!("resnet50-sweep-{number}").parse().expect("it is a text"),
        owner: name("ada"),
        nodes: 1,
        resources: vec![ResourceRequest {
            accelerators: Some(Accelerators { model: model.into(), count: 1 }),
            ..Default::default()
        }],
        ordered: false,
        priority: 0,
        program: Program {
            setup: Some("pip install -r requirements.txt".into()),
            run: "python train.py --config configs/resnet50.yaml --epochs 90 --resume \"$LEEWAY_CKPT_DIR\"".into(),
            env: [("OMP_NUM_THREADS", "8"), ("WANDB_PROJECT", "resnet50-sweep"), ("LEARNING_RATE", "0.1")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Default::default()
        },
        money: MoneyTerms { budget: Some(name("team")), ..Default::default() },
        time: TimeTerms { estimate: Some(Millis::from_hours(4)), ..Default::default() },
        data: vec![DataInput {
            url: "s3://datasets/imagenet-1k/".into(),
            region: Some("aws/us-east-1".parse().expect("it is a region")),
            size: Some(Bytes::from_gb(150)),
        }],
        outputs: None,
        checkpoint: Some(CheckpointPolicy {
            path: None,
            interval: Interval::Auto,
            size: Some(Bytes::from_gb(1)),
            save_time: None,
            restore_time: None,
            keep: 3,
            restart_without: false,
        }),
        retry: RetryPolicy::default(),
        depends_on: vec![],
        policy: None,
        labels: [("team".to_owned(), "vision".to_owned())].into(),
    }
}

/// V100 machines without end.
fn cluster() -> ClusterSpec {
    ClusterSpec {
        name: name("here"),
        driver: name("local"),
        region: "aws/us-east-1".parse().expect("it is a region"),
        zone: None,
        machines: vec![Machines {
            shape: MachineShape {
                name: name("v100"),
                instance_type: "p3.2xlarge".into(),
                cpus: MilliCpus(8_000),
                memory: Bytes::from_gib(61),
                accelerators: Some(Accelerators { model: "V100".into(), count: 1 }),
                disk: Bytes::from_gb(200),
            },
            count: Some(10_000_000),
            on_demand: Some(Rate::from_micros(3_060_000)),
            spot: Some(Rate::from_micros(920_000)),
            reserved: None,
        }],
        checkpoints: "file:///checkpoints".into(),
        labels: Default::default(),
    }
}

/// The jobs of a store.
#[derive(Clone, Copy, Debug)]
enum Content {
    /// Each wants a machine that nobody has.
    Waiting,
    /// Each has a run.
    Running,
}

/// A store with 100,000 jobs, closed.
fn fill(dir: &Path, content: Content) {
    let identity = Identity { installation: "bench".into(), incarnation: "1".into() };
    let options = Options { reserve_bytes: 0, ..Options::default() };
    let store = DiskStore::init(dir, identity, options).expect("the store can be made");
    let (mut engine, _) = Engine::open(store, config(), leeway_policies::all(), NOW).expect("it opens");
    let step = |engine: &mut Engine<DiskStore>, event| engine.step(NOW, event, ()).expect("the step is taken");
    let cap = Micros::from_units(1_000_000_000);
    let spec = BudgetSpec { name: name("team"), parent: None, cap, period: Default::default(), soft_limit: None };
    step(&mut engine, Event::BudgetSet { spec, by: name("ops") });
    step(&mut engine, Event::ClusterRegistered { spec: cluster() });
    for number in 0..JOBS {
        let model = match content {
            Content::Waiting => "H100",
            Content::Running => "V100",
        };
        let request = RequestKey { id: format!("ada/sweep-{number}").into(), body: [number as u8; 32] };
        let jobs = vec![Submission { spec: job(number, model), after: vec![] }];
        step(&mut engine, Event::JobsSubmitted { request: Some(request), jobs });
        if number % 100 == 99 {
            engine.commit().expect("the disk takes it");
        }
    }
    if let Content::Running = content {
        let runs: Vec<_> = engine.scheduler().tables().runs.values().map(|run| run.id).collect();
        assert_eq!(runs.len(), JOBS);
        for (number, run) in runs.into_iter().enumerate() {
            step(&mut engine, Event::RunLaunched { run, instances: vec![format!("i-{run}").into()] });
            if number % 100 == 99 {
                engine.commit().expect("the disk takes it");
            }
        }
    }
    engine.commit().expect("the disk takes it");
    engine.into_store().close().expect("the store closes");
}

fn open(dir: &Path) -> Engine<DiskStore> {
    let store = DiskStore::open(dir, Options { reserve_bytes: 0, ..Options::default() }).expect("it opens");
    let (engine, _) = Engine::open(store, config(), leeway_policies::all(), NOW).expect("it opens");
    assert_eq!(engine.scheduler().tables().jobs.len(), JOBS);
    engine
}

fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = work();
    (start.elapsed(), result)
}

/// Reads every file below `dir`; returns their bytes.
fn read_all(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("the directory is there");
    let read = |entry: std::fs::DirEntry| {
        let path = entry.path();
        if path.is_dir() {
            read_all(&path)
        } else {
            black_box(std::fs::read(path).expect("it can be read")).len() as u64
        }
    };
    entries.map(|entry| read(entry.expect("the directory can be listed"))).sum()
}

/// In a directory of the target folder: the temporary one is often in memory.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be made")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Opens again and again, and reads the same files in between.
fn compare(title: &str, dir: &Path, before: impl Fn()) {
    let (mut reads, mut opens, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        before();
        let (read, found) = timed(|| read_all(dir));
        let (opened, engine) = timed(|| open(dir));
        engine.into_store().close().expect("the store closes");
        reads.push(read);
        opens.push(opened);
        bytes = found;
    }
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    let seconds = |times| median(times).as_secs_f64();
    println!("{title:<52} {mebibytes:>8.0} {:>10.2} {:>10.2}", seconds(reads), seconds(opens));
}

fn table(waiting: &Path, running: &Path) {
    println!("\n{:<52} {:>8} {:>10} {:>10}", "opening 100,000 jobs", "MiB", "read all s", "open s");
    compare("waiting, after a clean stop", waiting, || {});
    compare("running, after a clean stop", running, || {});
    let lose_index = || std::fs::remove_dir_all(running.join("index")).expect("it can be removed");
    compare("running, the index made anew from the journal", running, lose_index);
}

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let measure = std::env::args().any(|arg| arg == "--bench") && !std::env::args().any(|arg| arg == "--list");
    if !measure {
        // Only the building is tested (`cargo test --benches`), or a list of names is asked for.
        criterion.final_summary();
        return;
    }
    let dir = scratch();
    let (waiting, running) = (dir.path().join("waiting"), dir.path().join("running"));
    fill(&waiting, Content::Waiting);
    fill(&running, Content::Running);
    criterion.bench_function("open 100,000 waiting jobs", |bencher| {
        bencher.iter_batched(|| (), |()| open(&waiting), BatchSize::PerIteration);
    });
    table(&waiting, &running);
    criterion.final_summary();
}
